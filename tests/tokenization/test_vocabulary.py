import pathlib
import pickle
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization import AlbertTokenizer, train_vocabulary
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from tests.helpers import refused
from tests.tokenization.conftest import make_sentences


@pytest.fixture
def model_file(tmp_path) -> pathlib.Path:
    return tmp_path / "trained.model"


def test_the_first_pieces_are_those_of_the_published_vocabulary(small_tokenizer):
    # fmt: off
    assert small_tokenizer.pieces[:13] == [
        "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€",
    ]
    # fmt: on
    assert small_tokenizer.vocab_size == 250
    assert "▁the" in small_tokenizer.pieces


def test_the_text_file_lists_pieces_and_scores(small_model_file):
    processor = sentencepiece.SentencePieceProcessor(model_file=small_model_file)
    lines = pathlib.Path(small_model_file).with_suffix(".vocab").read_text("utf-8").splitlines()
    assert len(lines) == processor.vocab_size()
    for id_, line in enumerate(lines):
        piece, score = line.split("\t")
        assert piece == processor.id_to_piece(id_)
        assert float(score) == pytest.approx(processor.get_score(id_), rel=1e-5)


def test_the_same_text_gives_the_same_files_and_prints_nothing(small_model_file, model_file, capfd):
    sentencepiece.set_min_log_level(0)
    train_vocabulary(make_sentences(), str(model_file), vocab_size=250)
    assert capfd.readouterr() == ("", "")
    for suffix in (".model", ".vocab"):
        first = pathlib.Path(small_model_file).with_suffix(suffix)
        assert model_file.with_suffix(suffix).read_bytes() == first.read_bytes()


@pytest.mark.parametrize("lower_case", [True, False])
def test_text_is_normalised_before_training(model_file, lower_case):
    train_vocabulary(["Éa É b\n"] * 5, str(model_file), vocab_size=17, lower_case=lower_case)
    letters = {"e" if lower_case else "E", "a", "b"}
    assert set(AlbertTokenizer(str(model_file)).pieces[13:]) == {"▁", *letters}


SPELLINGS = [
    *("e\u0301\u0323 café", "e\u0323\u0301", "ê\u0301", "tiê\u0301ng Viê\u0323t", "a\u0302\u0323"),
    *(
        "क\u094d\u093c",
        "ハ\u309a\u3099",
        "\u0621\u0651\u0650",
        "ש\u05c1\u05bc",
        "o\u0304\u0328",
        "가",
    ),
]


@pytest.mark.parametrize("lower_case", [True, False])
def test_all_spellings_of_a_letter_are_one(accents_file, lower_case):
    tokenizer = AlbertTokenizer(accents_file, lower_case)
    split = make_graph_tokenizer(tokenizer).tokenize_with_offsets
    for text in SPELLINGS:
        forms = [text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))]
        ids = tokenizer.encode_batch(forms)
        assert ids[0] == ids[1] == ids[2], text
        received = split(tf.constant(forms))
        assert received.ids.to_list() == ids
        for form, starts, ends in zip(
            forms, received.starts.to_list(), received.ends.to_list(), strict=True
        ):
            spans = list(zip(starts, ends, strict=True))
            assert tokenizer.encode_with_offsets(form) == (ids[0], spans)


def test_tokenizers_agree_on_spellings(accents_file):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the group parity: tokenizers")
    tokenizer = AlbertTokenizer(accents_file)
    content = hugging_face_files(tokenizer, 64)["tokenizer.json"].decode()
    theirs = tokenizers.Tokenizer.from_str(content).encode_batch(
        SPELLINGS, add_special_tokens=False
    )
    assert [one.ids for one in theirs] == tokenizer.encode_batch(SPELLINGS)


def test_a_folder_may_say_that_its_vocabulary_keeps_accents(
    accents_file, small_model_file, tmp_path
):
    (tmp_path / "tokenizer_config.json").write_text('{"keep_accents": true}')
    path = tmp_path / "spiece.model"
    for source in (accents_file, small_model_file):
        path.write_bytes(pathlib.Path(source).read_bytes())
        assert AlbertTokenizer.from_preset(tmp_path).keep_accents
        assert AlbertTokenizer(str(path)).keep_accents
    (tmp_path / "tokenizer_config.json").write_text('{"keep_accents": false}')
    assert not AlbertTokenizer.from_preset(tmp_path).keep_accents
    path.write_bytes(pathlib.Path(accents_file).read_bytes())
    with refused(r"key 'keep_accents' is False; with do_lower_case True only True is supported"):
        AlbertTokenizer.from_preset(tmp_path)
    with refused(r"spiece\.model: keep_accents is False; the model is of text with accents"):
        AlbertTokenizer(str(path), keep_accents=False)


