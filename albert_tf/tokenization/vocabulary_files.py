"""The vocabulary in a model's folder, whoever wrote it.

transformers 5 saves nothing of a tokenizer but a `tokenizer.json`. A WordPiece vocabulary in it gives the
ids of the `tokenizers` library. A unigram vocabulary becomes the SentencePiece model that it was made of,
with the ids of that model and of our tokenizer; docs/fidelity.md says where the library's own differ.
"""

import base64
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.model_folder import ModelFolder
from albert_tf.sources import find_model
from albert_tf.tokenization.rule_notes import check_rules

SENTENCEPIECE_FILE = "spiece.model"
WORDPIECE_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"

# Hugging Face's and KerasHub's; and patterns, as each archive and module of Google has a name of its own.
_SENTENCEPIECE_NAMES = (
    SENTENCEPIECE_FILE,
    "assets/tokenizer/vocabulary.spm",
    "*.model",
    "assets/*.model",
)
_WORDPIECE_NAMES = (WORDPIECE_FILE, "vocab*.txt", "assets/vocab*.txt")

_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece
# Of ALBERT's tokenizers, those of transformers and ours.
_NORMALIZERS = {"Replace", "NFC", "NFKD", "StripAccents", "Lowercase", "Precompiled", "Strip"}
# What keeps accents has none of these. In a SentencePiece model the end of its normalizer's name says so.
_ACCENT_NORMALIZERS = {"NFKD", "StripAccents"}
_KEEPS_ACCENTS = "_keep_accents"
# The models of a `tokenizer.json` that we have, and the flag that names each.
_KINDS = {"Unigram": "--spm_model_file", "WordPiece": "--vocab_file"}


def find_vocabulary(folder: ModelFolder) -> tuple[str | None, str | None]:
    """Returns the SentencePiece model or the WordPiece vocabulary of a model's folder, if it has one."""
    for is_wordpiece, names in enumerate((_SENTENCEPIECE_NAMES, _WORDPIECE_NAMES)):
        for name in names:
            found = files.matches(folder.path, name)
            if len(found) == 1:
                folder.check_sum(found[0])
                return (None, found[0]) if is_wordpiece else (found[0], None)
    if (values := _read_tokenizer_json(folder)) is None:
        return None, None
    path = os.path.join(folder.path, TOKENIZER_FILE)
    if values["model"]["type"] == "WordPiece":
        return None, path
    print(
        f"{path}: read as the SentencePiece model that it was made of; the ids of the library tokenizers "
        f"are others around ( ) and digits, see docs/fidelity.md; {SENTENCEPIECE_FILE} beside it is "
        "read instead",
        file=sys.stderr,
    )
    return path, None


