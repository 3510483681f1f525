"""Exported classifiers with early exit: the patience of the export, and that of a request."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.preprocessor import Preprocessor
from albert_tf.errors import InputError
from albert_tf.export import ExportDetails, export_classifier, export_regressor
from albert_tf.models import AlbertEarlyExitClassifier, AlbertEncoder
from tests.export.runtimes import load, run_in_session
from tests.export.samples import LABELS, MAX_SEQ_LENGTH, TEXTS, VOCAB_SIZE
from tests.helpers import random_inputs, tiny_config

ROWS, LAYERS = 40, 5  # more rows than a slice
PATIENCE = np.arange(ROWS, dtype=np.int32) % LAYERS + 1


@pytest.fixture(scope="module")
def model():
    config = tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=LAYERS, initializer_range=0.3)
    return AlbertEarlyExitClassifier(AlbertEncoder(config, seed=1), len(LABELS), 2, seed=2)


@pytest.fixture(scope="module")
def exported(model, tokenizer, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("exported"))
    return export_classifier(model, LABELS, tokenizer, folder, MAX_SEQ_LENGTH, True)


def call(path, name, inputs):
    signature = load(path).signatures[name]
    return signature(**{key: tf.constant(value) for key, value in inputs.items()})


def assert_exits(received, expected):
    assert len(set(expected["exit_layer"].numpy())) > 1
    np.testing.assert_array_equal(received["exit_layer"], expected["exit_layer"])
    np.testing.assert_allclose(received["logits"], expected["logits"], rtol=0, atol=1e-5)
    names = [LABELS[index].encode() for index in np.argmax(expected["logits"], axis=-1)]
    assert np.asarray(received["label"]).tolist() == names


def test_ids_model_has_the_patience_of_the_export(model, exported):
    inputs = random_inputs(ROWS, vocab_size=VOCAB_SIZE)
    expected = model.exit_early(inputs)
    assert_exits(call(exported["ids"], "serving_default", inputs), expected)
    assert_exits(run_in_session(exported["ids"], inputs), expected)


def test_each_row_of_a_request_may_have_its_own_patience(model, exported):
    inputs = random_inputs(ROWS, vocab_size=VOCAB_SIZE)
    inputs["early_exit_patience"] = PATIENCE
    received = call(exported["ids"], "serving_patience", inputs)
    assert_exits(received, model.exit_early(inputs))


def test_text_model(model, exported, tokenizer):
    texts_a, texts_b = zip(*TEXTS, strict=True)
    texts = {"text_a": texts_a, "text_b": texts_b}
    packed = Preprocessor(tokenizer, MAX_SEQ_LENGTH)(*texts.values())
    patience = PATIENCE[: len(TEXTS)]
    for name, given in (
        ("serving_default", {}),
        ("serving_patience", {"early_exit_patience": patience}),
    ):
        expected = model.exit_early({**packed, **given})
        received = call(exported["text"], name, {**texts, **given})
        np.testing.assert_array_equal(received["exit_layer"], expected["exit_layer"])
        np.testing.assert_allclose(received["logits"], expected["logits"], rtol=0, atol=1e-5)


def test_patience_that_no_row_can_have_is_refused(exported):
    inputs = random_inputs(3, vocab_size=VOCAB_SIZE)
    for patience, message in (
        ([1, 0, 2], r"expected early_exit_patience from 1 to 5; received minimum and maximum"),
        ([1, 6, 2], r"expected early_exit_patience from 1 to 5"),
        ([1, 2], r"expected one row or more, equally many of input_ids, early_exit_patience"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call(
                exported["ids"],
                "serving_patience",
                {**inputs, "early_exit_patience": np.array(patience, np.int32)},
            )


def test_each_weight_is_written_once(model, exported):
    for path in exported.values():
        variables = tf.train.list_variables(os.path.join(path, "variables", "variables"))
        assert sum("VARIABLE_VALUE" in name for name, _ in variables) == len(model.weights)


def test_model_card_names_the_patience(exported):
    card = pathlib.Path(exported["ids"], "README.md").read_text()
    assert (
        "Early exit with a patience of 2; `serving_patience` takes the patience of each row."
        in card
    )
    assert "| input | `early_exit_patience` | int32 (?,) |" in card


@pytest.mark.slow
def test_regressor(model, tokenizer, tmp_path):
    regressor = AlbertEarlyExitClassifier(model.encoder, 1, 2, 0.7, seed=2)
    paths = export_regressor(regressor, tokenizer, str(tmp_path), MAX_SEQ_LENGTH, False)
    inputs = random_inputs(ROWS, vocab_size=VOCAB_SIZE)
    received = call(paths["ids"], "serving_default", inputs)
    expected = regressor.exit_early(inputs)
    np.testing.assert_array_equal(received["exit_layer"], expected["exit_layer"])
    np.testing.assert_allclose(received["score"], expected["logits"][:, 0], rtol=0, atol=1e-5)


def test_there_is_no_form_for_litert(model, tokenizer, tmp_path):
    details = ExportDetails(form="tflite")
    with pytest.raises(
        InputError, match="form='tflite': early exit is exported as SavedModels only"
    ):
        export_classifier(model, LABELS, tokenizer, str(tmp_path), MAX_SEQ_LENGTH, True, details)