def test_a_model_of_others_that_keeps_accents_has_its_librarys_ids(accents_file, tmp_path):
    """As IndicBERT's: the name of its normalizer does not say that it keeps accents."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(pathlib.Path(accents_file).read_bytes())
    proto.normalizer_spec.name = "nmt_nfkc"
    path = tmp_path / "spiece.model"
    path.write_bytes(proto.SerializeToString())
    (tmp_path / "tokenizer_config.json").write_text('{"keep_accents": true}')
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = AlbertTokenizer(str(path))
    texts = [unicodedata.normalize("NFC", text) for text in ["má ma mã", *SPELLINGS]]
    assert tokenizer.encode_batch(texts) == processor.encode([text.lower() for text in texts])
    copy = tmp_path / "copy" / "spiece.model"
    copy.parent.mkdir()
    copy.write_bytes(tokenizer.vocabulary)
    assert AlbertTokenizer(str(copy)).encode_batch(texts) == tokenizer.encode_batch(texts)
    assert AlbertTokenizer(accents_file, keep_accents=True).keep_accents


def test_a_vocabulary_says_that_it_keeps_accents(accents_file, small_tokenizer, tmp_path):
    tokenizer = AlbertTokenizer(accents_file)
    assert (tokenizer.keep_accents, small_tokenizer.keep_accents) == (True, False)
    words = ["má", "ma", "mã", "パンダ", "ハンタ"]
    encoded = tokenizer.encode_batch(words)
    assert len({*map(tuple, encoded)}) == len(words)
    assert not any(tokenizer.unk_id in ids for ids in encoded)
    assert [tokenizer.decode(ids) for ids in encoded] == words
    # However the accent is written
    apart = [unicodedata.normalize("NFD", word.upper()) for word in words]
    assert tokenizer.encode_batch(apart) == encoded
    assert tokenizer.encode_with_offsets(apart[0])[1][-1][1] == 3
    assert pickle.loads(pickle.dumps(tokenizer)).encode_batch(words) == encoded
    for name, content in hugging_face_files(tokenizer, 64).items():
        if name != "spiece.model":  # transformers may save nothing of it
            (tmp_path / name).write_bytes(content)
    assert AlbertTokenizer.from_preset(tmp_path).encode_batch(words) == encoded
    assert "á" not in "".join(small_tokenizer.tokenize("má"))


def test_a_line_of_a_megabyte_counts(model_file):
    train_vocabulary(["ab " * 170_000 + "cd " * 170_000], str(model_file), vocab_size=18)
    assert {"a", "b", "c", "d"} <= set(AlbertTokenizer(str(model_file)).pieces)


def test_draws_from_all_sentences(tmp_path):
    sentences = [f"ab {'x' if i < 1000 else 'y'}" for i in range(2000)]
    for name in ("a", "b"):
        model_file = str(tmp_path / f"{name}.model")
        train_vocabulary(iter(sentences), model_file, vocab_size=18, vocab_sentences=40)
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()
    assert {"x", "y"} <= set(AlbertTokenizer(str(tmp_path / "a.model")).pieces)


@pytest.mark.parametrize(
    ("vocab_size", "message"),
    [
        (90000, "the text is too small for so many pieces; it gives at most 19"),
        (17, "too few for the characters of the text; at least 18 are needed"),
        (1, "expected at least 5"),
    ],
)
def test_sizes_that_the_text_does_not_give(model_file, vocab_size, message):
    model_file.write_bytes(b"before")
    with refused(rf"^vocab_size={vocab_size}: {message}$"):
        train_vocabulary(["abcd"] * 5, str(model_file), vocab_size)
    assert model_file.read_bytes() == b"before"
    assert [path.name for path in model_file.parent.iterdir()] == [model_file.name]
    for possible in (18, 19):
        train_vocabulary(["abcd"] * 5, str(model_file), vocab_size=possible)
        assert AlbertTokenizer(str(model_file)).vocab_size == possible


def test_a_sample_that_is_too_small_is_named(model_file):
    with refused(
        "^vocab_size=99: a sample of vocab_sentences=5 is too small for so many .* most 19$"
    ):
        train_vocabulary(["abcd"] * 6, str(model_file), vocab_size=99, vocab_sentences=5)


@pytest.mark.parametrize("sentences", [[], ["", " \n"], ["\u0301"], ["\x01\x02"], ["\u2585"]])
def test_no_text(model_file, sentences):
    with refused(r"^the input holds no text"):
        train_vocabulary(sentences, str(model_file), vocab_size=100)
