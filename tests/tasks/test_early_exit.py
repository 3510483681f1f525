"""`run_classifier.py --early_exit_patience`: training, evaluation, export, conversion."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.loading import read_config
from albert_tf.conversion import load_model
from albert_tf.errors import FlagError, InputError
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from tests.helpers import tiny_config
from tests.tasks.animals import NO_FILES, make_options

LAYERS = 3
TEXTS = ["the old cat", "a rose", "one big fern near the oak", "a hen sees a fox"]


def options_of(data, output_dir, **changes):
    config = output_dir.parent / f"{output_dir.name}.json"
    tiny_config(vocab_size=50, num_hidden_layers=LAYERS).to_json_file(str(config))
    return make_options(data, output_dir, albert_config_file=str(config), **changes)


@pytest.fixture(scope="module")
def early_exit(data, tmp_path_factory):
    """Folder of a classifier with a patience of 1, its export and its metrics."""
    folder = tmp_path_factory.mktemp("early_exit")
    export_dir = folder / "exported"
    options = options_of(
        data,
        folder / "out",
        early_exit_patience=1,
        num_train_steps=120,
        random_seed=1,
        learning_rate=1e-3,
        export_dir=str(export_dir),
    )
    return folder / "out", export_dir, run(options)


def test_learns(early_exit):
    assert early_exit[2]["accuracy"] > 0.8


def test_evaluates_with_the_patience_of_the_training_or_another(data, early_exit):
    folder, _, metrics = early_exit
    asked = {"output_dir": str(folder), "do_eval": True, "dev_file": str(data / "dev.tsv")}
    assert run(ClassificationOptions(**asked)) == pytest.approx(metrics, rel=1e-5)
    others = run(ClassificationOptions(early_exit_patience=LAYERS, **asked))
    assert others["loss"] != pytest.approx(metrics["loss"], rel=1e-3)


def test_folder_and_exported_models_predict_alike(early_exit):
    folder, export_dir, _ = early_exit
    expected = albert_tf.load(folder).predict(TEXTS)
    for form in ("ids", "text"):
        received = albert_tf.load(export_dir / form / "1").predict(TEXTS)
        assert received.label == expected.label
        np.testing.assert_allclose(received.probabilities, expected.probabilities, atol=1e-5)


def test_exported_model_is_evaluated_with_its_own_patience(data, early_exit, tmp_path):
    _, export_dir, metrics = early_exit
    asked = {
        "exported_model": str(export_dir / "ids" / "1"),
        "output_dir": str(tmp_path),
        "do_eval": True,
        "dev_file": str(data / "dev.tsv"),
    }
    assert run(ClassificationOptions(**asked)) == pytest.approx(metrics, abs=1e-5)
    message = "--exported_model: expected no --early_exit_patience, which was set at the export"
    with pytest.raises(FlagError, match=message):
        run(ClassificationOptions(early_exit_patience=2, **asked))


def test_checkpoint_has_a_head_for_each_layer(early_exit):
    folder, _, _ = early_exit
    config = read_config(str(folder / "albert_config.json"))
    model, report = load_model(config, str(folder / "best"))
    assert isinstance(model, albert_tf.AlbertEarlyExitClassifier)
    assert model.early_exit_patience == LAYERS
    paths = [path for path, _ in report.read if "exit_head" in path]
    assert paths == [
        f"albert_classifier/exit_head_{layer}/dense/{name}"
        for layer in range(1, LAYERS)
        for name in ("kernel", "bias")
    ]
    plain = albert_tf.AlbertClassifier.from_preset(str(folder))
    np.testing.assert_array_equal(plain.head.dense.kernel, model.head.dense.kernel)


@pytest.mark.slow
def test_classifier_of_the_last_layer_is_a_start(data, early_exit, tmp_path, capsys):
    plain = tmp_path / "plain"
    run(options_of(data, plain, num_train_steps=1))
    capsys.readouterr()
    options = options_of(
        data,
        tmp_path / "out",
        early_exit_patience=2,
        num_train_steps=1,
        init_checkpoint=str(plain / "best"),
    )
    run(options)
    missing = "missing, initialised randomly: albert_classifier/exit_head_1/dense/kernel, "
    assert missing in capsys.readouterr().out


@pytest.mark.parametrize("to", ["tf1", "hugging_face"])
def test_formats_without_such_heads_refuse_the_model(early_exit, tmp_path, to):
    options = ConversionOptions(
        init_checkpoint=str(early_exit[0] / "best"),
        to=to,
        output_checkpoint=str(tmp_path / "there"),
    )
    message = r"AlbertEarlyExitClassifier: .* has no model with such (a head|heads)"
    with pytest.raises(InputError, match=message):
        convert(options)
    assert not list(tmp_path.iterdir())


def test_is_written_in_our_own_format(early_exit, tmp_path):
    convert(
        ConversionOptions(
            init_checkpoint=str(early_exit[0] / "best"),
            to="albert_tf",
            output_checkpoint=str(tmp_path / "ckpt"),
        )
    )


def test_regression(data, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("train", "dev"):
        rows = [f"{' '.join(rng.choice(['cat', 'oak'], 3))}\t{rng.random():.3f}" for _ in range(50)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["text_a\tlabel", *rows]) + "\n")
    files = {f"{name}_file": str(tmp_path / f"{name}.tsv") for name in ("train", "dev")}
    asked = {**NO_FILES, **files, "label_type": "float", "num_train_steps": 4}
    options = options_of(
        data,
        tmp_path / "out",
        early_exit_patience=1,
        early_exit_tolerance=0.01,
        **asked,
    )
    run(options)
    loaded = albert_tf.load(tmp_path / "out")
    assert loaded.model.early_exit_tolerance == 0.01
    assert np.isfinite(loaded.predict(TEXTS).score).all()


def test_flags_that_exclude_early_exit(data, early_exit, tmp_path):
    choices = tmp_path / "choices.tsv"
    choices.write_text("text_a\tchoice_a\tchoice_b\tlabel\nthe cat\ta\tb\tA\n")
    of_choices = {"train_file": str(choices), "dev_file": None, "do_eval": False}
    for changes, message in (
        ({"early_exit_tolerance": 0.5}, r"--early_exit_tolerance=0\.5: expected --early_exit_p"),
        ({"early_exit_patience": 4}, "--early_exit_patience=4: expected 1 to 3, the number of"),
        (
            {"early_exit_patience": 2, "early_exit_tolerance": 0.5},
            r"--early_exit_tolerance=0\.5: expected a regression; received 2 classes",
        ),
        (
            {"early_exit_patience": 2, "export_dir": "x", "export_format": "tflite"},
            "--early_exit_patience=2: expected --export_format=saved_model; received tflite",
        ),
        (
            {"early_exit_patience": 2, **of_choices},
            "--early_exit_patience=2: expected a task with classes or scores; received multiple",
        ),
    ):
        with pytest.raises(FlagError, match=message):
            run(options_of(data, tmp_path / "out", **changes))
    message = "was trained with --early_exit_patience; this run has no value"
    with pytest.raises(InputError, match=message):
        run(options_of(data, early_exit[0], num_train_steps=130))


def test_folder_that_was_trained_without(data, classifier, tmp_path):
    asked = {
        "output_dir": str(classifier),
        "do_eval": True,
        "dev_file": str(data / "pairs-dev.tsv"),
    }
    message = (
        f"--output_dir={classifier}: was trained without --early_exit_patience; this run has 2"
    )
    with pytest.raises(InputError, match=message):
        run(ClassificationOptions(early_exit_patience=2, **asked))
    # Folders of earlier versions do not mention it.
    path = classifier / "run_options.json"
    options = json.loads(path.read_text())
    del options["early_exit_patience"], options["early_exit_tolerance"]
    path.write_text(json.dumps(options))
    run(ClassificationOptions(**asked))
