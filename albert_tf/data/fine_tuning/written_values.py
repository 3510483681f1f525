r"""Reads lists and objects that a cell of a table has as text, as programs print them into CSV files.

One grammar reads JSON, Python's literals, and what NumPy prints: `["a", "b"]`, `[2, 3]`, `[True, False]`,
`{'choices': ['a']}`, `['a' 'b']`, `[1. 0.\n 1.]`, `array([0, 1])`, `[np.int64(2)]`. Values stand between
commas or white space. A text that is anything else, such as `[spam]`, is only a text.
"""

import ast
import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>[buBU]?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))
    | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.+-]))
    | (?P<word>[-+]?[A-Za-z_][\w.]*)
    | (?P<mark>[\[\](){},:=])
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {
    **{"True": True, "true": True, "False": False, "false": False, "None": None, "null": None},
    **{"np.True_": True, "np.False_": False, "nan": float("nan"), "NaN": float("nan")},
}
_ENDS = {"[": "]", "(": ")", "{": "}"}


def is_bracketed(text: str) -> bool:
    """Returns whether brackets or braces enclose a whole text of more than one value."""
    text = text.strip()
    is_whole = text[:1] in ("[", "{") and text[-1:] == _ENDS[text[0]]
    return is_whole and ("," in text or "..." in text)


def read_written(cell: Any) -> Any:
    """Returns the list or mapping that a cell is as text; any other cell as it is."""
    if not isinstance(cell, str) or not cell.lstrip().startswith((*_ENDS, "array(")):
        return cell
    try:
        value = _Reader(cell.strip()).read_all()
    except (_NotWrittenError, ValueError, SyntaxError, RecursionError):
        return cell
    return value if isinstance(value, list | dict) else cell


class _NotWrittenError(Exception):
    """A text is no written value."""


class _Reader:
    """Reads one value from a text."""

    def __init__(self, text: str):
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise _NotWrittenError
            kind = match.lastgroup
            assert kind is not None, "each alternative of the pattern is a group"
            self._tokens.append((kind, match[kind]))
            place = match.end()
        self._place = 0

    def read_all(self) -> Any:
        """Returns the value of the whole text."""
        value = self._read()
        if self._place < len(self._tokens):
            raise _NotWrittenError
        return value

    def _read(self) -> Any:
        kind, token = self._next()
        if kind == "text":
            return _unquote(token)
        if kind == "number":
            return int(token) if re.fullmatch(r"[+-]?\d+", token) else float(token)
        if kind == "word":
            return _WORDS[token] if token in _WORDS else self._read_call()
        if token == "{":
            return self._read_braces()
        if token not in _ENDS:
            raise _NotWrittenError
        values, commas = self._read_values(_ENDS[token])
        if token == "(" and not commas:  # a text in parentheses is no tuple
            raise _NotWrittenError
        return values

    def _read_call(self) -> Any:
        """Reads what stands for its first argument, e.g. `array([0, 1], dtype=int64)`."""
        if self._next()[1] != "(":
            raise _NotWrittenError
        value = self._read()
        while self._next()[1] != ")":
            pass
        return value

    def _read_values(self, end: str) -> tuple[list[Any], int]:
        """Returns the values up to a closing mark, and the number of commas between them."""
        values: list[Any] = []
        commas = 0
        while self._peek() != end:
            if self._peek() == ",":
                commas += 1
                self._next()
                if commas > len(values):
                    raise _NotWrittenError
            else:
                values.append(self._read())
        self._next()
        return values, commas

    def _read_braces(self) -> Any:
        """Reads a mapping, or a set as a list."""
        first = self._place
        values, mapping = [], {}
        while self._peek() != "}":
            if self._peek() == ",":
                self._next()
                continue
            key = self._read()
            if self._peek() != ":":
                values.append(key)
                continue
            self._next()
            mapping[str(key)] = self._read()
        is_empty = self._place == first
        self._next()
        if values and mapping:
            raise _NotWrittenError
        return mapping if mapping or is_empty else values

    def _next(self) -> tuple[str, str]:
        self._peek()
        self._place += 1
        return self._tokens[self._place - 1]

    def _peek(self) -> str:
        if self._place >= len(self._tokens):
            raise _NotWrittenError
        return self._tokens[self._place][1]


def _unquote(token: str) -> str:
    if token.startswith('"'):
        try:
            return json.loads(token, strict=False)
        except ValueError:
            pass
    value = ast.literal_eval(token.replace("\n", "\\n"))
    return value.decode("utf-8") if isinstance(value, bytes) else value
