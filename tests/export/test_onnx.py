"""ONNX Runtime answers as the model that a file was made of."""

import pathlib

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
from tests.export.kinds import (
    KINDS,
    assert_equal,
    expected_of,
    export_kind,
    labels_of,
    make_inputs,
    make_model,
)
from tests.export.samples import LARGER_THAN_ITS_GRAPH
from tests.helpers import random_inputs, tiny_config

_REASON = "pip install 'albert-tf[onnx]'; `make test-parity` has it"
onnxruntime = pytest.importorskip("onnxruntime", reason=_REASON)
for package in ("onnx", "tf2onnx"):
    pytest.importorskip(package, reason=_REASON)

SIZES = {**LARGER_THAN_ITS_GRAPH, "initializer_range": 0.1}


def run_file(folder, inputs):
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_give_the_models_numbers(kind, tokenizer, tmp_path):
    model, inputs = make_model(kind), make_inputs(kind)
    folder = export_kind(kind, model, tokenizer, str(tmp_path), "onnx")["onnx"]
    received, expected = run_file(folder, inputs), expected_of(kind, model, inputs)
    assert_equal(received, expected)
    if "logits" in expected:
        assert received["label"].tolist() == labels_of(kind, expected)
    shorter = {name: values[:1, ..., :7] for name, values in inputs.items()}
    assert_equal(run_file(folder, shorter), expected_of(kind, model, shorter))
    assert {path.name for path in pathlib.Path(folder).iterdir()} == {
        *("README.md", "assets", "model.onnx")
    }


# Bytes per parameter -> largest difference of a logit; logits are up to 3.
@pytest.mark.parametrize(("weights", "size", "bound"), [(None, 4, 1e-5), ("int8", 1, 0.15)])
def test_weights_are_stored_once(weights, size, bound, tokenizer, tmp_path):
    model = AlbertSpanLabeler(AlbertEncoder(tiny_config(**SIZES), seed=1), seed=2)
    folder = export_kind("simple_spans", model, tokenizer, str(tmp_path), "onnx", weights=weights)[
        "onnx"
    ]
    bytes_ = pathlib.Path(folder, "model.onnx").stat().st_size
    assert 0.95 < bytes_ / model.count_params() / size < 1.5
    inputs = random_inputs(vocab_size=1500)
    received, expected = run_file(folder, inputs), model(inputs)
    for name, values in expected.items():
        np.testing.assert_allclose(received[name], values, rtol=0, atol=bound, err_msg=name)


def test_float16_is_refused(tokenizer, tmp_path):
    model = make_model("classifier")
    with pytest.raises(
        InputError, match=r"^export_weights=float16: expected export_format=tflite; received onnx"
    ):
        export_kind("classifier", model, tokenizer, str(tmp_path), "onnx", weights="float16")
    assert list(tmp_path.iterdir()) == []
