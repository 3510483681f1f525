"""Files for LiteRT, and exports that are refused before anything is written."""

import dataclasses
import importlib
import re
import sys
import tomllib
import typing

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from albert_tf.errors import StoppedError
from albert_tf.export.litert import write_tflite
from albert_tf.options.export_forms import FORMS, Form, Weights
from tests.export.kinds import OF_NAMES, SINGLE_TEXTS, export_kind, make_model
from tests.helpers import ROOT, random_inputs, refused

S = 13
KIND = dataclasses.replace(SINGLE_TEXTS, max_seq_length=S)


def test_every_form_has_a_name_a_writer_and_an_extra():
    assert typing.get_args(Form) == tuple(FORMS)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for form, facts in FORMS.items():
        assert callable(importlib.import_module(f"albert_tf.export.{facts.writer}").write)
        assert {*facts.calibrated} <= {*facts.weights}
        assert (form in extras) == bool(facts.packages)


@pytest.fixture(scope="module")
def model():
    return make_model("classifier")


def test_operators_are_built_in_and_outputs_are_no_strings(model, tmp_path):
    path = tmp_path / "model.tflite"
    write_tflite(model, KIND, str(path), None)
    names = {"inputs": [*random_inputs()], "outputs": ["logits", "probabilities"]}
    assert Interpreter(str(path)).get_signature_list() == {"serving_default": names}
    root = schema.Model.GetRootAs(path.read_bytes())
    codes = [root.OperatorCodes(index) for index in range(root.OperatorCodesLength())]
    assert schema.BuiltinOperator.FULLY_CONNECTED in {code.BuiltinCode() for code in codes}
    assert {code.CustomCode() for code in codes} == {None}


def test_impossible_positions_stay_impossible_in_float16(tmp_path):
    model = make_model("conditional_spans")
    path = tmp_path / "model.tflite"
    kind = dataclasses.replace(OF_NAMES["conditional_spans"], max_seq_length=S)
    write_tflite(model, kind, str(path), "float16")
    run = Interpreter(str(path)).get_signature_runner("serving_default")
    possible = 0
    for seed, length in enumerate((S, 9, 4, 11, S)):
        inputs = random_inputs(1, S, 50, seed)
        inputs["input_mask"][:] = np.arange(S) < length
        inputs["segment_ids"][:] = (np.arange(S) >= 3) & (np.arange(S) < length)
        answers, expected = run(**inputs), model(inputs)
        for of in ("start_top", "end_top"):
            log_probs = expected[f"{of}_log_probs"].numpy()
            is_possible = log_probs > -1e4
            possible += is_possible.sum()
            received = answers[f"{of}_log_probs"]
            np.testing.assert_allclose(received[is_possible], log_probs[is_possible], atol=5e-3)
            assert (received[~is_possible] < -6e4).all()
            indices = (each[f"{of}_index"][is_possible] for each in (answers, expected))
            np.testing.assert_array_equal(*indices)
    assert 0 < possible < 5 * (3 + 6)


def test_texts_longer_than_the_models_positions_are_refused(tmp_path, model):
    kind = dataclasses.replace(KIND, max_seq_length=65)
    message = "max_seq_length=65: expected at most 64, the model's positions"
    with refused(message):
        write_tflite(model, kind, str(tmp_path / "x"), None)


def test_path_that_cannot_be_written_is_named(tmp_path, model):
    path = tmp_path / "absent" / "model.tflite"
    with pytest.raises(StoppedError, match=r"absent/model\.tflite: cannot be written"):
        write_tflite(model, KIND, str(path), None)


def forms_with(weights):
    return " or ".join(form for form, facts in FORMS.items() if weights in facts.weights)


@pytest.mark.parametrize(
    ("form", "weights", "message"),
    [
        ("pickle", None, "^" + re.escape(f"export_format='pickle': expected Literal{[*FORMS]}")),
        ("tflite", "int4", r"^export_weights='int4': expected .*Literal\['float16', 'int8'\]"),
        *(
            (
                form,
                weights,
                f"^export_weights={weights}: .*={forms_with(weights)}; received {form}$",
            )
            for form, facts in FORMS.items()
            for weights in typing.get_args(Weights)
            if weights not in facts.weights
        ),
        ("openvino", "int8", "^export_weights=int8: for OpenVINO, ranges are estimated on ex"),
    ],
)
def test_bad_forms_and_weights_are_refused(form, weights, message, model, tokenizer, tmp_path):
    with refused(message, tmp_path):
        export_kind("classifier", model, tokenizer, str(tmp_path), form, weights=weights)


@pytest.mark.parametrize(("form", "missing"), [("openvino", "nncf"), ("onnx", "tf2onnx")])
def test_missing_package_is_named_with_the_command_that_installs_it(
    form, missing, model, tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)
    message = rf"^export_format={form}: needs .*{missing}.*: pip install 'albert-tf\[{form}\]'$"
    with refused(message, tmp_path):
        export_kind("classifier", model, tokenizer, str(tmp_path), form)
