import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.export.kinds import KINDS, OF_NAMES, VOCAB_SIZE
from tests.export.runtimes import load
from tests.helpers import random_inputs, slow_except

# Of tests.helpers.tiny_config.
POSITIONS, SEGMENTS = 64, 2
INPUTS = ("input_ids", "input_mask", "segment_ids")


@pytest.fixture(scope="module")
def answer(exported):
    return load(exported["ids"]).signatures["serving_default"]


def changed(name, value):
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    inputs[name][1, 4] = value
    return inputs


@pytest.mark.parametrize(
    ("name", "value", "greatest"),
    [
        *(("input_ids", value, VOCAB_SIZE - 1) for value in (VOCAB_SIZE, -1, -(2**31))),
        *(("segment_ids", value, SEGMENTS - 1) for value in (SEGMENTS, -1)),
        *(("input_mask", value, 1) for value in (2, -1)),
    ],
)
def test_refuses_values_out_of_range(answer, name, value, greatest):
    inputs = changed(name, value)
    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        answer(**{name: tf.constant(value) for name, value in inputs.items()})
    assert f"expected {name} from 0 to {greatest}; received minimum and m" in info.value.message
    assert f"[{inputs[name].min()}] [{inputs[name].max()}]" in info.value.message


@pytest.mark.parametrize("length", [0, POSITIONS + 1])
def test_refuses_empty_and_too_long_texts(answer, length):
    inputs = random_inputs(length=length, vocab_size=VOCAB_SIZE)
    message = rf"expected 1 to {POSITIONS} input_ids per text; received:\] \[{length}\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        answer(**{name: tf.constant(value) for name, value in inputs.items()})


@pytest.mark.parametrize(
    ("kind", "names", "shape"),
    [
        *(
            ("classifier", names, shape)
            for names in (INPUTS[1:2], INPUTS)
            for shape in ((), (4,), (1, 2, 4), (0, 2, 4))
        ),
        *(("multiple_choice", INPUTS, shape) for shape in ((2, 8), (2, 5, 8), (1, 2, 3, 8))),
    ],
)
def test_refuses_ids_of_another_shape(exported_kind, kind, names, shape):
    answer = load(exported_kind(kind)[1]["ids"]).signatures["serving_default"]
    shapes = {name: shape if name in names else (2, 4) for name in INPUTS}
    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        answer(**{name: tf.ones(shapes[name], tf.int32) for name in INPUTS})
    expected = re.escape("[?, ?]" if kind == "classifier" else "[?, 3, ?]")
    received = " ".join(map(str, shape[:3]))  # TensorFlow shows three sizes
    message = rf"expected \w+ of shape {expected}; received:\] \[{received}"
    assert re.search(message, info.value.message)


@pytest.mark.parametrize("kind", ["classifier", "multiple_choice", "conditional_spans"])
def test_refuses_texts_of_another_shape_or_number(exported_kind, kind):
    predict = load(exported_kind(kind)[1]["text"]).signatures["serving_default"]
    _, specs = predict.structured_input_signature
    for name, spec in specs.items():
        known = list(spec.shape[1:])
        for shape in ((), (2, *known, 1), *([(2, known[0] - 1)] if known else [])):
            texts = {each: tf.fill([2, *specs[each].shape[1:]], "cat") for each in specs}
            expected = ", ".join("?" if size is None else str(size) for size in spec.shape)
            received = " ".join(map(str, shape))
            with pytest.raises(tf.errors.InvalidArgumentError) as info:
                predict(**{**texts, name: tf.fill(shape, "cat")})
            message = f"expected {name} of shape [{expected}]; received:] [{received}]"
            assert message in info.value.message
        for count in (0, 1, 3):
            with pytest.raises(tf.errors.InvalidArgumentError) as info:
                predict(**{**texts, name: tf.fill([count, *known], "cat")})
            names = ", ".join(OF_NAMES[kind].texts)
            assert f"expected equally many of {names}; received:" in info.value.message


@pytest.mark.parametrize("kind", slow_except(KINDS, "classifier", "conditional_spans"))
def test_each_weight_is_written_once(exported_kind, kind):
    model, paths = exported_kind(kind)
    for path in paths.values():
        variables = tf.train.list_variables(os.path.join(path, "variables", "variables"))
        shapes = [shape for name, shape in variables if "VARIABLE_VALUE" in name]
        assert len(shapes) == len(model.weights)
        data = pathlib.Path(path, "variables", "variables.data-00000-of-00001").stat().st_size
        # In addition to the weights it holds the graph of objects.
        assert 0 <= data - 4 * model.count_params() < 20_000


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("shape", [(1, 8), (2, 4), (4, 4), (2, 1), (1, 1)])
def test_refuses_inputs_of_different_shapes(answer, name, shape):
    inputs = {name: np.ones((2, 8), np.int32) for name in random_inputs()}
    inputs[name] = np.ones(shape, np.int32)
    message = "expected one shape of input_ids, input_mask, segment_ids; received"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as info:
        answer(**{name: tf.constant(value) for name, value in inputs.items()})
    assert f"[{shape[0]} {shape[1]}]" in info.value.message


def test_accepts_the_greatest_id_and_the_longest_text(answer):
    inputs = changed("input_ids", VOCAB_SIZE - 1)
    longest = random_inputs(length=POSITIONS, vocab_size=VOCAB_SIZE)
    for accepted in (inputs, longest):
        outputs = answer(**{name: tf.constant(value) for name, value in accepted.items()})
        assert np.isfinite(outputs["logits"]).all()
