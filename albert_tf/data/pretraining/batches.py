"""Batches of records for pre-training and its evaluation, parsed and masked."""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.data.pipeline import ordered
from albert_tf.data.pretraining.record_order import RecordOrder
from albert_tf.data.record_files import RecordFiles

Parse = Callable[[tf.Tensor], dict[str, tf.Tensor]]
# Masks a parsed batch, given a seed, integers (2,).
Mask = Callable[[dict[str, tf.Tensor], tf.Tensor], dict[str, tf.Tensor]]


def pretraining_batches(
    order: RecordOrder, parse: Parse, start_step: int = 0, mask: Mask | None = None
) -> tf.data.Dataset:
    """Returns full, shuffled batches of records without end.

    Dynamic masks are a function of the seed and the batch's number from the start of the training. So
    each pass over the records sees new masks, and a resumed run sees the same ones.

    Args:
        order: order of the records; its seed decides the masks too.
        parse: `RecordSpec.parse`, which turns serialized records (B,) into features (B, ...).
        start_step: number of the first batch to return, from 0.
        mask: `DynamicMasker`, which masks a batch; None for records with static masks.
    """
    return _prepared(order.batches(start_step), parse, mask, order.seed, start_step)


def pretraining_evaluation_batches(
    files: RecordFiles,
    parse: Parse,
    batch_size: int,
    seed: int = 0,
    mask: Mask | None = None,
    fixed_size: bool = False,
) -> tf.data.Dataset:
    """Returns each record once, in order; the last batch may be smaller.

    Dynamic masks are the same each time.

    Args:
        files: files to read.
        parse: `RecordSpec.parse`, which turns serialized records (B,) into features (B, ...).
        batch_size: batch size, B.
        seed: random seed of the masks.
        mask: `DynamicMasker`, which masks a batch; None for records with static masks.
        fixed_size: whether to pad the last batch with rows of zeros, for devices that compile each shape
            separately. These rows have no tokens.
    """
    records = files.as_dataset().flat_map(files.read).batch(batch_size)
    return _prepared(records, parse, mask, seed, fixed_size=batch_size if fixed_size else None)


def _prepared(
    records: tf.data.Dataset,
    parse: Parse,
    mask: Mask | None,
    seed: int,
    start_step: int = 0,
    fixed_size: int | None = None,
) -> tf.data.Dataset:
    def prepare(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = parse(serialized)
        if mask is not None:
            batch = mask(batch, tf.stack([tf.cast(seed, tf.int64), number]))
        if fixed_size is None:
            return batch
        return {name: _pad(rows, fixed_size) for name, rows in batch.items()}

    numbered = records.enumerate(start_step)
    return ordered(numbered.map(prepare, num_parallel_calls=tf.data.AUTOTUNE))


def _pad(rows: tf.Tensor, count: int) -> tf.Tensor:
    """Pads a batch to `count` rows with zeros."""
    missing = [[0, count - tf.shape(rows)[0]]] + [[0, 0]] * (rows.shape.rank - 1)
    return tf.ensure_shape(tf.pad(rows, missing), [count, *rows.shape[1:]])
