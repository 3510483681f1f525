import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.batches import make_batch, training_batches
from albert_tf.data.fine_tuning.examples import Example, ScoreRange
from albert_tf.data.fine_tuning.features import encode_choices, encode_examples, encode_tuples
from albert_tf.tokenization.packing import pack_inputs
from tests.helpers import refused


class NumberTokenizer:
    """Its texts are the ids."""

    cls_id, sep_id = 2, 3

    def encode_batch(self, texts):
        return [[int(word) for word in text.split()] for text in texts]


def number_text(count, first=10):
    return " ".join(str(first + index) for index in range(count))


def test_layout_of_single_texts_and_pairs():
    examples = [
        Example("single", "11 12 13", None, "b"),
        Example("pair", "11 12", "21", "a"),
        Example("empty second", "11", "", "b"),
    ]
    features = encode_examples(examples, ["a", "b"], NumberTokenizer(), 9)
    assert features.input_ids.tolist() == [2, 11, 12, 13, 3, 2, 11, 12, 3, 21, 3, 2, 11, 3]
    assert features.lengths.tolist() == [5, 6, 3]
    assert features.first_lengths.tolist() == [5, 4, 3]
    assert features.labels["label_ids"].tolist() == [1, 0, 1]
    arrays = (features.input_ids, features.lengths, features.labels["label_ids"])
    assert {array.dtype for array in arrays} == {np.dtype(np.int32)}


TEXTS = st.lists(st.integers(5, 99), max_size=14)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), st.booleans(), st.integers(5, 20))
def test_graphs_pack_the_same_rows(ids, are_pairs, max_seq_length):
    ids_a, ids_b = zip(*ids, strict=True)
    texts = [[" ".join(map(str, text)) for text in of_side] for of_side in (ids_a, ids_b)]
    examples = [Example("", *row) for row in zip(*texts[: 1 + are_pairs], strict=True)]
    features = encode_examples(examples, (), NumberTokenizer(), max_seq_length)
    expected = make_batch(features, np.arange(len(ids)), features.max_length)
    ragged = [tf.ragged.constant(each, tf.int32, ragged_rank=1) for each in (ids_a, ids_b)]
    packed = pack_inputs(ragged[0], ragged[1] if are_pairs else None, 2, 3, max_seq_length)
    tf.nest.map_structure(np.testing.assert_array_equal, packed, expected)


def test_choices_without_room_for_the_passage_are_refused():
    examples = [Example("0", "11", "21", "A", ("31", "32"))]
    with refused(r"^max_seq_length=9: expected at least 10"):
        encode_choices(examples, "AB", NumberTokenizer(), 9, max_qa_length=6)


def test_many_examples_keep_their_order(monkeypatch):
    examples = [Example(str(row), str(10 + row)) for row in range(11)]
    whole = encode_examples(examples, [], NumberTokenizer(), 9)
    monkeypatch.setattr("albert_tf.data.fine_tuning.features._EXAMPLES_AT_ONCE", 4)
    blocks = encode_examples(examples, [], NumberTokenizer(), 9)
    np.testing.assert_array_equal(blocks.input_ids, whole.input_ids)
    assert blocks.input_ids[1::3].tolist() == list(range(10, 21))


def test_layout_of_choices():
    examples = [
        Example("short", "11 12", "21", "B", ("31", "32 33", "34")),
        Example("long", number_text(9, 40), "21 22", "A", ("31 32", "33", "34")),
    ]
    features = encode_choices(examples, ("A", "B", "C"), NumberTokenizer(), 9, max_qa_length=3)
    assert (len(features), features.num_choices) == (2, 3)
    assert features.labels["label_ids"].tolist() == [1, 0]
    assert features.example_lengths.tolist() == [8, 9]
    batch = make_batch(features, np.array([1, 0]))
    # Question and choice keep their end, the text its front.
    assert batch["input_ids"].reshape(6, 9).tolist() == [
        [2, 40, 41, 42, 3, 22, 31, 32, 3],
        [2, 40, 41, 42, 3, 21, 22, 33, 3],
        [2, 40, 41, 42, 3, 21, 22, 34, 3],
        [2, 11, 12, 3, 21, 31, 3, 0, 0],
        [2, 11, 12, 3, 21, 32, 33, 3, 0],
        [2, 11, 12, 3, 21, 34, 3, 0, 0],
    ]
    assert batch["segment_ids"][1, 1].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0]
    assert batch["input_mask"].sum(axis=-1).tolist() == [[9, 9, 9], [7, 8, 7]]


@pytest.mark.parametrize("form", ["pairs", "scored_pairs", "triplets"])
def test_each_text_of_a_tuple_is_a_row_of_a_batch(form):
    examples = [
        Example(
            "",
            number_text(count),
            number_text(8 - count, first=50),
            label=str(count) if form == "scored_pairs" else None,
            negative=number_text(count, first=70) if form == "triplets" else None,
        )
        for count in range(1, 6)
    ]
    width = 3 if form == "triplets" else 2
    features = encode_tuples(examples, ScoreRange(), NumberTokenizer(), max_seq_length=7)
    assert len(features) == 5
    (batch,) = training_batches(features, 3, seed=1).take(1)
    rows = [row[row > 0].tolist() for row in batch["input_ids"].numpy()]
    assert len(rows) == 3 * width
    counts = []
    for first, second, *third in zip(*(rows[place::width] for place in range(width)), strict=True):
        counts.append(len(first) - 2)
        assert first == [2, *range(10, 10 + counts[-1]), 3]
        assert second == [2, *range(50, 50 + min(8 - counts[-1], 5)), 3]
        assert third == [[2, *range(70, 70 + counts[-1]), 3]] * (form == "triplets")
    if form == "scored_pairs":
        assert batch["label_ids"].numpy().tolist() == counts
