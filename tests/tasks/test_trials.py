import json

import pytest

from albert_tf.tasks.classification import run
from tests.tasks.animals import make_options


def test_median_best_and_spread_of_several_seeds(data, tmp_path, capsys):
    options = make_options(data, tmp_path, num_trials=3, num_train_steps=3)
    medians = run(options)
    results = json.loads((tmp_path / "trials.json").read_text())
    losses = [trial["loss"] for trial in results["trials"]]
    assert len(set(losses)) == 3
    assert results["summary"]["loss"] == pytest.approx(
        {"median": sorted(losses)[1], "best": min(losses), "spread": max(losses) - min(losses)}
    )
    accuracies = [trial["accuracy"] for trial in results["trials"]]
    assert results["summary"]["accuracy"]["best"] == max(accuracies)
    assert medians["loss"] == sorted(losses)[1]
    assert "accuracy: median" in capsys.readouterr().out
    seeds = [
        json.loads((tmp_path / f"trial-{n}" / "config.json").read_text())["random_seed"]
        for n in range(3)
    ]
    assert seeds == [12345, 12346, 12347]
    assert (
        json.loads((tmp_path / "trial-1" / "eval_results.json").read_text()) == results["trials"][1]
    )
