"""CoNLL files and JSON lines, the mistakes in them, and their words as windows of ids."""

import dataclasses
import json
import re

import numpy as np
import pytest

from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.tagged_text import (
    TaggedText,
    collect_labels,
    encode_tagged,
    read_tagged,
)
from albert_tf.data.fine_tuning.tags import Span, make_tags
from albert_tf.data.fine_tuning.windows import find_words, ragged_rows, tokenize
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from albert_tf.tokenization.word_starts import word_tables
from tests.helpers import refused, write_wordpiece

BIO = """-DOCSTART- -X- -X- O

U.N. NNP I-NP B-ORG
official NN I-NP O
Jan NNP I-NP B-PER
Ek NNP I-NP I-PER

Paris\tNNP\tI-NP\tB-LOC
Oslo NNP I-NP B-LOC
"""


def write(tmp_path, text, name="train.conll"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def write_json(tmp_path, *values, name="train.jsonl"):
    return write(tmp_path, "".join(json.dumps(value) + "\n" for value in values), name)


def test_conll_words_become_a_text(tmp_path):
    first, second = read_tagged(write(tmp_path, BIO), "train", None)
    assert (first.guid, first.text_a) == ("train-3", "U.N. official Jan Ek")
    assert first.spans == (Span(0, 4, "ORG"), Span(14, 20, "PER"))
    assert first.words == ((0, 4), (5, 13), (14, 17), (18, 20))
    assert second.spans == (Span(0, 5, "LOC"), Span(6, 10, "LOC"))
    assert collect_labels([first, second], "x") == ("LOC", "ORG", "PER")


@pytest.mark.parametrize("name", ["train.conll", "train.tsv", "train.csv"])
def test_a_conll_file_may_have_any_name_and_count_its_words(tmp_path, name):
    counted = "# source\n1 Jan B-PER\n2 Ek I-PER\n\n# source\n1 Oslo B-LOC\n"
    for text in (counted, "Jan B-PER\nEk I-PER\n\nOslo B-LOC\n", BIO):
        texts = read_tagged(write(tmp_path, text, name), "train", None)
        assert [text.text_a for text in texts][-1].startswith(("Oslo", "Paris"))
        assert collect_labels(texts, "x")[0] == "LOC"
    (text,) = read_tagged(write(tmp_path, "1 O\n"), "dev", None)
    assert text.text_a == "1"


@pytest.mark.parametrize(
    "text",
    [
        "# id a-1 domain=en\nthe _ _ O\n# _ _ O\nBath _ _ B-LOC\n\n# id a-2 domain=en\nOslo _ _ B-LOC\n",
        "# license\n\n# sent 1\n# by hand\nthe O\n# O\nBath B-LOC\n\n# sent 2\nOslo B-LOC\n",
        "the O\n# O\nBath B-LOC\n\n# sent\tof\ttwo\nOslo B-LOC\n",
    ],
)
def test_comments_stand_before_the_words_of_a_text(tmp_path, text, capsys):
    first, second = read_tagged(write(tmp_path, text), "train", None)
    assert (first.text_a, second.text_a) == ("the # Bath", "Oslo")
    assert first.spans == (Span(6, 10, "LOC"),)
    assert re.search(r"line \d: \d lines that begin with # are comments", capsys.readouterr().err)


@pytest.mark.parametrize(
    "text", ["# O\nBath B-LOC\n", "#bath O\nBath B-LOC\n", "# O\n#bath B-LOC\n"]
)
def test_words_may_begin_with_a_hash(tmp_path, text):
    (read,) = read_tagged(write(tmp_path, text), "train", None)
    assert len(read.words) == 2
    (read,) = read_tagged(write(tmp_path, "#bath\n#\n"), "test", None)
    assert read.text_a == "#bath #"


CONLLU = """# sent_id = 1
# text = du pain
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\tP\t_\t3\tcase\t_\t_
2\tle\tle\tDET\tD\tDefinite=Def\t3\tdet\t_\tSpaceAfter=No
2.1\tbon\t_\t_\t_\t_\t_\t_\t_\t_
3\tpain\tpain\tNOUN\tN\t_\t0\troot\t_\t_

# sent_id = 2
1\tpain\tpain\tNOUN\tN\t_\t0\troot\t_\tNAME_
"""


def test_parts_of_speech_of_conllu(tmp_path, capsys):
    conllu = CONLLU.replace("NAME_", "_")
    first, second = read_tagged(write(tmp_path, conllu, "fr.conllu"), "train", None)
    assert (first.text_a, second.text_a) == ("de le pain", "pain")
    assert [span.label for span in first.spans] == ["ADP", "DET", "NOUN"]
    assert first.has_classes
    assert "the tags are UPOS, the fourth column of CoNLL-U" in capsys.readouterr().err
    tagged = CONLLU.replace("\t_\n", "\tO\n").replace("SpaceAfter=No", "O").replace("NAME_", "B-X")
    *_, second = read_tagged(write(tmp_path, tagged, "fr.conllu"), "train", None)
    assert second.spans == (Span(0, 4, "X"),)


@pytest.mark.parametrize(
    ("text", "column", "others", "label"),
    [
        # GermEval: tags of outer and of nested spans
        (
            "# source\n1 Troia B-OTH B-LOC\n2 - I-OTH O\n\n1 Ulm O O\n",
            "3, such as 'B-OTH'",
            "4",
            "OTH",
        ),
        # Universal NER: tags, - and annotators
        (
            "# text = a\n1\tJane\tB-PER\t-\tjoy\n2\tleft\tO\t-\tmax\n",
            "3, such as 'B-PER'",
            "4, 5",
            "PER",
        ),
        ("1 Jane NNP B-PER\n2 left VBD O\n", "4, such as 'B-PER'", "3", "PER"),
        # CoNLL-2003, whose third column has the tags of chunks
        (BIO, "4, such as 'B-ORG'", "2, 3", "ORG"),
    ],
)
def test_one_line_says_which_of_several_columns_has_the_tags(
    tmp_path, text, column, others, label, capsys
):
    path = write(tmp_path, text, "train.tsv")
    first, *_ = read_tagged(path, "train", None)
    assert first.spans[0].label == label
    said = capsys.readouterr().err
    assert said == f"{path}: the tags are column {column}; not read: {others}\n"


@pytest.mark.parametrize(
    "text", ["Jane,B-PER\nAusten,I-PER\nleft,O\n", "id;review\n1;fine\n2;a fine film\n"]
)
def test_tables_without_their_usual_columns_are_no_words(tmp_path, text):
    for split in ("train", "test"):
        with refused("x.csv, line 1: received '.*'; expected a header row with 'text' or 'tokens'"):
            read_tagged(write(tmp_path, text, "x.csv"), split, None)
    words = "Ulm\n,\n1,000\n\nBath\n"
    assert len(read_tagged(write(tmp_path, words, "x.csv"), "test", None)) == 2


def test_spans_of_doccano(tmp_path):
    value = {"text": "a cat", "spans": [{"start_offset": 1, "end_offset": 5, "label": "X"}]}
    (text,) = read_tagged(write_json(tmp_path, value), "train", None)
    assert text.spans == (Span(2, 5, "X"),)


def test_json_lines_count_characters(tmp_path):
    text = "🐍 naïve, ก็ดี e\u0301"
    spans = [(9, 13, "TH"), (0, 1, "EMOJI"), (14, 16, "E")]
    objects = [dict(zip(Span._fields, span, strict=True)) for span in spans[1:]]
    value = {"text": text, "spans": [spans[0], *objects]}
    (read,) = read_tagged(write_json(tmp_path, value), "train", None)
    assert read.spans == tuple(sorted(Span(*span) for span in spans))
    assert [text[start:end] for start, end, _ in read.spans] == ["🐍", "ก็ดี", "e\u0301"]


def test_words_with_tags_in_columns(tmp_path):
    rows = [
        {"tokens": ["Jan", "Ek", "left", "."], "ner_tags": ["B-PER", "I-PER", "O", "O"]},
        {"tokens": ["Oslo"], "ner_tags": ["B-LOC"]},
    ]
    first, second = read_tagged(rows, "train", None)
    path = write(tmp_path, "Jan B-PER\nEk I-PER\nleft O\n. O\n\nOslo B-LOC\n")
    (conll, _) = read_tagged(path, "train", None)
    assert dataclasses.replace(first, guid=conll.guid) == conll
    assert (second.text_a, second.spans) == ("Oslo", (Span(0, 4, "LOC"),))
    other = [{"text": "", "w": row["tokens"], "tags": [], "t": row["ner_tags"]} for row in rows]
    names = ColumnNames(text_column="w", label_column="t")
    assert read_tagged(Table.read(other, "train", names), "train", None) == [first, second]
    (unlabelled,) = read_tagged([{"words": ["a", "b"]}], "test", ["X"])
    assert (unlabelled.text_a, unlabelled.spans) == ("a b", None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, r"\[0\]: received 2 and 1 words and tags; exp"),
        ({"tokens": [], "tags": []}, r"\[0\]: received 0 and 0 words and tags"),
        ({"tokens": "a", "tags": ["O"]}, r"\[0\]: 'tokens' is 'a'; expected a list of texts"),
        ({"tokens": ["a"]}, r"\[0\]: 'ner_tags' is None; expected a list of texts"),
        (
            {"tokens": [*"abc"], "tags": ["I-X", "O", "B-X"]},
            r"\[0\]: received the tag I-X after O; e",
        ),
        (
            {"tokens": ["a", "b"], "ner_tags": [1, 0]},
            r"\[0\]: 'ner_tags' is \[1, 0\], numbers of tags; e",
        ),
        ({"tokens": ["\u00a0"], "tags": ["O"]}, r"\[0\]: the word '\\xa0' is white space"),
    ],
)
def test_mistakes_in_words_with_tags(row, message):
    with refused(message):
        read_tagged([row], "train", ["X"])


