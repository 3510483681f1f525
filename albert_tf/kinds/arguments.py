"""The texts that a user passes to a kind."""

from collections.abc import Mapping, Sequence

from albert_tf.errors import InputError


def check_field(field: str, what: str = "the text") -> None:
    """Raises an `InputError` if a field of a line is empty."""
    if not field.strip():
        raise InputError(f"{what} is empty")


def as_texts(name: str, texts: str | Sequence[str]) -> list[str]:
    """Returns an argument as a list: one string, or a list, tuple, array or pandas Series of strings."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes | Mapping) or not hasattr(texts, "__len__"):
        raise InputError(
            f"{name}: expected a string or a list of strings; received {type(texts).__name__}"
        )
    if not len(texts):
        raise InputError(f"{name}: expected at least one string; received none")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{name}[{number}]: expected a string; received {type(text).__name__}")
    return list(texts)


def rows_of(**texts: str | Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the rows of columns of texts."""
    columns = [as_texts(*column) for column in texts.items()]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise InputError(
            f"expected as many of {' and '.join(texts)}; received {' and '.join(map(str, counts))}"
        )
    return list(zip(*columns, strict=True))
