"""Slices give what the whole gives, a few rows at a time."""

import numpy as np
import tensorflow as tf

from albert_tf.export.saved_models import SEQUENCES_PER_SLICE, map_slices


def in_slices(function, *shape):
    """Applies `function` to the numbers 0, 1, ... in this shape, in a graph with free sizes."""
    spec = tf.TensorSpec([None] * len(shape), tf.int32)

    @tf.function(input_signature=[spec])
    def run(numbers):
        return map_slices(function, {"numbers": numbers})

    return run(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))


def sizes(given):
    """Of each row, of how many the slice is."""
    count = tf.shape(given["numbers"])[0]
    return tf.fill([count], count)


def test_slices_have_at_most_32_sequences():
    assert SEQUENCES_PER_SLICE == 32
    assert in_slices(sizes, 70, 3).numpy().tolist() == [32] * 64 + [6] * 6
    assert in_slices(sizes, 20, 5, 3).numpy().tolist() == [6] * 18 + [2] * 2
    assert in_slices(sizes, 2, 40, 3).numpy().tolist() == [1, 1]
    assert in_slices(sizes, 3, 0, 3).numpy().tolist() == [3] * 3


def test_static_shapes_are_kept():
    spec = tf.TensorSpec((None, 7), tf.int32)
    run = tf.function(lambda x: map_slices(lambda given: given["x"][:, :4], {"x": x}))
    assert run.get_concrete_function(spec).structured_outputs.shape.as_list() == [None, 4]
