"""Batches of examples for fine-tuning, in an order that a seed decides.

Batches for training are random, as the original's; the layers skip their padding. Batch number n is a
function of the seed and n, so a run that resumes at step n starts with batch n without preparing the
earlier ones.
"""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.ordering import ordered
from albert_tf.errors import InputError


def training_batches(
    features: Features,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    fixed_length: int | None = None,
) -> tf.data.Dataset:
    """Returns full batches of n > 0 examples, shuffled, without end, as `make_batch` makes them.

    `batch_size` is that of all replicas together, `start_step` the number of the first batch, from 0.
    `fixed_length` is the length S of every batch, for devices that compile each shape separately; without
    it S is little more than the longest text of the batch.
    """
    _check_not_empty(features, "train")
    count = len(features)

    def plan(epoch: tf.Tensor) -> tf.data.Dataset:
        batches = tf.numpy_function(
            lambda number: plan_epoch(count, batch_size, seed, epoch=int(number)), [epoch], tf.int64
        )
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(batches, (None, batch_size)))

    # Epoch e ends with the last batch that its examples fill: batch floor((e + 1) * n / B) - 1.
    first_epoch = ((start_step + 1) * batch_size - 1) // count
    first_step = first_epoch * count // batch_size
    plans = tf.data.Dataset.counter(first_epoch).flat_map(plan).skip(start_step - first_step)
    return _batch_dataset(features, plan=plans, batch_size=batch_size, length=fixed_length)


def evaluation_batches(
    features: Features, batch_size: int, fixed_length: int | None = None
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Returns each example once, the longest first, so that too large a batch fails at once.

    The last batch may be smaller; with `fixed_length` it is filled up with the last example. Returns
    batches as `make_batch` makes them, and the example of each of their rows, int64 (n,).
    """
    _check_not_empty(features, "evaluate")
    order = evaluation_order(features)
    rows = order
    if fixed_length is not None:
        rows = np.pad(order, (0, -len(order) % batch_size), mode="edge")
    plan = tf.data.Dataset.from_tensor_slices(rows).batch(batch_size)
    return _batch_dataset(
        features, plan, batch_size=fixed_length and batch_size, length=fixed_length
    ), order


def evaluation_order(features: Features) -> np.ndarray:
    """Returns the examples, int64 (n,), the longest first."""
    return np.argsort(-features.example_lengths, kind="stable")


def make_batch(
    features: Features, examples: np.ndarray, fixed_length: int | None = None
) -> dict[str, np.ndarray]:
    """Pads some examples, int (B,), to the length of the longest, rounded up, or to `fixed_length`.

    Returns `input_ids`, `input_mask` (1 for a token, 0 for padding) and `segment_ids`, int32 (B, S), with
    choices (B, C, S), of tuples (C B, S); (B,) or (B, k) of each label that the examples have, such as
    `label_ids`, or (B, S) of each label of their tokens, -1 for padding.
    """
    texts = features.texts_of(examples)  # (B,), with choices (B, C), of tuples (C B,)
    longest = int(features.lengths[texts].max())
    # No batch is longer than the longest example, so none exceeds the model's positions.
    length = fixed_length or min(padded_length(longest), features.max_length)
    mask, tokens = features.tokens_of(texts, length)  # (B, S), with choices (B, C, S)
    input_ids = np.zeros(mask.shape, np.int32)
    input_ids[mask] = features.input_ids[tokens]
    segments = mask & (np.arange(length) >= features.first_lengths[texts][..., None])
    batch = {
        "input_ids": input_ids,
        "input_mask": mask.astype(np.int32),
        "segment_ids": segments.astype(np.int32),
    }
    for name, labels in features.token_labels.items():
        batch[name] = np.full(mask.shape, -1, np.int32)
        batch[name][mask] = labels[tokens]
    return batch | {name: labels[examples] for name, labels in features.labels.items()}


def padded_length(length: int) -> int:
    """Rounds a length up to one of eight an octave: ..., 15, 16, 18, ..., 32, 36, ..., 64, 72, ...

    The first batch of a new length costs time (kernels are prepared, under XLA the whole step is
    compiled), and padding costs time in every step. Eight lengths an octave are 56 up to 512 and pad
    by less than an eighth: on SST-2 by 2 %, where multiples of 8 pad by 22 %. On CPU the time of a step
    is proportional to the length, also for odd lengths.
    """
    multiple = 1 << max(0, (length - 1).bit_length() - 4)
    return -(-length // multiple) * multiple


def plan_epoch(count: int, batch_size: int, seed: int, epoch: int) -> np.ndarray:
    """Decides which examples make the batches of an epoch, int64 (batches, B).

    The examples are shuffled; those that fill no batch at the end of an epoch open the next one, so
    that none is dropped.
    """
    begin = epoch * count // batch_size * batch_size
    end = (epoch + 1) * count // batch_size * batch_size
    first_epoch = begin // count
    epochs = range(first_epoch, end // count + 1)
    shuffled = np.concatenate(
        [np.random.default_rng((seed, number)).permutation(count) for number in epochs]
    )
    examples = shuffled[begin - first_epoch * count : end - first_epoch * count]
    return examples.reshape(-1, batch_size)


def batch_signature(
    features: Features, batch_size: int | None = None, length: int | None = None
) -> dict[str, tf.TensorSpec]:
    """Returns the shapes and dtypes of what `make_batch` makes, with the static sizes that are given."""
    shape = features.batch_shape(batch_size)
    signature = {
        name: tf.TensorSpec((*shape, length), tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids", *features.token_labels)
    }
    for name, labels in features.labels.items():
        signature[name] = tf.TensorSpec((batch_size, *labels.shape[1:]), labels.dtype)
    return signature


def _batch_dataset(
    features: Features, plan: tf.data.Dataset, batch_size: int | None, length: int | None
) -> tf.data.Dataset:
    """Makes a batch of the examples, int64 (B,), of each step, with the static sizes that are given."""
    return computed_batches(
        plan,
        lambda examples: make_batch(features, examples, length),
        batch_signature(features, batch_size, length),
    )


def computed_batches(
    plan: tf.data.Dataset,
    compute: Callable[[np.ndarray], Mapping[str, np.ndarray]],
    signature: Mapping[str, tf.TensorSpec],
) -> tf.data.Dataset:
    """Returns a batch that Python computes for each element of a plan.

    `Dataset.from_generator` does without a plan, but the first one of a process on Python 3.11 makes
    TensorFlow set glibc's threshold for mapped memory (`mallopt`). From then on every large tensor of
    the process comes from the kernel, page by page, in each step anew.

    The signature has the shapes and dtypes of the arrays, with None for a size that batches differ in.
    """

    def arrays_of(planned: np.ndarray) -> list[np.ndarray]:
        batch = compute(planned)
        return [batch[name] for name in signature]

    def batch_of(planned: tf.Tensor) -> dict[str, tf.Tensor]:
        dtypes = [spec.dtype for spec in signature.values()]
        arrays = tf.numpy_function(arrays_of, [planned], dtypes)
        return {
            name: tf.ensure_shape(array, spec.shape)
            for array, (name, spec) in zip(arrays, signature.items(), strict=True)
        }

    return ordered(plan.map(batch_of))


def _check_not_empty(features: Features, purpose: str) -> None:
    if not len(features):
        raise InputError(f"no examples to {purpose} on")
