"""The tokenizer files of Hugging Face folders and, if `tokenizers` is installed, their ids."""

import base64
import importlib.util
import json
import re

import keras
import numpy as np
import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf import fill_mask
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import (
    check_hugging_face_files,
    hugging_face_files,
    tokenizer_files,
)
from tests.helpers import post_processor, refused, tiny_config
from tests.tokenization.conftest import make_sentences, train_model

TEXTS = [
    "",
    " ",
    "the old keeper",
    "Keepers, 1,000, lights (£5).",
    "[ cls ] the end",
    "a\u2028b\x1cc\td  e\u3000f",
    "nai\u0308ve cafés, ﬁne ① Å",
    "ΟΔΟΣ Π.Σ. ΣΑΣ' ΑΣ1 Σ",
    "Привет, мир",
    "中文字符 한국어 각하",
    "\u0301 x \U0001f600",
]


def as_dict(files):
    return json.loads(files["tokenizer.json"])


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "words.txt"
    letters = sorted({char for text in TEXTS for char in text.lower() if not char.isspace()})
    pieces = ["[PAD]", "the", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    path.write_text("\n".join([*pieces, *(f"##{letter}" for letter in letters)]), encoding="utf-8")
    return str(path)


def test_scores_never_choose_digits_with_a_comma_or_special_pieces(small_tokenizer):
    files = hugging_face_files(small_tokenizer, 512)
    scores = dict(as_dict(files)["model"]["vocab"])
    assert list(scores) == small_tokenizer.pieces
    assert small_tokenizer.digit_comma_splits
    special = small_tokenizer.pad_id, small_tokenizer.cls_id
    for id_ in (*small_tokenizer.digit_comma_splits, *special):
        assert scores[small_tokenizer.pieces[id_]] == -1e4
    assert scores["("] == -0.1
    assert -20 < scores["▁the"] < 0


@pytest.mark.parametrize(
    "settings",
    [{"model_type": "bpe"}, {"treat_whitespace_as_suffix": True}, {"add_dummy_prefix": False}, {}],
)
def test_a_folder_says_its_case_whatever_its_vocabulary(tmp_path, settings):
    path = tmp_path / "cased.model"
    path.write_bytes(train_model(**settings))
    tokenizer = AlbertTokenizer(str(path), lower_case=False)
    for name, content in tokenizer_files(tokenizer, tiny_config()).items():
        (tmp_path / name).write_bytes(content)
    assert AlbertTokenizer.from_preset(str(tmp_path)).lower_case is False


@pytest.mark.parametrize("lower_case", [True, False])
def test_names_of_the_files_and_their_special_pieces(small_model_file, wordpiece, lower_case):
    albert = AlbertTokenizer(small_model_file, lower_case)
    bert = WordPieceTokenizer(wordpiece, lower_case)
    for tokenizer, name, pad in ((albert, "spiece.model", "<pad>"), (bert, "vocab.txt", "[PAD]")):
        files = hugging_face_files(tokenizer, 64)
        assert set(files) == {name, "tokenizer.json", "tokenizer_config.json"}
        with open(tokenizer.vocabulary_file, "rb") as file:
            assert files[name] == file.read()
        config = json.loads(files["tokenizer_config.json"])
        assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert config["model_input_names"] == ["input_ids", "token_type_ids", "attention_mask"]
        assert config["model_max_length"] == 64
        assert config["do_lower_case"] is lower_case
        assert (config["pad_token"], config["cls_token"]) == (pad, "[CLS]")
        content = as_dict(files)
        for token in content["added_tokens"]:
            assert tokenizer.pieces[token["id"]] == token["content"]
        types = [one["type"] for one in content["normalizer"]["normalizers"]]
        assert ("Lowercase" in types) == lower_case


def test_class_of_combining_marks_is_that_of_python(small_tokenizer):
    normalizers = as_dict(hugging_face_files(small_tokenizer, 512))["normalizer"]["normalizers"]
    pattern = normalizers[2]["pattern"]["Regex"]
    # JavaScript and Python have other escapes than the library.
    assert "\\" not in pattern
    marks = re.compile(pattern)
    # Devanagari vowel signs are marks, and are kept.
    assert all(map(marks.fullmatch, ("\u0301", "\u093c", "\U0001e94a")))
    assert not marks.search("-][\\a\u093e\u0903")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "bpe"}, "its model_type is BPE; tokenizer.json supports only UNIGRAM"),
        ({"treat_whitespace_as_suffix": True}, "its treat_whitespace_as_suffix is True; "),
    ],
)
def test_models_that_the_library_cannot_express_are_refused(tmp_path, settings, message):
    path = tmp_path / "other.model"
    path.write_bytes(train_model(**settings))
    with refused(rf"other\.model: {message}"):
        hugging_face_files(AlbertTokenizer(str(path)), 512)


