import dataclasses

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.fine_tuning.classification import run
from tests.helpers import tiny_config
from tests.tasks.animals import NO_FILES, make_options


@pytest.mark.slow
def test_replicas_match_one_device(data, tmp_path):
    # 60 and 30 rows in sevens: the last batches are not full, and none has equal halves.
    options = make_options(
        data,
        tmp_path / "one",
        do_predict=True,
        eval_batch_size=7,
        train_batch_size=8,
        num_train_steps=3,
        classifier_dropout=0.0,
        warmup_steps=1,
        learning_rate=1e-3,
    )
    one = run(options)
    mirrored = {"output_dir": str(tmp_path / "two"), "distribution_strategy": "mirrored"}
    two = run(dataclasses.replace(options, **mirrored))
    assert two == pytest.approx(one, rel=1e-4)
    tables = [
        np.loadtxt(tmp_path / name / "test_results.tsv", skiprows=1, usecols=(2, 3))
        for name in ("one", "two")
    ]
    np.testing.assert_allclose(*tables, atol=1e-4)


def test_dev_set_is_a_part_of_the_training_file(data, tmp_path, capsys):
    path = tmp_path / "train.csv"
    lines = [f"the cat {number},animal" for number in range(90)]
    lines += [f"an oak {number},plant" for number in range(10)]
    path.write_text("\n".join(["Text,Category", *lines]) + "\n")
    options = make_options(
        data,
        tmp_path / "out",
        **{**NO_FILES, "train_file": str(path)},
        class_weights="balanced",
        best_metric="macro_f1",
        num_train_steps=4,
        save_checkpoints_steps=4,
    )
    metrics = run(options)
    assert set(metrics) >= {"accuracy", "f1", "macro_f1", "matthews_corrcoef", "loss"}
    printed = capsys.readouterr().out
    assert f"{path}: 10 rows, chosen by --random_seed, are the dev set; 90" in printed
    _, *rows = (tmp_path / "out" / "eval_predictions.tsv").read_text().splitlines()
    labels = [row.split("\t")[1] for row in rows]
    assert (labels.count("animal"), labels.count("plant")) == (9, 1)
    with pytest.raises(InputError, match="--best_metric=f2: expected one of accuracy, f1, macro"):
        run(dataclasses.replace(options, best_metric="f2"))
    with pytest.raises(InputError, match="too few rows to evaluate on; expected --dev_file"):
        run(dataclasses.replace(options, dev_fraction=0.001))


def test_vocabulary_of_wrong_size_is_refused(data, tmp_path):
    config = tmp_path / "albert_config.json"
    tiny_config().to_json_file(str(config))
    with pytest.raises(InputError, match=r"words\.model has 50 pieces; .* says vocab_size 97"):
        run(make_options(data, tmp_path / "out", albert_config_file=str(config)))


def test_evaluation_needs_a_trained_folder(data, tmp_path):
    with pytest.raises(InputError, match=r"--output_dir=.*: holds no fine-tuned model"):
        run(make_options(data, tmp_path, do_train=False))
