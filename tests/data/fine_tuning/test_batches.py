import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import (
    evaluation_batches,
    make_batch,
    padded_length,
    plan_epoch,
    training_batches,
)
from albert_tf.data.fine_tuning.features import Features
from tests.helpers import refused


def make_features(count, longest=37, seed=3):
    """Examples of random lengths; the token after [CLS] is the example's number."""
    lengths = np.random.default_rng(seed).integers(3, longest + 1, count).astype(np.int32)
    input_ids = np.full(lengths.sum(), 7, np.int32)
    starts = np.cumsum(lengths) - lengths
    input_ids[starts] = 2
    input_ids[starts + 1] = 1000 + np.arange(count)
    input_ids[starts + lengths - 1] = 3
    first_lengths = np.maximum(lengths // 2, 3)
    labels = {"label_ids": np.arange(count, dtype=np.int32) % 3}
    return Features(input_ids, lengths, first_lengths, labels)


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def numbers(batch):
    return (batch["input_ids"][:, 1] - 1000).tolist()


def assert_equal_batches(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_fixed_length_is_that_of_every_batch_and_fills_the_last():
    features = make_features(21)
    training = training_batches(features, 8, seed=5, fixed_length=150)
    evaluation, order = evaluation_batches(features, 8, fixed_length=150)
    plain = training_batches(features, 8, seed=5)
    for dataset in (training, evaluation):
        assert dataset.element_spec["input_ids"].shape == (8, 150)
    assert plain.element_spec["input_ids"] == tf.TensorSpec((8, None), tf.int32)
    assert plain.element_spec["label_ids"] == tf.TensorSpec((8,), tf.int32)
    for fixed, short in zip(take(training, 5), take(plain, 5), strict=True):
        length = short["input_ids"].shape[1]
        np.testing.assert_array_equal(fixed["input_ids"][:, :length], short["input_ids"])
        assert not fixed["input_mask"][:, length:].any()
    rows = np.concatenate([batch["input_mask"].sum(axis=1) for batch in take(evaluation, 3)])
    assert len(rows) == 24
    np.testing.assert_array_equal(rows[:21], features.lengths[order])


def test_batch_is_padded_to_its_longest_example_rounded_up():
    features = Features(
        input_ids=np.arange(100, 100 + 4 + 17 + 33, dtype=np.int32),
        lengths=np.array([4, 17, 33], np.int32),
        first_lengths=np.array([4, 9, 33], np.int32),
        labels={"label_ids": np.array([0, 2, 1], np.int32)},
    )
    batch = make_batch(features, np.array([1, 0]))
    assert {name: array.shape for name, array in batch.items()} == {
        "input_ids": (2, 18),
        "input_mask": (2, 18),
        "segment_ids": (2, 18),
        "label_ids": (2,),
    }
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}
    assert batch["input_ids"][0].tolist() == [*range(104, 121), 0]
    assert batch["input_ids"][1].tolist() == [*range(100, 104), *[0] * 14]
    assert batch["input_mask"].sum(axis=1).tolist() == [17, 4]
    assert batch["segment_ids"][0].tolist() == [0] * 9 + [1] * 8 + [0]
    assert batch["segment_ids"][1].tolist() == [0] * 18
    assert batch["label_ids"].tolist() == [2, 0]
    # No batch is longer than the longest example.
    assert make_batch(features, np.array([2]))["input_ids"].shape == (1, 33)


def test_padded_lengths_are_few_and_near():
    lengths = np.arange(1, 513)
    rounded = np.array([padded_length(length) for length in lengths.tolist()])
    assert (rounded >= lengths).all()
    assert (rounded < lengths * 1.125).all()
    assert len(set(rounded.tolist())) == 56
    assert rounded[[15, 16, 31, 32, 127, 511]].tolist() == [16, 18, 32, 36, 128, 512]


@pytest.mark.parametrize(("count", "batch_size"), [(101, 8), (96, 8), (9, 8), (5, 8), (1, 3)])
def test_epochs_together_drop_nothing(count, batch_size):
    seen = collections.Counter()
    for epoch in range(2 * batch_size):
        plan = plan_epoch(count, batch_size, seed=5, epoch=epoch)
        assert plan.shape[1] == batch_size
        seen.update(plan.ravel().tolist())
        # The rest of this epoch is smaller than a batch.
        assert 0 <= (epoch + 1) * count - seen.total() < batch_size
        assert all(seen[example] <= epoch + 1 for example in range(count))
    assert seen == dict.fromkeys(range(count), 2 * batch_size)


def test_order_depends_on_seed_and_epoch():
    first, again, other_seed, later = (
        {frozenset(batch) for batch in plan_epoch(104, 8, seed, epoch).tolist()}
        for seed, epoch in ((5, 0), (5, 0), (6, 0), (5, 1))
    )
    assert first == again
    assert len(first & other_seed) + len(first & later) < 6


def test_order_is_the_same_in_every_process():
    plan = plan_epoch(20, 4, seed=11, epoch=2)
    expected = [[15, 2, 11, 18], [19, 1, 3, 14], [10, 13, 8, 4], [12, 7, 0, 16], [17, 6, 5, 9]]
    assert plan.tolist() == expected


@pytest.mark.parametrize(
    ("count", "start_step"),
    [*((101, step) for step in (0, 1, 12, 13, 25, 40)), (3, 4)],  # last: several epochs a batch
)
def test_batches_are_those_of_the_epochs_in_order(count, start_step):
    features = make_features(count)
    plan = np.concatenate([plan_epoch(count, 8, 5, epoch) for epoch in range(60)])
    expected = [make_batch(features, examples) for examples in plan[start_step : start_step + 15]]
    batches = take(training_batches(features, 8, seed=5, start_step=start_step), 15)
    assert_equal_batches(batches, expected)


def test_two_replicas_share_the_batches_of_one():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    features = make_features(101)
    evaluation, _ = evaluation_batches(features, 8)
    for dataset in (training_batches(features, 8, seed=5), evaluation):
        distributed = strategy.experimental_distribute_dataset(dataset)
        for shared, batch in zip(distributed, itertools.islice(dataset, 30), strict=False):
            for name in batch:
                parts = strategy.experimental_local_results(shared[name])
                assert abs(len(parts[0]) - len(parts[1])) < 2, parts
                np.testing.assert_array_equal(np.concatenate(parts), batch[name])


@pytest.mark.parametrize(
    ("batches", "purpose"), [(training_batches, "train"), (evaluation_batches, "evaluate")]
)
def test_no_examples_are_refused(batches, purpose):
    with refused(f"no examples to {purpose} on"):
        batches(make_features(0), 8, 5)


@pytest.mark.parametrize(("count", "sizes"), [(19, [8, 8, 3]), (16, [8, 8]), (5, [5])])
def test_evaluation_holds_each_example_once_and_no_other(count, sizes):
    dataset, order = evaluation_batches(make_features(count), 8)
    batches = take(dataset, 100)
    assert [len(numbers(batch)) for batch in batches] == sizes
    assert len(dataset) == len(sizes)
    rows = np.concatenate([batch["input_ids"][:, 1] for batch in batches])
    assert (rows - 1000).tolist() == order.tolist()
    assert sorted(order.tolist()) == list(range(count))
    lengths = np.concatenate([batch["input_mask"].sum(axis=1) for batch in batches])
    assert (np.diff(lengths) <= 0).all()  # the longest first
    assert_equal_batches(batches, take(dataset, 100))
