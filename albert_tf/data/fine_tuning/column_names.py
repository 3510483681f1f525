"""The columns of a table that a user names, as flags, and as a trained folder remembers them.

What separates the labels of a cell is one of these flags, too: a folder remembers it in the same way.
"""

import dataclasses
from collections.abc import Collection

from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The columns that the user names; others are found by their usual names."""

    text_column: str | None = option(
        "Column of the text, or of the first text of a pair. Default: the one with a usual name.",
        None,
    )
    text_pair_column: str | None = option("Column of the second text of a pair.", None)
    label_column: str | None = option("Column of the label.", None)
    label_columns: str | None = option(
        "Columns of 0 and 1, with commas between them, one for each label of which a row may have any "
        "number.",
        None,
    )
    label_separator: str | None = option(
        "What separates the labels of a row, of which it may have several. Default: | with "
        "--task_name=multi_label.",
        None,
    )
    ignore_columns: str | None = option(
        "Columns to pass over, with commas between them, even if they usually say how a row counts.",
        None,
    )


# Fields of `ColumnNames` that are given, with their values, as the folder of a model keeps them.
NamedColumns = tuple[tuple[str, str], ...]


def split_names(names: str, columns: Collection[str]) -> list[str]:
    """Returns the columns in a list of them; one of the table's `columns` may have commas in its name."""
    return [names] if names in columns else [name.strip() for name in names.split(",")]
