"""Reads SQuAD 1.1 and 2.0 from the original JSON, from tables, and from TensorFlow Datasets.

A table may also have a text, or a list of texts, in the cells of its answers. Their places that it does
not say are found in the passage.

Files in other languages have the same layout and more mistakes. A file with another layout is refused,
with the place where it differs. A question with a mistake in its data is kept for evaluation, since the
official scores count it, and left out of training.
"""

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.data.fine_tuning.cells import as_text, is_missing, truth_of
from albert_tf.data.fine_tuning.column_meanings import account_for_columns
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.examples import quote_names
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.data.fine_tuning.tables import Table, is_table
from albert_tf.data.fine_tuning.tfds import load_dataset
from albert_tf.data.fine_tuning.written_values import read_written
from albert_tf.data.source_files import suffix_of
from albert_tf.errors import InputError
from albert_tf.options import check_layout

# Number of ids that a message names.
_IDS_SHOWN = 5

_SQUAD = 'SQuAD\'s layout, {"data": [{"paragraphs": [...]}]}'  # for messages

# Members of SQuAD's articles and passages, by which lists of these differ from rows.
_QUESTION_LISTS = frozenset({"paragraphs", "qas"})
_QUESTION_LIST_KEY = re.compile(f'"({"|".join(_QUESTION_LISTS)})"\\s*:'.encode())


class Answer(NamedTuple):
    """An answer to a question, and its first character in the passage, according to the data."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a passage."""

    id: str
    question: str
    context: str  # the passage; questions about one passage share the string
    answers: tuple[Answer, ...] = ()  # of several people, in the order of the data
    is_impossible: bool = False  # whether the passage holds no answer, according to the data

    def is_at_offset(self, answer: Answer) -> bool:
        """Returns whether the text of an answer is in the passage at the answer's offset."""
        is_there = answer.start >= 0 and self.context.startswith(answer.text, answer.start)
        return is_there and bool(answer.text.strip())

    @property
    def right_answers(self) -> tuple[Answer, ...]:
        """The answers that count: none of a question that is marked as having none."""
        return () if self.is_impossible else self.answers

    @property
    def found_answer(self) -> Answer | None:
        """The first answer that is at its offset; the original trains on the only one."""
        return next((answer for answer in self.right_answers if self.is_at_offset(answer)), None)

    @property
    def is_trainable(self) -> bool:
        """Whether there is a passage, and either an answer in it or the mark that it has none."""
        has_target = self.is_impossible or self.found_answer is not None
        return has_target and bool(self.context.strip())


# Some files of other languages have numbers.
_ID = str | int
# In rows of tables, which `datasets` has for SQuAD. A member with "?" may be missing.
_ROW = {"id?": _ID, "question": str, "context": str}
_ANSWER_LISTS = {"text": [str], "answer_start": [int]}
_ROW_ANSWERS = {"answers": _ANSWER_LISTS, "is_impossible?": bool}
# Columns of answers, the first of which is read, and that of their places in the passage.
_ANSWER_COLUMNS = ("answers", "answer_text", "answer")
_START_COLUMN = "answer_start"


def open_questions(source: Any, split: str, names: ColumnNames) -> Any:
    """Opens rows of questions as a table; a file of SQuAD is none."""
    if isinstance(source, str | os.PathLike) and _is_squad(files.as_path(source)):
        if names.ignore_columns is not None:
            raise InputError(f"{source}: a file of SQuAD has no columns; expected none to ignore")
        return source
    return Table.read(source, split, names)


def account_for_questions(table: Table, split: str) -> None:
    """Says which columns are read; see `account_for_columns`."""
    columns = [name.removesuffix("?") for name in _ROW]
    if split != "test":
        columns += [_answer_column(table) or "answers", "is_impossible", _START_COLUMN]
    read = {f"the {name}": name for name in columns if name in table.columns}
    account_for_columns(table, split, read)


