"""Ways in which exported models are run: from a folder and inputs by name to outputs by name."""

import functools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.options.export_forms import FORMS

NAMES_THERE = {
    "input_ids": "input_ids",
    "input_mask": "attention_mask",
    "segment_ids": "token_type_ids",
}
_EXTRAS = ",".join(form for form, facts in FORMS.items() if facts.packages)
_PARITY = f"needs the group parity: pip install 'albert-tf[{_EXTRAS}]'"


@functools.lru_cache(maxsize=8)
def load(path):
    """Loads a SavedModel, once for several tests."""
    return tf.saved_model.load(path)


def run_loaded(path, inputs):
    constants = {name: tf.constant(value) for name, value in inputs.items()}
    outputs = load(path).signatures["serving_default"](**constants)
    return {name: value.numpy() for name, value in outputs.items()}


def run_in_session(path, inputs):
    """Loads as TensorFlow Serving does, by the tag `serve`."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signature = meta_graph.signature_def["serving_default"]
        feed = {signature.inputs[name].name: np.array(value) for name, value in inputs.items()}
        return session.run({name: out.name for name, out in signature.outputs.items()}, feed)


def run_tflite(path, inputs):
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(f"{path}/model.tflite").get_signature_runner("serving_default")
    answers = [
        run(**{name: values[row : row + 1] for name, values in inputs.items()})
        for row in range(len(inputs["input_ids"]))
    ]
    return {name: np.concatenate([one[name] for one in answers]) for name in answers[0]}


def run_onnx(path, inputs):
    (file,) = pathlib.Path(path, "onnx").iterdir()
    feed = {NAMES_THERE[name]: ids.astype(np.int64) for name, ids in inputs.items()}
    return run_onnx_file(file, feed)


def run_onnx_file(path, inputs):
    onnxruntime = pytest.importorskip("onnxruntime", reason=_PARITY)
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def run_openvino(path, inputs, name="model"):
    """Loads as a server does; `import openvino_tokenizers` adds the tokenizer's operators."""
    openvino = pytest.importorskip("openvino", reason=_PARITY)
    pytest.importorskip("openvino_tokenizers", reason=_PARITY)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(f"{path}/{name}.xml", "CPU", config)
    outputs = compiled({name: np.array(values) for name, values in inputs.items()})
    return {output.get_any_name(): outputs[output.get_any_name()] for output in compiled.outputs}


# Forms of files that other runtimes run -> what runs them.
RUN_FORM = {"tflite": run_tflite, "onnx": run_onnx, "openvino": run_openvino}


def need(form):
    """Skips the test if the packages that write a form are missing."""
    for package in FORMS[form].packages if form in FORMS else ():
        pytest.importorskip(package, reason=_PARITY)
