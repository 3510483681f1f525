import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import warmup
from tests.export.runtimes import load
from tests.helpers import random_inputs, refused

predict_pb2 = pytest.importorskip(
    "tensorflow_serving.apis.predict_pb2", reason="needs tensorflow-serving-api"
)
prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")


@pytest.fixture(scope="module")
def loaded(exported):
    return {name: load(path) for name, path in exported.items()}


def read(path):
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record).predict_log for record in records]


def arrays(protos):
    return {name: tf.make_ndarray(proto) for name, proto in protos.items()}


@pytest.mark.parametrize("name", ["ids", "text"])
def test_an_export_holds_requests_that_it_answers(exported, loaded, name):
    logs = read(pathlib.Path(exported[name], warmup.WARMUP_FILE))
    assert [len(arrays(log.response.outputs)["label"]) for log in logs] == [1, 8]
    signature = loaded[name].signatures["serving_default"]
    if name == "ids":
        # No model that was trained has fewer positions.
        assert arrays(logs[0].request.inputs)["input_ids"].shape == (1, 5)
    for log in logs:
        assert log.request.model_spec.signature_name == "serving_default"
        inputs = {key: tf.constant(value) for key, value in arrays(log.request.inputs).items()}
        outputs = signature(**inputs)
        for key, expected in arrays(log.response.outputs).items():
            if key == "label":
                assert outputs[key].numpy().tolist() == expected.tolist()
            else:
                np.testing.assert_allclose(outputs[key], expected, rtol=0, atol=1e-5)


def test_own_requests_make_the_round_trip(tmp_path, exported, loaded):
    signature = loaded["ids"].signatures["serving_default"]
    inputs = random_inputs(vocab_size=50)
    lists = {name: value.tolist() for name, value in inputs.items()}
    folder = shutil.copytree(exported["ids"], tmp_path / "1")
    path = warmup.write_warmup_requests(str(folder), signature, [inputs, lists])
    for log in read(path):
        received = predict_pb2.PredictRequest.FromString(log.request.SerializeToString())
        for name, value in arrays(received.inputs).items():
            assert value.dtype == np.int32
            np.testing.assert_array_equal(value, inputs[name])
        response = predict_pb2.PredictResponse.FromString(log.response.SerializeToString())
        expected = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        logits = arrays(response.outputs)["logits"]
        np.testing.assert_allclose(logits, expected["logits"], rtol=0, atol=1e-5)


def test_refuses_requests_that_the_model_does_not_answer(tmp_path, exported, loaded):
    signature = loaded["ids"].signatures["serving_default"]

    def check(requests, message, folder=exported["ids"]):
        with refused(message, folder):
            warmup.write_warmup_requests(str(folder), signature, requests)

    inputs = random_inputs(vocab_size=50)
    check([], "received 0 warm-up requests; expected 1 to 1000")
    check([{"text_a": ["cat"]}], "of text_a; expected input_ids, input_mask, segment_ids")
    unknown = {**inputs, "input_ids": np.full_like(inputs["input_ids"], 50)}
    check([inputs, unknown], "does not answer a warm-up request: .*from 0 to 49")
    check([{**inputs, "input_ids": [["cat"]]}], "does not answer a warm-up request")
    check([inputs], "holds no SavedModel; expected a version's folder", tmp_path)


def test_without_the_package_the_command_is_named(tmp_path, loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    with refused(r"^warm-up requests: needs .*: pip install 'albert-tf\[serving\]'$"):
        warmup.write_warmup_requests(str(tmp_path), loaded["ids"].signatures, [{}])
