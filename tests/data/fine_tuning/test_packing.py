import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.packing import pack_inputs, pair_lengths

TEXTS = st.lists(st.lists(st.integers(5, 99), max_size=14), min_size=1, max_size=4)
CLS, SEP = 2, 3


@settings(deadline=None, max_examples=60)
@given(texts_a=TEXTS, data=st.data(), max_seq_length=st.integers(5, 20))
def test_same_rows_as_in_training(texts_a, data, max_seq_length):
    size = len(texts_a)
    texts_b = data.draw(
        st.lists(st.lists(st.integers(5, 99), max_size=14), min_size=size, max_size=size)
    )
    packed = pack_inputs(
        tf.ragged.constant(texts_a, tf.int32, ragged_rank=1),
        tf.ragged.constant(texts_b, tf.int32, ragged_rank=1),
        CLS,
        SEP,
        max_seq_length,
    )
    rows = []
    for a, b in zip(texts_a, texts_b, strict=True):
        if b:
            length_a, length_b = pair_lengths(len(a), len(b), max_seq_length - 3)
            rows.append(([CLS, *a[:length_a], SEP], [*b[:length_b], SEP]))
        else:
            rows.append(([CLS, *a[: max_seq_length - 2], SEP], []))
    length = max(len(first) + len(second) for first, second in rows)
    for index, (first, second) in enumerate(rows):
        padding = [0] * (length - len(first) - len(second))
        assert packed["input_ids"][index].numpy().tolist() == first + second + padding
        mask = [1] * (len(first) + len(second)) + padding
        assert packed["input_mask"][index].numpy().tolist() == mask
        segments = [0] * len(first) + [1] * len(second) + padding
        assert packed["segment_ids"][index].numpy().tolist() == segments


def test_single_texts():
    packed = pack_inputs(tf.ragged.constant([[7, 8], [], [9] * 9]), None, CLS, SEP, 6)
    expected = [[2, 7, 8, 3, 0, 0], [2, 3, 0, 0, 0, 0], [2, 9, 9, 9, 9, 3]]
    np.testing.assert_array_equal(packed["input_ids"], expected)
    np.testing.assert_array_equal(packed["segment_ids"], np.zeros((3, 6)))
