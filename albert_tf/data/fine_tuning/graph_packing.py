"""The rules of `packing` as TensorFlow operations: ids of texts to the inputs of a model."""

import tensorflow as tf

from albert_tf.data.fine_tuning.packing import choice_lengths, pair_lengths


def pack_inputs(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded with 0 to the longest of the batch.

    A single text keeps its front; of a pair the longer text is truncated, the second if they are equal.
    An empty second text makes no pair.

    Args:
        ids_a: int32 (B, None).
        ids_b: int32 (B, None); None if there are no pairs.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        max_seq_length: maximum number of tokens, special tokens included.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`, int32 (B, S).
    """
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    length_b = tf.zeros_like(length_a) if ids_b is None else tf.cast(ids_b.row_lengths(), tf.int32)
    budget = tf.where(length_b > 0, max_seq_length - 3, max_seq_length - 2)
    kept_a, kept_b = pair_lengths(length_a, length_b, budget, tf.minimum, tf.maximum)
    ids_a = _range(ids_a, tf.zeros_like(kept_a), kept_a)
    if ids_b is not None:
        ids_b = _range(ids_b, tf.zeros_like(kept_b), kept_b)
    return _join(ids_a, ids_b, cls_id, sep_id)


def pack_choices(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
    max_qa_length: int,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] article [SEP] question and option [SEP]`, padded as by `pack_inputs`.

    Args:
        ids_a: int32 (B, None), of the articles.
        ids_b: int32 (B, None), of questions and options; the last `max_qa_length` ids are kept.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        max_seq_length: maximum number of tokens, special tokens included.
        max_qa_length: maximum number of tokens of question and option.
    """
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    length_b = tf.cast(ids_b.row_lengths(), tf.int32)
    kept_a, kept_b = choice_lengths(length_a, length_b, max_seq_length, max_qa_length, tf.minimum)
    ids_a = _range(ids_a, tf.zeros_like(kept_a), kept_a)
    ids_b = _range(ids_b, length_b - kept_b, length_b)
    return _join(ids_a, ids_b, cls_id, sep_id)


def _join(
    ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor | None, cls_id: int, sep_id: int
) -> dict[str, tf.Tensor]:
    """Adds the special ids to texts that fit, and pads."""
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    rows = tf.ones_like(length_a)[:, None]  # (B, 1)
    parts = [rows * cls_id, ids_a, rows * sep_id]
    first_length = length_a + 2
    total_length = first_length
    if ids_b is not None:
        length_b = tf.cast(ids_b.row_lengths(), tf.int32)
        is_pair = length_b > 0
        last = tf.RaggedTensor.from_tensor(rows * sep_id, lengths=tf.cast(is_pair, tf.int32))
        parts += [ids_b, last]
        total_length += tf.where(is_pair, length_b + 1, 0)
    input_ids = tf.concat(parts, axis=1).to_tensor()  # (B, S)
    positions = tf.range(tf.shape(input_ids)[1])
    mask = positions < total_length[:, None]
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": tf.cast(mask & (positions >= first_length[:, None]), tf.int32),
    }


def _range(ids: tf.RaggedTensor, begin: tf.Tensor, end: tf.Tensor) -> tf.RaggedTensor:
    """Returns the values from `begin` (B,) to `end` (B,) of each row of `ids` (B, None)."""
    in_row = tf.cast(tf.ragged.range(ids.row_lengths()).flat_values, tf.int32)
    rows = ids.value_rowids()
    kept = (in_row >= tf.gather(begin, rows)) & (in_row < tf.gather(end, rows))
    return tf.ragged.boolean_mask(ids, ids.with_flat_values(kept))
