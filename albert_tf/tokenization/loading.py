"""From the two vocabulary flags to a tokenizer."""

from albert_tf.errors import FlagError, InputError, name_place
from albert_tf.tokenization.interface import Tokenizer
from albert_tf.tokenization.sentencepiece_tokenizer import (
    AlbertTokenizer,
    WordStartRule,
    is_sentencepiece_model,
)
from albert_tf.tokenization.wordpiece_tokenizer import WordPieceTokenizer


def load_tokenizer(
    spm_model_file: str | None,
    vocab_file: str | None,
    lower_case: bool,
    word_start_rule: WordStartRule = "original",
) -> Tokenizer:
    """Loads the tokenizer of whichever vocabulary is given.

    Args:
        spm_model_file: a SentencePiece model, or None or "".
        vocab_file: a WordPiece vocabulary, or None or "".
        lower_case: whether text is lower-cased first.
        word_start_rule: which pieces of a SentencePiece model begin a word.

    Raises:
        FlagError: both are given, or neither.
        InputError: the file cannot be read or is no such vocabulary.
    """
    if bool(spm_model_file) == bool(vocab_file):
        received = "both" if spm_model_file else "neither"
        raise FlagError(f"expected one of --spm_model_file and --vocab_file, received {received}")
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
