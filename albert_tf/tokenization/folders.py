"""Finds the vocabulary in a model's folder, whoever wrote it."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.sources import find_model, folder_of
from albert_tf.tokenization import tokenizer_json

# The options of a run, which describe its folder, and a key beside them: SHA-256 of the vocabulary.
OPTIONS_FILE = "run_options.json"
VOCABULARY_SHA256 = "vocabulary_sha256"

SENTENCEPIECE_FILE = "spiece.model"
WORDPIECE_FILE = "vocab.txt"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"

# Ours, Hugging Face's and KerasHub's; and patterns, as each of Google's archives has a name of its own.
SENTENCEPIECE_NAMES = (
    "vocabulary.model",
    SENTENCEPIECE_FILE,
    "assets/tokenizer/vocabulary.spm",
    "*.model",
)
WORDPIECE_NAMES = ("vocabulary.txt", WORDPIECE_FILE, "vocab*.txt")


def find_vocabulary(folder: str) -> tuple[str | None, str | None]:
    """Returns the SentencePiece model or the WordPiece vocabulary of a model's folder, if it has one."""
    for is_wordpiece, names in enumerate((SENTENCEPIECE_NAMES, WORDPIECE_NAMES)):
        for name in names:
            found = tf.io.gfile.glob(os.path.join(folder, name))
            if len(found) == 1:
                _check_sum(found[0], _read_object(os.path.join(folder, OPTIONS_FILE)))
                return (None, found[0]) if is_wordpiece else (found[0], None)
    if (values := _read_tokenizer_json(folder)) is None:
        return None, None
    path = os.path.join(folder, tokenizer_json.FILE_NAME)
    if tokenizer_json.is_wordpiece(values):
        return None, path
    print(
        f"{path}: read as the SentencePiece model that it was made of; the ids of the library tokenizers "
        f"are others around ( ) and digits, see docs/fidelity.md; {SENTENCEPIECE_FILE} beside it is "
        "read instead",
        file=sys.stderr,
    )
    return path, None


def _read_tokenizer_json(folder: str) -> Mapping[str, Any] | None:
    # KerasHub's file of this name is another one.
    path = os.path.join(folder, tokenizer_json.FILE_NAME)
    return tokenizer_json.parse(files.read_bytes(path)) if tf.io.gfile.exists(path) else None


def _check_sum(path: str, options: Mapping[str, Any]) -> None:
    expected = options.get(VOCABULARY_SHA256)
    if expected is not None and (received := files.sha256(path)) != expected:
        raise InputError(
            f"{path}: has the SHA-256 {received}; {OPTIONS_FILE} next to it says {expected}: the file "
            "is damaged or another vocabulary; copy the vocabulary of the training there"
        )


def is_lower_cased(folder: str, is_wordpiece: bool) -> bool:
    """Returns whether the tokenizer of a model's folder lower-cases, as it does by default."""
    path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    values = _read_object(path)
    options = _read_object(os.path.join(folder, OPTIONS_FILE))
    lower_case = options.get("do_lower_case", values.get("do_lower_case"))
    if not isinstance(lower_case, bool):
        saved = _read_tokenizer_json(folder)
        lower_case = True if saved is None else tokenizer_json.is_lower_cased(saved)
    expected = {"strip_accents": lower_case, "tokenize_chinese_chars": True}
    for key, value in expected.items() if is_wordpiece else ():
        if values.get(key) not in (None, value):
            raise InputError(
                f"{path}: key '{key}' is {values[key]!r}; with do_lower_case {lower_case} only {value!r} "
                "is supported; --do_lower_case=true or false converts with our tokenizer all the same"
            )
    return lower_case


def _read_object(path: str) -> Mapping[str, Any]:
    values = files.read_json(path) if tf.io.gfile.exists(path) else {}
    return values if isinstance(values, Mapping) else {}


def find_preset(name: str, is_wordpiece: bool, lower_case: bool | None) -> tuple[str, bool]:
    """Returns the vocabulary of a named model, and whether it is lower-cased.

    Args:
        name: as for `albert_tf.load`.
        is_wordpiece: the kind of vocabulary that is expected.
        lower_case: None for what the model's folder says.
    """
    folder = folder_of(find_model(name))
    path = find_vocabulary(folder)[is_wordpiece]
    if path is None:
        kind = ("SentencePiece model", "WordPiece vocabulary")[is_wordpiece]
        raise InputError(f"{name}: holds no {kind}")
    if lower_case is None:
        lower_case = is_lower_cased(folder, is_wordpiece)
    return path, lower_case
