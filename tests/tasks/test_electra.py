"""Pre-training runs with --objective=electra."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.safetensors_files import read_tensors
from albert_tf.data.records import pretraining_record, write_records
from albert_tf.model_folder import list_states
from albert_tf.models import AlbertClassifier
from albert_tf.tasks.pretraining_run import run
from albert_tf.training import best_metrics
from albert_tf.training.reports import read_reports
from tests.helpers import refused, tiny_config
from tests.tasks.language import LENGTH, PREDICTIONS, make_options, write_vocabulary


def write_repetitions(path, count, seed):
    """Writes records that each repeat one of ten pieces, so that a replaced piece is another one."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(rng.integers(80, 90, (count, 1)), LENGTH, axis=1)
    ids[:, 0] = 2
    order = np.argsort(rng.random((count, LENGTH - 1)), axis=1) + 1
    positions = np.sort(order[:, :PREDICTIONS], axis=1)
    shown = ids.copy()
    np.put_along_axis(shown, positions, 4, axis=1)
    columns = {
        "input_ids": shown,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "token_boundary": np.ones_like(ids),
        "masked_lm_positions": positions,
        "masked_lm_ids": np.take_along_axis(ids, positions, axis=1),
        "masked_lm_weights": np.ones_like(positions),
        "next_sentence_labels": rng.integers(0, 2, (count, 1)),
    }
    write_records(str(path), pretraining_record(LENGTH, PREDICTIONS).serialize_batch(columns))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_repetitions(folder / "train.tfrecord", 400, seed=1)
    write_repetitions(folder / "dev.tfrecord", 50, seed=2)
    write_vocabulary(folder / "vocab.txt")
    config = tiny_config(num_hidden_layers=1, initializer_range=0.1)
    config.to_json_file(str(folder / "albert_config.json"))
    return folder


def make_electra_options(data, output_dir, **changes):
    values = {
        "objective": "electra",
        "optimizer": "adamw",
        "learning_rate": 0.003,
        "num_train_steps": 120,
        "save_checkpoints_steps": 60,
        "vocab_file": str(data / "vocab.txt"),
        **changes,
    }
    return make_options(data, output_dir, **values)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """The options and the metrics of a complete run."""
    options = make_electra_options(data, tmp_path_factory.mktemp("trained") / "run")
    return options, run(options)


def test_both_models_learn_and_the_metrics_are_reported(trained):
    options, metrics = trained
    reports = read_reports(options.output_dir)
    first = next(line for line in reports if line["split"] == "eval")
    assert first["step"] == 0
    assert first["replaced_token_loss"] == pytest.approx(np.log(2), abs=0.2)
    assert metrics["masked_lm_loss"] < np.log(10) - 0.2
    assert metrics["replaced_token_loss"] < 0.3
    assert metrics["replaced_token_precision"] > 0.7
    losses = (metrics[f"{name}_loss"] for name in ("masked_lm", "sentence_order"))
    expected = sum(losses) + 50 * metrics["replaced_token_loss"]
    assert metrics["loss"] == pytest.approx(expected)
    (last,) = (x for x in reports if x["split"] == "train" and x["step"] == 120)
    assert {"replaced_token_accuracy", "replaced_token_precision", "masked_lm_accuracy"} < {*last}
    # The same model has the same metrics.
    assert run(dataclasses.replace(options, do_train=False)) == pytest.approx(metrics, rel=1e-5)


def test_the_folder_is_that_of_an_encoder(trained):
    options, _ = trained
    best = pathlib.Path(options.output_dir) / "best"
    assert json.loads((best / "config.json").read_text())["architectures"] == ["AlbertModel"]
    loaded = albert_tf.load(options.output_dir)
    assert loaded.predict(["word1 word2", "word7"]).shape == (2, 48)
    with refused(
        "^fill_mask: expected a model that predicts masked pieces; this one has no masked"
    ):
        loaded.fill_mask("word1 [MASK]")
    count = loaded.model.count_params()
    assert f"; {count:,} parameters, stored in float32" in (best / "README.md").read_text()
    # Fine-tuning starts from the detector's layers.
    with pytest.warns(UserWarning, match="has no albert_classifier/head"):
        classifier = AlbertClassifier.from_preset(options.output_dir, num_classes=2)
    tensors = read_tensors(str(best / "model.safetensors"))
    table = classifier.encoder.embedding.word_embeddings
    np.testing.assert_array_equal(table, tensors["albert.embeddings.word_embeddings.weight"])


