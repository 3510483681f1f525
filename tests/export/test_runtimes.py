"""Forms and weights that are refused before anything is written.

Some of these tests need the group parity (`make test-parity`).
"""

import sys

import pytest

from albert_tf.errors import InputError
from tests.export.kinds import export_kind, make_model
from tests.export.runtimes import need


@pytest.fixture(scope="module")
def model():
    return make_model("classifier")


@pytest.mark.parametrize(
    ("form", "weights", "message"),
    [
        ("pickle", None, r"^export_format='pickle': expected Literal\['saved_model', 'tflite', "),
        ("tflite", "int4", r"^export_weights='int4': expected .*Literal\['float16', 'int8'\]"),
        *(
            (form, "float16", f"^export_weights=float16: expected export_format=tflite; .* {form}$")
            for form in ("saved_model", "openvino", "onnx")
        ),
        ("openvino", "int8", "^export_weights=int8: export_format=openvino needs inputs as `cal"),
    ],
)
def test_bad_forms_and_weights_are_refused(form, weights, message, model, tokenizer, tmp_path):
    if weights == "int8":
        need(form)
    with pytest.raises(InputError, match=message):
        export_kind("classifier", model, tokenizer, str(tmp_path), form, weights=weights)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("form", "missing"), [("openvino", "nncf"), ("onnx", "tf2onnx")])
def test_missing_package_is_named_with_the_command_that_installs_it(
    form, missing, model, tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)
    message = rf"^export_format={form}: needs .*{missing}.*: pip install 'albert-tf\[{form}\]'$"
    with pytest.raises(InputError, match=message):
        export_kind("classifier", model, tokenizer, str(tmp_path), form)
    assert list(tmp_path.iterdir()) == []
