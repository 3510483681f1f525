import pytest

from albert_tf.evaluation.glue_score import glue_score, task_score

RESULTS = {
    "cola": {"matthews_corrcoef": 0.5, "accuracy": 0.9, "loss": 1.0},
    "mrpc": {"accuracy": 0.8, "f1": 0.9, "loss": 0.4},
    "mnli": {"matched_accuracy": 0.7, "mismatched_accuracy": 0.8, "matched_loss": 0.3},
}


def test_task_score_is_the_mean_of_the_official_metrics():
    scores = {name: task_score(name, results) for name, results in RESULTS.items()}
    assert scores == pytest.approx({"cola": 0.5, "mrpc": 0.85, "mnli": 0.75})


def test_glue_score_weights_tasks_equally():
    assert glue_score(RESULTS) == pytest.approx((0.5 + 0.85 + 0.75) / 3)