def test_the_last_model_is_kept_whatever_its_loss(data, tmp_path, eagerly):
    # At such a rate the loss rises.
    changes = {"learning_rate": 0.1, "warmup_steps": 0, "num_train_steps": 3}
    run(make_electra_options(data, tmp_path, save_checkpoints_steps=1, **changes))
    losses = {
        line["step"]: line["loss"] for line in read_reports(tmp_path) if line["split"] == "eval"
    }
    assert min(losses, key=losses.get) < 3
    assert best_metrics(str(tmp_path))["step"] == 3


def test_deeper_run_starts_from_both_models_at_drawn_depths_in_16_bits(
    trained, data, tmp_path, eagerly, capsys
):
    changes = {
        "init_checkpoint": trained[0].output_dir,
        "albert_config_file": None,
        "num_hidden_layers": 3,
        "trained_num_hidden_layers": (1, 2, 3),
        "accumulate_steps": 2,
        "mixed_precision": "mixed_bfloat16",
        "num_train_steps": 2,
    }
    metrics = run(make_electra_options(data, tmp_path, **changes))
    assert "initialised randomly" not in capsys.readouterr().out
    assert np.isfinite(list(metrics.values())).all()
    # A masked LM starts from the encoder, and a masked LM's encoder starts it.
    changes = {"albert_config_file": None, "num_train_steps": 1}
    for name, objective, start in (("b", "masked_lm", "a"), ("c", "electra", "b")):
        start = str(tmp_path) if start == "a" else str(tmp_path / start)
        options = make_electra_options(
            data, tmp_path / name, objective=objective, init_checkpoint=start, **changes
        )
        run(options)
        assert "missing, initialised randomly: " in capsys.readouterr().out


def test_a_run_that_is_stopped_resumes_both_models(data, tmp_path):
    changes = {"num_train_steps": 4, "save_checkpoints_steps": 2, "dropout": 0.1}
    options = make_electra_options(data, tmp_path / "run", **changes)
    metrics = run(options)
    state = pathlib.Path(list_states(str(tmp_path / "run" / "state"))[-1])
    whole = read_tensors(str(state))
    state.unlink()
    assert run(options) == pytest.approx(metrics, rel=1e-5)
    resumed = read_tensors(str(state))
    assert any("electra_pretrainer/generator/" in name for name in whole)
    for name, value in whole.items():
        np.testing.assert_allclose(resumed[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"objective": "masked_lm", "generator_layers": 0.5},
            "^--generator_layers=0.5: expected --ob",
        ),
        (
            {"objective": "masked_lm", "replaced_token_weight": 1.0},
            "^--replaced_token_weight=1.0: expected --objective=electra$",
        ),
        ({"generator_hidden_size": 1.5}, "^generator_hidden_size=1.5: expected at most 1$"),
    ],
)
def test_options_without_effect_or_out_of_range_are_refused(data, tmp_path, changes, message):
    with refused(message):
        make_electra_options(data, tmp_path, **changes)


def test_another_objective_cannot_resume(trained):
    options, _ = trained
    for changes in ({"objective": "masked_lm"}, {"replaced_token_weight": 3.0}):
        ((name, value),) = changes.items()
        with refused(rf"holds the checkpoints of a run with {name} .*; --{name} says {value}$"):
            run(dataclasses.replace(options, **changes))


@pytest.mark.slow
def test_updates_compile_with_xla(data, tmp_path):
    changes = {"num_train_steps": 4, "save_checkpoints_steps": 2, "steps_per_loop": 2}
    metrics = run(make_electra_options(data, tmp_path, jit_compile=True, **changes))
    assert metrics["replaced_token_loss"] < np.log(2)
    assert metrics["masked_lm_loss"] < np.log(100)
