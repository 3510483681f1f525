"""Scores of sentences by a masked language model."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tokenization import Tokenizer

_SPECIAL_PIECES = 2  # [CLS] and [SEP]


def pseudo_log_likelihoods(
    model: keras.Model, tokenizer: Tokenizer, texts: Sequence[str], batch_size: int = 64
) -> np.ndarray:
    """Returns the pseudo-log-likelihood of each text.

    It is the sum, over the pieces of a text, of the log-probability of the piece where it alone is
    masked: Salazar et al. 2020, https://arxiv.org/abs/1910.14659, equation 1.

    Args:
        model: an `AlbertPretrainer`.
        tokenizer: of the vocabulary that the model was trained with.
        texts: n texts, each a single segment.
        batch_size: B, masked copies of texts in a batch.

    Returns:
        float64 (n,), in nats; 0 for a text without pieces.

    Raises:
        InputError: a text is longer than the model's positions.
    """
    sentences = [np.array(ids, np.int32) for ids in tokenizer.encode_batch(texts)]
    longest = model.encoder.config.max_position_embeddings - _SPECIAL_PIECES
    for text, ids in zip(texts, sentences, strict=True):
        if len(ids) > longest:
            raise InputError(f"'{text}': {len(ids)} pieces; expected at most {longest}")

    @tf.function(reduce_retracing=True, autograph=False)
    def log_probabilities(inputs, pieces):
        logits = model(inputs, training=False)["masked_lm_logits"][:, 0]  # (B, V)
        return tf.gather(tf.nn.log_softmax(logits), pieces, batch_dims=1)  # (B,)

    # Texts of similar length share a batch, so that little of it is padding.
    by_length = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
    copies = [(number, masked) for number in by_length for masked in range(len(sentences[number]))]
    scores = np.zeros(len(sentences))
    for start in range(0, len(copies), batch_size):
        batch = copies[start : start + batch_size]
        inputs = _mask_one_each(batch, sentences, tokenizer)
        pieces = np.array([sentences[number][masked] for number, masked in batch])
        numbers = [number for number, _ in batch]
        np.add.at(scores, numbers, log_probabilities(inputs, pieces).numpy())
    return scores


def _mask_one_each(
    copies: Sequence[tuple[int, int]], sentences: Sequence[np.ndarray], tokenizer: Tokenizer
) -> dict[str, np.ndarray]:
    """Returns the inputs for some copies: number of a sentence and index of its masked piece."""
    length = max(len(sentences[number]) for number, _ in copies) + _SPECIAL_PIECES
    input_ids = np.full((len(copies), length), tokenizer.pad_id, np.int32)
    input_mask = np.zeros_like(input_ids)
    positions = np.array([[1 + masked] for _, masked in copies], np.int32)
    for row, (number, _) in enumerate(copies):
        ids = sentences[number]
        input_ids[row, : len(ids) + _SPECIAL_PIECES] = [tokenizer.cls_id, *ids, tokenizer.sep_id]
        input_mask[row, : len(ids) + _SPECIAL_PIECES] = 1
    np.put_along_axis(input_ids, positions, tokenizer.mask_id, axis=1)
    return {"input_ids": input_ids, "input_mask": input_mask, "masked_lm_positions": positions}
