"""Reads the rows of JSON: an object per line, one list of them, or one object in several lines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files

_EXPECTED = """an object per line, such as {"text": "Fine.", "label": "yes"}, or one list of them"""


class JsonRows(NamedTuple):
    """The rows of a file, with what messages call them."""

    values: Sequence[Any]
    numbers: Sequence[int]
    unit: str  # what the numbers count: `line`, or nothing for places in a list


def read_json_rows(path: str, content: Iterable[bytes]) -> JsonRows:
    """Returns the rows of a file. A list whose first value is neither list nor object is a row itself."""
    lines = [*files.decode_lines(content, path, files.decode_strictly)]
    filled = [(number, line) for number, line in lines if line.strip()]
    text = _one_value([line for _, line in lines], [line.lstrip() for _, line in filled[:2]])
    if text is not None:
        value = files.parse_json(text, path, expected=_EXPECTED)
        if isinstance(value, list) and (not value or isinstance(value[0], list | Mapping)):
            return JsonRows(value, numbers=range(len(value)), unit="")
        return JsonRows([value], numbers=[filled[0][0]], unit="line")
    values = [
        files.parse_json(text=line, path=path, line=number, expected=_EXPECTED)
        for number, line in filled
    ]
    return JsonRows(values, numbers=[number for number, _ in filled], unit="line")


def _one_value(lines: Sequence[str], starts: Sequence[str]) -> str | None:
    """Returns the text of a file that is one list or object; None if each line has a value.

    `starts` are the first two lines that are not empty.
    """
    if not starts or not starts[0].startswith(("[", "{")):
        return None
    is_list = starts[0].startswith("[")
    if len(starts) == 1 or _is_json(starts[0]):
        return "\n".join(lines) if is_list and len(starts) == 1 else None
    text = "\n".join(lines)
    return text if is_list or _is_json(text) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