def test_check_says_where_it_cannot_be_made(small_tokenizer, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = check_hugging_face_files(hugging_face_files(small_tokenizer, 512), small_tokenizer)
    assert said == "tokenizer.json: not checked, as the library tokenizers is not installed"


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_are_the_librarys(small_model_file, accents_file, wordpiece, lower_case):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the group parity: tokenizers")
    texts = [*TEXTS, *make_sentences()]
    alberts = (AlbertTokenizer(path, lower_case) for path in (small_model_file, accents_file))
    for tokenizer in (*alberts, WordPieceTokenizer(wordpiece, lower_case)):
        files = hugging_face_files(tokenizer, 512)
        theirs = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
        inner = {tokenizer.pieces[id_] for id_ in getattr(tokenizer, "digit_comma_splits", ())}
        for text in texts:
            if any(piece[0].isdigit() and piece in text for piece in inner):
                continue  # the word mark that only ours puts before digits inside a word
            received = theirs.encode(text, add_special_tokens=False).ids
            assert received == tokenizer.encode(text), text
        assert "200 lines get other ids" in check_hugging_face_files(files, tokenizer)
        pair = theirs.encode("the", "the")
        first, second = tokenizer.cls_id, tokenizer.sep_id
        (one,) = tokenizer.encode("the")
        assert pair.ids == [first, one, second, one, second]
        assert pair.type_ids == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    "text",
    [
        "[MASK].",
        "The old [MASK], [MASK] it [MASK]!",
        "  a [MASK]  the ([MASK])",
        "ne[MASK]the [MASK]it",
    ],
)
def test_ids_around_masks_are_those_of_fill_mask(small_tokenizer, text):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the group parity: tokenizers")
    model = AlbertPretrainer(AlbertEncoder(tiny_config(vocab_size=small_tokenizer.vocab_size)))
    files = hugging_face_files(small_tokenizer, 512)
    theirs = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode()).encode(text)
    ids = np.array([theirs.ids], np.int32)
    places = np.flatnonzero(ids == small_tokenizer.mask_id)[None].astype(np.int32)
    logits = model({"input_ids": ids, "masked_lm_positions": places})["masked_lm_logits"]
    expected = keras.ops.softmax(logits[0]).numpy().max(axis=-1)
    received = [best.probability for (best,) in fill_mask(model, small_tokenizer, text, top_k=1)]
    np.testing.assert_allclose(received, expected, rtol=1e-6)


SPLIT = {"type": "WhitespaceSplit"}


