"""Assertions in the exported graph that refuse inputs without an answer.

Without them a negative id would count from the end of the vocabulary, and on a GPU an id past its end
would be a row of zeros: wrong answers that nobody notices.
"""

from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig


def check_shapes(**inputs: tf.Tensor) -> list[tf.Tensor]:
    """Returns the inputs, of a known rank, after asserting the shapes that the signature declares.

    TensorFlow Serving and loaded signatures do not check these themselves.
    """
    return _after([_assert_shape(name, values) for name, values in inputs.items()], inputs.values())


def _after(assertions: Sequence[tf.Operation], inputs: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Returns tensors that wait for the assertions, as an embedding look-up must.

    It would otherwise run first and fail with a less helpful error.
    """
    with tf.control_dependencies(assertions):
        return [tf.identity(values) for values in inputs]


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


def _assert_equal(expected: str, values: Sequence[tf.Tensor]) -> tf.Operation:
    fits = tf.reduce_all(tf.stack(values) == values[0])
    return tf.debugging.Assert(fits, [f"expected {expected}; received:", *values])


def check_rows(**inputs: tf.Tensor) -> list[tf.Tensor]:
    """Returns the inputs, (B, ...) each, after asserting the declared shapes and equal numbers of rows.

    Otherwise broadcasting could combine the rows of different texts.
    """
    checked = check_shapes(**inputs)
    counts = [tf.shape(values)[0] for values in checked]
    return _after([_assert_equal(f"equally many of {', '.join(inputs)}", counts)], checked)


def check_ids(inputs: Mapping[str, tf.Tensor], config: AlbertConfig) -> list[tf.Tensor]:
    """Returns ids, mask and segments after asserting that the model accepts them.

    `inputs` are these three in this order, int32 (..., S) each, by the caller's names.
    """
    checked = check_shapes(**inputs)
    length, most = tf.shape(checked[0])[-1], config.max_position_embeddings
    expected = f"expected 1 to {most} {next(iter(inputs))} per text; received:"
    assertions = [
        # A mask of another shape could cut the texts in other places.
        _assert_equal(
            f"one shape of {', '.join(inputs)}", [tf.shape(values) for values in checked]
        ),
        tf.debugging.Assert((length >= 1) & (length <= most), [expected, length]),
    ]
    greatest = (config.vocab_size - 1, 1, config.type_vocab_size - 1)
    for name, values, limit in zip(inputs, checked, greatest, strict=True):
        received = tf.reduce_min(values), tf.reduce_max(values)
        expected = f"expected {name} from 0 to {limit}; received minimum and maximum:"
        fits = (received[0] >= 0) & (received[1] <= limit)
        assertions.append(tf.debugging.Assert(fits, [expected, *received]))
    return _after(assertions, checked)


def check_positions(positions: tf.Tensor, input_ids: tf.Tensor) -> tf.Tensor:
    """Returns masked positions, int32 (B, M), after asserting that each is inside its own text."""
    (positions,) = check_shapes(masked_lm_positions=positions)
    rows, length = tf.unstack(tf.shape(input_ids), num=2)
    least, greatest = tf.reduce_min(positions), tf.reduce_max(positions)
    received_rows = tf.shape(positions)[0]
    rows_message = "expected one row of masked_lm_positions per text; received rows and texts:"
    range_message = (
        "expected masked_lm_positions below the length; received minimum, maximum, length:"
    )
    assertions = [
        tf.debugging.Assert(received_rows == rows, [rows_message, received_rows, rows]),
        tf.debugging.Assert(
            (least >= 0) & (greatest < length), [range_message, least, greatest, length]
        ),
    ]
    return _after(assertions, [positions])[0]
