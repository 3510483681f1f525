"""A teacher's answers to texts with and without labels, learnt by models of each kind that can."""

import dataclasses
import json
import math
import pathlib
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf import files, folders
from albert_tf.checkpoints.safetensors_files import read_tensors, write_tensors
from albert_tf.conversion import save_model
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.kinds import Embedding, TokenClassification
from albert_tf.kinds.kind import open_source
from albert_tf.kinds.sentence_transformers import module_files
from albert_tf.model_folder import list_states, read_own, replace_own
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.training.reports import read_reports
from tests.helpers import change_json, contents_of, refused, tiny_config
from tests.tasks import names
from tests.tasks.animals import (
    NO_FILES,
    class_rows,
    make_options,
    mixed,
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
    more = {"unlabeled_file": write_texts(tmp_path / "more.txt", count=201)}
    others = {"unlabeled_file": write_texts(tmp_path / "others.txt", seed=9)}
    for change, message in [
        ({"teacher": str(teacher)}, "a run with teacher other; --teacher says"),
        (without, "a run with teacher other; --teacher says None"),
        ({"teacher_weight": 0.1}, r"a run with teacher_weight 0\.5; --teacher_weight says 0\.1"),
        (others, "holds a run that was trained on other rows"),
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
    change_weights(other, 2)
    with refused("holds a run with the answers of other weights, or to other rows"):
        run(options)


def change_weights(folder, factor):
    """Multiplies the head of a trained folder."""
    path = folder / "best" / "model.safetensors"
    tensors = read_tensors(str(path))
    changed = {"classifier.weight": factor * tensors["classifier.weight"]}
    write_tensors(str(path), {**tensors, **changed})
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
    # Infinite logits have no probabilities.
    change_weights(other, np.float32(3e38))
    refuse(
        "^--teacher=.*: its answers to some of the training texts are not finite",
        teacher=str(other),
    )
    for name, content, message in [
        ("empty.txt", "", r"empty\.txt: holds no text; expected a text in each line$"),
        ("blank.txt", "\n \n", r"blank\.txt: holds no text; expected a text in each line$"),
        ("head.tsv", "text\n", r"head\.tsv: holds no rows after the header row$"),
        ("alike.txt", "a cat\na cat\n", "^the 2 texts of the training set are all alike; expected"),
        (
            "pairs.tsv",
            "text_a\ttext_b\na\tb\n",
            "^--unlabeled_file=.*: has pairs of texts; expected single texts",
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
    with refused("^unlabeled: expected teacher, too$"):
        albert_tf.fine_tune(teacher, unlabeled=["a cat"], output_dir=tmp_path / "new")
    pairs = [{"text_a": "a cat", "text_b": "an oak"}]
    with refused("^unlabeled: has pairs of texts; expected single texts, as in the training set$"):
        albert_tf.fine_tune(
            teacher, rows, unlabeled=pairs, teacher=teacher, output_dir=tmp_path / "new"
        )


def few_steps(**more):
    return {"num_train_steps": 2, "save_checkpoints_steps": 1, "do_eval": False, **NO_FILES, **more}


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("kind", "labels", "answer"),
    [
        ("regression", [10, 500], lambda result: result.score[:, None]),
        ("multi_label", ["a|b", "b"], lambda result: result.probabilities),
    ],
)
def test_scores_and_sets_of_labels(kind, labels, answer, data, texts, tmp_path):
    rows = [
        [text, labels[number % 2]] for number, text in enumerate(["a cat", "an oak", "a dog"] * 4)
    ]
    train = write_table(tmp_path / "train.tsv", ["text", "label"], rows)
    other, out = tmp_path / "other", tmp_path / "out"
    values = few_steps(task_name=kind, train_file=train, dev_file=train, learning_rate=3e-2)
    run(make_options(data, other, **values))
    teacher = albert_tf.load(other)
    taught = {"teacher": str(other), "unlabeled_file": texts, "do_eval": True}
    run(make_options(data, out, **{**values, **taught}))
    lines = pathlib.Path(texts).read_text().splitlines()
    expected = answer(teacher.predict([text for text, _ in rows] + lines))
    np.testing.assert_allclose(answers_of(out), expected, rtol=1e-5)
    results = json.loads((out / "eval_results.json").read_text())["teacher"]
    metric = teacher.kind.metrics[0]
    assert results[metric] == pytest.approx(teacher.evaluate(train)[metric], abs=1e-4)
    # Without labels the student has those of its teacher, and its scale.
    alone = tmp_path / "alone"
    taught |= {"train_file": None, "dev_file": None}
    run(make_options(data, alone, **{**values, **taught, "do_eval": False}))
    student = albert_tf.load(alone)
    assert student.labels == teacher.labels
    loss = json.loads((alone / "metrics.jsonl").read_text().splitlines()[0])
    assert loss["loss"] == loss["teacher_loss"]
    if kind == "regression":
        assert loss["loss"] < 100


@pytest.mark.usefixtures("eagerly")
def test_tags_of_words(tmp_path):
    names.write_data(tmp_path)
    other, out = tmp_path / "other", tmp_path / "out"
    values = {
        "num_train_steps": 2,
        "save_checkpoints_steps": 1,
        "dev_file": str(tmp_path / "few.conll"),
    }
    names.write_conll(tmp_path / "few.conll", 5, 2)
    values |= {"train_file": str(tmp_path / "few.conll")}
    run(names.make_options(tmp_path, other, **values))
    texts = tmp_path / "texts.txt"
    texts.write_text("numpy returns the mean\nkeras calls dot, see sort\n")
    taught = {"teacher": str(other), "unlabeled_file": str(texts)}
    run(names.make_options(tmp_path, out, **values, **taught))
    teacher = albert_tf.load(other)
    found = teacher.predict(texts.read_text().splitlines())
    received = [
        (row[1], row[2], teacher.labels[row[3]]) for row in answers_of(out).tolist() if row[0] >= 5
    ]
    assert received == [(span.start, span.end, span.label) for spans in found for span in spans]
    results = json.loads((out / "eval_results.json").read_text())["teacher"]
    assert results["f1"] == pytest.approx(teacher.evaluate(tmp_path / "few.conll")["f1"])
    run(
        names.make_options(tmp_path, tmp_path / "alone", **{**values, **taught, "train_file": None})
    )
    assert albert_tf.load(tmp_path / "alone").labels == teacher.labels
    (tmp_path / "few.conll").write_text("numpy B-OTHER\nthe O\n")
    with refused(
        "^--teacher=.*other: finds 'FUNC', 'LIB'; expected the labels of the training set"
    ):
        run(names.make_options(tmp_path, tmp_path / "new", **{**values, **taught}))


def embedding_options(data, out, **changes):
    values = few_steps(task_name="embedding", learning_rate=1e-3, **changes)
    return make_options(data, out, **values)


@pytest.fixture(scope="module")
def embedders(data, tmp_path_factory):
    """Folders of embedders of width 48 and 24, without a training."""
    folders = {}
    for width in (48, 24):
        folder = tmp_path_factory.mktemp("embedder") / str(width)
        config = tiny_config(vocab_size=50, num_hidden_layers=1, hidden_size=width)
        vocabulary = {"spiece.model": (data / "words.model").read_bytes()}
        save_model(AlbertEncoder(config, seed=width), str(folder), contents=vocabulary)
        folders[width] = folder
    return folders


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("width", [48, 24])
def test_embeddings_of_texts_and_pairs(width, data, embedders, texts, tmp_path, capsys):
    out, rng = tmp_path / "out", np.random.default_rng(0)
    scored = [
        [mixed(rng, "cat"), mixed(rng, word), score] for word, score in [("cat", 1), ("oak", 0)] * 3
    ]
    dev = write_table(tmp_path / "dev.tsv", ["text_a", "text_b", "score"], scored)
    taught = {"teacher": str(embedders[width]), "dev_file": dev, "do_eval": True}
    options = embedding_options(
        data,
        out,
        **{**taught, "unlabeled_file": texts, "num_train_steps": 4, "save_checkpoints_steps": 2},
    )
    run(options)
    wider = "the student embeds in 48 dimensions, wider than the 24 of its teacher: a projection is"
    assert (wider in capsys.readouterr().out) == (width == 24)
    teacher = albert_tf.load(embedders[width])
    expected = teacher.embed(pathlib.Path(texts).read_text().splitlines(), normalize=True)
    np.testing.assert_allclose(answers_of(out)[:, 0], expected, atol=1e-6)
    results = json.loads((out / "eval_results.json").read_text())["teacher"]
    assert results["spearman"] == pytest.approx(teacher.evaluate(dev)["spearman"])
    student, best = albert_tf.load(out), read_tensors(str(out / "best" / "model.safetensors"))
    assert student.embed("a cat").shape == (1, 48)
    assert not any("projection" in name and "teacher" in name for name in best)
    # The projection is a part of the state.
    state = state_of(out)
    assert any("teacher_projection" in name for name in state) == (width == 24)
    pathlib.Path(list_states(str(out / "state"))[-1]).unlink()
    run(options)
    for name, tensor in state_of(out).items():
        np.testing.assert_array_equal(tensor, state[name], err_msg=name)
    for name, tensor in read_tensors(str(out / "best" / "model.safetensors")).items():
        np.testing.assert_array_equal(tensor, best[name], err_msg=name)
    # A table of pairs that belong together is learnt, too; one of single texts by the teacher alone.
    for columns, parts in ((["text_a", "text_b"], True), (["text"], False)):
        train = write_table(
            tmp_path / f"{parts}.tsv", columns, [row[: len(columns)] for row in scored]
        )
        folder = tmp_path / f"out-{parts}"
        run(embedding_options(data, folder, **taught, train_file=train))
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        (line, *_) = (line for line in lines if line["split"] == "train")
        assert ("label_loss" in line) == parts
    pairs = {"train_file": str(tmp_path / "True.tsv"), "unlabeled_file": texts}
    with refused(
        "^--unlabeled_file=.*texts.txt: is read as single texts; expected pairs of texts, as in the"
    ):
        run(embedding_options(data, tmp_path / "new", **taught, **pairs))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("width", [48, 24])
def test_a_student_of_several_poolings(width, data, embedders, texts, tmp_path):
    values = {"teacher": str(embedders[width]), "unlabeled_file": texts, "pooling": "cls+mean"}
    run(embedding_options(data, tmp_path / "out", **values))
    assert albert_tf.load(tmp_path / "out").embed("a cat").shape == (1, 96)
    (line, *_) = read_reports(str(tmp_path / "out"))
    assert 0 < line["teacher_loss"] < 5


@pytest.mark.usefixtures("eagerly")
def test_the_map_to_the_teachers_width_begins_with_a_regression(data, embedders, texts, tmp_path):
    values = {"teacher": str(embedders[24]), "unlabeled_file": texts, "num_train_steps": 1}
    run(embedding_options(data, tmp_path / "out", **values, init_checkpoint=str(embedders[48])))
    (line, *_) = read_reports(str(tmp_path / "out"))
    assert line["teacher_loss"] < 0.3  # of a map that begins at random, above 0.8


@pytest.mark.usefixtures("eagerly")
def test_a_teacher_in_several_files(data, embedders, texts, tmp_path):
    sharded, part = tmp_path / "sharded", "model-00001-of-00001.safetensors"
    shutil.copytree(embedders[48], sharded)
    change_json(sharded / "config.json", albert_tf=None)
    (sharded / "model.safetensors").rename(sharded / part)
    index = {"metadata": {}, "weight_map": dict.fromkeys(read_tensors(str(sharded / part)), part)}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    values = {"teacher": str(sharded), "unlabeled_file": texts}
    run(embedding_options(data, tmp_path / "out", **values))
    assert len(answers_of(tmp_path / "out")) == len(pathlib.Path(texts).read_text().splitlines())


@pytest.mark.usefixtures("eagerly")
def test_answers_are_those_of_all_files_of_the_teacher(data, embedders, texts, tmp_path):
    other, out = tmp_path / "other", tmp_path / "out"
    shutil.copytree(embedders[48], other)
    change_json(other / "config.json", albert_tf=None)
    options = embedding_options(data, out, teacher=str(other), unlabeled_file=texts)
    for pooling in ("mean", "cls"):  # the second run finds the answers of the first
        kind = Embedding(pooling=pooling, max_seq_length=16)
        for name, content in module_files(kind, tiny_config(hidden_size=48)).items():
            (other / name).parent.mkdir(exist_ok=True)
            (other / name).write_bytes(content)
        run(options)
        expected = albert_tf.load(other).embed(pathlib.Path(texts).read_text().splitlines())
        np.testing.assert_allclose(answers_of(out)[:, 0], expected, atol=1e-6)
        for name in ("state", "best"):
            shutil.rmtree(out / name)


@pytest.mark.usefixtures("eagerly")
def test_answers_are_kept_while_a_training_reads_them(data, embedders, texts, tmp_path):
    out, values = tmp_path / "out", {"unlabeled_file": texts}
    run(embedding_options(data, out, teacher=str(embedders[48]), **values))
    before = contents_of(out / "teacher")
    for name in ("state", "best"):
        shutil.rmtree(out / name)
    with folders.lock_folder(str(out)), refused("out: process .* is training in this folder"):
        run(embedding_options(data, out, teacher=str(embedders[24]), **values))
    assert contents_of(out / "teacher") == before


@pytest.mark.usefixtures("eagerly")
def test_other_dev_rows_than_the_teacher_answered_are_named(data, embedders, tmp_path, capsys):
    rows = [["a cat", "a dog", 1], ["a cat", "an oak", 0], ["a fern", "an oak", 1]]
    dev, other = (
        write_table(tmp_path / f"{number}.tsv", ["text_a", "text_b", "score"], rows[:number])
        for number in (2, 3)
    )
    values = {"teacher": str(embedders[48]), "train_file": dev, "do_eval": True}
    run(embedding_options(data, tmp_path / "out", dev_file=dev, **values))
    assert "has not answered" not in capsys.readouterr().out
    run(embedding_options(data, tmp_path / "out", dev_file=other, **values))
    line = f"teacher {embedders[48].name}: has not answered these dev rows, so it is not compared\n"
    assert line in capsys.readouterr().out


@pytest.mark.parametrize("count", [3, 300])
def test_progress_counts_pairs_once(count, embedders):
    model = albert_tf.load(embedders[24]).make_embedder()
    reported = []
    model.run(model.kind.make_examples(["a cat"] * count, ["an oak"] * count), reported.append)
    assert sum(reported) == count


@pytest.mark.usefixtures("eagerly")
def test_options_of_labels_are_refused_without_labels(data, teacher, embedders, texts, tmp_path):
    few = write_table(tmp_path / "few.tsv", ["text"], [["a cat"], ["an oak"]])
    of_classes = {"class_weights": "balanced", "label_smoothing": 0.1, "teacher_weight": 0.9}
    asked = [({"train_file": few}, "best_metric", "loss")]
    asked += [({"train_file": few}, "dev_fraction", 0.2)]
    asked += [({"train_file": few}, *option) for option in of_classes.items()]
    asked += [({"unlabeled_file": texts}, *option) for option in of_classes.items()]
    for source, name, value in asked:
        changes = {**few_steps(), **source, name: value}
        with refused(f"^--{name}.*: .*(has no labels|no training row has a label)"):
            run(make_options(data, tmp_path / "out", teacher=str(teacher), **changes))
    changes = {"teacher": str(embedders[48]), "unlabeled_file": texts, "temperature": 0.1}
    with refused("^--temperature=0.1: no training row has a label, so it has no effect"):
        run(embedding_options(data, tmp_path / "out", **changes))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("eagerly")
def test_reports_without_a_labelled_row_have_no_numbers_of_labels(data, teacher, texts, tmp_path):
    rows = [["a cat", "animal"], ["an oak", "plant"]]
    few = write_table(tmp_path / "few.tsv", ["text", "label"], rows)
    values = few_steps(train_file=few, dev_fraction=0, num_train_steps=6, train_batch_size=2)
    options = make_options(
        data, tmp_path / "out", **values, teacher=str(teacher), unlabeled_file=texts
    )
    run(options)
    lines = read_reports(str(tmp_path / "out"))
    assert all(line["loss"] > 0 for line in lines)
    without = [line for line in lines if "label_loss" not in line]
    assert without
    assert not any("accuracy" in line for line in without)
    assert all(line["label_loss"] > 0 for line in lines if line not in without)


@pytest.mark.usefixtures("eagerly")
def test_what_is_not_read_of_texts_without_labels_is_named(data, teacher, texts, tmp_path, capsys):
    few = write_table(
        tmp_path / "few.tsv", ["body", "sort"], [["a cat", "animal"], ["oak", "plant"]]
    )
    values = few_steps(train_file=few, dev_fraction=0, text_column="body", label_column="sort")
    table = write_table(
        tmp_path / "more.tsv", ["body", "label", "x"], [["hen", 1, 2], ["ivy", 2, 3]]
    )
    options = make_options(
        data, tmp_path / "out", **values, teacher=str(teacher), unlabeled_file=table
    )
    run(options)
    said = capsys.readouterr().err
    assert "more.tsv: reads 'body' as the text; not read: 'label', 'x'\n" in said
    # Lines of text have no columns that could be missing.
    run(dataclasses.replace(options, output_dir=str(tmp_path / "new"), unlabeled_file=texts))
    assert "has no column" not in capsys.readouterr().err


@pytest.mark.usefixtures("eagerly")
def test_options_of_labels_are_refused_where_labels_count_nothing(
    data, teacher, embedders, tmp_path
):
    values = few_steps(train_file=str(data / "train.tsv"), teacher_weight=1.0)
    for name, value in {"class_weights": "balanced", "label_smoothing": 0.1}.items():
        with refused(
            f"^--{name}={value}: the labels count nothing at --teacher_weight=1, so it has"
        ):
            run(
                make_options(
                    data, tmp_path / "out", **values, teacher=str(teacher), **{name: value}
                )
            )
    pairs = str(data / "pairs-test.tsv")
    values |= {"train_file": pairs, "teacher": str(embedders[48]), "temperature": 0.1}
    with refused(
        "^--temperature=0.1: the labels count nothing at --teacher_weight=1, so it has no"
    ):
        run(embedding_options(data, tmp_path / "out", **values))
    cola = tmp_path / "glue" / "CoLA"
    cola.mkdir(parents=True)
    for split in ("train", "dev"):
        write_table(cola / f"{split}.tsv", ["x", 0, "*", "a cat"], [["x", 1, "", "an oak"]])
    values |= {"train_file": None, "teacher": str(teacher), "temperature": None}
    values |= {"task_name": "cola", "data_dir": str(tmp_path / "glue"), "label_smoothing": 0.1}
    with refused("^--label_smoothing=0.1: the labels count nothing at --teacher_weight=1"):
        run(make_options(data, tmp_path / "out", **values))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("empty", ["", " ", None])
def test_rows_without_a_label_beside_others_are_taught(empty, data, teacher, tmp_path, capsys):
    rows = [
        {"text": text, "label": empty if number % 3 else label}
        for number, (label, text, _) in enumerate(class_rows(np.random.default_rng(3), "", 30))
    ]
    values = {**few_steps(), "train_file": "train", "dev_fraction": 0.3}
    options = make_options(data, tmp_path / "out", **values, teacher=str(teacher))
    run(options, {"train": rows})
    out, err = capsys.readouterr()
    assert "train: 20 of 30 rows have no label, and learn from --teacher alone\n" in out
    assert "3 rows, chosen by --random_seed, are the dev set; 7 are trained on" in out
    assert err.count("train: reads 'text' as the text, 'label' as the label\n") == 1
    assert err.count("train: reads") == 1
    assert len(answers_of(tmp_path / "out")) == 27
    assert albert_tf.load(tmp_path / "out").labels == ("animal", "plant")
    alone = make_options(data, tmp_path / "alone", **values)
    with refused(r"^train\[1\]: the label is (empty|missing)"):
        run(alone, {"train": rows})


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("multi_label", {"label": [["a", "b"], [], None, ["b"]]}),
        ("multi_label", {"label_a": [1, 0, "", 1], "label_b": [0, 0, "", 1]}),
        ("regression", {"score": [1.5, 0, math.nan, 3]}),
        ("token_classification", {"spans": [[[0, 1, "A"]], [], None, []]}),
    ],
)
def test_the_third_row_of_each_kind_has_no_label(kind, cells, data, tmp_path, capsys):
    columns = {"text": ["a cat", "an oak", "the dog", "a rose"], **cells}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    values = few_steps(task_name=kind, dev_fraction=0, train_file="train")
    run(make_options(data, tmp_path / "other", **values), {"train": [*rows[:2], rows[3]]})
    capsys.readouterr()
    options = make_options(data, tmp_path / "out", **values, teacher=str(tmp_path / "other"))
    run(options, {"train": rows})
    said = "train: 1 of 4 rows have no label, and learn from --teacher alone\n"
    assert said in capsys.readouterr().out


@pytest.mark.usefixtures("eagerly")
def test_pairs_without_a_score_beside_others(data, embedders, tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [[mixed(rng, "cat"), mixed(rng, "oak"), score] for score in (1, 0, "", 3, "", 2)]
    train = write_table(tmp_path / "train.tsv", ["text_a", "text_b", "score"], rows)
    values = {"train_file": train, "teacher": str(embedders[48]), "dev_fraction": 0}
    run(embedding_options(data, tmp_path / "out", **values))
    said = "train.tsv: 2 of 6 rows have no label, and learn from --teacher alone\n"
    assert said in capsys.readouterr().out
    assert answers_of(tmp_path / "out").shape == (6, 2, 48)
    assert all("label_loss" in line for line in read_reports(str(tmp_path / "out")))


@pytest.mark.usefixtures("eagerly")
def test_an_unknown_column_of_labels_is_named(data, teacher, tmp_path, capsys):
    rows = [["a cat", "animal"], ["an oak", "plant"]]
    train = write_table(tmp_path / "train.tsv", ["text", "sort"], rows)
    values = few_steps(train_file=train)
    run(make_options(data, tmp_path / "out", **values, teacher=str(teacher)))
    out, err = capsys.readouterr()
    assert "train.tsv: 2 of 2 rows have no label, and learn from --teacher alone\n" in out
    assert "train.tsv: reads 'text' as the text; not read: 'sort'\n" in err


def test_spans_of_texts_without_labels_are_named_as_not_read(tmp_path, capsys):
    rows = [{"text": "a cat", "spans": "no list"}]
    source = open_source(TokenClassification, rows, "test", names=ColumnNames())
    (text,) = TokenClassification().read_unlabelled(source)
    assert text.spans is None
    assert "test: reads 'text' as the text; not read: 'spans'\n" in capsys.readouterr().err
