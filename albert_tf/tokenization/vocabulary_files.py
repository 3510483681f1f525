"""The vocabulary in a model's folder, whoever wrote it.

transformers 5 saves nothing of a tokenizer but a `tokenizer.json`; see `tokenizer_json`.
"""

import os
import sys
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.model_folder import ModelFolder
from albert_tf.sources import find_model
from albert_tf.tokenization.tokenizer_json import TokenizerJson
from albert_tf.tokenization.tokenizer_settings import (
    TokenizerSettings,
    read_tokenizer_json,
)

SENTENCEPIECE_FILE = "spiece.model"
WORDPIECE_FILE = "vocab.txt"

# Hugging Face's and KerasHub's; and patterns, as each archive and module of Google has a name of its own.
_SENTENCEPIECE_NAMES = (
    SENTENCEPIECE_FILE,
    "assets/tokenizer/vocabulary.spm",
    "*.model",
    "assets/*.model",
)
_WORDPIECE_NAMES = (WORDPIECE_FILE, "vocab*.txt", "assets/vocab*.txt")


def find_vocabulary(folder: ModelFolder) -> tuple[str | None, str | None]:
    """Returns the SentencePiece model or the WordPiece vocabulary of a model's folder, if it has one."""
    for is_wordpiece, names in enumerate((_SENTENCEPIECE_NAMES, _WORDPIECE_NAMES)):
        for name in names:
            found = files.matches(folder.path, name)
            if len(found) == 1:
                folder.check_sum(found[0])
                return (None, found[0]) if is_wordpiece else (found[0], None)
    if (saved := read_tokenizer_json(folder)) is None:
        return None, None
    if saved.is_wordpiece:
        return None, saved.path
    print(
        f"{saved.path}: read as the SentencePiece model that it was made of; the ids of the library "
        "tokenizers are others around ( ) and digits, see docs/fidelity.md; "
        f"{SENTENCEPIECE_FILE} beside it is read instead",
        file=sys.stderr,
    )
    return saved.path, None


def vocabulary_flags(
    folder: ModelFolder,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> dict[str, Any]:
    """Returns the flags that the tokenizer of a model's folder determines; none without a vocabulary.

    Other arguments replace what the folder says.
    """
    is_given = bool(spm_model_file or vocab_file)
    if not is_given:
        spm_model_file, vocab_file = find_vocabulary(folder)
    path = vocab_file or spm_model_file
    if not path:
        return {}
    settings = TokenizerSettings(folder, path, is_wordpiece=vocab_file is not None)
    if not is_given:
        settings.check_pieces()
    if lower_case is None:
        lower_case = settings.read_case()
    return {
        "spm_model_file": spm_model_file,
        "vocab_file": vocab_file,
        "do_lower_case": lower_case,
    }


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
    if (saved := TokenizerJson.parse(content, path)) is None:
        return content
    saved.check_kind("Unigram")
    saved.check_rules()
    return saved.to_sentencepiece()


def read_wordpiece(path: str) -> bytes:
    """Returns the content of a `vocab.txt`, or of one with the vocabulary of a `tokenizer.json`.

    It has the added tokens that the files beside it name.
    """
    content = files.read_bytes(path)
    if saved := TokenizerJson.parse(content, path):
        saved.check_kind("WordPiece")
        saved.check_rules()
        content = saved.to_vocabulary()
    folder = ModelFolder(os.path.dirname(path))
    return TokenizerSettings(folder, path, is_wordpiece=True).with_added_tokens(content)
