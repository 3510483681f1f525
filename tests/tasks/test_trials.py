import json

import pytest

from albert_tf.files import write_json_lines
from albert_tf.tasks.fine_tuning.classification import run
from albert_tf.tasks.fine_tuning.training import run_trials
from tests.tasks.animals import make_options


@pytest.mark.slow
def test_median_best_and_spread_of_several_seeds(data, tmp_path, capsys):
    options = make_options(data, tmp_path, num_trials=2, num_train_steps=1)
    medians = run(options)
    results = json.loads((tmp_path / "trials.json").read_text())
    losses = [trial["loss"] for trial in results["trials"]]
    assert len(set(losses)) == 2
    assert results["summary"]["loss"] == pytest.approx(
        {"median": sum(losses) / 2, "best": min(losses), "spread": max(losses) - min(losses)}
    )
    accuracies = [trial["accuracy"] for trial in results["trials"]]
    assert results["summary"]["accuracy"]["best"] == max(accuracies)
    assert medians["loss"] == pytest.approx(sum(losses) / 2)
    assert "accuracy: median" in capsys.readouterr().out
    seeds = [
        json.loads((tmp_path / f"trial-{n}" / "run_options.json").read_text())["random_seed"]
        for n in range(2)
    ]
    assert seeds == [12345, 12346]
    assert (
        json.loads((tmp_path / "trial-1" / "eval_results.json").read_text()) == results["trials"][1]
    )


@pytest.mark.parametrize(
    ("excludes", "collapsed", "median"),
    [(True, [0], 0.8), (False, [0], 0.7), (True, [0, 1], 0.7)],
)
def test_collapsed_trials_are_reported_and_excluded_on_request(
    data, tmp_path, capsys, excludes, collapsed, median
):
    def train(trial):
        number = trial.random_seed - options.random_seed
        # An evaluation in the warm-up tells nothing.
        states = [None, 1.0, 1.0 if number in collapsed else 0.0]
        lines = [{"step": step, "split": "eval"} for step in range(3)]
        for line, state in zip(lines, states, strict=True):
            line |= {} if state is None else {"collapsed": state}
        write_json_lines(f"{trial.output_dir}/metrics.jsonl", lines)
        return {"accuracy": [0.6, 0.8][number]}

    for number in range(2):
        (tmp_path / f"trial-{number}").mkdir()
    options = make_options(data, tmp_path, num_trials=2, exclude_collapsed=excludes)
    assert run_trials(options, train) == {"accuracy": pytest.approx(median)}
    results = json.loads((tmp_path / "trials.json").read_text())
    assert results["collapsed"] == collapsed
    assert len(results["trials"]) == 2
    named = (
        f"{len(collapsed)} of 2 trials collapsed ({', '.join(map(str, collapsed))}); the figures"
    )
    assert named in capsys.readouterr().out
