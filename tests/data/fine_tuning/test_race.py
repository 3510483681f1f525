import json

import pytest

from albert_tf.data.fine_tuning.race import examples_of_article, natural_key
from albert_tf.data.fine_tuning.task_table import RACE_TASK, select_level
from tests.data.race_folder import make_article, write_race
from tests.helpers import refused


def read(folder, split="dev", level="all"):
    task = select_level(RACE_TASK, level)
    return task.sets[split][""].read(str(folder), split, task.labels)


@pytest.mark.parametrize("together", [True, False])
def test_levels_and_questions_come_in_order(tmp_path, together):
    write_race(tmp_path, together)
    guids = [
        f"{level}{n}.txt-{q}" for level in ("middle", "high") for n in (2, 10, 100) for q in (0, 1)
    ]
    assert [example.guid for example in read(tmp_path)] == guids
    assert [example.guid for example in read(tmp_path, level="high")] == guids[6:]
    assert [example.guid for example in read(tmp_path, level="middle")] == guids[:6]


def test_only_digits_of_numbers_count_as_numbers():
    assert sorted(["10²1", "9²1", "9"], key=natural_key) == ["9", "9²1", "10²1"]


def test_folder_above_is_accepted_too(tmp_path):
    write_race(tmp_path / "RACE", together=True)
    assert read(tmp_path) == read(tmp_path / "RACE")


def write_article(folder, split, level, article):
    (folder / split / level / "all.txt").write_text(json.dumps(article) + "\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["A", "E"]}, "line 1, question 2: unknown label 'E'; expected 'A', 'B'"),
        ({"answers": ["A"]}, "line 1: received 2 questions, 2 options and 1 answers"),
        ({"answers": ["A", 1]}, r"answers\[1\] is a whole number, expected a text"),
        ({"options": [["a"] * 4, ["b"] * 2]}, r"the options \['b', 'b'\]; expected 4 texts"),
        ({"options": [["a"] * 4, "abcd"]}, r"options\[1\] is a text, expected a list"),
        (
            {"options": [["a"] * 4, ["a", "b", "c", 4]]},
            r"options\[1\]\[3\] is a whole number, expected a text",
        ),
        ({"questions": "Why?"}, "questions is a text, expected a list"),
        (
            {"article": 7},
            "line 1: not an article of RACE: article is a whole number, expected a text",
        ),
        ({"article": " "}, "line 1: the article is empty"),
    ],
)
def test_mistakes_name_file_line_and_question(tmp_path, changes, message):
    write_race(tmp_path, together=True)
    write_article(tmp_path, "dev", "middle", make_article("middle1.txt", 2) | changes)
    with refused(rf"middle/all.txt, .*{message}"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("split", "file", "content", "message"),
    [
        ("dev", "middle/10.txt", "[1]", "not an article of RACE: it is a list, expected an object"),
        ("dev", "middle/all.txt", "\nnothing\n", "middle/all.txt, line 2: not JSON"),
        ("test", "high/10.txt", "5", "high/10.txt: not an article of RACE: it is a whole number, "),
    ],
)
def test_malformed_articles_are_refused(tmp_path, split, file, content, message):
    write_race(tmp_path, together=False)
    (tmp_path / split / file).write_text(content)
    with refused(message):
        read(tmp_path, split)


def test_only_test_articles_may_lack_answers(tmp_path):
    article = make_article("high1.txt", 2, answers=False)
    examples = examples_of_article("", article, RACE_TASK.labels, "test")
    assert [example.label for example in examples] == [None, None]
    for split in ("train", "dev"):
        with refused("answers is missing, expected a list"):
            examples_of_article("", article, RACE_TASK.labels, split)
    write_race(tmp_path, together=True)
    write_article(tmp_path, "test", "middle", article)
    with refused("some articles have answers and others none"):
        read(tmp_path, "test")


def test_folders_without_questions_or_files_are_named(tmp_path):
    message = rf"^data_dir={tmp_path}: no file '{tmp_path}/dev/middle/all.txt'"
    with refused(message):
        read(tmp_path)
    write_race(tmp_path, together=True)
    (tmp_path / "train/middle/all.txt").write_text("")
    write_article(tmp_path, "train", "high", make_article("high1.txt", 0))
    with refused(rf"^{tmp_path}/train: holds no questions$"):
        read(tmp_path, "train")
