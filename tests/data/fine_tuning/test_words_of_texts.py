"""Words, windows and labels of tagged texts."""

import numpy as np
import pytest

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.packing import TextWindowConfig, encode_passage
from albert_tf.data.fine_tuning.tagged_text import TaggedText, encode_tagged, find_words
from albert_tf.data.fine_tuning.tags import Span, make_tags
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from albert_tf.tokenization.interface import word_tables
from tests.helpers import write_wordpiece

TAGS = make_tags(["X"], "BIO")
SENTENCES = [
    "the cats of New York-based (Reuters) don't play, 9,999 times!",
    "ภาษาไทยสวยงามมาก",
    "naïve café élan Łódź",
    "привет мир",
    "東京都に行きました",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "words.model")
    train_vocabulary(SENTENCES * 20, path, vocab_size=74)
    return AlbertTokenizer(path)


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    letters = sorted({char for text in SENTENCES for char in text.lower()} | set(".,-'()!"))
    pieces = [*letters, *(f"##{char}" for char in letters)]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    return WordPieceTokenizer(write_wordpiece(path, pieces))


def words_of(text, tokenizer):
    words = find_words(encode_passage(text, tokenizer), text, word_tables(tokenizer))
    return [text[start:end] for start, end in zip(words.starts, words.ends, strict=True)]


@pytest.mark.parametrize("kind", ["tokenizer", "wordpiece"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the  cats", ["the", "cats"]),
        ("New York-based", ["New", "York", "-", "based"]),
        (" (Reuters).", ["(", "Reuters", ")", "."]),
        ("don't play!", ["don", "'", "t", "play", "!"]),
        ("naïve cafe\u0301, Łódź", ["naïve", "cafe\u0301", ",", "Łódź"]),
        ("привет мир", ["привет", "мир"]),
        ("🐍 cats", ["🐍", "cats"]),
        ("", []),
    ],
)
def test_words(request, kind, text, words):
    assert words_of(text, request.getfixturevalue(kind)) == words


def test_words_of_other_scripts_and_unknown_characters(tokenizer):
    for text in ("ภาษาไทย สวย", "東京都に", "the東京cats"):
        words = words_of(text, tokenizer)
        assert "".join(words) == text.replace(" ", "")
    assert (words[0], words[-1]) == ("the", "cats")
    assert words_of("cats🐍🐍cats", tokenizer) == ["cats", "🐍🐍", "cats"]
    # An emoji of several characters, and one character of several pieces.
    assert words_of("👩‍👩‍👧 ½ play", tokenizer) == ["👩‍👩‍👧", "½", "play"]


def test_labels_are_on_first_pieces(tokenizer):
    text = TaggedText("", "the cats play Łódź", spans=(Span(4, 13, "X"),))
    features = encode_tagged([text], TAGS, tokenizer, TextWindowConfig(64, 32))
    pieces = [tokenizer.pieces[id_] for id_ in features.input_ids]
    labels = features.token_labels["label_ids"]
    assert (pieces[0], pieces[-1], labels[0], labels[-1]) == ("[CLS]", "[SEP]", -1, -1)
    assert [TAGS[label] for label in labels if label >= 0] == ["O", "B-X", "I-X", "O"]
    assert features.first_lengths.tolist() == features.lengths.tolist()


@pytest.mark.parametrize(("length", "stride"), [(9, 3), (12, 1), (8, 100), (5, 2)])
def test_each_word_is_labelled_in_one_window(tokenizer, length, stride):
    rng = np.random.default_rng(0)
    texts = [
        TaggedText(str(number), " ".join(rng.choice(SENTENCES[0].split(), count)), spans=())
        for number, count in enumerate([1, 3, 40, 7])
    ]
    features = encode_tagged(texts, TAGS, tokenizer, TextWindowConfig(length, stride))
    whole = encode_tagged(texts, TAGS, tokenizer, TextWindowConfig(1000, 1000))
    assert features.lengths.max() <= length
    assert len(whole) == len(texts)
    for name in ("starts", "ends"):
        np.testing.assert_array_equal(getattr(features.words, name), getattr(whole.words, name))
    np.testing.assert_array_equal(features.word_texts, whole.word_texts)
    for each in (features, whole):
        assert (each.token_labels["label_ids"] >= 0).sum() == len(each.words.tokens)
    ids = [each.input_ids[each.words.tokens] for each in (features, whole)]
    np.testing.assert_array_equal(*ids)
    batch = make_batch(features, np.arange(len(features)))
    assert (batch["label_ids"] >= 0).sum() == len(features.words.tokens)
    assert (batch["label_ids"][batch["input_mask"] == 0] == -1).all()
    assert not batch["segment_ids"].any()


def test_texts_without_tokens(tokenizer):
    texts = [TaggedText("", "\u200b"), TaggedText("", "cats"), TaggedText("", "\u200b")]
    features = encode_tagged(texts, TAGS, tokenizer, TextWindowConfig(9, 3))
    assert features.word_texts.tolist() == [1]
    empty = encode_tagged(texts[:1], TAGS, tokenizer, TextWindowConfig(9, 3))
    assert (len(empty), len(empty.words.tokens)) == (0, 0)
