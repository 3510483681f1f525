"""What an exported model does alone: all that the trained folder does, but train."""

import hashlib
import json
import re
import sys

import numpy as np
import pytest

from albert_tf.model_folder import read_own
from albert_tf.options.export_forms import FORMS
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tasks.loading import load
from tests.export.runtimes import need
from tests.helpers import refused, slow_except
from tests.tasks.animals import make_options, pair_files

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def test_export_without_tensorflow_text(trained, exported, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    run(FineTuningOptions(output_dir=str(trained), export_dir=str(tmp_path)))
    printed = capsys.readouterr()
    assert printed.out == f"exported {tmp_path}/ids/1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["ids"]
    line = rf"warning: {tmp_path}/text: not exported: .* pip install 'tensorflow-text==.*'\n"
    assert re.fullmatch(line, printed.err)
    texts = ["the old cat", "a rose"], ["near", "big"]
    received, expected = (load(str(place)).predict(*texts) for place in (tmp_path, exported))
    np.testing.assert_allclose(received.probabilities, expected.probabilities, atol=1e-6)
    with refused(r"pip install 'tensorflow-text=="):
        load(str(exported / "text" / "1"))


def test_assets_and_card_say_what_the_model_is(trained, exported):
    best = read_own(str(trained / "best"))["metrics"]
    card = (exported / "ids" / "1" / "README.md").read_text()
    assert f"| accuracy | {best['accuracy']:.4f} |" in card
    assert re.search(r"\| step \| \d+ \|", card)
    assert "serving_default" in card
    assert "| output | `label` | string (?,) |" in card
    for form in ("ids", "text"):
        assets = exported / form / "1" / "assets"
        assert read_own(str(assets))["kind"]["labels"] == ["animal", "plant"]
        tokenizer = json.loads((assets / "tokenizer_config.json").read_text())
        assert tokenizer["do_lower_case"]
        # Other libraries truncate where the training did.
        assert tokenizer["model_max_length"] == 24
        sha256 = hashlib.sha256((assets / "spiece.model").read_bytes()).hexdigest()
        assert sha256 in (assets.parent / "README.md").read_text()
        assert json.loads((assets / "config.json").read_text())["vocab_size"] == 50


# What each form notes as evaluations.
EVALUATIONS = {
    "model": ["as exported"],
    "file": ["as exported", "before the conversion"],
    None: ["before the conversion"],
}
# A file that is evaluated is written with and without rounded weights; others with them, if they can be.
CARDS = [
    (form, weights)
    for form, facts in FORMS.items()
    for weights in ([None, *facts.weights[-1:]] if facts.evaluated else facts.weights[:1] or [None])
]


@pytest.mark.parametrize(
    ("form", "weights"), slow_except(CARDS, *(card for card in CARDS if card[0] != "saved_model"))
)
def test_card_has_the_exports_metrics(form, weights, data, trained, tmp_path):
    need(form)
    facts = FORMS[form]
    evaluations = EVALUATIONS[facts.evaluated]
    asked = {"export_dir": str(tmp_path), "export_format": form, "export_weights": weights}
    metrics = run(make_options(data, trained, do_train=False, **asked, **pair_files(data)))
    folder = tmp_path / facts.folders[0] / "1"
    card = (folder / "README.md").read_text()
    columns = [*evaluations, "best checkpoint in training"]
    assert f"| held-out data | {' | '.join(columns)} |" in card
    assert f"Matrices are stored in {weights or 'float32'}." in card
    assert ("from training are those of the weights before" in card) == (weights is not None)
    assert ("albert_tf.load" in card) == facts.is_loaded
    assert ("| input | `text_b` | string (?,) |" in card) == (form == "openvino")
    described = {"config.json", "labels.txt", "spiece.model", *TOKENIZER_FILES}
    if facts.assets:
        assert {path.name for path in (folder / facts.assets).iterdir()} == described
        described = {facts.assets}
    tops = {name.split("/")[0] for name in facts.files}
    # TensorFlow writes more.
    names = {path.name for path in folder.iterdir()}
    assert names >= {"README.md", *described, *tops}
    assert names == {"README.md", *described, *tops} or facts.evaluated == "model"
    if form == "onnx" and weights:
        assert [path.name for path in (folder / "onnx").iterdir()] == ["model_quantized.onnx"]
    else:
        assert all((folder / name).exists() for name in facts.files)
    losses = list(map(float, re.search(r"\| loss \| ([\d. |]+)\|", card).group(1).split("|")))
    # The evaluation before a conversion is not of rounded weights.
    assert losses[len(evaluations) - 1] == pytest.approx(metrics["loss"], abs=1e-4)
    assert losses[0] == pytest.approx(metrics["loss"], abs=0.05 if weights else 1e-4)
    if facts.is_loaded:
        received = load(str(folder)).evaluate(pair_files(data)["dev_file"])
        assert received == pytest.approx(metrics, abs=1e-5)