def test_test_files_may_lack_labels(tmp_path):
    (text,) = read_tagged(write(tmp_path, "a\nb\n"), "test", ["X"])
    assert (text.text_a, text.spans) == ("a b", None)
    (text,) = read_tagged(write_json(tmp_path, {"text": "a"}), "test", ["X"])
    assert text.spans is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "a O\nb I-X\nc B-Y\n",
            r", line 2: received the tag I-X after O; expected B-X, .* \(BIO\)",
        ),
        ("a B-X\nb I-Y\n", ", line 2: received the tag I-Y after B-X; expected B-Y, with which"),
        ("a B-X\n\nb I-X\n", ", line 3: received the tag I-X after O"),
        ("a S-X\nb B-X\nc O\n", ", line 3: received the tag O after B-X; expected I-X or E-X"),
        ("a S-X\nb E-X\n", ", line 2: received the tag E-X after S-X; expected B-X or S-X, with"),
        ("a S-X\nb B-X\n", ", line 2: received the tag B-X at the end of a text; expected I-X or"),
        ("b B-X\na X\n", ", line 2: unknown tag 'X'; expected O, or B-, I-, E- or S- before a lab"),
        ("a B-\n", ", line 1: unknown tag 'B-'"),
        ("a B-Z\n", ", line 1: unknown label 'Z'; expected 'X', 'Y'"),
        ("a O\nb\n", ", line 2: columns: received 1, expected 2 as in the first line"),
        ("a O\n\u00a0 B-X\n", r", line 2: the word '\\xa0' is white space; expected a word"),
        ("a\nb\n", ", line 1: received one column; expected a word and, last, its tag"),
        (
            "New York\tB-LOC\nvery big\tO\n",
            ", line 1: 'New York' beside a tab may be one column or more; expected tabs between columns",
        ),
        (
            "a\tO\n\nNew York\tB-LOC\n",
            ", line 3: 'New York' beside a tab may be one column or more",
        ),
        ("\n\n", ": holds no text"),
    ],
)
def test_mistakes_in_conll(tmp_path, content, message):
    with refused(rf"train\.conll{message}"):
        read_tagged(write(tmp_path, content), "train", ["X", "Y"])


