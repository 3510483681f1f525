"""The vocabulary that the flags of a command name: loading it, and whether it fits the model."""

import dataclasses
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.model_folder import ModelFolder
from albert_tf.tokenization import AlbertTokenizer, Tokenizer, WordPieceTokenizer, WordStartRule
from albert_tf.tokenization.added_pieces import add_pieces
from albert_tf.tokenization.sentencepiece_tokenizer import is_sentencepiece_model

# Vocabularies know all but a few of the pieces of text in their language.
_MAX_UNKNOWN = 0.05


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
    assert vocab_file is not None
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


def grown_config(config: AlbertConfig, tokenizer: Tokenizer | None) -> AlbertConfig:
    """Returns the config of a model that has the pieces that a tokenizer has added, too."""
    if tokenizer is None or not tokenizer.former_ids:
        return config
    return dataclasses.replace(config, vocab_size=tokenizer.vocab_size)


def with_added_pieces(tokenizer: Tokenizer, path: str | None, has_begun: bool) -> Tokenizer:
    """Returns the tokenizer with the words of `--add_pieces` as pieces.

    A run that `has_begun` has them in its own vocabulary.
    """
    if path is None:
        return tokenizer
    with name_place("--add_pieces"):
        grown = add_pieces(tokenizer, path)
        count = len(grown.former_ids)
        if count and has_begun:
            raise InputError(
                f"{path} has {count} words that are no pieces of {tokenizer.vocabulary_file}, such as "
                f"{grown.pieces[-1]!r}; expected the words that the run began with"
            )
    print(
        f"--add_pieces={path}: {count} words become pieces, and the vocabulary has {grown.vocab_size}"
    )
    return grown


def warn_of_unknown(
    unknown: int, pieces: int, text: str, vocabulary_file: str | None, lower_case: bool | None
) -> None:
    """Warns if more of a text's pieces are unknown than in the vocabulary's own language and case."""
    if unknown > _MAX_UNKNOWN * pieces:
        warn(
            f"{text}: {unknown / pieces:.1%} of the pieces are unknown to {vocabulary_file}; expected a "
            f"vocabulary for the language and case of the text (do_lower_case is {lower_case})"
        )


def warn_of_unknown_text(features: Any, text: str, tokenizer: Tokenizer) -> None:
    """Warns if too many pieces of encoded texts are unknown; `text` is what the warning calls them."""
    unknown = int((features.input_ids == tokenizer.unk_id).sum())
    how = tokenizer.vocabulary_file, tokenizer.lower_case
    warn_of_unknown(unknown, len(features.input_ids), text, *how)


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
