"""Files for OpenVINO and ONNX Runtime, evaluated on the dev set in their own runtimes."""

import re

import pytest

from albert_tf.tasks.fine_tuning.classification import run
from tests.tasks.animals import make_options, pair_files

_REASON = "pip install 'albert-tf[onnx,openvino]'; `make test-parity` has it"
for package in ("nncf", "onnx", "onnxruntime", "openvino", "openvino_tokenizers", "tf2onnx"):
    pytest.importorskip(package, reason=_REASON)


@pytest.mark.parametrize("weights", [None, "int8"])
@pytest.mark.parametrize("form", ["onnx", "openvino"])
def test_card_has_the_metrics_of_the_file(form, weights, data, trained, tmp_path):
    options = make_options(
        data,
        trained,
        do_train=False,
        export_dir=str(tmp_path),
        export_format=form,
        export_weights=weights,
        **pair_files(data),
    )
    metrics = run(options)
    card = (tmp_path / form / "1" / "README.md").read_text()
    header = "| held-out data | as exported | before the conversion | best checkpoint in training |"
    assert header in card
    loss, before = map(float, re.search(r"\| loss \| (\S+) \| (\S+) \|", card).groups())
    # The evaluation before the conversion is not of rounded weights.
    assert before == pytest.approx(metrics["loss"], abs=1e-4)
    assert loss == pytest.approx(before, abs=0.05 if weights else 1e-4)
    assert f"stored in {weights or 'float32'}" in card
