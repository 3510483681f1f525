"""A temperature of the dev set: on every road the probabilities are the same, and mean what they say."""

import dataclasses
import io
import json
import shutil

import numpy as np
import pytest

from albert_tf import files, load
from albert_tf.checkpoints.loading import read_config
from albert_tf.conversion import load_model, replace_kind
from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.kinds import Classification, MultipleChoice
from albert_tf.kinds.registry import read_kind
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.export.runtimes import RUN_FORM, need
from tests.helpers import change_kind, contents_of
from tests.tasks.animals import class_rows, make_options, read_table, write_table

COUNT = 120
FILES = ("eval_predictions.tsv", "eval_results.json", "best/config.json", "best/model.safetensors")


def write_noisy(path, count, seed, noise=0.25):
    """Writes texts, of which a part has the wrong label, so that no model is always right."""
    rng = np.random.default_rng(seed)
    rows = []
    for label, text, _ in class_rows(rng, "", count):
        is_wrong = rng.random() < noise
        rows.append(({"animal": "plant", "plant": "animal"}[label] if is_wrong else label, text))
    return write_table(path, ("label", "text_a"), rows)


def options_of(data, folder, **changes):
    # The labels that it learns from are all right, so the model is too sure.
    dev_file = write_noisy(folder / "dev.tsv", COUNT, seed=2)
    values = {"dev_file": dev_file, "test_file": dev_file, "do_predict": True}
    return make_options(data, folder / "out", **{**values, **changes})


@pytest.fixture(scope="module")
def calibrated(data, tmp_path_factory):
    """Options, folder and metrics of a training with a temperature; tests only read the folder."""
    folder = tmp_path_factory.mktemp("calibrated")
    options = options_of(data, folder, export_dir=str(folder / "exported"))
    return options, folder, run(options)


@pytest.fixture(scope="module")
def expected(calibrated):
    """Texts of the dev set, and what the trained folder predicts for them."""
    texts = [row["text_a"] for row in read_table(calibrated[0].dev_file)]
    return texts, load(calibrated[1] / "out").predict(texts).probabilities


def assert_same(received, expected):
    np.testing.assert_allclose(np.array(received, float), expected, atol=2e-5)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def batch_of(folder, texts):
    model = load(folder)
    examples = [Example("", text) for text in texts]
    features = model.kind.encode(examples, model.tokenizer)
    # LiteRT takes no shorter ones.
    return make_batch(features, np.arange(len(texts)), model.kind.max_seq_length)


def columns_of(rows):
    return [[row[f"probability_{name}"] for name in ("animal", "plant")] for row in rows]


def test_the_model_is_less_sure_and_its_labels_are_the_same(calibrated, expected):
    _, folder, metrics = calibrated
    kind = read_kind(folder / "out" / "best")
    assert kind.temperature == 1.0
    assert kind.head_temperature > 1.2
    assert metrics["calibration_error"] < metrics["calibration_error_before"] - 0.02
    evaluations = files.read_json_lines(str(folder / "out" / "metrics.jsonl"))
    evaluations = [line for line in evaluations if line["split"] == "eval"]
    chosen = max(evaluations, key=lambda line: line["accuracy"])
    assert chosen["accuracy"] == metrics["accuracy"]
    assert chosen["loss"] > metrics["loss"]
    assert "calibration_error_before" not in chosen
    assert chosen["calibration_error"] == pytest.approx(
        metrics["calibration_error_before"], abs=1e-4
    )
    # The state, which a training continues, has the head as it is learnt.
    assert read_kind(folder / "out" / "state").head_temperature == 1.0


def test_all_roads_have_the_same_probabilities(calibrated, expected, monkeypatch, capsys):
    _, folder, metrics = calibrated
    out, (texts, probabilities) = folder / "out", expected
    for name in ("eval_predictions.tsv", "test_results.tsv"):
        assert_same(columns_of(read_table(out / name)), probabilities)
    assert_same(columns_of(load(out).predict_json(texts)), probabilities)
    lines = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode()))
    monkeypatch.setattr("sys.stdin", lines)
    capsys.readouterr()
    run(FineTuningOptions(output_dir=str(out), predict_file="-", predict_format="jsonl"))
    answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert_same(columns_of(answers), probabilities)
    for form in ("ids", "text"):
        exported = load(folder / "exported" / form / "1")
        assert_same(exported.predict(texts).probabilities, probabilities)
        evaluated = exported.evaluate(calibrated[0].dev_file)
        assert evaluated == pytest.approx(metrics, abs=1e-4)
    # As others read the folder, by the logits alone.
    model, _ = load_model(read_config(str(out / "best" / "config.json")), str(out / "best"))
    assert_same(softmax(model(batch_of(out, texts)).numpy()), probabilities)


@pytest.mark.parametrize("form", RUN_FORM)
def test_files_of_other_runtimes_have_the_same(form, calibrated, expected, tmp_path):
    need(form)
    texts, probabilities = expected
    out = str(calibrated[1] / "out")
    run(FineTuningOptions(output_dir=out, export_dir=str(tmp_path), export_format=form))
    inputs = {"text_a": texts} if form == "openvino" else dict(batch_of(out, texts))
    inputs.pop("label_ids", None)
    received = RUN_FORM[form](str(tmp_path / form / "1"), inputs)
    assert_same(received["probabilities"], probabilities)
    # The page in the browser makes probabilities of the logits.
    assert_same(softmax(received["logits"]), probabilities)


