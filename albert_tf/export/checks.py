"""Assertions in the exported graph that refuse inputs without an answer.

Without them a negative id would count from the end of the vocabulary, and on a GPU an id past its end
would be a row of zeros: wrong answers that nobody notices.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig


def check_shapes(**inputs: tf.Tensor) -> list[tf.Tensor]:
    """Returns the inputs after asserting the shapes that the signature declares.

    TensorFlow Serving and loaded signatures do not check these themselves.

    Args:
        inputs: tensors of a known rank, by name.
    """
    assertions = [_assert_shape(name, values) for name, values in inputs.items()]
    with tf.control_dependencies(assertions):
        return [tf.identity(values) for values in inputs.values()]


def _assert_shape(name: str, values: tf.Tensor) -> tf.Operation:
    sizes = [-1 if size is None else size for size in values.shape]
    # Grappler takes the declared shape for granted, unless a placeholder hides it.
    hidden = tf.raw_ops.PlaceholderWithDefault(input=values, shape=tf.TensorShape(None))
    shape = tf.shape(hidden)
    # Padded to the expected rank, so that the sizes can be compared.
    padded = tf.concat([shape, tf.fill([len(sizes)], -1)], axis=0)[: len(sizes)]
    fits = (tf.size(shape) == len(sizes)) & tf.reduce_all(
        (tf.constant(sizes) == -1) | (padded == sizes)
    )
    expected = ", ".join("?" if size == -1 else str(size) for size in sizes)
    return tf.debugging.Assert(fits, [f"expected {name} of shape [{expected}]; received:", shape])


def check_rows(**inputs: tf.Tensor) -> list[tf.Tensor]:
    """Returns the inputs after asserting the declared shapes and equal numbers of rows.

    Otherwise broadcasting could combine the rows of different texts.

    Args:
        inputs: (B, ...) each, by name.
    """
    checked = check_shapes(**inputs)
    counts = [tf.shape(values)[0] for values in checked]
    fits = tf.reduce_all(tf.stack(counts) == counts[0])
    expected = f"expected equally many of {', '.join(inputs)}; received:"
    with tf.control_dependencies([tf.debugging.Assert(fits, [expected, *counts])]):
        return [tf.identity(values) for values in checked]


def check_ids(inputs: Mapping[str, tf.Tensor], config: AlbertConfig) -> list[tf.Tensor]:
    """Returns ids, mask and segments after asserting that the model accepts them.

    Args:
        inputs: ids, mask and segments in this order, int32 (..., S) each, by the caller's names.
        config: the encoder's config.
    """
    checked = check_shapes(**inputs)
    ids, mask, segments = inputs
    greatest = {ids: config.vocab_size - 1, mask: 1, segments: config.type_vocab_size - 1}
    assertions = [
        _assert_same_shape(dict(zip(inputs, checked, strict=True))),
        _assert_length(ids, checked[0], config.max_position_embeddings),
        *(
            _assert_range(name, values, greatest[name])
            for name, values in zip(inputs, checked, strict=True)
        ),
    ]
    # Otherwise the embedding look-up may run first and fail with a less helpful error.
    with tf.control_dependencies(assertions):
        return [tf.identity(values) for values in checked]


def _assert_same_shape(inputs: Mapping[str, tf.Tensor]) -> tf.Operation:
    """Asserts one shape: a mask of another shape could cut the texts in other places."""
    shapes = [tf.shape(values) for values in inputs.values()]
    fits = tf.reduce_all(tf.stack(shapes) == shapes[0])
    expected = f"expected one shape of {', '.join(inputs)}; received:"
    return tf.debugging.Assert(fits, [expected, *shapes])


def _assert_length(name: str, values: tf.Tensor, greatest: int) -> tf.Operation:
    length = tf.shape(values)[-1]
    expected = f"expected 1 to {greatest} {name} per text; received:"
    return tf.debugging.Assert((length >= 1) & (length <= greatest), [expected, length])


def _assert_range(name: str, values: tf.Tensor, greatest: int) -> tf.Operation:
    received = tf.reduce_min(values), tf.reduce_max(values)
    expected = f"expected {name} from 0 to {greatest}; received minimum and maximum:"
    return tf.debugging.Assert(
        (received[0] >= 0) & (received[1] <= greatest), [expected, *received]
    )


def check_positions(positions: tf.Tensor, input_ids: tf.Tensor) -> tf.Tensor:
    """Returns masked positions after asserting that each is inside its own text.

    Args:
        positions: int32 (B, M), `masked_lm_positions` of the caller.
        input_ids: int32 (B, S).
    """
    (positions,) = check_shapes(masked_lm_positions=positions)
    rows, length = tf.unstack(tf.shape(input_ids), num=2)
    least, greatest = tf.reduce_min(positions), tf.reduce_max(positions)
    received_rows = tf.shape(positions)[0]
    of_rows = "expected one row of masked_lm_positions per text; received rows and texts:"
    of_range = "expected masked_lm_positions below the length; received minimum, maximum, length:"
    assertions = [
        tf.debugging.Assert(received_rows == rows, [of_rows, received_rows, rows]),
        tf.debugging.Assert(
            (least >= 0) & (greatest < length), [of_range, least, greatest, length]
        ),
    ]
    with tf.control_dependencies(assertions):
        return tf.identity(positions)
