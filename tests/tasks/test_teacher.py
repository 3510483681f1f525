"""A teacher's answers to texts with and without labels, learnt by models of each kind that can."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf import files
from albert_tf.checkpoints.safetensors_files import read_tensors, write_tensors
from albert_tf.model_folder import list_states, read_own, replace_own
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.helpers import refused
from tests.tasks.animals import (
    NO_FILES,
    class_rows,
    make_options,
    write_table,
)


def write_texts(path, count=200, seed=8):
    """Writes lines of texts that nobody labelled."""
    rows = class_rows(np.random.default_rng(seed), "", count)
    path.write_text("\n".join(text for _, text, _ in rows) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def teacher(data, tmp_path_factory):
    """Folder of a classifier of single texts; tests only read it."""
    folder = tmp_path_factory.mktemp("teacher") / "out"
    run(make_options(data, folder, test_file=None, do_eval=False))
    return folder


@pytest.fixture
def texts(tmp_path):
    return write_texts(tmp_path / "texts.txt")


def answers_of(folder):
    return np.load(folder / "teacher" / "answers.npy")


def rename_labels(folder, *labels):
    """Gives a trained folder other names of labels, as a user may."""
    config = json.loads((folder / "best" / "config.json").read_text())
    config["id2label"] = {str(number): label for number, label in enumerate(labels)}
    (folder / "best" / "config.json").write_text(json.dumps(config))


def test_a_student_learns_texts_without_labels(data, teacher, texts, tmp_path, capsys):
    out = tmp_path / "out"
    train = write_table(
        tmp_path / "few.tsv", ["text", "label"], [["a cat", "animal"], ["an oak", "plant"]]
    )
    values = {"teacher": str(teacher), "unlabeled_file": texts, "train_file": train}
    metrics = run(make_options(data, out, **values, test_file=None))
    assert metrics["accuracy"] > 0.9
    results = json.loads((out / "eval_results.json").read_text())
    of_teacher = albert_tf.load(teacher).evaluate(data / "dev.tsv")
    assert results["teacher"]["accuracy"] == pytest.approx(of_teacher["accuracy"])
    assert results["teacher"]["name"] == "out"
    assert len(results["teacher"]["sha256"]) == 64
    said = f"teacher out, accuracy on the same rows: {of_teacher['accuracy']:.4f}"
    assert said in capsys.readouterr().out
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "label_loss", "teacher_loss", "accuracy"} <= lines[1].keys()
    noted = read_own(str(out / "best"))["options"]
    assert (noted["teacher"], noted["teacher_weight"]) == ("out", 0.5)
    # Its answers are its probabilities, of the rows in their order.
    rows = ["a cat", "an oak", *pathlib.Path(texts).read_text().splitlines()]
    expected = albert_tf.load(teacher).predict(rows).probabilities
    np.testing.assert_allclose(answers_of(out), expected, atol=1e-6)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("labels", [("plant", "animal"), ("LABEL_0", "LABEL_1")])
def test_labels_in_another_order_and_numbers(labels, data, teacher, texts, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(teacher, other)
    rename_labels(other, *labels)
    are_numbers = labels[0] == "LABEL_0"
    rows = [
        {"text": text, "label": label}
        for label, text, _ in class_rows(np.random.default_rng(3), "", 9)
    ]
    for row in rows if are_numbers else ():
        row["label"] = {"animal": 0, "plant": 1}[row["label"]]
    given = {"num_train_steps": 1, "dev_fraction": 0, "dev_file": None, "do_eval": False}
    options = make_options(
        data,
        tmp_path / "out",
        **{**NO_FILES, **given, "train_file": "rows"},
        teacher=str(other),
        unlabeled_file=texts,
    )
    run(options, {"train": rows})
    expected = albert_tf.load(teacher).predict([row["text"] for row in rows]).probabilities
    order = [0, 1] if are_numbers else [1, 0]
    np.testing.assert_allclose(answers_of(tmp_path / "out")[:9], expected[:, order], atol=1e-6)
    assert albert_tf.load(tmp_path / "out").labels == (
        ("0", "1") if are_numbers else ("animal", "plant")
    )


def state_of(folder):
    return read_tensors(list_states(str(folder / "state"))[-1])


def test_a_run_that_resumes_reads_the_answers(data, teacher, texts, tmp_path, eagerly):
    other, out = tmp_path / "other", tmp_path / "out"
    shutil.copytree(teacher, other)
    values = {**NO_FILES, "do_eval": False, "num_train_steps": 4, "save_checkpoints_steps": 2}
    options = make_options(data, out, **values, teacher=str(other), unlabeled_file=texts)
    run(options)
    expected, best = state_of(out), read_tensors(str(out / "best" / "model.safetensors"))
    without = {"teacher": None, "unlabeled_file": None, "train_file": str(data / "train.tsv")}
    more = {"unlabeled_file": write_texts(tmp_path / "more.txt", seed=9)}
    for change, message in [
        ({"teacher": str(teacher)}, "a run with teacher other; --teacher says"),
        (without, "a run with teacher other; --teacher says None"),
        ({"teacher_weight": 0.1}, r"a run with teacher_weight 0\.5; --teacher_weight says 0\.1"),
        (more, "^--teacher=.*other: --output_dir=.*out holds a run with the answers of other"),
    ]:
        changed = {**values, "teacher": str(other), "unlabeled_file": texts, **change}
        with refused(message):
            run(make_options(data, out, **changed))
    pathlib.Path(list_states(str(out / "state"))[-1]).unlink()
    shutil.rmtree(out / "best")
    shutil.rmtree(other)
    run(options)
    resumed = state_of(out), read_tensors(str(out / "best" / "model.safetensors"))
    for before, now in zip((expected, best), resumed, strict=True):
        assert before.keys() == now.keys()
        for name, tensor in before.items():
            np.testing.assert_array_equal(tensor, now[name], err_msg=name)


@pytest.mark.usefixtures("eagerly")
def test_other_weights_of_the_same_name_are_refused(data, teacher, texts, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(teacher, other)
    values = {**NO_FILES, "do_eval": False, "num_train_steps": 2, "save_checkpoints_steps": 1}
    options = make_options(
        data, tmp_path / "out", **values, teacher=str(other), unlabeled_file=texts
    )
    run(options)
    change_weights(other, lambda tensor: tensor * 2)
    with refused("holds a run with the answers of other weights, or to other rows"):
        run(options)


def change_weights(folder, change):
    """Changes the bias of the head of a trained folder."""
    path = folder / "best" / "model.safetensors"
    tensors = read_tensors(str(path))
    write_tensors(str(path), {**tensors, "classifier.bias": change(tensors["classifier.bias"])})
    sums = read_own(str(folder / "best"))["sha256"]
    replace_own(str(folder / "best"), sha256={**sums, path.name: files.sha256(str(path))})


@pytest.mark.usefixtures("eagerly")
def test_bad_teachers_and_texts_are_one_line(data, teacher, trained, texts, tmp_path):
    values = {**NO_FILES, "num_train_steps": 1, "do_eval": False, "unlabeled_file": texts}

    def refuse(message, **changes):
        changed = {**values, "teacher": str(teacher), **changes}
        with refused(message):
            run(make_options(data, tmp_path / "out", **changed))
        assert not (tmp_path / "out").exists()

    few = {"train_file": str(data / "train.tsv"), "dev_fraction": 0.0}
    regression = {"task_name": "regression"}
    refuse(
        "^--teacher=.*: predicts classification; expected a teacher of regression$", **regression
    )
    refuse("^--teacher=.*: text_b: missing; the model was trained on pairs", teacher=str(trained))
    refuse(
        "^--teacher=.*: multiple_choice learns from no teacher; expected",
        task_name="multiple_choice",
    )
    other = tmp_path / "other"
    shutil.copytree(teacher, other)
    rename_labels(other, "animal", "stone")
    refuse(
        "^--teacher=.*: has the labels 'animal', 'stone'; expected those of the tr",
        teacher=str(other),
        **few,
    )
    rename_labels(other, "animal", "plant")
    change_weights(other, lambda tensor: tensor * np.float32("nan"))
    refuse(
        "^--teacher=.*: its answers to 200 of 200 training texts are not finite", teacher=str(other)
    )
    for name, content, message in [
        ("empty.txt", "", r"empty\.txt: holds no text; expected a text in each line$"),
        ("blank.txt", "\n \n", r"blank\.txt: holds no text; expected a text in each line$"),
        ("head.tsv", "text\n", r"head\.tsv: holds no rows$"),
        ("alike.txt", "a cat\na cat\n", "^the 2 texts of the training set are all alike; expected"),
        (
            "pairs.tsv",
            "text_a\ttext_b\na\tb\n",
            "^--unlabeled_file=.*: has pairs; expected single texts",
        ),
    ]:
        path = tmp_path / name
        path.write_text(content)
        labelled = few if name == "pairs.tsv" else {}
        refuse(message, unlabeled_file=str(path), **labelled)
    refuse("^--unlabeled_file: no file 'gone'$", unlabeled_file="gone")
    with refused("^--unlabeled_file=.*: expected --teacher, too$"):
        make_options(data, tmp_path / "out", **values)
    with refused(r"^--teacher_weight=0\.5: expected --teacher, too$"):
        make_options(data, tmp_path / "out", teacher_weight=0.5)
    with refused("^--teacher=x: expected --do_train; a model has learnt it"):
        FineTuningOptions(output_dir="out", do_eval=True, teacher="x")


@pytest.mark.usefixtures("eagerly")
def test_from_python_with_texts_in_memory(data, teacher, tmp_path):
    rows = [{"text": text} for _, text, _ in class_rows(np.random.default_rng(3), "", 9)]
    student = albert_tf.fine_tune(
        teacher,
        dev=data / "dev.tsv",
        unlabeled=["the old cat", "a big rose"],
        train=rows,
        teacher=teacher,
        output_dir=tmp_path / "out",
        num_train_steps=1,
        max_seq_length=24,
    )
    assert student.labels == ("animal", "plant")
    assert len(answers_of(tmp_path / "out")) == 11
    with refused("^train: missing; expected it, or unlabeled and a teacher$"):
        albert_tf.fine_tune(teacher, output_dir=tmp_path / "new")
    with refused(r"^unlabeled: holds no text"):
        albert_tf.fine_tune(teacher, unlabeled=[], teacher=teacher, output_dir=tmp_path / "new")
