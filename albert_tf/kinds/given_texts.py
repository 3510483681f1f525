"""Texts as users give them: arguments of `predict`, and lines of standard input."""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError


def check_fields(fields: Sequence[str], least: int, most: int, expected: str) -> None:
    """Raises an `InputError` if a line begins with an empty field, or has too many or too few fields."""
    if not fields[0].strip():
        raise InputError("the text is empty")
    if not least <= len(fields) <= most:
        raise InputError(f"received {len(fields)} texts; expected {expected}")


def as_texts(name: str, texts: Any) -> list[str]:
    """Returns an argument as a list: one string, or a list, tuple, array or pandas Series of strings."""
    if isinstance(texts, str):
        return [texts]
    # The elements of a DataFrame are the names of its columns; an array of shape () has none.
    is_list = hasattr(texts, "__len__") and not hasattr(texts, "columns")
    is_list = is_list and getattr(texts, "shape", None) != ()
    if isinstance(texts, bytes | Mapping | set) or not is_list:
        raise InputError(
            f"{name}: expected a string or a list of strings; received {type(texts).__name__}"
        )
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{name}[{number}]: expected a string; received {type(text).__name__}")
    return list(texts)


def rows_of(**texts: Any) -> list[tuple[str, ...]]:
    """Returns the rows of columns of texts."""
    columns = [as_texts(*column) for column in texts.items()]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise InputError(
            f"expected as many of {' and '.join(texts)}; received {' and '.join(map(str, counts))}"
        )
    return list(zip(*columns, strict=True))
