"""OpenVINO converts an exported model as it is, and answers as it does."""

import numpy as np
import pytest

from tests.export.samples import LABELS, VOCAB_SIZE
from tests.helpers import random_inputs

openvino = pytest.importorskip("openvino", reason="needs openvino; `make test-parity` has it")


@pytest.fixture(scope="module")
def converted(exported, tmp_path_factory):
    """The ids model through OpenVINO's own files."""
    path = str(tmp_path_factory.mktemp("openvino") / "model.xml")
    openvino.save_model(openvino.convert_model(exported["ids"]), path, compress_to_fp16=False)
    return openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


@pytest.mark.parametrize("shape", [(3, 11), (1, 5), (2, 64)])
def test_openvino_gives_the_models_numbers(converted, model, shape):
    inputs = random_inputs(*shape, vocab_size=VOCAB_SIZE)
    logits = model(inputs).numpy()
    outputs = converted(inputs)
    np.testing.assert_allclose(outputs["logits"], logits, rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs["probabilities"].sum(axis=1), 1.0, rtol=1e-6)
    assert outputs["label"].tolist() == [LABELS[index] for index in logits.argmax(axis=1)]
