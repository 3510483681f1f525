"""Whatever runs an exported model, of every kind of task, the answers are those of the Python model."""

import numpy as np
import pytest

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import encode_choices
from albert_tf.data.fine_tuning.tsv import Example
from tests.export.cpp_client import lines_of_ids, needs_compiler
from tests.export.kinds import (
    KINDS,
    MAX_QA_LENGTH,
    WITHOUT_TFLITE,
    assert_equal,
    expected_of,
    export_kind,
    labels_of,
    make_inputs,
)
from tests.export.runtimes import run_in_session, run_loaded
from tests.export.samples import LABELS, MAX_SEQ_LENGTH
from tests.helpers import slow_except


def run_tflite(path, inputs):
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(f"{path}/model.tflite").get_signature_runner("serving_default")
    rows = range(len(inputs["input_ids"]))
    answers = [
        run(**{name: values[row : row + 1] for name, values in inputs.items()}) for row in rows
    ]
    return {name: np.concatenate([one[name] for one in answers]) for name in answers[0]}


@pytest.mark.parametrize("kind", slow_except(KINDS, "classifier"))
def test_python_runtimes(kind, exported_kind, tokenizer, tmp_path):
    (model, paths), inputs = exported_kind(kind), make_inputs(kind)
    expected = expected_of(kind, model, inputs)
    received = run_loaded(paths["ids"], inputs)
    assert_equal(received, expected)
    if "logits" in expected:
        labels = np.char.decode(received["label"].astype(bytes)).tolist()
        assert labels == labels_of(kind, expected)
    assert_equal(run_in_session(paths["ids"], inputs), expected)
    if kind not in WITHOUT_TFLITE:
        file = export_kind(kind, model, tokenizer, str(tmp_path), "tflite")["tflite"]
        assert_equal(run_tflite(file, inputs), expected)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_cpp_runtime(kind, exported_kind, tokenizer, client):
    model, paths = exported_kind(kind)
    if kind == "multiple_choice":
        questions = [("the old man", "who _", "cat", "dog", "sea"), ("a", "b", "c", "d", "e")]
        examples = [Example("", a, q, None, options) for a, q, *options in questions]
        features = encode_choices(examples, LABELS, tokenizer, MAX_SEQ_LENGTH, MAX_QA_LENGTH)
        expected = expected_of(kind, model, make_batch(features, np.arange(len(questions))))
        lines = ["\t".join([a, *options, q]).encode() for a, q, *options in questions]
        answers = client.answers(paths["text"], lines)
    else:
        inputs = make_inputs(kind)
        expected = expected_of(kind, model, inputs)
        answers = client.answers(paths["ids"], lines_of_ids(inputs))
    received = {name: np.array([one[name] for one in answers]) for name in expected}
    assert_equal(received, expected)