def vocabulary_flags(
    folder: ModelFolder,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> dict[str, Any]:
    """Returns the flags that the tokenizer of a model's folder determines; none without a vocabulary.

    Other arguments replace what the folder says.
    """
    if not (spm_model_file or vocab_file):
        spm_model_file, vocab_file = find_vocabulary(folder)
    if not (spm_model_file or vocab_file):
        return {}
    if lower_case is None:
        lower_case = _is_lower_cased(folder, is_wordpiece=vocab_file is not None)
    return {
        "spm_model_file": spm_model_file,
        "vocab_file": vocab_file,
        "do_lower_case": lower_case,
    }


def _read_tokenizer_json(folder: ModelFolder) -> Mapping[str, Any] | None:
    path = os.path.join(folder.path, TOKENIZER_FILE)
    if not files.exists(path):
        return None
    folder.check_sum(path)
    return _parse(files.read_bytes(path))


def _is_lower_cased(folder: ModelFolder, is_wordpiece: bool) -> bool:
    """Returns whether the tokenizer of a model's folder lower-cases, as it does by default.

    Raises an `InputError` if it has other rules than ours.
    """
    path = os.path.join(folder.path, TOKENIZER_CONFIG_FILE)
    values = read_object(folder, TOKENIZER_CONFIG_FILE)
    lower_case = values.get("do_lower_case")
    if not isinstance(lower_case, bool):
        saved = _read_tokenizer_json(folder)
        lower_case = saved is None or any(
            normalizer["type"] == "Lowercase" or normalizer.get("lowercase")
            for normalizer in _normalizers(saved)
        )
    expected: dict[str, Any] = {"keep_accents": False}
    if is_wordpiece:
        expected = {"strip_accents": lower_case, "tokenize_chinese_chars": True}
        expected["word_tokenizer_type"] = "basic"  # Japanese tokenizers have others
    for key, value in expected.items():
        if values.get(key) not in (None, value):
            raise InputError(
                f"{path}: key '{key}' is {values[key]!r}; with do_lower_case {lower_case} only {value!r} "
                "is supported; --do_lower_case=true or false takes our tokenizer anyway"
            )
    check_rules(path, values, is_wordpiece, lower_case)
    return lower_case


def read_object(folder: ModelFolder, name: str) -> Mapping[str, Any]:
    """Returns the object in a JSON file; an empty one if there is no such file, or no object in it."""
    if not folder.holds(name):
        return {}
    path = os.path.join(folder.path, name)
    folder.check_sum(path)
    values = files.read_json(path)
    return values if isinstance(values, Mapping) else {}


def find_preset(name: str, is_wordpiece: bool, lower_case: bool | None) -> tuple[str, bool]:
    """Returns the vocabulary of a model as for `albert_tf.load`, and whether it is lower-cased.

    With `lower_case` None the model's folder says so.
    """
    flags = vocabulary_flags(ModelFolder.of(find_model(name)), lower_case=lower_case)
    path = flags.get("vocab_file" if is_wordpiece else "spm_model_file")
    if path is None:
        kind = ("SentencePiece model", "WordPiece vocabulary")[is_wordpiece]
        raise InputError(f"{name}: holds no {kind}")
    return path, flags["do_lower_case"]


def read_unigram(path: str) -> bytes:
    """Returns the SentencePiece model in a file, or that of a `tokenizer.json`."""
    content = files.read_bytes(path)
    if (values := _parse(content)) is None:
        return content
    _check_kind(values, path, "Unigram")
    normalizers = {normalizer["type"]: normalizer for normalizer in _normalizers(values)}
    if others := normalizers.keys() - _NORMALIZERS:
        raise InputError(
            f"{path}: has the normalizer {min(others)}; save spiece.model of the original model beside it"
        )
    kinds = {
        token["content"]: _PieceType.CONTROL if token["special"] else _PieceType.USER_DEFINED
        for token in values["added_tokens"]
    }
    model = sentencepiece_model_pb2.ModelProto()
    unk_id = values["model"]["unk_id"]
    for id_, (piece, score) in enumerate(values["model"]["vocab"]):
        kind = _PieceType.UNKNOWN if id_ == unk_id else kinds.get(piece, _PieceType.NORMAL)
        model.pieces.add(piece=piece, score=score, type=kind)
    trainer = model.trainer_spec
    trainer.model_type = trainer.UNIGRAM
    trainer.vocab_size, trainer.unk_id = len(model.pieces), unk_id
    trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
    if charsmap := normalizers.get("Precompiled", {}).get("precompiled_charsmap"):
        model.normalizer_spec.precompiled_charsmap = base64.b64decode(charsmap)
    content = model.SerializeToString()
    return content if _ACCENT_NORMALIZERS & normalizers.keys() else mark_accents(content)


def keeps_accents(model: bytes) -> bool:
    """Returns whether a SentencePiece model is of text with accents, unlike ALBERT's."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return proto.normalizer_spec.name.endswith(_KEEPS_ACCENTS)


def mark_accents(model: bytes) -> bytes:
    """Returns a SentencePiece model that says that it is of text with accents."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.name += _KEEPS_ACCENTS
    return proto.SerializeToString()


def read_wordpiece(path: str) -> bytes:
    """Returns the content of a `vocab.txt`, or of one with the vocabulary of a `tokenizer.json`."""
    content = files.read_bytes(path)
    if (values := _parse(content)) is None:
        return content
    _check_kind(values, path, "WordPiece")
    splitter = (values.get("pre_tokenizer") or {}).get("type")
    if splitter != "BertPreTokenizer":
        raise InputError(f"{path}: has the pre-tokenizer {splitter}; expected BertPreTokenizer")
    for normalizer in _normalizers(values):
        accents = normalizer.get("strip_accents")
        if normalizer["type"] == "BertNormalizer" and (
            accents not in (None, normalizer["lowercase"]) or not normalizer["handle_chinese_chars"]
        ):
            raise InputError(
                f"{path}: its normalizer treats accents or Chinese characters otherwise than BERT's; "
                "expected strip_accents like lowercase, and handle_chinese_chars"
            )
    ids = values["model"]["vocab"]
    return "".join(f"{piece}\n" for piece in sorted(ids, key=ids.get)).encode()


def _parse(content: bytes) -> Mapping[str, Any] | None:
    """Returns the content of a `tokenizer.json`, if it has a model of `_KINDS`; KerasHub's has not."""
    if not content.startswith(b"{"):
        return None
    try:
        values = json.loads(content)
    except ValueError:
        return None
    model = values.get("model")
    return values if isinstance(model, Mapping) and model.get("type") in _KINDS else None


def _check_kind(values: Mapping[str, Any], path: str, expected: str) -> None:
    if (kind := values["model"]["type"]) != expected:
        raise InputError(
            f"{path}: holds a {kind} vocabulary, expected {expected}; {_KINDS[kind]} names it"
        )


def _normalizers(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the normalizers, which may be nested sequences."""
    unread = [values.get("normalizer") or {"type": "Sequence", "normalizers": []}]
    while unread:
        normalizer = unread.pop(0)
        if normalizer["type"] == "Sequence":
            unread[:0] = normalizer["normalizers"]
        else:
            yield normalizer
