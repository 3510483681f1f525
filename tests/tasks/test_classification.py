import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.tensor_files import variables_by_path
from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_hugging_face
from albert_tf.errors import FlagError, InputError
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.classification import run
from albert_tf.training.checkpoint_manager import Checkpoints
from tests.helpers import tiny_config
from tests.tasks.animals import NO_FILES, make_options, write_rows


def test_learns_evaluates_predicts_and_exports(data, tmp_path):
    options = make_options(
        data,
        tmp_path / "out",
        do_predict=True,
        export_dir=str(tmp_path / "exported"),
        num_train_steps=120,
    )
    metrics = run(options)
    assert metrics["accuracy"] > 0.8
    assert json.loads((tmp_path / "out" / "eval_results.json").read_text()) == metrics

    # The predictions are those of the exported model, in the order of the file.
    header, *rows = (tmp_path / "out" / "test_results.tsv").read_text().splitlines()
    assert header == "guid\tprediction\tprobability_animal\tprobability_plant"
    texts = (data / "test.tsv").read_text().splitlines()[1:]
    assert len(rows) == len(texts) == 30
    classify = tf.saved_model.load(str(tmp_path / "exported" / "text" / "1")).signatures[
        "serving_default"
    ]
    outputs = classify(text_a=tf.constant(texts))
    cells = [row.split("\t") for row in rows]
    probabilities = np.array([[float(cell) for cell in row[2:]] for row in cells])
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)
    assert [row[1].encode() for row in cells] == outputs["label"].numpy().tolist()

    # Evaluation alone, from what training left.
    again = run(dataclasses.replace(options, do_train=False, do_predict=False, export_dir=None))
    assert again == pytest.approx(metrics, rel=1e-5)


@pytest.mark.slow
def test_replicas_learn_evaluate_and_predict_what_one_device_does(data, tmp_path):
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
        export_dir=str(tmp_path / "exported"),
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
    loaded = [tf.saved_model.load(str(tmp_path / "exported" / "ids" / n)) for n in ("1", "2")]
    ids = tf.ones((2, 5), tf.int32)
    inputs = {"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids}
    outputs = [model.signatures["serving_default"](**inputs)["logits"] for model in loaded]
    np.testing.assert_allclose(*outputs, atol=1e-4)


def test_pairs_have_a_second_text_in_the_exported_model(data, tmp_path):
    write_rows(tmp_path / "pairs.tsv", 40, seed=4, pairs=True)
    run(
        make_options(
            data,
            tmp_path / "out",
            train_file=str(tmp_path / "pairs.tsv"),
            do_eval=False,
            dev_file=None,
            num_train_steps=1,
            export_dir=str(tmp_path / "exported"),
        )
    )
    loaded = tf.saved_model.load(str(tmp_path / "exported" / "text" / "1"))
    signature = loaded.signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == {"text_a", "text_b"}


def test_encoder_starts_from_init_checkpoint(data, tmp_path):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2), seed=99)
    checkpoints = Checkpoints(str(tmp_path / "init"), variables_by_path(encoder.weights), 1)
    checkpoints.save(1)
    path = str(tmp_path / "init")
    run(
        make_options(
            data, tmp_path / "out", init_checkpoint=path, num_train_steps=1, warmup_steps=1
        )
    )
    reader = tf.train.load_checkpoint(str(tmp_path / "out"))
    name = "variables/albert_encoder.Sembedding.Sword_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    # With a warm-up the first update has learning rate 0.
    np.testing.assert_array_equal(reader.get_tensor(name), encoder.embedding.word_embeddings)


def test_same_seed_same_run(data, tmp_path):
    options = make_options(data, tmp_path / "one", num_train_steps=5)
    one = run(options)
    two = run(dataclasses.replace(options, output_dir=str(tmp_path / "two")))
    other = run(dataclasses.replace(options, output_dir=str(tmp_path / "three"), random_seed=7))
    # Without --deterministic the threads of TensorFlow add up in any order.
    assert one == pytest.approx(two, rel=1e-4)
    assert one["loss"] != pytest.approx(other["loss"], rel=1e-4)


def test_label_that_training_does_not_know(data, tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("label\ttext_a\nanimal\tthe cat\nstone\ta flint\n")
    with pytest.raises(InputError, match=r"dev\.tsv, line 3: .*'stone'"):
        run(make_options(data, tmp_path / "out", dev_file=str(dev)))
    assert not (tmp_path / "out").exists()


def test_vocabulary_of_another_size(data, tmp_path):
    config = tmp_path / "albert_config.json"
    tiny_config().to_json_file(str(config))
    with pytest.raises(InputError, match=r"words\.model has 50 pieces; .* says vocab_size 97"):
        run(make_options(data, tmp_path / "out", albert_config_file=str(config)))


def test_checkpoint_of_another_shape(data, tmp_path):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2, intermediate_size=81))
    Checkpoints(str(tmp_path / "init"), variables_by_path(encoder.weights), 1).save(1)
    with pytest.raises(InputError, match=r"--init_checkpoint: .*intermediate/kernel' has shape"):
        run(make_options(data, tmp_path / "out", init_checkpoint=str(tmp_path / "init")))
    assert not (tmp_path / "out").exists()


def test_starts_from_a_hugging_face_folder(data, tmp_path, capsys):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2), seed=1)
    save_hugging_face(AlbertPretrainer(encoder), str(tmp_path / "theirs"))
    options = make_options(
        data,
        tmp_path / "out",
        albert_config_file=str(tmp_path / "theirs" / "config.json"),
        init_checkpoint=str(tmp_path / "theirs"),
        num_train_steps=1,
    )
    run(options)
    assert f"from {tmp_path}/theirs (Hugging Face); left" in capsys.readouterr().out
    config = AlbertConfig.from_json_file(str(tmp_path / "out" / "albert_config.json"))
    assert config == encoder.config


