"""Reads the vocabulary of a `tokenizer.json`, which is all that transformers 5 saves of one.

A WordPiece vocabulary gives the ids of the `tokenizers` library. A unigram vocabulary becomes the
SentencePiece model that it was made of, with the ids of that model and of our tokenizer. For them the
library's own ids differ in places: it begins a new word after each added piece such as `(`, replaces ``
by ", and does not split a comma from the digits before it.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError

FILE_NAME = "tokenizer.json"

_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece
# Of ALBERT's tokenizers, those of transformers and ours.
_NORMALIZERS = {"Replace", "NFC", "NFKD", "StripAccents", "Lowercase", "Precompiled", "Strip"}
_KINDS = {"Unigram": "--spm_model_file", "WordPiece": "--vocab_file"}


def parse(content: bytes) -> Mapping[str, Any] | None:
    """Returns the content of a `tokenizer.json` with a model of the kinds that we have, or None."""
    if not content.startswith(b"{"):
        return None
    try:
        values = json.loads(content)
    except ValueError:
        return None
    model = values.get("model")
    return values if isinstance(model, Mapping) and model.get("type") in _KINDS else None


def is_wordpiece(values: Mapping[str, Any]) -> bool:
    """Returns whether the vocabulary is a WordPiece one."""
    return values["model"]["type"] == "WordPiece"


def is_lower_cased(values: Mapping[str, Any]) -> bool:
    """Returns whether the tokenizer lower-cases text."""
    return any(one["type"] == "Lowercase" or one.get("lowercase") for one in _normalizers(values))


def read_unigram(content: bytes, path: str) -> bytes:
    """Returns the SentencePiece model of a `tokenizer.json`; other content as it is."""
    if (values := parse(content)) is None:
        return content
    _check_kind(values, path, "Unigram")
    normalizers = {one["type"]: one for one in _normalizers(values)}
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
    return model.SerializeToString()


def read_wordpiece(content: bytes, path: str) -> bytes:
    """Returns the content of a `vocab.txt` for a `tokenizer.json`; other content as it is."""
    if (values := parse(content)) is None:
        return content
    _check_kind(values, path, "WordPiece")
    for one in _normalizers(values):
        accents = one.get("strip_accents")
        if one["type"] == "BertNormalizer" and (
            accents not in (None, one["lowercase"]) or not one["handle_chinese_chars"]
        ):
            raise InputError(
                f"{path}: its normalizer treats accents or Chinese characters otherwise than BERT's; "
                "expected strip_accents like lowercase, and handle_chinese_chars"
            )
    ids = values["model"]["vocab"]
    return "".join(f"{piece}\n" for piece in sorted(ids, key=ids.get)).encode()


def _check_kind(values: Mapping[str, Any], path: str, expected: str) -> None:
    if (kind := values["model"]["type"]) != expected:
        raise InputError(
            f"{path}: holds a {kind} vocabulary, expected {expected}; {_KINDS[kind]} names it"
        )


def _normalizers(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the normalizers, which may be nested sequences."""
    open_ones = [values.get("normalizer") or {"type": "Sequence", "normalizers": []}]
    while open_ones:
        one = open_ones.pop(0)
        if one["type"] == "Sequence":
            open_ones[:0] = one["normalizers"]
        else:
            yield one
