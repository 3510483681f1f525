import numpy as np
import pytest
import tensorflow as tf

from tests.export.runtimes import run_examples, serialize
from tests.export.samples import VOCAB_SIZE
from tests.helpers import random_inputs


def test_examples_of_several_lengths_give_the_models_numbers(exported, model):
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    lengths = [inputs["input_ids"].shape[1] - 2 * row for row in range(len(inputs["input_ids"]))]
    inputs["input_mask"] = np.stack(
        [np.arange(inputs["input_ids"].shape[1]) < length for length in lengths]
    ).astype(np.int32)
    outputs = run_examples(exported["ids"], serialize(inputs, lengths))
    np.testing.assert_allclose(outputs["logits"], model(inputs).numpy(), rtol=0, atol=1e-5)


def test_a_fully_masked_example_does_not_affect_others(exported):
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    inputs["input_mask"][1] = 0
    lengths = [inputs["input_ids"].shape[1]] * len(inputs["input_ids"])
    outputs = run_examples(exported["ids"], serialize(inputs, lengths))["logits"]
    alone = {name: values[1:2] for name, values in inputs.items()}
    expected = run_examples(exported["ids"], serialize(alone, lengths[:1]))["logits"]
    np.testing.assert_allclose(outputs[1:2], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("refused", [VOCAB_SIZE, -1, 2**32 + 7, 2**40, -(2**40)])
def test_refuses_ids_out_of_range(exported, refused):
    inputs = {name: np.ones((1, 3), np.int64) for name in random_inputs()}
    inputs["input_ids"][0, 1] = refused
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected input_ids from 0 to"):
        run_examples(exported["ids"], serialize(inputs, [3]))


def test_refuses_an_empty_batch(exported):
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected one row or more"):
        run_examples(exported["ids"], tf.constant([], tf.string))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"input_ids": [2, 3], "input_mask": [1], "segment_ids": [0, 0]}, "as many input_mask"),
        ({"input_ids": [2], "input_mask": [1], "segment_ids": []}, "as many segment_ids"),
        ({"input_ids": [], "input_mask": [], "segment_ids": []}, "input_ids in each example"),
    ],
)
def test_refuses_incomplete_examples(exported, features, message):
    inputs = {name: np.array([values]) for name, values in features.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run_examples(exported["ids"], serialize(inputs, [None]))
