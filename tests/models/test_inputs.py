"""Which inputs the models take, and which they refuse."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder
from tests.helpers import random_inputs, refused, tiny_config
from tests.models.test_base_model import CONFIG, HEADS, make_inputs, make_model

IDS = random_inputs()["input_ids"]
IDS_OF_PRETRAINING = "input_ids segment_ids masked_lm_positions"
EXPECTED_INTS = r"input_ids: expected int \(B, S\), received"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"input_ids": IDS, "attention_mask": IDS, "token_type_ids": IDS, "position_ids": IDS},
            r"^AlbertClassifier: unknown input attention_mask \(expected input_mask\), "
            r"token_type_ids \(expected segment_ids\), "
            r"position_ids \(leave it out, positions count from 0\); "
            "the inputs are input_ids, input_mask, segment_ids, token_positions$",
        ),
        (
            {"token_ids": IDS, "padding_mask": IDS},
            r"token_ids \(expected input_ids\), padding_mask \(expected input_mask\)",
        ),
        (IDS, r"expected a dictionary of input_ids, .*; received int32 \(3, 11\)$"),
        ([IDS, IDS], "expected a dictionary of input_ids, .*; received list$"),
        ({"input_mask": IDS}, "input_ids is missing; received input_mask$"),
        ({"input_ids": IDS.astype(np.float16)}, f"{EXPECTED_INTS} float16 \\(3, 11\\)$"),
        ({"input_ids": IDS[0]}, f"{EXPECTED_INTS} int32 \\(11,\\)$"),
        ({"input_ids": IDS.tolist()}, f"{EXPECTED_INTS} list$"),
        ({"input_ids": tf.ragged.constant([[1, 2], [3]])}, f"{EXPECTED_INTS} RaggedTensor$"),
        (
            {"input_ids": IDS, "input_mask": IDS[:1]},
            r"input_mask: expected int \(B=3, S=11\), received int32 \(1, 11\)$",
        ),
        (random_inputs(length=65), "sequence length 65 is greater than max_position_embeddings 64"),
    ],
)
def test_inputs_that_are_refused(inputs, message):
    with refused(message):
        make_model("classifier")(inputs)


def test_inputs_are_refused_with_the_same_line_in_a_graph():
    model = make_model("classifier")
    inputs = {"input_ids": IDS, "attention_mask": IDS}
    line = r"AlbertClassifier: unknown input attention_mask \(expected input_mask\); the inputs are"
    with refused(f"^{line}"):
        model.predict(inputs, verbose=0)

    @tf.function
    def predict():
        return model(inputs)

    # TensorFlow adds where in the graph.
    with pytest.raises(InputError, match=line):
        predict()


@pytest.mark.parametrize(
    ("name", "missing"),
    [("pretrainer", "masked_lm_positions"), ("conditional_span_labeler", "segment_ids")],
)
def test_inputs_that_a_head_needs(name, missing):
    inputs = make_inputs(name)
    del inputs[missing]
    with refused(f"{missing} is missing; received input_ids, input_mask"):
        make_model(name)(inputs)


def test_training_needs_the_answers_starts():
    # Keras adds the arguments of the call.
    with pytest.raises(InputError, match="start_positions is missing; training needs it"):
        make_model("conditional_span_labeler")(random_inputs(), training=True)


@pytest.mark.parametrize("name", ["classifier", "multiple_choice"])
def test_an_input_that_is_none_is_absent(name):
    model, inputs = make_model(name), make_inputs(name)
    del inputs["input_mask"]
    outputs = model({**inputs, "input_mask": None, "token_positions": None})
    np.testing.assert_array_equal(outputs, model(inputs))


def test_a_batch_is_passed_whole_with_its_labels():
    model, inputs = make_model("classifier"), make_inputs("classifier")
    outputs = model({**inputs, "label_ids": np.zeros(4, np.int32)})
    np.testing.assert_array_equal(outputs, model(inputs))


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        *((IDS_OF_PRETRAINING, kind) for kind in ("uint8", "int8", "uint16", "int64")),
        *(("input_mask", kind) for kind in ("bool", "float32", "int64")),
    ],
)
def test_ids_may_be_any_integers_and_a_mask_also_bool_or_float(names, dtype):
    model, inputs = make_model("pretrainer"), make_inputs("pretrainer", batch_size=30)
    outputs = model({**inputs, **{name: inputs[name].astype(dtype) for name in names.split()}})
    for name, expected in model(inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


def test_ids_in_floats_are_not_rounded_to_the_precision_of_a_model():
    config = dataclasses.replace(CONFIG, vocab_size=300)
    model, ids = make_model("classifier", config, dtype="mixed_bfloat16"), np.array([[257, 299]])
    np.testing.assert_array_equal(model({"input_ids": ids * 1.0}), model({"input_ids": ids}))


def test_a_config_instead_of_an_encoder_is_named():
    message = r"^encoder: expected an AlbertEncoder, received AlbertConfig; `AlbertClassifier\.from"
    with refused(message):
        AlbertClassifier(tiny_config(), num_classes=2)
    message = "^config: expected an AlbertConfig, received str; `AlbertEncoder.from_preset` takes"
    with refused(message):
        AlbertEncoder("base_v2")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_variables_in_16_bits_are_refused(dtype):
    with refused(f"^dtype={dtype}: expected mixed_{dtype}, with variables in 32 bits$"):
        AlbertEncoder(tiny_config(), dtype=dtype)


@pytest.mark.parametrize("name", ["classifier", "multiple_choice", "pretrainer"])
def test_an_encoder_without_the_pooler_that_a_head_reads(name):
    model_class, arguments = HEADS[name]
    message = f"^encoder: {model_class.__name__} needs one with a pooler"
    with refused(message):
        model_class(AlbertEncoder(CONFIG, with_pooler=False), **arguments)
