import dataclasses
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.kinds import QuestionAnswering
from albert_tf.tasks.fine_tuning.question_answering import run
from albert_tf.tokenization import AlbertTokenizer
from tests.data.squad_file import make_question, make_squad, write_squad
from tests.tasks.plants import OTHERS, PLANTS, make_options, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    write_data(folder)
    return folder


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def questions_of(path):
    paragraphs = read(path)["data"][0]["paragraphs"]
    return [(question, one["context"]) for one in paragraphs for question in one["qas"]]


def answer_alone(options_class, output_dir, questions, path):
    """Answers questions from a trained folder alone, without right answers."""
    for question, _ in questions:
        del question["answers"]
    file = write_squad(path, make_squad(*((context, [q]) for q, context in questions)))
    (output_dir / "predictions.json").unlink()
    run(options_class(output_dir=str(output_dir), predict_file=file, do_predict=True))
    return read(output_dir / "predictions.json")


def assert_loaded_model_answers(output_dir, asked):
    """Compares `load` with the files that the script wrote."""
    contexts = [context for _, context in asked]
    questions = [question["question"] for question, _ in asked]
    ids = [question["id"] for question, _ in asked]
    answers = albert_tf.load(output_dir).predict(questions, contexts)
    nbest = read(output_dir / "nbest_predictions.json")
    assert dict(zip(ids, answers.answer, strict=True)) == read(output_dir / "predictions.json")
    expected = [nbest[id_][0]["probability"] for id_ in ids]
    np.testing.assert_allclose(answers.score, expected, atol=1e-5)
    spans = zip(contexts, answers.start, answers.end, strict=True)
    assert [context[start:end] for context, start, end in spans] == answers.answer
    if (output_dir / "null_odds.json").exists():
        odds = read(output_dir / "null_odds.json")
        np.testing.assert_allclose(answers.null_odds, [odds[id_] for id_ in ids], atol=1e-4)


@pytest.mark.parametrize(
    ("version", "head"), [("v1", None), pytest.param("v2", "simple", marks=pytest.mark.slow)]
)
def test_learns_evaluates_and_answers(data, tmp_path, version, head):
    out = tmp_path / "out"
    options = make_options(data, out, version, head=head, train_batch_size=32)
    metrics = run(options)
    assert metrics["f1"] > 60
    assert read(out / "task.json")["head"] == "simple"
    assert (out / "null_odds.json").exists() == (version == "v2")
    predictions = read(out / "predictions.json")
    asked = questions_of(data / f"dev-{version}.json")
    assert answer_alone(type(options), out, asked, tmp_path / "asked.json") == predictions
    assert_loaded_model_answers(out, asked)


# Mistakes


def write(tmp_path, *paragraphs):
    return write_squad(tmp_path / "bad.json", make_squad(*paragraphs))


