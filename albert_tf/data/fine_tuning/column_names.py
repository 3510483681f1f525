"""The columns of a table that a user names, as flags, and as a trained folder remembers them."""

import dataclasses

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
    ignore_columns: str | None = option(
        "Columns to pass over, with commas between them, even if they usually say how a row counts.",
        None,
    )


# Fields of `ColumnNames` that are given, with their values, as the folder of a model keeps them.
NamedColumns = tuple[tuple[str, str], ...]
