import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints.tensor_files import variables_by_path
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.fine_tuning.classification import run
from albert_tf.training.checkpoint_manager import Checkpoints
from tests.helpers import tiny_config
from tests.tasks.animals import NO_FILES, make_options

NO_DEV = {"dev_file": None, "do_eval": False}


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
    two = run(
        dataclasses.replace(
            options, output_dir=str(tmp_path / "two"), distribution_strategy="mirrored"
        )
    )
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
    files = {**NO_FILES, "train_file": str(path)}
    options = make_options(
        data,
        tmp_path / "out",
        **files,
        class_weights="balanced",
        best_metric="macro_f1",
        num_train_steps=4,
        save_checkpoints_steps=4,
    )
    metrics = run(options)
    assert set(metrics) >= {"accuracy", "f1", "macro_f1", "matthews_corrcoef", "loss"}
    assert (
        f"{path}: 10 rows, chosen by --random_seed, are the dev set; 90" in capsys.readouterr().out
    )
    _, *rows = (tmp_path / "out" / "eval_predictions.tsv").read_text().splitlines()
    labels = [row.split("\t")[1] for row in rows]
    assert (labels.count("animal"), labels.count("plant")) == (9, 1)
    with pytest.raises(
        InputError, match=r"--best_metric=f2: expected one of accuracy, f1, macro_f1"
    ):
        run(dataclasses.replace(options, best_metric="f2"))
    with pytest.raises(InputError, match="too few rows to evaluate on; expected --dev_file"):
        run(dataclasses.replace(options, dev_fraction=0.001))


def test_unknown_dev_label_is_refused(data, tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("label\ttext_a\nanimal\tthe cat\nstone\ta flint\n")
    with pytest.raises(InputError, match=r"dev\.tsv, line 3: .*'stone'"):
        run(make_options(data, tmp_path / "out", dev_file=str(dev)))
    assert not (tmp_path / "out").exists()


def test_vocabulary_of_wrong_size_is_refused(data, tmp_path):
    config = tmp_path / "albert_config.json"
    tiny_config().to_json_file(str(config))
    with pytest.raises(InputError, match=r"words\.model has 50 pieces; .* says vocab_size 97"):
        run(make_options(data, tmp_path / "out", albert_config_file=str(config)))


def test_checkpoint_of_wrong_shape_is_refused(data, tmp_path):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=1, intermediate_size=81))
    Checkpoints(str(tmp_path / "init"), variables_by_path(encoder.weights), 1).save(1)
    with pytest.raises(InputError, match=r"--init_checkpoint: .*intermediate/kernel' has shape"):
        run(make_options(data, tmp_path / "out", init_checkpoint=str(tmp_path / "init")))
    assert not (tmp_path / "out").exists()


def test_folder_of_other_labels_is_refused(data, trained, tmp_path):
    train = tmp_path / "train.tsv"
    train.write_text("label\ttext_a\nyes\tthe cat\nno\tan oak\n")
    before = contents(trained)
    with pytest.raises(InputError, match=r"labels \['animal', 'plant'\].*\['no', 'yes'\]"):
        run(make_options(data, trained, train_file=str(train), dev_fraction=0.0, **NO_DEV))
    assert contents(trained) == before


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_folder_of_another_kind_of_run_is_refused(data, tmp_path):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=1))
    Checkpoints(str(tmp_path), variables_by_path(encoder.weights), 1).save(1)
    encoder.config.to_json_file(str(tmp_path / "albert_config.json"))
    (tmp_path / "run_options.json").write_text(
        '{"optimizer": "adamw", "sentence_objective": "sop"}'
    )
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"--output_dir=.*: holds .* of another kind of run"):
        run(make_options(data, tmp_path))
    assert contents(tmp_path) == before


def test_evaluation_needs_a_trained_folder(data, tmp_path):
    with pytest.raises(InputError, match=r"--output_dir=.*: holds no fine-tuned model"):
        run(make_options(data, tmp_path, do_train=False))