def span(start, end, label="X"):
    return {"start": start, "end": end, "label": label}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected an object in braces"),
        ({"spans": []}, "'text' is None; expected a text that is not empty"),
        ({"text": " "}, "'text' is ' '; expected a text"),
        ({"text": "a cat"}, "'spans' is None; expected a list"),
        ({"text": "a cat", "spans": [[2, 5]]}, r"the span \[2, 5\]; expected an object"),
        ({"text": "a cat", "spans": [span(2, 5.0)]}, "expected an object with the whole numbers"),
        ({"text": "a cat", "spans": [span(2, True)]}, "expected an object with the whole numbers"),
        ({"text": "a cat", "spans": [span(2, 6)]}, "received the span 2 to 6; .* which has 5"),
        ({"text": "a cat", "spans": [span(-1, 2)]}, "received the span -1 to 2; expected at least"),
        ({"text": "a cat", "spans": [span(2, 2)]}, "received the span 2 to 2; expected at least"),
        (
            {"text": "a cat", "spans": [span(1, 2)]},
            "the span 1 to 2 is ' '; expected a visible one",
        ),
        ({"text": "a cat", "spans": [span(0, 1, "Z")]}, "unknown label 'Z'; expected 'X', 'Y'"),
        ({"text": "a cat", "spans": [span(0, 1, "")]}, "the label is empty"),
        (
            {"text": "a cat", "spans": [span(0, 1, "p\ud83d")]},
            r"the label 'p\\ud83d' has half a surrogate pair, no character",
        ),
    ],
)
def test_mistakes_in_json_lines(tmp_path, value, message):
    path = write_json(tmp_path, {"text": "fine", "spans": []}, value)
    with refused(rf"train\.jsonl, line 2: .*{message}"):
        read_tagged(path, "train", ["X", "Y"])


