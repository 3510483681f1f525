"""Ids that a model has no row for are refused by the exported graph.

Otherwise a negative id counts from the end of the vocabulary, and on a GPU any other becomes a row of
zeros: answers to mistakes, which nobody notices.
"""

import tensorflow as tf

from albert_tf.config import AlbertConfig


def check_ids(
    input_ids: tf.Tensor, segment_ids: tf.Tensor, config: AlbertConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Passes ids and segments on once one assertion holds.

    Args:
        input_ids: int32 (..., S).
        segment_ids: int32 (..., S).
        config: of the encoder.

    Returns:
        `input_ids` and `segment_ids`.

    Raises:
        InvalidArgumentError: as the graph runs, with the ranges received and expected.
    """
    length = tf.shape(input_ids)[-1]
    ids = tf.reduce_min(input_ids), tf.reduce_max(input_ids)
    segments = tf.reduce_min(segment_ids), tf.reduce_max(segment_ids)
    fits = (
        (ids[0] >= 0)
        & (ids[1] < config.vocab_size)
        & (segments[0] >= 0)
        & (segments[1] < config.type_vocab_size)
        & (length >= 1)
        & (length <= config.max_position_embeddings)
    )
    expected = (
        f"expected input_ids from 0 to {config.vocab_size - 1}, "
        f"segment_ids from 0 to {config.type_vocab_size - 1}, "
        f"and 1 to {config.max_position_embeddings} of them a text, "
        "but received, least and greatest id, least and greatest segment, length:"
    )
    assertion = tf.debugging.Assert(fits, [expected, *ids, *segments, length])
    # Else the look-up, which runs beside it, might fail first, and say less.
    with tf.control_dependencies([assertion]):
        return tf.identity(input_ids), tf.identity(segment_ids)


def check_positions(positions: tf.Tensor, input_ids: tf.Tensor) -> tf.Tensor:
    """Passes masked positions on once an assertion holds; others would be those of the next text.

    Args:
        positions: int32 (B, M).
        input_ids: int32 (B, S).

    Returns:
        `positions`.

    Raises:
        InvalidArgumentError: as the graph runs, with the range received and expected.
    """
    length = tf.shape(input_ids)[1]
    least, greatest = tf.reduce_min(positions), tf.reduce_max(positions)
    fits = (least >= 0) & (greatest < length)
    expected = (
        "expected masked_lm_positions from 0 to below the length; received least, greatest, length:"
    )
    assertion = tf.debugging.Assert(fits, [expected, least, greatest, length])
    with tf.control_dependencies([assertion]):
        return tf.identity(positions)
