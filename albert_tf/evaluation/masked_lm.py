"""Scores sentences and fills masks with a pre-trained model."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.backends import BACKEND
from albert_tf.errors import InputError
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.interface import check_tokenizer

if BACKEND == "tensorflow":
    import tensorflow as tf

_SPECIAL_PIECES = 2  # [CLS] and [SEP]
# Tracing the model takes about as long as this many batches.
_EAGER_BATCHES = 2


class Filling(NamedTuple):
    """A piece in the place of a mask.

    Attributes:
        text: the piece as text, e.g. `paris`.
        piece: the piece as the vocabulary has it, e.g. `▁paris`, where the mark begins a word.
        probability: its probability.
    """

    text: str
    piece: str
    probability: float


def score_sentences(
    model: keras.Model, tokenizer: Tokenizer, sentences: Sequence[str], batch_size: int = 64
) -> np.ndarray:
    """Returns the pseudo-log-likelihood of each sentence.

    It is the sum, over the pieces of a sentence, of the log-probability of the piece where it alone is
    masked: Salazar et al. 2020, https://arxiv.org/abs/1910.14659, equation 1. The greater it is, the
    more acceptable the model finds the sentence. Compare only sentences of similar length.

    A sentence of n pieces is n masked copies. Copies of similar length share a batch. Work of more than
    ten seconds shows its progress.

    Args:
        model: an `AlbertPretrainer`.
        tokenizer: of the vocabulary that the model was trained with.
        sentences: n texts, each a single segment.
        batch_size: B, masked copies in a batch.

    Returns:
        float64 (n,), in nats; 0 for a text without pieces.

    Raises:
        InputError: the model has no masked-LM head or another vocabulary, an item of `sentences` is
            no string, or it is longer than the model's positions.
    """
    _check_model(model, tokenizer)
    if isinstance(sentences, str):
        raise InputError("sentences: expected a list of strings; received a string")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: expected at least 1")
    sentences = list(sentences)
    for number, sentence in enumerate(sentences):
        _check_text(f"sentences[{number}]", sentence)
    ids_of = [np.array(ids, np.int32) for ids in tokenizer.encode_batch(sentences)]
    for number, ids in enumerate(ids_of):
        _check_length(f"sentences[{number}]", ids, model)

    def log_probabilities(inputs, pieces):
        logits = model(inputs, training=False)["masked_lm_logits"][:, 0]  # (B, V)
        log_probs = ops.log_softmax(logits)
        return ops.take_along_axis(log_probs, ops.expand_dims(pieces, 1), axis=1)[:, 0]  # (B,)

    total = sum(map(len, ids_of))
    predict = log_probabilities
    if BACKEND == "tensorflow" and total > _EAGER_BATCHES * batch_size:
        ids = tf.TensorSpec((None, None), tf.int32)
        specs = {"input_ids": ids, "input_mask": ids, "masked_lm_positions": ids}
        signature = (specs, tf.TensorSpec((None,), tf.int32))
        predict = tf.function(log_probabilities, signature, autograph=False)
    by_length = sorted(range(len(ids_of)), key=lambda number: len(ids_of[number]))
    copies = ((number, masked) for number in by_length for masked in range(len(ids_of[number])))
    scores = np.zeros(len(ids_of))
    with Progress("scoring", "pieces", total, delay=SECONDS_WITHOUT_PROGRESS) as progress:
        while batch := list(itertools.islice(copies, batch_size)):
            pieces = np.array([ids_of[number][masked] for number, masked in batch])
            found = predict(_mask_one_each(batch, ids_of, tokenizer), pieces)
            rows = [number for number, _ in batch]
            np.add.at(scores, rows, ops.convert_to_numpy(found))
            progress.update(len(batch))
    return scores


def fill_mask(
    model: keras.Model, tokenizer: Tokenizer, text: str, top_k: int = 5
) -> list[list[Filling]]:
    """Returns the most probable pieces for each `[MASK]` of a text.

    A mask stands for one piece, which may be a part of a word. Several masks are filled independently.

    Args:
        model: an `AlbertPretrainer`.
        tokenizer: of the vocabulary that the model was trained with.
        text: a single segment, e.g. `Paris is the [MASK] of France.`
        top_k: number of pieces for each mask.

    Returns:
        For each mask, in order, `top_k` tuples `(text, piece, probability)`, the most probable first.

    Raises:
        InputError: the model has no masked-LM head or another vocabulary, or the text is no string,
            has no mask, or is longer than the model's positions.
    """
    _check_model(model, tokenizer)
    _check_text("text", text)
    mask = tokenizer.pieces[tokenizer.mask_id]
    if mask not in text:
        raise InputError(f"text: expected at least one {mask}; received '{text}'")
    if not 1 <= top_k <= tokenizer.vocab_size:
        raise InputError(f"top_k={top_k}: expected 1 to {tokenizer.vocab_size}")
    ids = _encode_masked(text, tokenizer)
    _check_length("text", ids, model)
    inputs = {
        "input_ids": np.array([[tokenizer.cls_id, *ids, tokenizer.sep_id]], np.int32),
        "masked_lm_positions": 1 + np.flatnonzero(ids == tokenizer.mask_id)[None].astype(np.int32),
    }
    logits = model(inputs, training=False)["masked_lm_logits"][0]  # (M, V)
    probabilities = ops.softmax(logits[:, : tokenizer.vocab_size])
    best, pieces = map(ops.convert_to_numpy, ops.top_k(probabilities, top_k))
    return [
        [
            Filling(tokenizer.decode([piece]), tokenizer.pieces[piece], float(probability))
            for piece, probability in zip(*mask_columns, strict=True)
        ]
        for mask_columns in zip(pieces.tolist(), best, strict=True)
    ]


def _encode_masked(text: str, tokenizer: Tokenizer) -> np.ndarray:
    first, *others = text.split(tokenizer.pieces[tokenizer.mask_id])
    ids = tokenizer.encode(first)
    for part in others:
        # SentencePiece lets each text begin with a word mark, but `able` after a mask begins no word. So
        # another character begins the text, NUL, which is in no piece.
        more, spans = tokenizer.encode_with_offsets(f"\0{part}")
        of_part = (id_ for id_, (_, end) in zip(more, spans, strict=True) if end > 1)
        ids = [*ids, tokenizer.mask_id, *of_part]
    return np.array(ids, np.int32)


def _check_model(model: keras.Model, tokenizer: Tokenizer) -> None:
    if not hasattr(model, "masked_lm_head"):
        raise InputError(
            f"model: expected an AlbertPretrainer; received {type(model).__name__}, which has no "
            "masked-LM head"
        )
    check_tokenizer(tokenizer)
    if not model.config.has_rows_for(tokenizer.vocab_size):
        raise InputError(
            f"tokenizer: has {tokenizer.vocab_size} pieces; the model has {model.config.vocab_size}"
        )


def _check_text(name: str, text: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{name}: expected a string; received {type(text).__name__}")


def _check_length(name: str, ids: np.ndarray, model: keras.Model) -> None:
    most = model.config.max_position_embeddings - _SPECIAL_PIECES
    if len(ids) > most:
        raise InputError(f"{name}: {len(ids)} pieces; the model takes at most {most}")


def _mask_one_each(
    copies: Sequence[tuple[int, int]], ids_of: Sequence[np.ndarray], tokenizer: Tokenizer
) -> dict[str, np.ndarray]:
    """Returns the inputs for some copies: number of a sentence and index of its masked piece."""
    length = max(len(ids_of[number]) for number, _ in copies) + _SPECIAL_PIECES
    input_ids = np.full((len(copies), length), tokenizer.pad_id, np.int32)
    input_mask = np.zeros_like(input_ids)
    positions = np.array([[1 + masked] for _, masked in copies], np.int32)
    for row, (number, _) in enumerate(copies):
        ids = ids_of[number]
        input_ids[row, : len(ids) + _SPECIAL_PIECES] = [tokenizer.cls_id, *ids, tokenizer.sep_id]
        input_mask[row, : len(ids) + _SPECIAL_PIECES] = 1
    np.put_along_axis(input_ids, positions, tokenizer.mask_id, axis=1)
    return {"input_ids": input_ids, "input_mask": input_mask, "masked_lm_positions": positions}
