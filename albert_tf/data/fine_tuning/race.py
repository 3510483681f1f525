"""RACE: questions from English exams about articles, each with four answers to choose from."""

import collections
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.data.fine_tuning.examples import Example, Labels, check_label
from albert_tf.errors import InputError
from albert_tf.options import check_layout

LEVELS = ("middle", "high")
_NUM_CHOICES = 4
_ARTICLE = {"id": str, "article": str, "questions": [str], "options": [[str]]}
_FOLDER = "RACE"  # in the published archive


@dataclasses.dataclass(frozen=True)
class RaceFolders:
    """The articles of a split: in `<split>/<level>/all.txt`, one a line, or one in each `*.txt`."""

    levels: tuple[str, ...] = LEVELS

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Reads the levels in order; `data_dir` holds the splits or, as in the original, their folder."""
        examples = []
        above = os.path.join(data_dir, _FOLDER)
        top = above if files.is_folder(above) else data_dir
        for level in self.levels:
            folder = os.path.join(top, split, level)
            for place, article in _read_articles(data_dir, folder):
                examples += examples_of_article(place, article, labels, split, level)
        if not examples:
            raise InputError(f"{os.path.join(top, split)}: holds no questions")
        if len({example.label is None for example in examples}) > 1:
            raise InputError(
                f"{os.path.join(top, split)}: some articles have answers and others none; "
                "expected them in all or in none"
            )
        return examples


def write_race_answers(guids: Sequence[str], answers: Sequence[str]) -> str:
    """Returns the letters of each article's questions in order, like `answers` in RACE's own files."""
    letters = collections.defaultdict(list)
    for guid, answer in zip(guids, answers, strict=True):
        letters[guid.rpartition("-")[0]].append(answer)
    return files.to_json(letters)


def _read_articles(data_dir: str, folder: str) -> Iterator[tuple[str, Any]]:
    """Yields (file and line, article) of a level's folder, in the order of the file names."""
    together = os.path.join(folder, "all.txt")
    if files.exists(together):
        for number, line in files.read_lines(together):
            if line.strip():
                yield f"{together}, line {number}", files.parse_json(line, together, number)
        return
    names = files.matches(folder, "*.txt")
    if not names:
        raise InputError(
            f"data_dir={data_dir}: no file '{together}' and none like '{folder}/1.txt'; expected "
            "RACE's folder, which holds train/middle, train/high and so on"
        )
    for name in sorted(names, key=natural_key):
        yield name, files.read_json(name)


def natural_key(name: str) -> tuple:
    """Returns a sort key that puts `9.txt` before `10.txt`."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name))


def examples_of_article(
    place: str, article: Any, labels: Labels, split: str, level: str = ""
) -> list[Example]:
    """Makes an example of each question.

    Its id is the article's and the question's number from 0: `high1.txt-0`. An article has `id`,
    `article`, and for each question an entry in `questions`, in `options`, four texts, and in `answers`,
    a letter; one of a test set may lack `answers`. `place` is where it is from, for messages.
    """
    answers = "answers?" if split == "test" else "answers"
    check_layout(article, {**_ARTICLE, answers: [str]}, f"{place}: not an article of RACE")
    if not article["article"].strip():
        raise InputError(f"{place}: the article is empty")
    questions, options = article["questions"], article["options"]
    answers = article.get("answers", [None] * len(questions))
    if not len(questions) == len(options) == len(answers):
        raise InputError(
            f"{place}: received {len(questions)} questions, {len(options)} options and "
            f"{len(answers)} answers; expected as many of each"
        )
    examples = []
    rows = zip(questions, options, answers, strict=True)
    for number, (question, choices, answer) in enumerate(rows):
        question_place = f"{place}, question {number + 1}"
        if len(choices) != _NUM_CHOICES:
            raise InputError(
                f"{question_place}: received the options {choices!r}; expected 4 texts"
            )
        if answer is not None:
            check_label(question_place, answer, labels)
        guid, texts = f"{article['id']}-{number}", (article["article"], question)
        examples.append(Example(guid, *texts, answer, choices=tuple(choices), subset=level))
    return examples