ROSE = ("the rose near", [make_question("a", [("rose", 4)])])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_seq_length": 10}, r"^max_seq_length=10: expected at least 11, .*max_query_length"),
        ({"max_seq_length": 41}, r"^--max_seq_length=41: .* max_position_embeddings 40"),
        ({"train_file": None}, r"^--do_train: expected --train_file; received none"),
        ({"predict_file": None}, r"^--do_eval: expected --predict_file; received none"),
        ({"albert_config_file": None}, r"^--do_train: expected --albert_config_file"),
        ({"data_source": "tfds"}, r"^--train_file: expected --data_source=files; received tfds"),
        ({"doc_stride": 0}, r"^doc_stride=0: expected at least 1"),
        (
            {"early_stopping_evaluations": 2, "predict_file": None, "do_eval": False},
            r"^--early_stopping_evaluations=2: expected --predict_file; received none",
        ),
    ],
)
def test_contradictory_flags_are_refused(data, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        run(make_options(data, tmp_path / "out", **changes))


def test_folder_without_a_model_is_refused(tmp_path):
    options = make_options(tmp_path, tmp_path / "out", do_train=False, albert_config_file=None)
    with pytest.raises(InputError, match=r"holds no model that answers questions"):
        run(options)


@pytest.mark.parametrize(
    ("paragraphs", "message"),
    [
        (
            [("the rose", [{"id": "a", "question": "who"}])],
            r"paragraphs\[0\]\.qas\[0\]\.answers is missing",
        ),
        ([ROSE, ROSE], r"'a' is also the id of data\[0\]\.paragraphs\[0\]\.qas\[0\]; "),
        ([("", [make_question("a", [("rose", 0)])])], r"none of 1 questions can be trained on"),
    ],
)
def test_unusable_training_files_are_refused(data, tmp_path, paragraphs, message):
    path = write(tmp_path, *paragraphs)
    with pytest.raises(InputError, match=message):
        run(make_options(data, tmp_path / "out", train_file=path))


def test_faults_are_counted_in_warnings(data, tmp_path, capsys):
    long = make_question("c", [("rose", 4)], "which plant " * 500)
    path = write(
        tmp_path,
        ROSE,
        ("the moss near", [make_question("b", [("moss", 5)]), long]),
        ("", [make_question("d", [("moss", 0)])]),
    )
    metrics = run(
        make_options(
            data,
            tmp_path / "out",
            train_file=path,
            predict_file=path,
            num_train_steps=1,
            train_batch_size=1,
        )
    )
    assert 0 <= metrics["f1"] <= 100
    assert read(tmp_path / "out" / "predictions.json").keys() == {"a", "b", "c", "d"}
    assert read(tmp_path / "out" / "predictions.json")["d"] == "empty"
    warnings = capsys.readouterr().err
    assert "answers whose text is not at their offset: 3, skipped" in warnings
    assert "answers whose text is not at their offset: 3, kept" in warnings
    assert "questions about an empty passage: 1, skipped (d)" in warnings


def test_too_long_answers_are_counted(data, tmp_path):
    words = "oak fern moss ivy rose"  # a piece each, or more
    path = write(
        tmp_path,
        (f"the {words} near", [make_question("long", [(words, 4)])]),
        (f"a {words} near", [make_question("both", [(words, 2), ("rose", 20)])]),
        ("the rose near", [make_question("short", [("rose", 4)])]),
    )
    kind = QuestionAnswering(max_seq_length=40, max_query_length=7, max_answer_length=4)
    questions = kind.read(path, "dev")
    windows = kind.encode(questions, AlbertTokenizer(str(data / "words.model")))
    (fault,) = kind.find_faults(path, "dev", questions, windows)
    assert fault.startswith(
        "--max_answer_length=4: 1 of 3 questions to evaluate on have only longer"
    )
    assert fault.endswith("and cannot be answered right (long)")


@pytest.mark.slow
def test_wordpiece_vocabulary_finds_answers_in_the_text(data, tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PLANTS, *map(str.lower, OTHERS)]
    pieces += ["which", "plant"]
    pieces += [str(number) for number in range(48 - len(pieces))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    wordpiece = {"spm_model_file": None, "vocab_file": str(tmp_path / "vocab.txt")}
    out = tmp_path / "out"
    assert run(make_options(data, out, train_batch_size=32, **wordpiece))["f1"] > 60
    contexts = {question["id"]: text for question, text in questions_of(data / "dev-v1.json")}
    for id_, answer in read(out / "predictions.json").items():
        assert f" {answer} " in f" {contexts[id_]} "
    exporting = make_options(data, out, export_dir=str(tmp_path / "exported"), **wordpiece)
    with pytest.raises(
        InputError, match=r"^export_format=saved_model: a text model with a WordPiece"
    ):
        run(exporting)


@pytest.mark.parametrize("name", ["start_n_top", "end_n_top"])
def test_beam_wider_than_a_window_is_refused(data, tmp_path, name):
    with pytest.raises(InputError, match=f"{name}=1000000: expected at most 40"):
        run(make_options(data, tmp_path, "v2", **{name: 10**6}))


def test_prediction_needs_a_threshold(data, tmp_path):
    out = tmp_path / "out"
    options = make_options(data, out, "v2", num_train_steps=1, do_eval=False, predict_file=None)
    run(options)
    asked = {"predict_file": str(data / "dev-v2.json"), "do_train": False, "do_predict": True}
    predicting = dataclasses.replace(options, **asked)
    with pytest.raises(
        InputError,
        match="has no null_score_diff_threshold, which --do_eval writes; expected it or --",
    ):
        run(predicting)
    run(dataclasses.replace(predicting, null_score_diff_threshold=-1e9))
    assert set(read(out / "predictions.json").values()) == {""}

    other = dataclasses.replace(options, head="simple")
    with pytest.raises(InputError, match=r"a run with head conditional; --head says simple"):
        run(other)


def test_recipe_depends_on_the_version(data, tmp_path, capsys):
    for version, shown in (("v1", "num_train_steps 3649"), ("v2", "num_train_steps 8144")):
        options = make_options(data, tmp_path / version, version, recipe="paper")
        options = dataclasses.replace(options, num_train_steps=None, learning_rate=None)
        recipe = options.complete()
        assert shown in capsys.readouterr().out
        assert (recipe.train_batch_size, recipe.max_seq_length) == (16, 40)  # as given
        assert recipe.learning_rate == {"v1": 5e-5, "v2": 3e-5}[version]