def read_questions(
    source: Any, name: str = "data", labelled: bool = True, training: bool = False
) -> list[SquadExample]:
    """Reads a file in SQuAD's format, or rows with `question`, `context` and `answers`.

    Rows are those of `datasets`' SQuAD: `answers` maps `text` and `answer_start` to lists, which are
    empty for a question without an answer; or they are objects, as in SQuAD's files; or `answers`,
    `answer_text` or `answer` is a text, or a list of texts, with the places in `answer_start`. Without
    its place an answer has to be in the context once.

    `name` is what messages call a source in memory. In `training` ids have no use: they may be missing or
    the same.
    """
    if isinstance(source, str | os.PathLike) and _is_squad(files.as_path(source)):
        return read_squad(files.as_path(source), labelled, training)
    table = open_table(source, name)
    layout = _ROW | (_ROW_ANSWERS if labelled else {})
    column = _answer_column(table) if labelled else None
    may_lack = column is not None and _has_texts(table, column)
    examples = []
    places: dict[str, str] = {}
    for number, row in zip(table.numbers, table.rows, strict=True):
        cells = zip(table.columns, row, strict=True)
        record = {name: cell for name, cell in cells if not is_missing(cell)}
        place = table.place(number)
        if column is not None and (may_lack or column in record):
            check_layout(record, _ROW, f"{place}: not SQuAD")
            record["answers"] = _read_answers(record, column, place)
        check_layout(record, layout, f"{place}: not SQuAD")
        if not labelled:
            record["answers"] = None  # of any form
        elif len(record["answers"]["text"]) != len(record["answers"]["answer_start"]):
            raise InputError(f"{place}: expected as many of answers.text and answers.answer_start")
        given = record.get("id", str(number))
        record["id"] = _unique_id(places, given, place, where=place, training=training)
        examples.append(_example(record))
    return examples


def _answer_column(table: Table) -> str | None:
    return next((column for column in _ANSWER_COLUMNS if column in table.columns), None)


def _has_texts(table: Table, column: str) -> bool:
    """Returns whether answers are texts, of which tables without lists have none as an empty cell."""
    position = table.columns.index(column)
    cells = (row[position] for row in table.rows)
    firsts = (cell[0] if isinstance(cell, list) and cell else cell for cell in cells)
    return any(isinstance(first, str) for first in firsts)


def _read_answers(record: dict[str, Any], column: str, place: str) -> Any:
    """Returns the answers of a row as lists of texts and places; an object as it is."""
    if (truth := truth_of(record.get("is_impossible"))) is not None:
        record["is_impossible"] = bool(truth)
    context = record["context"]
    cell, starts = (_read_cell(record.get(name), context) for name in (column, _START_COLUMN))
    if isinstance(cell, Mapping):
        return cell
    texts = cell if isinstance(cell, list) else [] if cell in (None, "") else [cell]
    if texts and all(isinstance(text, Mapping) for text in texts):
        return {name: [text.get(name) for text in texts] for name in _ANSWER_LISTS}
    texts = [as_text(text, f"{place}: {column}") for text in texts]
    starts = starts if isinstance(starts, list) else [] if starts in (None, "") else [starts]
    starts = [_whole_number(start, place) for start in starts]
    if not starts:
        starts = [_find_answer(text, context, place) for text in texts]
    # Of a question without an answer some have the place 0 or -1.
    if len(starts) != len(texts) and (texts or max(starts) > 0):
        raise InputError(
            f"{place}: received {len(texts)} of {column} and {len(starts)} of {_START_COLUMN}; expected "
            "as many"
        )
    return {"text": texts, "answer_start": starts[: len(texts)]}


def _read_cell(cell: Any, context: str) -> Any:
    """Returns a cell, which may have a list or an object as text, but not one of the context."""
    return read_written(cell) if isinstance(cell, str) and cell not in context else cell


def _whole_number(value: Any, place: str) -> int:
    text = str(value).strip()
    if not re.fullmatch(r"[+-]?\d+(\.0*)?", text):
        raise InputError(f"{place}: {_START_COLUMN} is '{text}', expected a whole number")
    return int(text.partition(".")[0])


def _find_answer(text: str, context: str, place: str) -> int:
    """Returns the place of an answer that is in the context once."""
    start = context.find(text)
    if not text.strip() or start < 0:
        raise InputError(f"{place}: the answer {quote_names([text])} is not in the context")
    if context.find(text, start + 1) >= 0:
        raise InputError(
            f"{place}: the answer {quote_names([text])} is in the context more than once; expected its "
            f"place in {_START_COLUMN}"
        )
    return start


def _is_squad(path: str) -> bool:
    """Returns whether a file has SQuAD's format rather than rows; `.json` may also be JSON lines."""
    if suffix_of(path) != ".json":
        return not is_table(path)
    head = next(files.read_content(path), b"")
    line = head.partition(b"\n")[0].strip()
    may_be_whole = line.startswith(b"[") or b'"data"' in line
    if line.endswith(b"}") and not may_be_whole:
        return False
    if _QUESTION_LIST_KEY.search(head):  # as in all published files, which are large
        return True
    content = files.read_json(path, _SQUAD)
    is_object = isinstance(content, Mapping)
    rows = content.get("data") if is_object else content
    first = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(first, Mapping):
        return is_object
    return not _QUESTION_LISTS.isdisjoint(first)


