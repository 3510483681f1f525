"""Whatever runs an exported model, of every kind of task, the answers are those of the Python model.

For ONNX Runtime and OpenVINO these tests need the group parity (`make test-parity`).
"""

import numpy as np
import pytest

from albert_tf.options.export_forms import FORMS
from tests.export.cpp_client import lines_of_ids, needs_compiler
from tests.export.kinds import (
    KINDS,
    OF_TEXTS,
    assert_equal,
    assert_labels,
    expected_of,
    expected_of_texts,
    export_kind,
    make_inputs,
    make_model,
    text_columns,
)
from tests.export.runtimes import RUN_FORM, need, run_in_session, run_loaded
from tests.helpers import slow_except

RUN = {"loaded": run_loaded, "session": run_in_session, **RUN_FORM}
TEXTS_IN_OPENVINO = [kind for kind in OF_TEXTS if kind != "multiple_choice"]
IDS = [
    (kind, runtime)
    for kind in KINDS
    for runtime in RUN
    if not (kind == "multiple_choice" and runtime in FORMS and "choices" in FORMS[runtime].lacks)
    and not (kind in TEXTS_IN_OPENVINO and runtime == "openvino")
]
FAST = {
    *(("classifier", runtime) for runtime in ("loaded", "session", "tflite")),
    ("conditional_spans", "tflite"),
    *((kind, runtime) for kind, runtime in IDS if runtime in ("onnx", "openvino")),
}


@pytest.mark.parametrize(("kind", "runtime"), slow_except(IDS, *FAST))
def test_ids(kind, runtime, exported_kind):
    form = "saved_model" if runtime in ("loaded", "session") else runtime
    model, paths = exported_kind(kind, form)
    path, inputs = paths.get("ids", paths.get(runtime)), make_inputs(kind)
    expected, received = expected_of(kind, model, inputs), RUN[runtime](path, inputs)
    assert_equal(received, expected)
    if runtime == "loaded":  # the others have the same, or no strings
        assert_labels(kind, received, expected)
    if runtime in ("onnx", "openvino"):
        shorter = {name: values[:1, ..., :7] for name, values in inputs.items()}
        assert_equal(RUN[runtime](path, shorter), expected_of(kind, model, shorter))


@pytest.mark.parametrize(
    ("kind", "runtime"),
    slow_except(
        [
            *((kind, "loaded") for kind in OF_TEXTS),
            *((kind, "openvino") for kind in TEXTS_IN_OPENVINO),
            *((kind, "session") for kind in KINDS),
        ],
        *((kind, "openvino") for kind in TEXTS_IN_OPENVINO),
        *((kind, "loaded") for kind in ("classifier", "multiple_choice")),
        ("classifier", "session"),
    ),
)
def test_texts(kind, runtime, exported_kind, tokenizer):
    model, paths = exported_kind(kind, "openvino" if runtime == "openvino" else "saved_model")
    path, columns = paths.get("text", paths.get("openvino")), text_columns(kind)
    received = RUN[runtime](path, columns)
    if kind in OF_TEXTS:
        expected = expected_of_texts(kind, model, tokenizer)
        assert_labels(kind, received, expected)
    else:  # other tests compare these with Python's answers
        expected = run_loaded(path, columns)
    assert_equal(received, expected)


@pytest.mark.parametrize("form", RUN_FORM)
def test_exact_gelu(form, tokenizer, tmp_path):
    """That of BERT, for which ONNX has no operator."""
    model = make_model("token_classifier", hidden_act="gelu_erf")
    need(form)
    paths = export_kind("token_classifier", model, tokenizer, str(tmp_path), form)
    inputs = make_inputs("token_classifier")
    assert_equal(
        RUN_FORM[form](paths[form], inputs), expected_of("token_classifier", model, inputs)
    )


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_cpp_runtime(kind, exported_kind, tokenizer, client):
    model, paths = exported_kind(kind)
    answers = []
    if kind != "multiple_choice":
        inputs = make_inputs(kind)
        answers.append((expected_of(kind, model, inputs), paths["ids"], lines_of_ids(inputs)))
    columns = text_columns(kind)
    if kind == "multiple_choice":
        rows = zip(columns["article"], columns["options"], columns["question"], strict=True)
        lines = ["\t".join([article, *of, question]) for article, of, question in rows]
    else:  # the client takes the columns in the order of their names
        lines = map("\t".join, zip(*(columns[name] for name in sorted(columns)), strict=True))
    # More than one batch of the client's.
    lines = [line.encode() for line in lines] * 20
    expected = run_loaded(paths["text"], columns)
    expected = {name: np.concatenate([values] * 20) for name, values in expected.items()}
    answers.append((expected, paths["text"], lines))
    for expected, path, lines in answers:
        rows = client.answers(path, lines)
        received = {name: np.array([row[name] for row in rows]) for name in expected}
        strings = {name for name, values in received.items() if values.dtype.kind == "U"}
        received |= {name: np.char.encode(received[name]).astype(object) for name in strings}
        assert_equal(received, expected)