def test_transformers_has_the_same(calibrated, expected):
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    best = calibrated[1] / "out" / "best"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(best).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(best)
    texts, probabilities = expected
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    assert_same(softmax(model(**inputs).logits.detach().numpy()), probabilities)


def test_the_same_command_divides_once_and_more_updates_start_undivided(calibrated, tmp_path):
    options, _, metrics = calibrated
    options = dataclasses.replace(options, export_dir=None)
    out = calibrated[1] / "out"
    before = {name: (out / name).read_bytes() for name in FILES}
    assert run(options) == metrics
    assert {name: (out / name).read_bytes() for name in FILES} == before
    copy = str(shutil.copytree(out, tmp_path / "out"))
    more = run(dataclasses.replace(options, output_dir=copy, num_train_steps=90))
    assert more["calibration_error"] < more["calibration_error_before"] - 0.02
    # Two temperatures are not multiplied.
    assert 1.2 < read_kind(tmp_path / "out" / "best").head_temperature < 10


def test_other_rows_that_are_evaluated_change_nothing(calibrated, data, tmp_path):
    _, folder, _ = calibrated
    before = (folder / "out" / "best" / "config.json").read_bytes()
    other = write_noisy(tmp_path / "other.tsv", COUNT, seed=3, noise=0.0)
    load(folder / "out").evaluate(other)
    run(FineTuningOptions(output_dir=str(folder / "out"), do_predict=True, test_file=other))
    assert (folder / "out" / "best" / "config.json").read_bytes() == before


def test_a_killed_replacement_leaves_one_of_both(calibrated, tmp_path, monkeypatch):
    kind, best = read_kind(calibrated[1] / "out" / "best"), tmp_path / "best"
    files.make_directory(str(best))
    for path in (calibrated[1] / "out" / "best").iterdir():
        (best / path.name).write_bytes(path.read_bytes())
    (best / "onnx").mkdir()  # of others
    (best / "onnx" / "model.onnx").write_bytes(b"x")
    before = contents_of(best)
    changed = dataclasses.replace(kind, temperature=2.0)
    with monkeypatch.context() as patch:
        patch.setattr("albert_tf.conversion.replace_own", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            replace_kind(str(best), changed)
    assert contents_of(best) == before
    assert replace_kind(str(best), changed)
    assert contents_of(best).items() >= {("onnx/model.onnx", b"x")}
    assert read_kind(best).head_temperature == 2 * kind.head_temperature
    change_kind(best, temperature=3.0)  # of a folder whose weights nobody divided
    texts = ["the old cat", "a rose"]
    divided, logits = load(best).predict(texts), load(calibrated[1] / "out").predict(texts)
    odds = [np.diff(np.log(each.probabilities)) for each in (divided, logits)]
    np.testing.assert_allclose(odds[0] * 6, odds[1], rtol=1e-3)


def rows_of(*labels):
    return [Example("", "x", label=label) for label in labels]


@pytest.mark.parametrize(
    "kind", [Classification(labels=("A", "B")), MultipleChoice(labels=("A", "B"))]
)
def test_some_dev_sets_decide_nothing(kind):
    logits = np.float32([[1.0, 0.0], [0.0, 1.0]] * 50)
    mixed = rows_of(*"AB" * 40, *"BA" * 10)
    assert len(mixed) == len(logits)
    fitted, line = kind.calibrate(mixed, logits)
    assert fitted.temperature == pytest.approx(1 / np.log(4), rel=1e-5)
    assert line == "temperature of the probabilities: 0.721, fitted to 100 dev rows"
    assert fitted.calibrate(mixed, logits)[0] == fitted
    stays = "temperature of the probabilities stays 1: "
    for examples, why in {
        tuple(mixed[:99]): "99 dev rows are too few to fit it; expected 100",
        tuple(rows_of(*"A" * 100)): "all dev rows have the same label",
        tuple(rows_of(*"AB" * 50)): "no other is the best on the dev set, where all may be right",
    }.items():
        assert kind.calibrate(examples, logits[: len(examples)]) == (kind, stays + why)


class OwnLogits(Classification):
    def logits(self, outputs):
        return outputs**3


class OwnProbabilities(Classification):
    def interpretation(self, logits):
        return super().interpretation(logits**3)


@pytest.mark.parametrize("own", [OwnLogits, OwnProbabilities])
def test_logits_that_no_head_returns_keep_the_temperature(own):
    tensors = {"classifier.weight": np.float32([[2.0]]), "classifier.bias": np.float32([4.0])}
    kind = own(labels=("A", "B"), temperature=2.0)
    assert kind.stored(tensors) == (kind, tensors)
    kind, divided = Classification(labels=("A", "B"), temperature=2.0).stored({**tensors, "x": 1})
    assert divided == {"classifier.weight": [[1.0]], "classifier.bias": [2.0], "x": 1}
    assert (kind.temperature, kind.head_temperature) == (1.0, 2.0)
