"""Reads CoNLL files: a word and its tag in a line, and empty lines between texts."""

import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.data.fine_tuning.delimited import NAMED_SEPARATOR
from albert_tf.data.fine_tuning.examples import quote_names
from albert_tf.data.fine_tuning.tables import TABLE_FORMATS, is_table
from albert_tf.data.fine_tuning.tag_schemes import is_like_tag
from albert_tf.data.fine_tuning.tags import OUTSIDE
from albert_tf.errors import InputError

# Columns of tables that hold lists of words.
WORDS = ("tokens", "words")
# Between documents in the files of CoNLL-2003.
_DOCUMENT = "-DOCSTART-"
_SEPARATORS = re.compile("[ \t]+")
_COMMENT = "#"
# In CoNLL-U, numbers of several words that are written as one, and of words that are not written.
_NO_WORD = re.compile(r"\d+[-.]\d+")
# Number of columns of CoNLL-U; the fourth, UPOS, has parts of speech, the last, MISC, attributes or `_`.
_CONLLU_WIDTH, _CONLLU_TAGS = 10, 4
# What a line begins with that is rather a row of a table.
_DELIMITED = re.compile("[^,;]+[,;].*")
# Ends of the usual names of such files.
SUFFIXES = (".conll", ".bio", ".iob", ".iob2")

# Ends of the names of files that may be such files without a header row.
_TEXT_TABLES = tuple(
    suffix for one in TABLE_FORMATS if one.has_text_header for suffix in one.suffixes
)

# Id of a text, the place of each word, the words, and their tags, if known.
Sentence = tuple[str, Sequence[str], Sequence[str], Sequence[str] | None]
# The number of a line and its columns.
_Line = tuple[int, Sequence[str]]


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
    lines = (line for _, line in files.read_lines(path) if not NAMED_SEPARATOR.fullmatch(line))
    header = next(lines, "").lower()
    known = {"text", *WORDS, (text_column or "").lower()}
    return not known & {field.strip(' "') for field in re.split("[\t,;]", header)}


def read_conll(path: str, split: str) -> Iterator[Sentence]:
    """Yields the texts of a file; `split` is the prefix of their ids.

    If there are several columns after the words, one line of standard error says which has the tags.
    """
    contents = dict(files.read_lines(path))
    lines: Sequence[_Line] = [
        (number, _SEPARATORS.split(line.strip(" \t"))) for number, line in contents.items()
    ]
    are_counted = _are_counted(lines)
    lines = _without_numbers(lines) if are_counted else _without_comments(path, lines)
    words = [line for line in lines if not _is_between(line)]
    for number, _ in words:
        _check_separators(f"{path}, line {number}", contents[number])
    _check_no_table(path, words)
    tag_place = _find_tags(path, [fields for _, fields in words], are_counted)
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
        tags = [fields[tag_place] for fields in rows] if width > 1 else None
        yield f"{split}-{numbers[0]}", places, [fields[0] for fields in rows], tags


def _is_between(line: _Line) -> bool:
    """Returns whether a line of a CoNLL file separates texts."""
    return line[1][0] in ("", _DOCUMENT)


def _check_separators(place: str, line: str) -> None:
    """Checks that a line has either tabs or spaces between its columns; not a space within one."""
    for column in line.split("\t") if "\t" in line.strip() else ():
        if " " in column.strip():
            raise InputError(
                f"{place}: '{column.strip()}' beside a tab may be one column or more; expected tabs "
                "between columns, and no space within one, or spaces alone"
            )


def _check_no_table(path: str, words: Sequence[_Line]) -> None:
    """Checks that a file that is named like a table has no rows whose separators are not read."""
    if not is_table(path) or all(len(fields) > 1 for _, fields in words):
        return
    if all(_DELIMITED.fullmatch(fields[0]) for _, fields in words):
        number, fields = words[0]
        raise InputError(
            f"{path}, line {number}: received {quote_names([fields[0]])}; expected a header row with "
            "'text' or 'tokens', or a word and its tag, if it is known, with a space or a tab between"
        )


def _find_tags(path: str, rows: Sequence[Sequence[str]], are_counted: bool) -> int:
    """Returns the place of the tags in rows that begin with the word.

    They are in the last column but in CoNLL-U, and in files that count words and have tags such as B-PER
    right after them: the last column has nested spans in GermEval's, annotators in Universal NER's.
    """
    if are_counted and all(map(_is_conllu, rows)):
        print(f"{path}: the tags are UPOS, the fourth column of CoNLL-U", file=sys.stderr)
        return _CONLLU_TAGS - 2
    width = len(rows[0]) if rows else 0
    is_next = are_counted and all(is_like_tag(tag) for fields in rows for tag in fields[1:2])
    place = 1 if is_next else width - 1
    if width > 2:
        number = 2 if are_counted else 1  # of the column of words
        tags = (tag for fields in rows for tag in fields[place : place + 1])
        example = quote_names([next((tag for tag in tags if tag != OUTSIDE), OUTSIDE)])
        others = ", ".join(str(number + other) for other in range(1, width) if other != place)
        said = f"the tags are column {number + place}, such as {example}; not read: {others}"
        print(f"{path}: {said}", file=sys.stderr)
    return place


def _is_conllu(fields: Sequence[str]) -> bool:
    """Returns whether columns from that of the word on are those of CoNLL-U without other tags."""
    return len(fields) == _CONLLU_WIDTH - 1 and (fields[-1] == "_" or "=" in fields[-1])


def _are_counted(lines: Sequence[_Line]) -> bool:
    """Returns whether the first column counts the words of each text, as in GermEval and CoNLL-U.

    There, lines that begin with # are comments.
    """
    words = [line for line in lines if _is_counted_word(line[1])]
    for is_between, group in itertools.groupby(words, _is_between):
        numbers = [fields[0] for _, fields in group]
        # A text of one word might be "1".
        if not is_between and len(numbers) > 1:
            return numbers == [str(1 + place) for place in range(len(numbers))]
    return False


def _is_counted_word(fields: Sequence[str]) -> bool:
    return not (fields[0].startswith(_COMMENT) or _NO_WORD.fullmatch(fields[0]))


def _without_numbers(lines: Sequence[_Line]) -> list[_Line]:
    """Returns the lines of words that are counted, without the numbers."""
    return [(number, fields[1:] or [""]) for number, fields in lines if _is_counted_word(fields)]


def _without_comments(path: str, lines: Sequence[_Line]) -> list[_Line]:
    """Returns the lines but comments; one line of standard error counts these.

    A comment begins with #, before the first word of a text. As # may also be a word, a comment has
    another number of columns than words, or ends with what is no tag of others.
    """
    words = [
        line[1] for line in lines if not (_is_between(line) or line[1][0].startswith(_COMMENT))
    ]
    if not words:
        return list(lines)
    width, tags = len(words[0]), {fields[-1] for fields in words}

    def is_comment(fields: Sequence[str]) -> bool:
        if not fields[0].startswith(_COMMENT) or len(fields) == 1:
            return False
        if len(fields) != width:
            return True
        return fields[0] == _COMMENT and fields[-1] not in tags and not is_like_tag(fields[-1])

    kept: list[_Line] = []
    comments = []
    for number, fields in lines:
        is_first = not kept or _is_between(kept[-1])
        if is_first and is_comment(fields):
            comments.append(number)
        else:
            kept.append((number, fields))
    if comments:
        print(
            f"{path}, line {comments[0]}: {len(comments)} lines that begin with # are comments",
            file=sys.stderr,
        )
    return kept