def test_names_of_labels_have_one_form_for_all_sources(tmp_path):
    name = "Ve\u0301hicule  lourd "
    spans = [{"text": "a b", "spans": [span(0, 1, name)]}]
    words = [{"tokens": ["a", "b"], "tags": [f"B-{name}", "O "]}]
    tabs = write(tmp_path, f"a\tB-{name.strip().replace('  ', chr(0xA0))}\nb\tO\n")
    for source in (spans, words, tabs):
        (text,) = read_tagged(source, "train", None)
        assert text.spans == (Span(0, 1, "Véhicule lourd"),)
    for source in (spans, words):  # a model of others may have another form
        (text,) = read_tagged(source, "dev", [name])
        assert text.spans == (Span(0, 1, name),)


def test_a_span_is_the_text_that_it_says():
    text = "💩💩 Jane\n Austen wrote"
    for start, said in (
        (3, "Jane Austen"),
        (3, "Jane\\n Austen"),
        (2, " Jane\n Austen "),
        (3, None),
    ):
        row = {"text": text, "spans": [span(start, 15) | {"text": said}]}
        (read,) = read_tagged([row], "train", None)
        assert read.spans == (Span(3, 15, "X"),)
    # JavaScript counts UTF-16.
    row["spans"][0] |= {"start": 5, "end": 17, "text": "Jane\n Austen"}
    message = (
        r"the span 5 to 17 is 'ne\\n Austen w', and its 'text' is 'Jane\\n Austen'; expected off"
    )
    with refused(rf"^train\[0\]: {message}"):
        read_tagged([row], "train", None)


def test_of_spans_that_overlap_the_longest_count(capsys):
    def read(*spans):
        (text,) = read_tagged([{"text": "Emma, by Jane Austen", "spans": [*spans]}], "dev", None)
        return text.spans

    jane, austen, whole = span(9, 13), span(14, 20), span(9, 20, "Y")
    assert read(jane, whole, austen) == (Span(9, 20, "Y"),)
    said = capsys.readouterr().err
    assert said.count("\n") == 2
    assert "dev[0]: spans that overlap a longer or an earlier one and are left out: 2, such" in said
    assert read(austen, jane, jane, austen) == (Span(9, 13, "X"), Span(14, 20, "X"))
    assert (
        "dev[0]: spans that stand twice and count once: 2, such as 14 to" in capsys.readouterr().err
    )
    # Of two labels of one span, the first; of chains, what is left without a common character.
    assert read(span(9, 20), whole) == (Span(9, 20, "X"),)
    assert read(span(0, 5), span(3, 8), span(6, 11)) == (Span(0, 5, "X"), Span(6, 11, "X"))
    assert read(span(0, 5), span(3, 10)) == (Span(3, 10, "X"),)


def test_mistakes_in_whole_files(tmp_path):
    path = write(tmp_path, "a O\n")
    with refused("none of its 1 texts has a span; expected one or more"):
        collect_labels(read_tagged(path, "train", None), path)
    path = write_json(tmp_path, {"text": "a", "spans": []}, {"text": "b"})
    with refused("1 of 2 texts have no 'spans'; expected all or none"):
        read_tagged(path, "test", None)
    with refused(r"train\.jsonl, line 1: not JSON: .*; expected an object per line"):
        read_tagged(write(tmp_path, "a O\n", "train.jsonl"), "train", None)


TAGS = make_tags(["X"])
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
    characters = ragged_rows([[ord(char) for char in text]])
    words = find_words(tokenize([text], tokenizer), characters, word_tables(tokenizer))
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
    features = encode_tagged([text], TAGS, tokenizer, 64, 32)
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
    features = encode_tagged(texts, TAGS, tokenizer, length, stride)
    whole = encode_tagged(texts, TAGS, tokenizer, 1000, 1000)
    assert features.lengths.max() <= length
    assert len(whole) == len(texts)
    for name in ("texts", "starts", "ends"):
        np.testing.assert_array_equal(getattr(features.words, name), getattr(whole.words, name))
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
    features = encode_tagged(texts, TAGS, tokenizer, 9, 3)
    assert features.words.texts.tolist() == [1]
    empty = encode_tagged(texts[:1], TAGS, tokenizer, 9, 3)
    assert (len(empty), len(empty.words.tokens)) == (0, 0)
