import json
import re

from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.helpers import refused
from tests.tasks.animals import make_options, write_rows


def results_of(folder):
    return json.loads((folder / "eval_results.json").read_text())


def test_a_model_that_has_learnt_nothing_is_not_better(data, tmp_path, capsys, eagerly):
    run(make_options(data, tmp_path / "out", num_train_steps=1, learning_rate=0.0))
    output, error = capsys.readouterr()
    results = results_of(tmp_path / "out")
    assert results["baselines"]["bag_of_words"]["accuracy"] == 1.0
    constant = results["baselines"]["most_frequent_label"]["accuracy"]
    assert 0.3 < constant < 0.7
    line = f"most frequent label {constant:.4f}, bag of words 1.0000"
    assert f"baselines, accuracy on the same rows: {line}" in output
    ours = re.escape(f"{results['accuracy']:.4f}")
    message = (
        rf"warning: the model is not better than the bag of words: accuracy {ours} against 1.0000 on "
        rf"60 rows, where the standard error of the difference is 0.0\d+\n"
    )
    assert re.search(message, error)


def test_evaluation_alone_measures_the_baselines_of_the_training_on_its_own_rows(
    classifier, tmp_path, capsys, eagerly
):
    write_rows(tmp_path / "other.tsv", 20, seed=9, pairs=True)
    options = FineTuningOptions(
        output_dir=str(classifier), do_eval=True, dev_file=str(tmp_path / "other.tsv")
    )
    before = results_of(classifier)["baselines"]
    run(options)
    after = results_of(classifier)["baselines"]
    assert after.keys() == before.keys()
    assert after["most_frequent_label"] != before["most_frequent_label"]
    (classifier / "baselines.npz").write_bytes(b"PK\x03\x04")
    with refused(r"baselines\.npz: damaged; remove it, or train again"):
        run(options)
    (classifier / "baselines.npz").unlink()
    capsys.readouterr()
    run(options)
    assert "baselines" not in results_of(classifier)
    assert "baseline" not in capsys.readouterr().out


def test_a_single_dev_row_has_baselines_and_no_error(classifier, tmp_path, capsys, eagerly):
    write_rows(tmp_path / "one.tsv", 1, seed=9, pairs=True)
    one = {"do_eval": True, "dev_file": str(tmp_path / "one.tsv")}
    run(FineTuningOptions(output_dir=str(classifier), **one))
    assert "standard error" not in capsys.readouterr().err
    assert results_of(classifier)["baselines"]["bag_of_words"]["accuracy"] in (0.0, 1.0)
