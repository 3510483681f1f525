"""Reads CoNLL files: a word and its tag in a line, and empty lines between texts."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.data.fine_tuning.tables import TABLE_FORMATS, is_table
from albert_tf.errors import InputError

# Columns of tables that hold lists of words.
WORDS = ("tokens", "words")
# Between documents in the files of CoNLL-2003.
_DOCUMENT = "-DOCSTART-"
_SEPARATORS = re.compile("[ \t]+")
# Ends of the usual names of such files.
SUFFIXES = (".conll", ".bio", ".iob", ".iob2")

# Ends of the names of files that may be such files without a header row.
_TEXT_TABLES = tuple(
    suffix for one in TABLE_FORMATS if one.has_text_header for suffix in one.suffixes
)

# Id of a text, the place of each word, the words, and their tags, if known.
Sentence = tuple[str, Sequence[str], Sequence[str], Sequence[str] | None]


def is_conll(source: Any, text_column: str | None = None) -> bool:
    """Returns whether a source is a CoNLL file, whatever its name: it has no header row.

    A header row has one of the usual names, or `text_column`.
    """
    if not isinstance(source, str | os.PathLike):
        return False
    path = files.as_path(source)
    if not is_table(path):
        return True
    if not path.lower().endswith(_TEXT_TABLES):
        return False
    header = next((line for _, line in files.read_lines(path)), "").lower()
    known = {"text", *WORDS, (text_column or "").lower()}
    return not known & {field.strip(' "') for field in re.split("[\t,;]", header)}


def read_conll(path: str, split: str) -> Iterator[Sentence]:
    """Yields the texts of a file; `split` is the prefix of their ids."""
    lines = [
        (number, _SEPARATORS.split(line.strip(" \t"))) for number, line in files.read_lines(path)
    ]
    if _are_counted(lines):
        lines = [(number, fields[1:] or [""]) for number, fields in lines if fields[0][:1] != "#"]
    width = None
    for is_between, group in itertools.groupby(lines, _is_between):
        if is_between:
            continue
        numbers, rows = zip(*group, strict=True)
        places = [f"{path}, line {number}" for number in numbers]
        width = width or len(rows[0])
        for place, fields in zip(places, rows, strict=True):
            if len(fields) != width:
                raise InputError(
                    f"{place}: columns: received {len(fields)}, expected {width} as in the first line"
                )
            if width == 1 and split != "test":
                raise InputError(
                    f"{place}: received one column; expected a word and, last, its tag"
                )
        tags = [fields[-1] for fields in rows] if width > 1 else None
        yield f"{split}-{numbers[0]}", places, [fields[0] for fields in rows], tags


def _is_between(line: tuple[int, Sequence[str]]) -> bool:
    """Returns whether a line of a CoNLL file separates texts."""
    return line[1][0] in ("", _DOCUMENT)


def _are_counted(lines: Sequence[tuple[int, Sequence[str]]]) -> bool:
    """Returns whether the first column counts the words of each text, as in GermEval and CoNLL-U.

    There, lines that begin with # are comments.
    """
    words = [line for line in lines if line[1][0][:1] != "#"]
    for is_between, group in itertools.groupby(words, _is_between):
        numbers = [fields[0] for _, fields in group]
        # A text of one word might be "1".
        if not is_between and len(numbers) > 1:
            return numbers == [str(1 + place) for place in range(len(numbers))]
    return False