def _unique_id(
    places: dict[str, str], given: str | int, place: str, where: str, training: bool
) -> str:
    """Adds the place of an id, which may have no other, to `places`; returns the id as text.

    In training, where ids do not matter, the place stands for an id that is there already. `where` is the
    place in full.
    """
    id_ = str(given)
    first = places.setdefault(id_, place)
    if first != place and not training:
        raise InputError(f"{where}: '{id_}' is also the id of {first}; expected unique ids")
    return id_ if first == place else place


def _example(record: Mapping[str, Any]) -> SquadExample:
    """Makes an example of a row of a table; questions about one passage share the string."""
    texts = str(record["id"]), record["question"], sys.intern(record["context"])
    if (found := record.get("answers")) is None:
        return SquadExample(*texts)
    answers = tuple(map(Answer, found["text"], map(int, found["answer_start"])))
    return SquadExample(*texts, answers, bool(record.get("is_impossible", not answers)))


def read_squad(path: str, labelled: bool = True, training: bool = False) -> list[SquadExample]:
    """Reads a file with the layout `data[].paragraphs[].qas[]`, each with answers if `labelled`.

    The file may also be the list of `data`, or that of `paragraphs`. For `training` see `read_questions`.
    """
    layout_of_question = {
        "id?" if training else "id": _ID,
        "question": str,
        "answers" if labelled else "answers?": [{"text": str, "answer_start": int}],
        "is_impossible?": bool,
    }
    content = files.read_json(path, _SQUAD)
    if isinstance(content, list):
        has_articles = all(isinstance(part, dict) and "paragraphs" in part for part in content)
        content = {"data": content if has_articles else [{"paragraphs": content}]}
    layout = {"data": [{"paragraphs": [{"context": str, "qas": [layout_of_question]}]}]}
    check_layout(content, layout, f"{path}: not SQuAD")
    examples = []
    places: dict[str, str] = {}
    for article_number, article in enumerate(content["data"]):
        for paragraph_number, paragraph in enumerate(article["paragraphs"]):
            for number, question in enumerate(paragraph["qas"]):
                place = f"data[{article_number}].paragraphs[{paragraph_number}].qas[{number}]"
                given, where = question.get("id", place), f"{path}: {place}.id"
                id_ = _unique_id(places, given, place, where, training)
                found = question.get("answers", ())
                answers = tuple(Answer(answer["text"], answer["answer_start"]) for answer in found)
                is_impossible = question.get("is_impossible", False)
                examples.append(
                    SquadExample(
                        id=id_,
                        question=question["question"],
                        context=paragraph["context"],
                        answers=answers,
                        is_impossible=is_impossible,
                    )
                )
    if not examples:
        raise InputError(f"{path}: holds no question")
    return examples


def read_squad_tfds(builder: str, split: str, data_dir: str | None) -> list[SquadExample]:
    """Reads a split of `squad` (1.1) or `squad/v2.0` from TensorFlow Datasets, and may download it."""
    dataset, _ = load_dataset(builder, split, data_dir)
    return list(map(_example, dataset))


# Mistakes in the data: a count for an example, a description, and what training and evaluation do.
_FAULTS: tuple[tuple[Callable[[SquadExample], int], str, str, str], ...] = (
    (
        lambda example: sum(not example.is_at_offset(answer) for answer in example.right_answers),
        "answers whose text is not at their offset",
        "skipped, with the question where it has no other",
        "kept, as scores go by the text",
    ),
    (
        lambda example: not example.answers and not example.is_impossible,
        "questions without an answer that are not marked is_impossible",
        "skipped",
        "kept",
    ),
    (
        lambda example: len(example.answers) - len(example.right_answers),
        "answers to questions that are marked is_impossible",
        "skipped",
        "skipped",
    ),
    (
        lambda example: not example.context.strip(),
        "questions about an empty passage",
        "skipped",
        "kept, and answered with an empty text",
    ),
)


def describe_faults(examples: Sequence[SquadExample], source: str, training: bool) -> list[str]:
    """Returns a line for each type of mistake in the examples; training skips them."""
    lines = []
    for count, what, in_training, in_evaluation in _FAULTS:
        counts = {example.id: count(example) for example in examples}
        ids = [id_ for id_, count in counts.items() if count]
        if not ids:
            continue
        consequence = in_training if training else in_evaluation
        lines.append(f"{source}: {what}: {sum(counts.values())}, {consequence} ({show_ids(ids)})")
    return lines


def show_ids(ids: Sequence[str]) -> str:
    """Returns the first few ids, for a message."""
    return ", ".join(ids[:_IDS_SHOWN]) + (", ..." if len(ids) > _IDS_SHOWN else "")
