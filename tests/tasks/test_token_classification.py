"""`run_classifier.py --task_name=token_classification`, from files to spans in every form."""

import json

import pytest
from seqeval.metrics import f1_score

from albert_tf.tasks.fine_tuning.classification import run
from albert_tf.tasks.fine_tuning.data import read_data
from tests.tasks.names import as_json, make_options, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    write_data(folder)
    return folder


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