def test_folder_of_other_labels_is_refused(data, tmp_path):
    run(make_options(data, tmp_path / "out", num_train_steps=1))
    train = tmp_path / "train.tsv"
    train.write_text("label\ttext_a\nyes\tthe cat\nno\tan oak\n")
    options = make_options(
        data, tmp_path / "out", train_file=str(train), dev_file=None, do_eval=False
    )
    before = contents(tmp_path / "out")
    with pytest.raises(InputError, match=r"labels \['animal', 'plant'\].*\['no', 'yes'\]"):
        run(options)
    with pytest.raises(InputError, match="with optimizer adamw; --optimizer says lamb"):
        run(make_options(data, tmp_path / "out", optimizer="lamb"))
    assert contents(tmp_path / "out") == before


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_folder_of_another_kind_of_run_is_refused(data, tmp_path):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2))
    Checkpoints(str(tmp_path), variables_by_path(encoder.weights), 1).save(1)
    encoder.config.to_json_file(str(tmp_path / "albert_config.json"))
    (tmp_path / "run_options.json").write_text(
        '{"optimizer": "adamw", "sentence_objective": "sop"}'
    )
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"--output_dir=.*: holds no classifier: no task\.json"):
        run(make_options(data, tmp_path))
    assert contents(tmp_path) == before


def test_evaluation_of_what_was_never_trained(data, tmp_path):
    with pytest.raises(InputError, match=r"--output_dir=.*: holds no classifier"):
        run(make_options(data, tmp_path, do_train=False))


def test_run_killed_before_its_first_checkpoint_does_not_lock_the_folder(data, tmp_path):
    run(make_options(data, tmp_path / "out", num_train_steps=1))
    for path in (tmp_path / "out").glob("*ckpt-*"):
        path.unlink()
    (tmp_path / "out" / "checkpoint").unlink()
    options = make_options(data, tmp_path / "out", num_train_steps=1, optimizer="lamb")
    assert "accuracy" in run(options)


def test_init_checkpoint_is_not_read_where_a_run_goes_on(data, tmp_path):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2), seed=99)
    Checkpoints(str(tmp_path / "init"), variables_by_path(encoder.weights), 1).save(1)
    path = str(tmp_path / "init")
    run(make_options(data, tmp_path / "out", init_checkpoint=path, num_train_steps=1))
    shutil.rmtree(path)
    run(make_options(data, tmp_path / "out", init_checkpoint=path, num_train_steps=2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task_name": "sst2"}, "--task_name: unknown task 'sst2'; did you mean sst-2"),
        ({"task_name": None}, "--do_train: expected --task_name; received none"),
        ({"albert_config_file": None}, "--do_train: expected --albert_config_file; received none"),
        ({"task_name": "cola", **NO_FILES}, "--task_name=cola: expected --data_dir; received none"),
        ({"train_file": None}, "--task_name=tsv: expected --train_file; received none"),
        ({"do_train": False, "do_eval": False}, "expected at least one of --do_train"),
        ({"num_train_steps": 0}, "--num_train_steps=0: expected at least 1"),
        ({"classifier_dropout": 1.5}, "--classifier_dropout=1.5: expected at most 1"),
        ({"learning_rate": float("nan")}, "--learning_rate=nan: expected at least 0"),
        ({"data_dir": "glue"}, "--data_dir: --task_name=tsv reads no such thing"),
        (
            {"task_name": "cola", "data_dir": "glue"},
            "--train_file: --task_name=cola reads no such thing; it reads --data_dir",
        ),
        (
            {"do_train": False, "init_checkpoint": "ckpt-1"},
            "--init_checkpoint: expected --do_train",
        ),
        (
            {"num_train_epochs": 3.0},
            "received --num_train_steps and --num_train_epochs; expected one of them",
        ),
        (
            {"warmup_steps": 3, "warmup_proportion": 0.1},
            "received --warmup_steps and --warmup_proportion; expected one of them",
        ),
        ({"warmup_proportion": 1.5}, "--warmup_proportion=1.5: expected at most 1"),
        ({"num_trials": 2, "do_eval": False}, "--num_trials=2: expected --do_train and --do_eval"),
        ({"num_trials": 2, "export_dir": "x"}, "--num_trials=2: expected neither --export_dir"),
        (
            {"early_stopping_evaluations": 2, "dev_file": None, "do_eval": False},
            "--early_stopping_evaluations=2: expected --dev_file; received none",
        ),
        ({"reset_head": True}, "--reset_head: expected --init_checkpoint"),
        ({"export_format": "tflite"}, "--export_format=tflite: expected --export_dir"),
        (
            {"task_name": "cola", "data_dir": "glue", "label_type": "float", **NO_FILES},
            "--label_type=float: expected --task_name=tsv",
        ),
        ({"recipe": "paper"}, "--recipe=paper: has no row for --task_name=tsv"),
        ({"data_source": "tfds", **NO_FILES}, "--data_source=tfds: --task_name=tsv is not there"),
        (
            {"task_name": "ax", "data_dir": "glue", **NO_FILES},
            "--task_name=ax: has no train set, but for test; the model is that of --task_name=mnli",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(data, tmp_path, changes, message):
    with pytest.raises(FlagError, match=message):
        make_options(data, tmp_path, **changes)
