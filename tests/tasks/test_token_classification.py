"""`run_classifier.py --task_name=token_classification`, from files to spans in every form."""

import csv
import json

import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

import albert_tf
from albert_tf.errors import InputError
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from albert_tf.tasks.fine_tuning.data import read_data
from tests.tasks.names import as_json, make_options, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    write_data(folder)
    return folder


@pytest.fixture(scope="module")
def tagger(data, tmp_path_factory):
    """Metrics and trained folder of a run on texts of several windows."""
    folder = tmp_path_factory.mktemp("tagger")
    asked = {"do_predict": True, "test_file": str(data / "test.jsonl")}
    return run(make_options(data, folder / "out", **asked)), folder / "out"


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def triples(spans):
    return [(span["start"], span["end"], span["label"]) for span in spans]


def tags_of_characters(text, spans):
    tags = ["O"] * len(text)
    for start, end, label in spans:
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


def test_learns_and_seqeval_agrees(tagger):
    metrics, out = tagger
    assert metrics["f1"] > 0.8
    assert json.loads((out / "eval_results.json").read_text()) == metrics
    rows = read_lines(out / "eval_predictions.jsonl")
    assert len(rows) == 40
    true, predicted = (
        [tags_of_characters(row["text"], triples(row[name])) for row in rows]
        for name in ("true_spans", "spans")
    )
    for name, score in (("f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
        assert score(true, predicted) == pytest.approx(metrics[name], abs=1e-9)
    with open(out / "entity_scores.tsv", encoding="utf-8") as file:
        scores = {row["label"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert set(scores) == {"FUNC", "LIB", "micro avg"}
    assert float(scores["micro avg"]["f1"]) == pytest.approx(metrics["f1"], abs=1e-6)
    assert sum(int(scores[name]["support"]) for name in ("FUNC", "LIB")) == sum(
        len(row["true_spans"]) for row in rows
    )


def test_texts_without_a_word(tagger):
    _, out = tagger
    assert albert_tf.load(out).predict(["\u200b"]) == [[]]
    assert albert_tf.load(out).labels == ("FUNC", "LIB")


def test_conll_of_bioes_trains_a_model_of_bioes(data, tmp_path):
    out = tmp_path / "out"
    asked = {"do_predict": True, "test_file": str(data / "dev.conll")}
    metrics = run(make_options(data, out, "conll", tagging_scheme="BIOES", **asked))
    assert metrics["f1"] > 0.8
    labels = json.loads((out / "task.json").read_text())["labels"]
    assert labels[:5] == ["O", "B-FUNC", "I-FUNC", "E-FUNC", "S-FUNC"]
    lines = (out / "eval_predictions.conll").read_text().split("\n\n")
    columns = [[line.split(" ") for line in text.splitlines()] for text in lines if text.strip()]
    true, predicted = ([[row[side] for row in text] for text in columns] for side in (1, 2))
    assert f1_score(true, predicted) == pytest.approx(metrics["f1"], abs=1e-9)
    words = [row[0] for text in columns for row in text]
    theirs = (data / "dev.conll").read_text().split("\n")[2:]
    assert words == [line.split()[0] for line in theirs if line]
    assert (out / "test_results.conll").read_text() == (out / "eval_predictions.conll").read_text()


def test_hugging_face_there_and_back(tagger, tmp_path):
    _, out = tagger
    there, back = str(tmp_path / "there"), str(tmp_path / "back" / "ckpt")
    options = {"init_checkpoint": str(out / "best"), "output_checkpoint": there}
    convert(ConversionOptions(to="hugging_face", **options))
    config = json.loads((tmp_path / "there" / "config.json").read_text())
    assert config["architectures"] == ["AlbertForTokenClassification"]
    assert list(config["id2label"].values()) == ["O", "B-FUNC", "I-FUNC", "B-LIB", "I-LIB"]
    texts = ["the mean of open cv, numpy", "see keras"]
    expected = albert_tf.load(out).predict(texts)
    assert any(expected)
    assert albert_tf.load(there).predict(texts) == expected
    convert(ConversionOptions(init_checkpoint=there, to="albert_tf", output_checkpoint=back))
    one, other = (
        json.loads((folder / "task.json").read_text()) for folder in (tmp_path / "back", out)
    )
    for name in ("kind", "task_name", "labels"):
        assert one[name] == other[name]


@pytest.mark.slow
def test_a_run_starts_from_a_hugging_face_tagger(data, tagger, tmp_path):
    _, out = tagger
    there = str(tmp_path / "there")
    options = {"init_checkpoint": str(out / "best"), "output_checkpoint": there}
    convert(ConversionOptions(to="hugging_face", **options))
    asked = {"init_checkpoint": there, "num_train_steps": 1, "learning_rate": 0.0}
    assert run(make_options(data, tmp_path / "more", **asked))["f1"] > 0.8


@pytest.mark.slow
def test_tflite_and_trials(data, tagger, tmp_path):
    _, out = tagger
    run(
        ClassificationOptions(output_dir=str(out), export_dir=str(tmp_path), export_format="tflite")
    )
    assert (tmp_path / "tflite" / "1" / "model.tflite").exists()
    run(make_options(data, tmp_path / "trials", num_trials=2, num_train_steps=2))
    summary = json.loads((tmp_path / "trials" / "trials.json").read_text())["summary"]
    assert set(summary) == {"f1", "precision", "recall", "loss"}


@pytest.mark.slow
def test_wordpiece_vocabulary(data, tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "mean", "of", "numpy", ","]
    pieces += [str(number) for number in range(54 - len(pieces))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    asked = {"spm_model_file": None, "vocab_file": str(tmp_path / "vocab.txt")}
    out = tmp_path / "out"
    run(make_options(data, out, num_train_steps=2, **asked))
    assert len(albert_tf.load(out).predict(["the mean of numpy"])) == 1
    export = {"output_dir": str(out), "export_dir": str(tmp_path / "exported")}
    with pytest.raises(
        InputError, match="export_format=saved_model: a text model with a WordPiece vocabulary"
    ):
        run(ClassificationOptions(**export))


def test_spans_that_cut_words_are_counted(data, tmp_path, capsys):
    path = tmp_path / "train.jsonl"
    texts = [as_json("the numpy mean", [(4, 7, "LIB"), (10, 14, "FUNC")])] * 3
    path.write_text("".join(json.dumps(text) + "\n" for text in texts))
    asked = {"dev_file": None, "do_eval": False, "train_file": str(path)}
    options = make_options(data, tmp_path / "out", **asked).complete()
    read_data(options, options.load_tokenizer())
    message = (
        f"warning: {path}: 3 of 6 spans begin or end inside a word, such as 'num' in train-1; the "
        "model finds whole words"
    )
    assert message in capsys.readouterr().err


def test_a_head_of_other_labels_is_refused(data, tagger, tmp_path):
    _, out = tagger
    path = tmp_path / "train.jsonl"
    texts = [as_json("the cat", [(4, 7, "A")]), as_json("the oak", [(4, 7, "P")])]
    path.write_text("".join(json.dumps(text) + "\n" for text in texts))
    asked = {"dev_file": None, "do_eval": False, "init_checkpoint": str(out / "best")}
    with pytest.raises(InputError, match="its head is of the classes O, B-FUNC, I-FUNC, B-LIB"):
        run(make_options(data, tmp_path / "out", train_file=str(path), **asked))
