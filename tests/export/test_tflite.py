import dataclasses

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from albert_tf.errors import InputError, StoppedError
from albert_tf.export.runtimes import write_tflite
from albert_tf.models import AlbertClassifier, AlbertConditionalSpanLabeler, AlbertEncoder
from tests.export.kinds import LARGER_THAN_ITS_GRAPH, OF_NAMES, SINGLE_TEXTS
from tests.helpers import random_inputs, tiny_config

S = 13
KIND = dataclasses.replace(SINGLE_TEXTS, max_seq_length=S)
SIZES = {**LARGER_THAN_ITS_GRAPH, "max_position_embeddings": 16}
BYTES = {None: 4, "float16": 2, "int8": 1}
# Largest difference of a logit; logits are up to 1.
BOUNDS = {None: 1e-5, "float16": 5e-3, "int8": 0.06}


def make_encoder(**changes):
    # Wide starting values, so that texts differ in their answers.
    return AlbertEncoder(tiny_config(**{"initializer_range": 0.1, **changes}), seed=1)


@pytest.fixture(scope="module")
def classifier():
    return AlbertClassifier(make_encoder(**SIZES), num_classes=3, seed=2)


@pytest.fixture(scope="module", params=BYTES)
def classifier_file(request, classifier, tmp_path_factory):
    """What the weights are stored in, and the file."""
    path = tmp_path_factory.mktemp("tflite") / "model.tflite"
    write_tflite(classifier, KIND, str(path), request.param)
    return request.param, path


def texts(vocab_size):
    """Some texts, each as a batch of one, the shorter ones with padding."""
    for seed, length in enumerate((S, 9, 4, 11, S)):
        inputs = random_inputs(1, S, vocab_size, seed)
        mask = (np.arange(S) < length).astype(np.int32)
        # In place of the helper's padding, which is half of its last text.
        inputs["input_mask"][:] = mask
        inputs["segment_ids"][:] = (np.arange(S) >= 3) * mask
        yield inputs


def make_runner(path):
    return Interpreter(str(path)).get_signature_runner("serving_default")


def test_classifier_gives_the_models_numbers(classifier, classifier_file):
    weights, path = classifier_file
    run = make_runner(path)
    labels = set()
    for inputs in texts(1500):
        length = inputs["input_mask"].sum()
        without_padding = {name: ids[:, :length] for name, ids in inputs.items()}
        received, expected = run(**inputs), classifier(without_padding).numpy()
        np.testing.assert_allclose(received["logits"], expected, rtol=0, atol=BOUNDS[weights])
        labels.add(int(expected.argmax()))
        assert received["logits"].argmax() == expected.argmax()
        exponentials = np.exp(received["logits"])
        np.testing.assert_allclose(
            received["probabilities"], exponentials / exponentials.sum(), rtol=1e-5
        )
    assert len(labels) > 1


def test_each_weight_is_stored_once_for_built_in_operators_without_strings(
    classifier, classifier_file
):
    weights, path = classifier_file
    assert 1 <= path.stat().st_size / classifier.count_params() / BYTES[weights] < 1.2
    names = {"inputs": [*next(texts(1500))], "outputs": ["logits", "probabilities"]}
    assert Interpreter(str(path)).get_signature_list() == {"serving_default": names}
    model = schema.Model.GetRootAs(path.read_bytes())
    codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
    assert schema.BuiltinOperator.FULLY_CONNECTED in {code.BuiltinCode() for code in codes}
    assert {code.CustomCode() for code in codes} == {None}


def test_impossible_positions_stay_impossible_in_float16(tmp_path):
    model = AlbertConditionalSpanLabeler(make_encoder(num_hidden_layers=1), 3, 2, seed=2)
    path = tmp_path / "model.tflite"
    kind = dataclasses.replace(OF_NAMES["conditional_spans"], max_seq_length=S)
    write_tflite(model, kind, str(path), "float16")
    run = make_runner(path)
    possible = 0
    for inputs in texts(97):
        answers, expected = run(**inputs), model(inputs)
        for of in ("start_top", "end_top"):
            log_probs = expected[f"{of}_log_probs"].numpy()
            is_possible = log_probs > -1e4
            possible += is_possible.sum()
            received = answers[f"{of}_log_probs"]
            np.testing.assert_allclose(received[is_possible], log_probs[is_possible], atol=5e-3)
            assert (received[~is_possible] < -6e4).all()
            np.testing.assert_array_equal(
                answers[f"{of}_index"][is_possible], expected[f"{of}_index"].numpy()[is_possible]
            )
    assert 0 < possible < 5 * (3 + 6)


def test_model_of_mixed_precision_becomes_float32(tmp_path):
    def make(dtype):
        encoder = AlbertEncoder(tiny_config(num_hidden_layers=1), seed=1, dtype=dtype)
        return AlbertClassifier(encoder, num_classes=3, seed=2, dtype=dtype)

    path = tmp_path / "model.tflite"
    model = make("mixed_bfloat16")
    write_tflite(model, KIND, str(path), None)
    inputs = next(texts(97))
    logits = make_runner(path)(**inputs)["logits"]
    np.testing.assert_allclose(logits, make("float32")(inputs), rtol=0, atol=1e-6)
    assert model.compute_dtype == model.encoder.compute_dtype == "bfloat16"


def test_texts_longer_than_the_models_positions_are_refused(tmp_path, classifier):
    kind = dataclasses.replace(KIND, max_seq_length=17)
    message = "max_seq_length=17: expected at most 16, the model's positions"
    with pytest.raises(InputError, match=message):
        write_tflite(classifier, kind, str(tmp_path / "x"), None)


def test_path_that_cannot_be_written_is_named(tmp_path, classifier):
    path = tmp_path / "absent" / "model.tflite"
    with pytest.raises(StoppedError, match=r"absent/model\.tflite: cannot be written"):
        write_tflite(classifier, KIND, str(path), None)
