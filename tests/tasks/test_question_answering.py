import dataclasses
import json

import pytest

from albert_tf.kinds import QuestionAnswering
from albert_tf.kinds.registry import read_kind
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tokenization import AlbertTokenizer
from tests.data.squad_file import make_question, make_squad, questions_of, write_squad
from tests.helpers import refused, write_wordpiece
from tests.tasks.animals import complete
from tests.tasks.plants import OTHERS, PLANTS, make_options, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    write_data(folder)
    return folder


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def write(tmp_path, *paragraphs):
    return write_squad(tmp_path / "bad.json", make_squad(*paragraphs))


ROSE = ("the rose near", [make_question("a", [("rose", 4)])])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_seq_length": 10}, r"^max_seq_length=10: expected at least 11, .*max_query_length"),
        ({"max_seq_length": 41}, r"^--max_seq_length=41: .* max_position_embeddings 40"),
        ({"start_n_top": 10**6}, "start_n_top=1000000: expected at most 99"),
        ({"end_n_top": 10**6}, "end_n_top=1000000: expected at most 99"),
    ],
)
def test_contradictory_flags_are_refused(data, tmp_path, changes, message):
    with refused(message):
        run(make_options(data, tmp_path / "out", **changes))


@pytest.mark.parametrize(
    ("paragraphs", "message"),
    [
        ([("the rose", [{"id": "a", "question": "who"}])], r"qas\[0\]\.answers is missing"),
        ([("", [make_question("a", [("rose", 0)])])], r"none of 1 questions can be trained on"),
    ],
)
def test_unusable_training_files_are_refused(data, tmp_path, paragraphs, message):
    path = write(tmp_path, *paragraphs)
    with refused(message):
        run(make_options(data, tmp_path / "out", train_file=path))


def test_export_without_a_threshold_is_refused_before_the_training(data, tmp_path):
    asked = {"predict_file": None, "do_eval": False, "export_dir": str(tmp_path / "exported")}
    with refused("has no null_score_diff_threshold, which --do_eval wr", tmp_path):
        run(make_options(data, tmp_path / "out", "v2", **asked))


def test_version_1_with_faults_in_its_questions(data, tmp_path, eagerly, capsys):
    long = make_question("c", [("rose", 4)], "which plant " * 500)
    moss = ("the moss near", [make_question("b", [("moss", 5)]), long])
    path = write(tmp_path, ROSE, moss, ("", [make_question("d", [("moss", 0)])]))
    out, files = tmp_path / "out", {"train_file": path, "predict_file": path}
    options = make_options(data, out, **files, num_train_steps=1, train_batch_size=1)
    metrics = run(options)
    assert 0 <= metrics["f1"] <= 100
    predictions = read(out / "predictions.json")
    assert predictions.keys() == {"a", "b", "c", "d"}
    assert predictions["d"] == "empty"
    assert not (out / "null_odds.json").exists()
    assert read_kind(out / "best").head == "simple"
    warnings = capsys.readouterr().err
    assert "answers whose text is not at their offset: 3, skipped" in warnings
    assert "answers whose text is not at their offset: 3, kept" in warnings
    assert "questions about an empty passage: 1, skipped (d)" in warnings

    # From the trained folder alone, without right answers.
    asked = read(tmp_path / "bad.json")
    for paragraph in asked["data"][0]["paragraphs"]:
        for question in paragraph["qas"]:
            del question["answers"]
    file = write_squad(tmp_path / "asked.json", asked)
    (out / "predictions.json").unlink()
    run(type(options).from_flags(output_dir=str(out), predict_file=file, do_predict=True))
    assert read(out / "predictions.json") == predictions


def test_questions_that_cannot_be_answered_right_are_counted(data, tmp_path):
    words = "oak fern moss ivy rose"  # a piece each, or more
    path = write(
        tmp_path,
        (f"the {words} near", [make_question("long", [(words, 4)])]),
        (f"a {words} near", [make_question("both", [(words, 2), ("rose", 20)])]),
        ("the rose near", [make_question("none", is_impossible=True)]),
    )
    none = f"{path}: 1 of 3 questions have no answer, but this model always gives one (none)"
    for length, version_2, split, expected in (
        (40, False, "dev", ["--max_answer_length=4: 1 of 3 questions to evaluate on", none]),
        (40, True, "train", []),
        (12, False, "train", ["--doc_stride=128: 2 of 3 questions have an answer that no", none]),
    ):
        rule = {"max_seq_length": length, "max_query_length": 7, "max_answer_length": 4}
        kind = QuestionAnswering(version_2_with_negative=version_2, **rule)
        questions = kind.read(path, split)
        windows = kind.encode(questions, AlbertTokenizer(str(data / "words.model")))
        faults = kind.find_faults(path, split, questions, windows)
        for fault, start in zip(faults, expected, strict=True):
            assert fault.startswith(start)


@pytest.mark.slow
def test_wordpiece_vocabulary_finds_answers_in_the_text(data, tmp_path):
    pieces = [*PLANTS, *map(str.lower, OTHERS), "which", "plant"]
    pieces += [str(number) for number in range(43 - len(pieces))]
    vocabulary = write_wordpiece(tmp_path / "vocab.txt", pieces)
    wordpiece = {"spm_model_file": None, "vocab_file": vocabulary}
    out = tmp_path / "out"
    assert run(make_options(data, out, train_batch_size=32, **wordpiece))["f1"] > 60
    contexts = {question["id"]: text for question, text in questions_of(data / "dev-v1.json")}
    for id_, answer in read(out / "predictions.json").items():
        assert f" {answer} " in f" {contexts[id_]} "


def test_recipe_depends_on_the_version(data, tmp_path, capsys):
    for version, shown in (("v1", "--num_train_steps=3649"), ("v2", "--num_train_steps=8144")):
        options = make_options(data, tmp_path / version, version, recipe="paper")
        options = dataclasses.replace(options, num_train_steps=None, learning_rate=None)
        recipe = complete(options)
        assert shown in capsys.readouterr().out
        assert (recipe.train_batch_size, recipe.max_seq_length) == (16, 40)  # as given
        assert recipe.learning_rate == {"v1": 5e-5, "v2": 3e-5}[version]
