import json
import pathlib

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.optimization import Lamb, PolynomialDecayWithWarmup
from albert_tf.training import Trainer, TrainingPlan, make_strategy, train
from tests.helpers import random_pretraining_batches, tiny_config


def make_trainer(learning_rate=0.01):
    strategy = make_strategy("one_device")
    with strategy.scope():
        config = tiny_config(num_hidden_layers=2, hidden_dropout_prob=0.1)
        model = AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)
        optimizer = Lamb(PolynomialDecayWithWarmup(learning_rate, 1000))
    return Trainer(model, PretrainingLoss(), optimizer, strategy, seed=3)


def make_plan(directory, steps, **changes):
    values = {
        "description": "test",
        "output_dir": str(directory),
        "num_train_steps": steps,
        "save_checkpoints_steps": 4,
        "log_steps": 3,
        "keep_checkpoint_max": 2,
        "best_metric": "score",
        "higher_is_better": True,
        **changes,
    }
    return TrainingPlan(**values)


def batches_from(step):
    return random_pretraining_batches(20, batch_size=4).skip(step)


def scores_by_step(trainer, scores):
    return lambda: {"score": scores[trainer.step]}


def reports(directory, split):
    lines = pathlib.Path(directory, "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["split"] == split]


def test_run_that_stops_and_goes_on_ends_as_one_that_did_not(tmp_path):
    whole = make_trainer()
    train(whole, make_plan(tmp_path / "whole", 10), batches_from, None)

    first, second = make_trainer(), make_trainer()
    train(first, make_plan(tmp_path / "parts", 6), batches_from, None)
    train(second, make_plan(tmp_path / "parts", 10), batches_from, None)

    assert whole.step == second.step == 10
    for ours, theirs in zip(whole.model.get_weights(), second.model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    assert [line["step"] for line in reports(tmp_path / "whole", "train")] == [3, 4, 6, 8, 9, 10]
    assert [line["step"] for line in reports(tmp_path / "parts", "train")] == [3, 4, 6, 8, 9, 10]


def test_complete_run_is_left_alone(tmp_path):
    train(make_trainer(), make_plan(tmp_path, 4), batches_from, None)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    train(make_trainer(), make_plan(tmp_path, 4), batches_from, None)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("higher_is_better", "best_step"), [(True, 8), (False, 4)], ids=["higher", "lower"]
)
def test_best_checkpoint_is_kept(tmp_path, higher_is_better, best_step):
    trainer = make_trainer()
    scores = {0: 0.0, 4: 0.2, 8: 0.9, 10: 0.9}
    plan = make_plan(tmp_path, 10, higher_is_better=higher_is_better)
    train(trainer, plan, batches_from, scores_by_step(trainer, scores))
    assert json.loads((tmp_path / "best" / "metrics.json").read_text())["step"] == best_step
    assert [path.name for path in (tmp_path / "best").glob("*.index")] == [
        f"ckpt-{best_step}.index"
    ]
    assert plan.best_checkpoint == plan.best_dir
    assert [line["score"] for line in reports(tmp_path, "eval")] == [0.0, 0.2, 0.9, 0.9]


def test_without_evaluation_the_newest_checkpoint_is_the_best(tmp_path):
    plan = make_plan(tmp_path, 4)
    train(make_trainer(), plan, batches_from, None)
    assert plan.best_checkpoint == str(tmp_path)


def test_reports_of_steps_that_were_lost_are_dropped(tmp_path):
    trainer = make_trainer()
    train(trainer, make_plan(tmp_path, 4), batches_from, None)
    lost = {"step": 5, "split": "train", "masked_lm_loss": 99.0}
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(lost) + "\n")
    train(make_trainer(), make_plan(tmp_path, 8), batches_from, None)
    assert [line["step"] for line in reports(tmp_path, "train")] == [3, 4, 6, 8]
    assert list((tmp_path / "train").glob("events.*"))


def test_loss_that_is_not_finite_ends_the_run_and_keeps_the_checkpoint(tmp_path):
    train(make_trainer(), make_plan(tmp_path, 4), batches_from, None)
    trainer = make_trainer(learning_rate=float("nan"))
    with pytest.raises(
        InputError, match=r"step 6: .* is nan; the newest checkpoint is from before"
    ):
        train(trainer, make_plan(tmp_path, 8), batches_from, None)
    assert [path.name for path in tmp_path.glob("*.index")] == ["ckpt-4.index"]


def test_progress_of_a_run_in_a_log(tmp_path, capsys):
    train(make_trainer(), make_plan(tmp_path, 4), batches_from, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("test: 3/4 steps, ")
    assert "steps/s, ETA 0:00:0" in lines[0]
    assert "train_masked_lm_loss" in lines[0]
