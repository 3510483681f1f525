"""Every kind learns, and gives the same answers on every road: trained folder, exported models, lines."""

import dataclasses
import functools
import io
import json
import shutil
import sys

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score, precision_score, recall_score
from sklearn import metrics

import albert_tf
from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tags import Span
from albert_tf.files import read_json_lines
from albert_tf.kinds import KINDS
from albert_tf.kinds.registry import read_kind
from albert_tf.model_folder import read_own
from albert_tf.tasks import embedding
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.data.squad_file import questions_of
from tests.helpers import change_kind, refused
from tests.kinds.samples import SAMPLES
from tests.tasks.animals import LABELS, read_table

each_kind = pytest.mark.parametrize("name", SAMPLES)
# Of the others tests/export has models of texts.
WITH_TEXT_MODEL = ("classification",)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function from a kind to its options, its folder and the metrics of its run."""

    @functools.cache
    def train(name):
        folder = tmp_path_factory.mktemp(name)
        options = SAMPLES[name].make_options(folder)
        with pytest.MonkeyPatch.context() as patch:
            if name not in WITH_TEXT_MODEL:
                patch.setitem(sys.modules, "tensorflow_text", None)
            return options, folder, run(options)

    return train


@pytest.fixture(scope="module")
def loaded(trained):
    """A function from a kind to the model of its trained folder; tests only ask it."""
    return functools.cache(lambda name: albert_tf.load(trained(name)[1] / "out"))


@pytest.fixture(scope="module")
def exported(trained):
    """A function from a kind to its exported model that takes ids; tests only ask it."""
    return functools.cache(lambda name: albert_tf.load(trained(name)[1] / "exported" / "ids" / "1"))


@pytest.fixture(scope="module")
def predicted(trained, loaded):
    """A function from a kind to a few texts and what the trained folder predicts for them."""

    @functools.cache
    def predict(name):
        texts = SAMPLES[name].texts(trained(name)[1])
        return texts, SAMPLES[name].result(loaded(name).predict(*texts))

    return predict


def assert_same(received, expected):
    """Compares lists of tuples, texts and numbers; a tuple may lack the last parts."""
    if isinstance(received, tuple | list):
        for one, other in zip(received, expected, strict=isinstance(received, list)):
            assert_same(one, other)
    elif isinstance(received, str):
        assert received == expected
    else:
        np.testing.assert_allclose(received, expected, atol=2e-5)


def judge_classes(out):
    sides = [[row[side] for row in read_table(out)] for side in ("label", "prediction")]
    scores = {"accuracy": metrics.accuracy_score(*sides)}
    if {*sides[0]} == {*LABELS}:
        scores["f1"] = metrics.f1_score(*sides, pos_label="plant")
        scores["macro_f1"] = metrics.f1_score(*sides, average="macro")
        scores["matthews_corrcoef"] = metrics.matthews_corrcoef(*sides)
    return scores


def judge_scores(out):
    rows = read_table(out)
    sides = np.array([[float(row[side]) for row in rows] for side in ("label", "prediction")])
    measures = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}
    return {name: measure(*sides).statistic for name, measure in measures.items()}


def judge_label_sets(out):
    rows = read_table(out)
    true, predicted = (
        np.array([[name in row[side].split("|") for name in LABELS] for row in rows])
        for side in ("label", "prediction")
    )
    probabilities = [[float(row[f"probability_{name}"]) for name in LABELS] for row in rows]
    thresholds = read_kind(out.parent / "best").thresholds
    np.testing.assert_array_equal(np.array(probabilities) >= thresholds, predicted)
    return {
        "micro_f1": metrics.f1_score(true, predicted, average="micro"),
        "macro_f1": metrics.f1_score(true, predicted, average="macro"),
        "mean_average_precision": metrics.average_precision_score(true, probabilities),
        **{f"threshold_{name}": one for name, one in zip(LABELS, thresholds, strict=True)},
    }


def judge_spans(out):
    def tags_of_characters(text, spans):
        tags = ["O"] * len(text)
        for span in spans:
            count = span["end"] - span["start"]
            inner = [f"B-{span['label']}", *[f"I-{span['label']}"] * (count - 1)]
            tags[span["start"] : span["end"]] = inner
        return tags

    true, predicted = (
        [tags_of_characters(row["text"], row[side]) for row in read_json_lines(str(out))]
        for side in ("true_spans", "spans")
    )
    scores = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    return {name: score(true, predicted) for name, score in scores.items()}


def judge_answers(out):
    answers = json.loads(out.read_text())
    right = [
        answers[question["id"]] in ([answer["text"] for answer in question["answers"]] or [""])
        for question, _ in questions_of(out.parents[1] / "dev-v2.json")
    ]
    return {"exact": 100 * np.mean(right)}


JUDGES = {
    "classification": judge_classes,
    "regression": judge_scores,
    "multi_label": judge_label_sets,
    "multiple_choice": judge_classes,
    "token_classification": judge_spans,
    "embedding": judge_scores,
    "question_answering": judge_answers,
}
TABLES = {
    "classification": {"confusion_matrix.tsv"},
    "multiple_choice": {"confusion_matrix.tsv"},
    "multi_label": {"label_scores.tsv"},
    "token_classification": {"entity_scores.tsv"},
}
PREDICTIONS = {
    "token_classification": "eval_predictions.jsonl",
    "question_answering": "predictions.json",
}


@each_kind
def test_learns_and_other_libraries_agree(name, trained):
    assert set(SAMPLES) == set(KINDS)
    _, folder, received = trained(name)
    kind = read_kind(folder / "out" / "best")
    assert received[kind.metrics[0]] > SAMPLES[name].least
    assert set(kind.reported) <= set(received)
    expected = JUDGES[name](folder / "out" / PREDICTIONS.get(name, "eval_predictions.tsv"))
    for metric, value in expected.items():
        assert metric in kind.reported or metric.startswith("threshold_")
        assert value == pytest.approx(received[metric], abs=1e-5)
    tables = {path.name for path in (folder / "out").glob("*_*.tsv")}
    assert tables - {"eval_predictions.tsv"} == TABLES.get(name, set())
    # Options that were not given are chosen.
    saved = read_own(str(folder / "out" / "state"))["options"]
    assert {"train_batch_size", "warmup_proportion"} <= {*saved["sources"]}
    assert saved["train_batch_size"] == (32 if name == "embedding" else 16)


@each_kind
def test_folders_describe_the_kind(name, trained):
    _, folder, _ = trained(name)
    kind = read_kind(folder / "out" / "best")
    assert kind.name == name
    for form in ("ids", "text") if name in WITH_TEXT_MODEL else ("ids",):
        assert read_kind(folder / "exported" / form / "1" / "assets") == kind


@each_kind
def test_files_have_the_same(name, trained, loaded, exported, predicted):
    _, folder, _ = trained(name)
    path = folder / "out" / PREDICTIONS.get(name, "eval_predictions.tsv")
    if name == "embedding":
        cosines = [float(row["prediction"]) for row in read_table(path)]
        rows = read_table(folder / "dev.tsv")
        pairs = [[row[name] for row in rows] for name in ("text_a", "text_b")]
        for model in (loaded(name), exported(name)):
            np.testing.assert_allclose(model.predict(*pairs), cosines, atol=2e-5)
        return
    if path.suffix == ".tsv":
        rows = [line.split("\t")[2:] for line in path.read_text().splitlines()[1:]]
        received = [SAMPLES[name].answer(fields) for fields in rows]
    elif path.suffix == ".jsonl":
        received = [
            SAMPLES[name].answer([json.dumps(row["spans"])]) for row in read_json_lines(str(path))
        ]
    else:
        received = [(answer,) for answer in json.loads(path.read_text()).values()]
    _, expected = predicted(name)
    assert_same(received[: len(expected)], expected)


@each_kind
def test_exported_model_predicts_the_same(name, trained, exported, predicted):
    texts, expected = predicted(name)
    models = [exported(name)]
    if name in WITH_TEXT_MODEL:
        models.append(albert_tf.load(trained(name)[1] / "exported" / "text" / "1"))
    for model in models:
        assert_same(SAMPLES[name].result(model.predict(*texts)), expected)


@each_kind
def test_no_texts_have_no_answers(name, trained, loaded):
    texts = SAMPLES[name].texts(trained(name)[1])
    model = loaded(name)
    some, none = (model.predict(*lists) for lists in (texts, [[] for _ in texts]))
    assert SAMPLES[name].result(none) == model.predict_json(*([] for _ in texts)) == []
    assert type(none) is type(some)
    for one, other in zip(
        *((x if isinstance(x, tuple) else [x]) for x in (some, none)), strict=True
    ):
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert (other.shape, other.dtype) == ((0, *one.shape[1:]), one.dtype)
    assert model.embed([]).shape == (0, model.model.config.hidden_size)


@each_kind
def test_lines_are_answered_the_same(
    name, trained, loaded, predicted, monkeypatch, eagerly, capsys
):
    _, folder, _ = trained(name)
    texts, expected = predicted(name)
    rows = zip(*texts, strict=True)
    flat = ([*row] if isinstance(row[-1], str) else [*row[:-1], *row[-1]] for row in rows)
    lines = "\n".join("\t".join(fields) for fields in flat).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    capsys.readouterr()
    run(FineTuningOptions(task_name=None, predict_file="-", output_dir=str(folder / "out")))
    header, *answers = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == list(loaded(name).predict_json(*texts)[0])
    assert_same([SAMPLES[name].answer(fields) for fields in answers], expected)


@each_kind
def test_evaluations_agree(name, trained, exported, tmp_path):
    options, folder, metrics = trained(name)
    results = json.loads((folder / "out" / "eval_results.json").read_text())
    baselines = results.pop("baselines", {})
    assert results == metrics
    assert bool(baselines) == KINDS[name].reads_pooler
    for values in baselines.values():
        assert metrics.keys() > values.keys() >= {KINDS[name].metrics[0]}
    if name == "classification":
        # The run is finished, so the same command only evaluates.
        assert run(dataclasses.replace(options, export_dir=None)) == metrics
    if name == "multi_label":  # an evaluation alone chooses no thresholds
        out = shutil.copytree(folder / "out", tmp_path / "out")
        change_kind(out / "best", thresholds=[])
        alone = {"output_dir": str(out), "do_train": False, "export_dir": None}
        received = run(dataclasses.replace(options, **alone))
        assert (received["threshold_plant"], read_kind(out / "best").thresholds) == (0.5, ())
    received = exported(name).evaluate(options.dev_file)
    assert received == pytest.approx(metrics, abs=1e-4)


def test_embed_texts_reads_the_folder_of_an_embedder(trained, loaded, tmp_path):
    _, folder, _ = trained("embedding")
    (tmp_path / "texts.txt").write_text("the old cat\na rose\n")
    options = embedding.EmbeddingOptions(
        model=str(folder / "out"),
        input_file=str(tmp_path / "texts.txt"),
        output_file=str(tmp_path / "embeddings.npy"),
    )
    embedding.run(options)
    expected = loaded("embedding").embed(["the old cat", "a rose"])
    np.testing.assert_array_equal(np.load(tmp_path / "embeddings.npy"), expected)


def test_the_folder_of_another_pooling_or_task_is_refused(trained):
    options, folder, _ = trained("embedding")
    for name, started, now in (("pooling", "mean", "cls"), ("temperature", 0.05, 0.1)):
        message = (
            rf"--output_dir=.*: holds the checkpoints of a run with {name} {started}; --{name}"
        )
        with refused(message):
            run(dataclasses.replace(options, **{name: now}))
    other = trained("regression")[0]
    of_other = {name: getattr(other, name) for name in ("output_dir", "albert_config_file")}
    with refused("a model of another task: task_name regression, but"):
        run(dataclasses.replace(options, **of_other))
    message = "--train_batch_size=16: expected 2 examples or more for each micro"
    with refused(message):
        changes = {"train_batch_size": 16, "accumulate_steps": 16}
        run(dataclasses.replace(options, **changes, output_dir=str(folder / "new")))


@pytest.mark.slow
def test_a_training_starts_from_an_embedder_of_another_pooling(trained, tmp_path):
    options, folder, _ = trained("embedding")
    start = {"init_checkpoint": str(folder / "out" / "best"), "output_dir": str(tmp_path)}
    run(dataclasses.replace(options, **start, pooling="cls", num_train_steps=1, export_dir=None))
    assert read_kind(tmp_path / "best").pooling == "cls"


def test_questions_may_have_one_passage(trained, loaded, capsys):
    _, folder, _ = trained("question_answering")
    model = loaded("question_answering")
    questions, contexts = SAMPLES["question_answering"].texts(folder)
    received = model.predict(questions, contexts[0])
    expected = model.predict(questions, contexts[:1] * len(questions))
    assert received.answer == expected.answer
    np.testing.assert_array_equal(received.start, expected.start)
    with refused("^expected as many of question and context; received 1 and 8$"):
        model.predict(questions[0], contexts)
    with refused("^expected as many of question and context; received 8 and 1$"):
        model.predict(questions, contexts[:1])
    capsys.readouterr()
    asked = {"predict_file": str(folder / "dev-v2.json"), "predict_format": "jsonl"}
    run(FineTuningOptions(output_dir=str(folder / "out"), **asked))
    answers = [json.loads(line)["answer"] for line in capsys.readouterr().out.splitlines()]
    assert answers == [*json.loads((folder / "out" / "predictions.json").read_text()).values()]


def test_answers_have_the_numbers_of_the_files(trained, loaded):
    _, folder, _ = trained("question_answering")
    asked = questions_of(folder / "dev-v2.json")
    ids, questions, contexts = zip(*((q["id"], q["question"], c) for q, c in asked), strict=True)
    answers = loaded("question_answering").predict(questions, contexts)
    predictions, nbest, odds = (
        json.loads((folder / "out" / f"{name}.json").read_text())
        for name in ("predictions", "nbest_predictions", "null_odds")
    )
    assert dict(zip(ids, answers.answer, strict=True)) == predictions
    spans = zip(contexts, answers.start, answers.end, strict=True)
    assert [context[start:end] for context, start, end in spans] == answers.answer
    np.testing.assert_allclose(answers.null_odds, [odds[id_] for id_ in ids], atol=1e-4)
    expected = [nbest[id_][0]["probability"] for id_ in ids]
    np.testing.assert_allclose(answers.score, expected, atol=1e-5)


def test_prediction_needs_a_threshold(trained, tmp_path):
    options, folder, _ = trained("question_answering")
    out = shutil.copytree(folder / "out", tmp_path / "out")
    change_kind(out / "best", null_score_diff_threshold=None)
    asked = {"output_dir": str(out), "do_train": False, "do_eval": False, "do_predict": True}
    predicting = dataclasses.replace(options, **asked, export_dir=None)
    message = "has no null_score_diff_threshold, which --do_eval writes; expected it or --null"
    with refused(message):
        run(predicting)
    run(dataclasses.replace(predicting, null_score_diff_threshold=-1e9))
    assert set(json.loads((out / "predictions.json").read_text()).values()) == {""}
    with refused(r"a run with head conditional; --head says simple"):
        run(dataclasses.replace(options, head="simple"))


def test_words_of_a_conll_file_get_tags(trained):
    _, folder, metrics = trained("token_classification")
    lines = (folder / "out" / "eval_predictions.conll").read_text().split("\n\n")
    columns = [[line.split(" ") for line in text.splitlines()] for text in lines if text.strip()]
    true, predicted = ([[row[side] for row in text] for text in columns] for side in (1, 2))
    assert f1_score(true, predicted) == pytest.approx(metrics["f1"], abs=1e-9)
    words = [row[0] for text in columns for row in text]
    theirs = (folder / "dev.conll").read_text().split("\n")[2:]
    assert words == [line.split()[0] for line in theirs if line]


def test_words_get_tags(loaded):
    model = loaded("token_classification")
    words = ["the", "mean", "of", "open", "cv", ",", "numpy"]
    texts = [words, ["see", "(keras)."], [], ["\u200b", "the"]]
    received = model.predict(texts)
    assert [[each.word for each in of_text] for of_text in received] == texts
    assert [each.tag for each in received[0]] == [
        "O",
        "B-FUNC",
        "O",
        "B-LIB",
        "I-LIB",
        "O",
        "B-LIB",
    ]
    assert [each.tag for of_text in received[1:3] for each in of_text] == ["O", "B-LIB"]
    assert all(0 < each.probability <= 1 for of_text in received for each in of_text)
    spans = model.predict(" ".join(words))[0]
    assert received[0][-1].probability == pytest.approx(spans[-1].score)
    for given in (tuple(words), np.array(words)):
        assert model.predict([given]) == received[:1]
    for wrong, message in (
        ([["a"], "b c"], r"^texts\[1\]: expected a list of words, as others are; received str$"),
        ([["a", 7]], r"^texts\[0\]\[1\]: expected a string; received int$"),
        ([["a", " "]], r"^texts\[0\]\[1\]: the word ' ' is white space; expected a word$"),
    ):
        with refused(message):
            model.predict(wrong)


def test_spans_that_cut_words_are_counted(loaded, capsys):
    model = loaded("token_classification")
    spans = (Span(4, 7, "LIB"), Span(10, 14, "FUNC"))
    texts = [TaggedText("train-1", "the numpy mean", spans=spans)] * 3
    features = model.kind.encode(texts, model.tokenizer)
    (fault,) = model.kind.find_faults("x", "train", texts, features)
    assert fault.startswith("x: 3 of 6 spans begin or end inside a word, such as 'num' in train-1")
    model.evaluate([{"text": text.text_a, "spans": [[*span] for span in spans]} for text in texts])
    assert (
        "warning: dev: 3 of 6 spans begin or end inside a word, such as" in capsys.readouterr().err
    )


def test_a_tagger_for_hugging_face(trained, loaded, tmp_path):
    _, folder, _ = trained("token_classification")
    asked = {"init_checkpoint": str(folder / "out" / "best"), "to": "hugging_face"}
    convert(ConversionOptions(output_checkpoint=str(tmp_path / "x"), **asked))
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["architectures"] == ["AlbertForTokenClassification"]
    assert list(config["id2label"].values()) == ["O", "B-FUNC", "I-FUNC", "B-LIB", "I-LIB"]
    model = loaded("token_classification")
    texts = ["the mean of open cv , numpy", "see keras", "\u200b"]
    assert [bool(spans) for spans in model.predict(texts)] == [True, True, False]
    assert albert_tf.load(tmp_path / "x").predict(texts) == model.predict(texts)
    assert model.labels == ("FUNC", "LIB")


@pytest.mark.slow
def test_a_training_starts_from_a_tagger_of_hugging_face(trained, tmp_path):
    options, folder, metrics = trained("token_classification")
    there = str(tmp_path / "there")
    asked = {"init_checkpoint": str(folder / "out" / "best"), "to": "hugging_face"}
    convert(ConversionOptions(output_checkpoint=there, **asked))
    asked = {"init_checkpoint": there, "num_train_steps": 1, "learning_rate": 0.0}
    asked |= {"output_dir": str(tmp_path / "more"), "export_dir": None}
    assert run(dataclasses.replace(options, **asked))["f1"] == pytest.approx(metrics["f1"])
