"""The kind of docs/kinds.md, offered by another package."""

import dataclasses
import importlib
import pathlib
import re
import sys
import typing

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.kinds import KINDS
from albert_tf.kinds.registry import read_kind
from albert_tf.options.kinds import KIND_FLAGS, KIND_OPTIONS, KindOptions, option_fields
from albert_tf.tasks.fine_tuning.run import run
from tests.helpers import refused
from tests.tasks.animals import ANIMALS, OTHERS, make_options, write_model

ROOT = pathlib.Path(__file__).parents[2]


def test_options_of_the_kinds_are_known_without_the_kinds():
    assert list(KIND_FLAGS) == list(KINDS)
    for name, kind in KINDS.items():
        flags = option_fields(kind)
        flags.pop("max_seq_length")
        known = option_fields(KIND_FLAGS[name])
        known.pop("max_seq_length", None)
        assert known.keys() == flags.keys()
    declared = {name for options in KIND_FLAGS.values() for name in option_fields(options)}
    assert {*KIND_OPTIONS} == declared - {"max_seq_length"}
    flag_types = typing.get_type_hints(KindOptions)
    for options in KIND_FLAGS.values():
        types_of = typing.get_type_hints(options)
        for name in option_fields(options).keys() - {"max_seq_length"}:
            assert flag_types[name] == types_of[name] | None


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs the page's code as a package."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "kinds.md").read_text(), re.S)
    site = tmp_path / "site"
    metadata = site / "stars-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "stars.py").write_text(code)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stars\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[albert_tf.kinds]\nordinal = stars:Ordinal\n")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield
    KINDS.pop("ordinal", None)
    sys.modules.pop("stars", None)


def write_ratings(path, count, seed):
    """Writes rows whose label is the place of the text's animal in a list."""
    rng = np.random.default_rng(seed)
    lines = ["text_a\tlabel"]
    for rating in rng.integers(0, 4, count):
        words = [*rng.choice(OTHERS, 2), *[ANIMALS[rating]] * 4]
        rng.shuffle(words)
        lines.append(" ".join(words) + f"\t{rating}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_kind_of_another_package_trains_loads_and_exports(package, tmp_path, request):
    write_model(tmp_path)
    values = {"task_name": "ordinal", "export_dir": str(tmp_path / "exported")}
    values["train_file"] = write_ratings(tmp_path / "train.tsv", 400, seed=1)
    values["dev_file"] = write_ratings(tmp_path / "dev.tsv", 100, seed=2)
    values |= {"num_train_steps": 100, "train_batch_size": 32, "kind_options": ("sharpness=1.5",)}
    options = make_options(tmp_path, tmp_path / "out", **values)
    metrics = run(options)
    assert read_kind(str(tmp_path / "out" / "best")).sharpness == 1.5
    for given, message in {
        "sharp=1": "sharp=1: ordinal has no such option; expected sharpness$",
        "pooling=cls": "pooling=cls: ordinal has no such option; expected --pooling is a flag$",
        "sharpness=x": "sharpness='x': expected float$",
        "sharpness=-1": "sharpness=-1: expected at least 0$",
        "sharpness=1": "a run with sharpness 1.5; --kind_options=sharpness says 1$",
    }.items():
        with refused(f"^--(kind_options|output_dir).*{message}"):
            run(dataclasses.replace(options, kind_options=(given,)))
    assert KINDS["ordinal"].__module__ == "stars"
    assert metrics["mean_error"] < 0.5  # 1.0 of a label in the middle
    rows = [line.split("\t") for line in (tmp_path / "dev.tsv").read_text().splitlines()[1:]]
    texts = [text for text, _ in rows]
    predicted = albert_tf.load(str(tmp_path / "out")).predict(texts)
    errors = [abs(int(ours) - int(row[1])) for ours, row in zip(predicted.label, rows, strict=True)]
    assert np.mean(errors) == pytest.approx(metrics["mean_error"])
    exported = albert_tf.load(str(tmp_path / "exported")).predict(texts)
    assert exported.label == predicted.label
    np.testing.assert_allclose(exported.probabilities, predicted.probabilities, atol=1e-5)
    text_model = tf.saved_model.load(str(tmp_path / "exported" / "text" / "1"))
    answers = text_model.signatures["serving_default"](text_a=tf.constant(texts))
    assert [name.decode() for name in answers["label"].numpy()] == predicted.label
    np.testing.assert_allclose(answers["probabilities"], predicted.probabilities, atol=1e-5)
    received = albert_tf.load(str(tmp_path / "exported")).evaluate(values["dev_file"])
    assert received == pytest.approx(metrics, abs=1e-4)
    request.getfixturevalue("eagerly")
    data = [{"text": text, "label": label} for text, label in rows]
    asked = {"kind": "ordinal", "num_train_steps": 1, "learning_rate": 0.0, "max_seq_length": 24}
    asked["kind_options"] = {"sharpness": 1.5}
    more = albert_tf.fine_tune(tmp_path / "out", data, data, output_dir=tmp_path / "more", **asked)
    assert more.predict(texts).label == predicted.label
