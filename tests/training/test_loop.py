import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.conversion import save_model
from albert_tf.errors import Preempted, StoppedError
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.optimization import Lamb, PolynomialDecayWithWarmup
from albert_tf.options.training import LoopOptions
from albert_tf.training import Trainer, TrainingPlan, best_metrics, make_strategy, resume, train
from tests.helpers import largest_file, random_pretraining_batches, refused, tiny_config


@pytest.fixture(scope="module")
def fresh():
    """Returns a function that resets the one trainer of all tests, which saves compiling others."""
    strategy = make_strategy("one_device")
    with strategy.scope():
        config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.1)
        model = AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)
        optimizer = Lamb(PolynomialDecayWithWarmup(0.01, 1000))
    trainer = Trainer(model, PretrainingLoss(), optimizer, strategy, seed=3)
    start = {path: variable.numpy() for path, variable in trainer.state.items()}

    def reset():
        for path, variable in trainer.state.items():
            variable.assign(start[path])
        return trainer

    return reset


def make_plan(directory, steps, higher_is_better=True, **changes):
    values = {"save_checkpoints_steps": 4, "keep_checkpoint_max": 2, "max_bad_steps": 1}
    options = LoopOptions(output_dir=str(directory), **{"log_steps": 3, **values, **changes})
    return TrainingPlan(options, lambda metrics: None, "test", steps, "score", higher_is_better)


def go_on(trainer, plan, evaluate=None, batches=None):
    def write_best(metrics):
        save_model(trainer.model, f"{folder}/best", noted={"metrics": metrics})

    folder = plan.options.output_dir
    files.make_directory(f"{folder}/state")
    resume(trainer, folder)
    train(
        trainer, dataclasses.replace(plan, write_best=write_best), batches or batches_from, evaluate
    )


def batches_from(number):
    return random_pretraining_batches(40, batch_size=4).skip(number)


def steps(directory, split="train"):
    return [line["step"] for line in reports(directory, split)]


def scores_by_step(trainer, scores):
    return lambda: {"score": scores[trainer.step]}


