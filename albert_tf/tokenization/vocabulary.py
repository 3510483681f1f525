"""Trains a SentencePiece vocabulary with the settings of ALBERT's published ones."""

import io
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

import sentencepiece

from albert_tf.errors import InputError
from albert_tf.files import write_bytes, write_text
from albert_tf.tokenization.normalization import normalize_text
from albert_tf.tokenization.sentencepiece_models import mark_accents
from albert_tf.tokenization.special_pieces import SENTENCEPIECE

# SentencePiece silently skips sentences of more than 4192 bytes, and its time explodes with the length
# of a word. So longer lines are split; a character has at most 4 bytes.
_MAX_SENTENCE_CHARACTERS = 4192 // 4

# The trainer specification inside the published `30k-clean.model`. The number of threads influences the
# order of sums, so it is theirs and not this machine's.
_PUBLISHED_SETTINGS: dict[str, Any] = {
    "model_type": "unigram",
    "character_coverage": 0.99995,
    "normalization_rule_name": "nmt_nfkc",
    "pad_id": 0,
    "pad_piece": SENTENCEPIECE.pad,
    "unk_id": 1,
    "unk_piece": SENTENCEPIECE.unk,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": [SENTENCEPIECE.cls, SENTENCEPIECE.sep, SENTENCEPIECE.mask],
    "user_defined_symbols": ["(", ")", '"', "-", ".", "–", "£", "€"],
    "num_threads": 16,
}
_SILENT = 5  # above the level of every message of SentencePiece's C++ code

_NO_TEXT = "the input holds no text to train a vocabulary from; expected at least one sentence"
_NO_TEXT_PATTERN = r"all_chars_count\) > \(0\)|!sentences_\.empty"
# Pattern of the trainer's message -> what is wrong with `vocab_size`, with the bound in the message.
_SIZE_ERRORS = {
    r"Vocabulary size too high .* value <= (\d+)": (
        "{text} is too small for so many pieces; it gives at most {bound}"
    ),
    r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)": (
        "too few for the characters of the text; at least {bound} are needed"
    ),
}


def train_vocabulary(
    sentences: Iterable[str],
    model_file: str,
    vocab_size: int,
    lower_case: bool = True,
    vocab_sentences: int = 1_000_000,
    keep_accents: bool = False,
) -> None:
    """Trains a unigram vocabulary and writes it as a SentencePiece model.

    Next to the model it writes `vocab_file_of(model_file)`, one piece and its log probability per line.
    The same sentences in the same order give the same two files.

    Args:
        sentences: text, which is normalised here.
        model_file: the file to write, by convention `<prefix>.model`.
        vocab_size: number of pieces, V, including the 5 special and 8 fixed ones.
        lower_case: whether to lower-case the text; the tokenizer must be loaded with the same value.
        vocab_sentences: maximum number of sentences to train on, held in memory. They are drawn with a
            fixed seed. The published vocabulary was trained on ten million.
        keep_accents: whether text keeps its accents and other marks; the model says so to the tokenizer.
    """
    if vocab_size < len(SENTENCEPIECE):
        raise InputError(f"vocab_size={vocab_size}: expected at least {len(SENTENCEPIECE)}")
    # SentencePiece's own sampling differs from run to run.
    sample = _draw(_normalized_parts(sentences, lower_case, keep_accents), vocab_sentences)
    if not sample:
        raise InputError(_NO_TEXT)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            vocab_size=vocab_size,
            minloglevel=_SILENT,
            **_PUBLISHED_SETTINGS,
        )
    except RuntimeError as error:
        if re.search(_NO_TEXT_PATTERN, str(error)):
            raise InputError(_NO_TEXT) from error
        for pattern, reason in _SIZE_ERRORS.items():
            if match := re.search(pattern, str(error)):
                is_all = len(sample) < vocab_sentences
                text = "the text" if is_all else f"a sample of vocab_sentences={len(sample)}"
                reason = reason.format(bound=match.group(1), text=text)
                raise InputError(f"vocab_size={vocab_size}: {reason}") from error
        raise
    content = model.getvalue()
    _write(mark_accents(content) if keep_accents else content, model_file)


def vocab_file_of(model_file: str) -> str:
    """Returns the name of the list of pieces next to a model."""
    return model_file.removesuffix(".model") + ".vocab"


def _normalized_parts(
    sentences: Iterable[str], lower_case: bool, keep_accents: bool
) -> Iterator[str]:
    for sentence in sentences:
        text = normalize_text(sentence, lower_case, keep_accents)
        for start in range(0, len(text), _MAX_SENTENCE_CHARACTERS):
            yield text[start : start + _MAX_SENTENCE_CHARACTERS]


def _draw(sentences: Iterable[str], size: int) -> list[str]:
    """Draws `size` sentences with equal probabilities, by reservoir sampling."""
    rng = random.Random(0)
    drawn: list[str] = []
    for seen, sentence in enumerate(sentences, start=1):
        if len(drawn) < size:
            drawn.append(sentence)
        elif (place := rng.randrange(seen)) < size:
            drawn[place] = sentence
    return drawn


def _write(model: bytes, model_file: str) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = (
        f"{processor.id_to_piece(id_)}\t{processor.get_score(id_):g}\n"
        for id_ in range(processor.vocab_size())
    )
    # The model comes last: if it exists, both are complete.
    write_text(vocab_file_of(model_file), "".join(lines))
    write_bytes(model_file, model)
