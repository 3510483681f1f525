"""Flags that several commands share: paths and the vocabulary."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.lazy import LazyModule
from albert_tf.model_folder import ModelFolder
from albert_tf.options import to_json_dict
from albert_tf.sources import is_download
from albert_tf.tokenization import AlbertTokenizer, Tokenizer, WordPieceTokenizer, WordStartRule
from albert_tf.tokenization.sentencepiece_tokenizer import is_sentencepiece_model

tf = LazyModule("tensorflow")

_SECONDS_OF_SILENCE = 3.0
_NO_PATHS = ("runner_options",)
# Options that name a model.
_MODELS = ("init_checkpoint", "model")
# Vocabularies know all but a few of the pieces of text in their language.
_MAX_UNKNOWN = 0.05


def check_addresses(options: Any) -> None:
    """Checks that TensorFlow has access to the file systems of all options like gs://bucket/file."""
    for name, value in to_json_dict(options).items():
        for path in value if isinstance(value, list) else [value]:
            if not isinstance(path, str) or "://" not in path or name in _NO_PATHS:
                continue
            if name in _MODELS and is_download(path):
                continue
            try:
                with _say_if_slow(
                    f"--{name}={path}: waiting for an answer, for some minutes at most"
                ):
                    tf.io.gfile.exists(path)
            except tf.errors.OpError as error:
                raise InputError(
                    f"--{name}={path}: TensorFlow has no access: {files.reason(error)}; expected a local "
                    "path, or a path on a file system that TensorFlow can read"
                ) from error


@contextlib.contextmanager
def _say_if_slow(line: str) -> Iterator[None]:
    """Prints a line if the block takes seconds, as TensorFlow tries again in silence without network."""
    timer = threading.Timer(_SECONDS_OF_SILENCE, print, [line], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def load_tokenizer(
    spm_model_file: str | None,
    vocab_file: str | None,
    lower_case: bool,
    word_start_rule: WordStartRule = "original",
) -> Tokenizer:
    """Loads the tokenizer of the one vocabulary that is given."""
    if bool(spm_model_file) == bool(vocab_file):
        received = "both" if spm_model_file else "neither"
        raise InputError(f"expected one of --spm_model_file and --vocab_file, received {received}")
    if spm_model_file:
        with name_place("--spm_model_file"):
            return AlbertTokenizer(spm_model_file, lower_case, word_start_rule)
    with name_place("--vocab_file"):
        try:
            return WordPieceTokenizer(vocab_file, lower_case)
        except InputError as error:
            if is_sentencepiece_model(vocab_file):
                raise InputError(
                    f"'{vocab_file}' is a SentencePiece model, expected a WordPiece vocabulary; name it "
                    "with --spm_model_file instead"
                ) from error
            raise


def warn_of_unknown(
    unknown: int, pieces: int, text: str, vocabulary_file: str, lower_case: bool
) -> None:
    """Warns if more of a text's pieces are unknown than in the vocabulary's own language and case."""
    if unknown > _MAX_UNKNOWN * pieces:
        warn(
            f"{text}: {unknown / pieces:.1%} of the pieces are unknown to {vocabulary_file}; expected a "
            f"vocabulary for the language and case of the text (do_lower_case is {lower_case})"
        )


def refuse_existing(flag: str, path: str) -> None:
    """Raises an `InputError` if the output that a flag names is there."""
    if tf.io.gfile.exists(path):
        raise InputError(f"--{flag}: '{path}' exists already; remove it or name another place")


def check_vocab_size(tokenizer: Tokenizer, config: AlbertConfig, config_file: str) -> None:
    """Checks that a vocabulary has the size of the model's, whose word table may be padded."""
    if not config.has_rows_for(tokenizer.vocab_size):
        raise InputError(
            f"{tokenizer.vocabulary_file} has {tokenizer.vocab_size} pieces; {config_file} says "
            f"vocab_size {config.vocab_size}"
        )


def check_vocabulary(folder: ModelFolder, tokenizer: Tokenizer) -> None:
    """Checks that the model of a folder was trained with the tokenizer's vocabulary."""
    if folder.stored_sum(tokenizer.file_name) != tokenizer.vocabulary_sha256:
        raise InputError(f"was trained with another vocabulary than {tokenizer.vocabulary_file}")