def word_marks(scheme):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def as_transformers_saves(model: bytes, lower_case: bool = True) -> dict:
    """Returns the `tokenizer.json` that transformers 5 makes of a SentencePiece model of ALBERT's."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    normalizers = [
        {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
        {"type": "NFKD"},
        {"type": "StripAccents"},
        *([{"type": "Lowercase"}] if lower_case else []),
        {"type": "Precompiled", "precompiled_charsmap": charsmap},
    ]
    vocab = [[piece.piece, piece.score] for piece in proto.pieces]
    return {
        "added_tokens": [
            {"id": id_, "content": piece.piece, "special": piece.type != piece.USER_DEFINED}
            for id_, piece in enumerate(proto.pieces)
            if piece.type != piece.NORMAL
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, word_marks("always")]},
        "post_processor": post_processor([piece for piece, _ in vocab]),
        "model": {"type": "Unigram", "unk_id": 1, "vocab": vocab},
    }


@pytest.mark.parametrize("has_type", [True, False])  # older versions wrote none
@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("model_file", ["small_model_file", "official_model_file"])
def test_a_unigram_tokenizer_json_is_the_model_that_it_was_made_of(
    tmp_path, capsys, request, model_file, lower_case, has_type
):
    expected = AlbertTokenizer(request.getfixturevalue(model_file), lower_case)
    values = as_transformers_saves(expected.vocabulary, lower_case)
    if not has_type:
        del values["model"]["type"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    tokenizer = AlbertTokenizer.from_preset(tmp_path)
    assert "tokenizer.json: read as the SentencePiece model" in capsys.readouterr().err
    assert tokenizer.lower_case is lower_case
    assert tokenizer.pieces == expected.pieces
    assert tokenizer.ordinary_ids.tolist() == expected.ordinary_ids.tolist()
    texts = [*TEXTS, *make_sentences()[:20], "It cost (9,999, they say)."]
    assert tokenizer.encode_batch(texts) == expected.encode_batch(texts)
    (tmp_path / "copy.model").write_bytes(tokenizer.vocabulary)
    copy = AlbertTokenizer(str(tmp_path / "copy.model"), lower_case)
    assert copy.encode_batch(texts) == expected.encode_batch(texts)


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_wordpiece_tokenizer_json_is_its_vocabulary(tmp_path, wordpiece, lower_case):
    expected = WordPieceTokenizer(wordpiece, lower_case)
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": lower_case,
    }
    ids = {piece: id_ for id_, piece in enumerate(expected.pieces)}
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": dict(sorted(ids.items())),
    }
    splitter = {"type": "BertPreTokenizer"}
    values = {
        "normalizer": normalizer,
        "pre_tokenizer": splitter,
        "post_processor": post_processor(expected.pieces),
        "model": model,
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    tokenizer = WordPieceTokenizer.from_preset(tmp_path)
    assert tokenizer.lower_case is lower_case
    assert tokenizer.pieces == expected.pieces
    assert tokenizer.encode_batch(TEXTS) == expected.encode_batch(TEXTS)
    with refused(r"a WordPiece vocabulary, .*; --vocab_file names it"):
        AlbertTokenizer(str(path))
    normalizer["handle_chinese_chars"] = False
    path.write_text(json.dumps(values))
    with refused(r"tokenizer\.json: its normalizer treats accents or Chi"):
        WordPieceTokenizer(str(path))
    splitter["type"] = "Whitespace"
    path.write_text(json.dumps(values))
    with refused(r"has the pre-tokenizer Whitespace; expected BertPreTok"):
        WordPieceTokenizer(str(path))


@pytest.mark.parametrize(
    ("splitters", "message"),
    [
        ([word_marks("first")], None),
        ([{"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}], None),
        ([], "pre_tokenizer is empty; expected Metaspace or WhitespaceSplit, Metaspace"),
        ([SPLIT], "pre_tokenizer is WhitespaceSplit; expected Metaspace or "),
        ([word_marks("never")], "key 'prepend_scheme' is 'never'; only 'first' or 'always' is"),
        ([SPLIT, word_marks("first")], "key 'prepend_scheme' is 'first'; only 'always' is supp"),
    ],
)
def test_a_unigram_tokenizer_json_puts_word_marks_where_ours_does(
    tmp_path, small_tokenizer, splitters, message
):
    values = as_transformers_saves(small_tokenizer.vocabulary)
    values["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splitters}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    if message is None:
        assert AlbertTokenizer(str(path)).pieces == small_tokenizer.pieces
        return
    with refused(rf"tokenizer\.json: .*{message}"):
        AlbertTokenizer(str(path))


def test_a_tokenizer_json_of_another_model_is_refused(tmp_path, small_tokenizer):
    values = as_transformers_saves(small_tokenizer.vocabulary)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    with refused(r"holds a Unigram vocabulary.*--spm_model_file names it"):
        WordPieceTokenizer(str(path))
    values["normalizer"]["normalizers"].append({"type": "Nmt"})
    path.write_text(json.dumps(values))
    with refused(r"has the normalizer Nmt; save spiece\.model of the orig"):
        AlbertTokenizer(str(path))
    path.write_text(json.dumps({"registered_name": "keras_hub>AlbertTokenizer"}))
    with refused("holds no SentencePiece model"):
        AlbertTokenizer.from_preset(tmp_path)
