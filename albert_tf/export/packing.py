"""Segments to model inputs, in the graph: what `albert_tf.data.features` does in training."""

import tensorflow as tf


def pack_inputs(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded with 0 to the longest of the batch.

    A single text keeps its front; of a pair the longer text is cut, the second where they are equal. An
    empty second text makes no pair.

    Args:
        ids_a: int32 (B, None).
        ids_b: int32 (B, None); None where there are no pairs.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        max_seq_length: tokens at most, the special ones included.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`, int32 (B, S).
    """
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    length_b = tf.zeros_like(length_a) if ids_b is None else tf.cast(ids_b.row_lengths(), tf.int32)
    is_pair = length_b > 0
    budget = tf.where(is_pair, max_seq_length - 3, max_seq_length - 2)
    kept_b = tf.minimum(length_b, tf.maximum(budget // 2, budget - length_a))
    kept_a = tf.minimum(length_a, budget - kept_b)

    rows = tf.ones_like(length_a)[:, None]  # (B, 1)
    parts = [rows * cls_id, _front(ids_a, kept_a), rows * sep_id]
    first_length = kept_a + 2
    total_length = first_length
    if ids_b is not None:
        last = tf.RaggedTensor.from_tensor(rows * sep_id, lengths=tf.cast(is_pair, tf.int32))
        parts += [_front(ids_b, kept_b), last]
        total_length += tf.where(is_pair, kept_b + 1, 0)
    input_ids = tf.concat(parts, axis=1).to_tensor()  # (B, S)
    positions = tf.range(tf.shape(input_ids)[1])
    mask = positions < total_length[:, None]
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": tf.cast(mask & (positions >= first_length[:, None]), tf.int32),
    }


def _front(ids: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first `lengths` (B,) values of each row of `ids` (B, None)."""
    in_row = tf.ragged.range(ids.row_lengths())
    kept = in_row.flat_values < tf.gather(tf.cast(lengths, tf.int64), ids.value_rowids())
    return tf.ragged.boolean_mask(ids, ids.with_flat_values(kept))