def reports(directory, split):
    lines = pathlib.Path(directory, "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["split"] == split]


def test_complete_run_is_left_alone(tmp_path, fresh):
    go_on(fresh(), make_plan(tmp_path, 4))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    go_on(fresh(), make_plan(tmp_path, 4))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(("higher_is_better", "best_step"), [(True, 8), (False, 4)])
def test_best_checkpoint_is_kept(tmp_path, fresh, higher_is_better, best_step):
    trainer = fresh()
    scores = {0: 0.0, 4: 0.2, 8: 0.9, 10: 0.9}
    plan = make_plan(tmp_path, 10, higher_is_better=higher_is_better, keep_checkpoint_max=3)
    go_on(trainer, plan, scores_by_step(trainer, scores))
    assert best_metrics(tmp_path) == {"step": best_step, "score": scores[best_step]}
    names = {path.name for path in (tmp_path / "best").iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors"}
    assert [line["score"] for line in reports(tmp_path, "eval")] == [0.0, 0.2, 0.9, 0.9]
    report = load_checkpoint(trainer.model, plan.options.output_dir)
    assert report.prefix == str(tmp_path / "best")
    best = trainer.model.get_weights()
    load_checkpoint(trainer.model, str(tmp_path / "state" / f"step-{best_step}.safetensors"))
    for ours, theirs in zip(best, trainer.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_loss_decides_between_equal_scores(tmp_path, fresh):
    trainer = fresh()
    losses = {0: 0.1, 4: 0.7, 8: 0.3, 10: 0.3}

    def evaluate():
        return {"score": 0.5, "loss": losses[trainer.step]}

    go_on(trainer, make_plan(tmp_path, 10), evaluate)
    assert best_metrics(tmp_path) == {"step": 8, "score": 0.5, "loss": 0.3}


class Killed(BaseException):
    """Nothing in a run catches it."""


def kill_before_write(monkeypatch, number):
    """Ends the run where it would make a file appear for the `number`-th time."""
    count = iter(range(1, number))

    def count_down(write):
        def write_or_die(*args, **kwargs):
            if next(count, None) is None:
                raise Killed
            return write(*args, **kwargs)

        return write_or_die

    for module, name in ((os, "replace"), (os, "remove"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, count_down(getattr(module, name)))


# At step 0 a report; at 4 and 8 a report, a state, the best's three files and the folder, a report.
@pytest.mark.parametrize("number", range(1, 18))
def test_run_killed_at_any_write_ends_as_another(tmp_path, monkeypatch, fresh, capsys, number):
    scores = {0: 0.0, 4: 0.7, 8: 0.9}
    plan = make_plan(tmp_path, 8, log_steps=100)
    with monkeypatch.context() as patch:
        kill_before_write(patch, number)
        trainer = fresh()
        with pytest.raises(Killed):
            go_on(trainer, plan, scores_by_step(trainer, {**scores, 0: 0.5}))
    before = best_metrics(tmp_path)

    trainer = fresh()
    go_on(trainer, plan, scores_by_step(trainer, scores))
    assert before in ({}, {"step": 4, "score": 0.7}, {"step": 8, "score": 0.9})
    assert trainer.step == 8
    assert best_metrics(tmp_path) == {"step": 8, "score": 0.9}
    first = 0.5 if "resuming" in capsys.readouterr().out else 0.0  # otherwise it began again
    assert [line["score"] for line in reports(tmp_path, "eval")] == [first, 0.7, 0.9]
    assert steps(tmp_path) == [4, 8]
    assert len(list((tmp_path / "best").iterdir())) == 3
    assert not [
        path for path in tmp_path.rglob("*.*") if path.suffix in (".incomplete", ".previous")
    ]


def test_evaluation_that_is_not_finite_is_never_the_best(tmp_path, fresh):
    trainer, plan = fresh(), make_plan(tmp_path, 10)
    scores = {0: 0.0, 4: 0.2, 8: float("nan")}
    with refused("step 8: score is nan; restart from an earlier checkp"):
        go_on(trainer, plan, scores_by_step(trainer, scores))
    assert best_metrics(tmp_path) == {"step": 4, "score": 0.2}


def test_without_evaluation_the_last_weights_are_the_best(tmp_path, fresh):
    plan = make_plan(tmp_path, 4)
    go_on(trainer := fresh(), plan)
    assert best_metrics(tmp_path) == {"step": 4}
    assert load_checkpoint(trainer.model, str(tmp_path)).prefix == f"{tmp_path}/best"
    # Any evaluation is better than none.
    go_on(trainer, make_plan(tmp_path, 8), scores_by_step(trainer, {4: 0.1, 8: 0.0}))
    assert best_metrics(tmp_path) == {"step": 4, "score": 0.1}


def test_what_a_killed_run_left_does_not_stay(tmp_path, fresh, capsys):
    go_on(fresh(), make_plan(tmp_path, 4))
    lost = json.dumps({"step": 5, "split": "train", "masked_lm_loss": 99.0})
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(f"{metrics.read_text()}{lost}\n{lost[:-20]}")
    (tmp_path / "best.0a1b2c-1-00112233.incomplete").mkdir()
    (tmp_path / "state" / "step-7.safetensors.0a1b2c-1-00112233.incomplete").touch()
    go_on(fresh(), make_plan(tmp_path, 8))
    assert f"warning: {metrics}, line 4: not JSON: " in capsys.readouterr().err
    assert steps(tmp_path) == [3, 4, 6, 8]
    assert list((tmp_path / "train").glob("events.*"))
    assert not list(tmp_path.rglob("*.incomplete"))


def diverge(trainer):
    """Gives the model a weight of which every step is skipped."""
    bias = trainer.model.masked_lm_head.output_bias
    bias.assign(np.full(bias.shape, np.nan))


def test_gradients_that_stay_infinite_end_the_run_and_keep_the_checkpoint(tmp_path, capsys, fresh):
    go_on(trainer := fresh(), make_plan(tmp_path, 4))
    diverge(trainer)
    message = r"step 7: .* 3 consecutive steps is not finite; the newest checkpoint is older"
    with refused(message):
        train(trainer, make_plan(tmp_path, 12, max_bad_steps=2), batches_from, None)
    assert steps_of_checkpoints(tmp_path) == [4]
    assert "warning: step 6: skipped, its loss or gradient is not finite" in capsys.readouterr().err


def terminate():
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    signal.raise_signal(signal.SIGTERM)


def steps_of_checkpoints(folder):
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("state/step-*"))


def test_sigterm_ends_a_run_whose_updates_are_skipped_without_saving(tmp_path, fresh):
    diverge(trainer := fresh())
    plan = make_plan(tmp_path, 30, max_bad_steps=100, log_steps=1)
    with pytest.raises(Preempted):
        train(trainer, plan, batches_from, None, lambda *_: terminate())
    assert trainer.step == 2
    assert steps_of_checkpoints(tmp_path) == []


def lines_and_weights(trainer, output_dir):
    lines = [line for split in ("train", "eval") for line in reports(output_dir, split)]
    return lines, trainer.model.get_weights()


@pytest.fixture(scope="module")
def uninterrupted(fresh, tmp_path_factory):
    """The reports and the weights of ten steps with dropout, evaluated at 0, 4, 8 and 10."""
    folder = tmp_path_factory.mktemp("whole")
    go_on(trainer := fresh(), make_plan(folder, 10), lambda: {"score": 0.5})
    assert steps(folder) == [3, 4, 6, 8, 9, 10]
    return lines_and_weights(trainer, folder)


@pytest.mark.parametrize("stopped_at", [2, 5, 6, 8])
def test_run_with_sigterm_ends_like_an_uninterrupted_one(
    tmp_path, monkeypatch, fresh, uninterrupted, stopped_at
):
    def train_and_terminate(batches, count):
        means = train_steps(batches, count)
        if trainer.step == stopped_at:
            terminate()
        return means

    trainer, plan = fresh(), make_plan(tmp_path, 10)
    train_steps = trainer.train_steps
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_steps", train_and_terminate)
        with pytest.raises(Preempted):
            go_on(trainer, plan, lambda: {"score": 0.5})
    assert trainer.step == stopped_at
    go_on(fresh(), plan, lambda: {"score": 0.5})
    lines, weights = lines_and_weights(trainer, tmp_path)
    whole, expected_weights = copy.deepcopy(uninterrupted)
    places = [[(line.pop("split"), line["step"]) for line in each] for each in (lines, whole)]
    assert places[0] == places[1]
    for line, expected in zip(lines, whole, strict=True):
        assert line == pytest.approx(expected, rel=1e-4)
    for ours, theirs in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def batches_with_a_bad_one(number):
    """Of the batches the fifth gives a loss that is not finite."""

    def spoil(index, batch):
        weights = batch["masked_lm_weights"]
        bad = tf.fill(tf.shape(weights), np.inf)
        return {**batch, "masked_lm_weights": tf.where(index == 4, bad, weights)}

    batches = random_pretraining_batches(40, batch_size=4).enumerate()
    return batches.map(spoil).skip(number)


def terminate_after(monkeypatch, trainer, stop):
    """Makes the trainer receive SIGTERM in the call that reaches a step."""
    train_steps = trainer.train_steps

    def train_and_terminate(batches, count):
        before, means = trainer.step, train_steps(batches, count)
        if before < stop <= trainer.step:
            terminate()
        return means

    monkeypatch.setattr(trainer, "train_steps", train_and_terminate)


# Of the 6 steps before the first report one is skipped, after which no state is saved.
@pytest.mark.parametrize(
    ("steps_per_loop", "stops"),
    [
        *((1, stops) for stops in ((1, 2, 3), (5,), (6, 11), (7, 8, 9, 10))),
        *((3, stops) for stops in ((3, 8, 11), (5, 9))),
    ],
)
def test_reports_do_not_depend_on_stops(tmp_path, monkeypatch, fresh, stops, steps_per_loop):
    changes = {"log_steps": 6, "save_checkpoints_steps": 8, "steps_per_loop": steps_per_loop}
    lines = {}
    for name, asked in (("whole", ()), ("parts", stops)):
        (tmp_path / name).mkdir()
        plan = make_plan(tmp_path / name, 12, **changes)
        for stop in (*asked, None):
            trainer = fresh()
            with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
                if stop is not None:
                    terminate_after(patch, trainer, stop)
                    stack.enter_context(pytest.raises(Preempted))
                go_on(trainer, plan, lambda: {"score": 0.5}, batches_with_a_bad_one)
        lines[name], _ = lines_and_weights(trainer, tmp_path / name)
    assert [line["skipped_updates"] for line in lines["whole"] if "loss" in line] == [1, 1, 1]
    for received, expected in zip(lines["parts"], lines["whole"], strict=True):
        assert received.pop("split") == expected.pop("split")
        assert received == pytest.approx(expected, rel=1e-4)


def test_sigterm_before_an_evaluation_skips_it(tmp_path, monkeypatch, fresh):
    def terminate_and_derive(metrics):
        terminate()
        return metrics

    def evaluate():
        evaluated.append(trainer.step)
        return {"score": 0.0}

    evaluated, trainer = [], fresh()
    monkeypatch.setattr(trainer, "derive", terminate_and_derive)
    with pytest.raises(Preempted):
        go_on(trainer, make_plan(tmp_path, 8, log_steps=100), evaluate)
    assert evaluated == [0]
    assert steps_of_checkpoints(tmp_path) == [4]


@pytest.mark.parametrize("is_terminated", [False, True])
def test_failed_write_ends_the_run(tmp_path, monkeypatch, fresh, is_terminated):
    """At the next report, or with SIGTERM."""
    rename, has_failed = os.replace, threading.Event()

    def refuse_once(path, target):
        if has_failed.is_set() or b"/state/" not in path:
            return rename(path, target)
        has_failed.set()
        raise tf.errors.ResourceExhaustedError(None, None, "step; No space left on device")

    def evaluate():
        assert trainer.step == 0 or has_failed.wait(60)
        if is_terminated and trainer.step == 4:
            terminate()
        return {"score": 0.0}

    trainer = fresh()
    monkeypatch.setattr(os, "replace", refuse_once)
    message = r"step-4\.safetensors: cannot be written: No space left on device"
    with pytest.raises(StoppedError, match=message):
        go_on(trainer, make_plan(tmp_path, 8), evaluate)
    assert trainer.step == (4 if is_terminated else 6)


def test_summaries_that_cannot_be_written_are_one_line(tmp_path, fresh):
    # No file may have the bytes of a summary of four reports, or of a checkpoint.
    with largest_file(8000), pytest.raises(StoppedError, match="cannot be written: "):
        go_on(fresh(), make_plan(tmp_path / "full", 8, log_steps=1))
    (tmp_path / "train").write_text("")
    with pytest.raises(StoppedError, match=f"{tmp_path}: cannot be written: "):
        go_on(fresh(), make_plan(tmp_path, 8))


def test_one_line_of_a_log_has_few_values_of_training_and_evaluation(tmp_path, fresh, capsys):
    trainer, plan = fresh(), make_plan(tmp_path, 4, log_steps=4)
    go_on(trainer, plan, scores_by_step(trainer, {0: 0, 4: 0.25678}))
    lines = [line for line in capsys.readouterr().err.splitlines() if "eval_score" in line]
    assert [line.partition("eval_score")[2] for line in lines] == [" 0", " 0.257"]
    values = re.findall(r"(train_\w+) ([\d.,]+),", lines[1])
    assert [name for name, _ in values] == ["train_loss", "train_tokens_per_second"]
    assert all(len(value) <= 5 for _, value in values)


def test_first_step_does_not_count_for_the_rate(tmp_path, monkeypatch, fresh, capsys):
    """By a clock on which the first call takes an hour, for compiling, and the others a second."""
    trainer = fresh()
    now = 0.0
    train_steps = trainer.train_steps

    def train_and_wait(batches, count):
        nonlocal now
        now += 1.0 if trainer.step else 3600.0
        return train_steps(batches, count)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(trainer, "train_steps", train_and_wait)
    go_on(trainer, make_plan(tmp_path, 11, save_checkpoints_steps=100, log_steps=5))
    lines = capsys.readouterr().err.splitlines()
    first, second, last = (line for line in lines if "train_loss" in line)
    # There may be other lines between two reports.
    assert first.startswith("test: 5/11 steps, 1.0 steps/s, ETA 0:00:06")
    assert first.endswith(", train_tokens_per_second 44")
    assert second.startswith("test: 10/11 steps, 1.0 steps/s, ETA 0:00:01")
    assert [line for line in lines if line.startswith("test: 11/11 ")] == [last]
