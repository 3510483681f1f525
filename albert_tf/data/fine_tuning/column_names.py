"""The columns of a table: usual names, and those that a user names, as flags and as folders note them.

What separates the labels of a cell is one of these flags, too: a folder remembers it in the same way.
"""

import dataclasses
from collections.abc import Collection, Iterable

from albert_tf.options import option

TEXTS = (
    "text_a",
    "text",
    "sentence",
    "sentence1",
    "sentence_a",
    "premise",
    "question",
    "question1",
    "query",
    "anchor",
    "passage",
    "article",
    "context",
    "content",
    "comment_text",
    "document",
    "review",
    "tweet",
)
# Of the text that does not belong to the first one, beside a pair.
NEGATIVES = ("negative", "hard_negative", "hard_neg", "neg")
SPANS = ("spans", "ner_tags", "tags")
LABELS = ("label", "labels", "target", "class", "category", "score")
# Of columns of 0 and 1 for each label, such as `label_sports`.
LABEL_PREFIX = "label_"
# Of columns of answers to choose from, such as `choice_a`.
CHOICE_PREFIX = "choice_"


def usual_columns(columns: Iterable[str], names: Collection[str]) -> list[str]:
    """Returns the columns with one of some usual names, in upper or lower case."""
    return [column for column in columns if column.lower() in names]


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
    columns: str | None = option(
        "Names of all columns, with commas between them, of tables without a header row.", None
    )

    def among(self, columns: Collection[str]) -> set[str]:
        """Returns those of a table's columns that are named as texts and labels."""
        labels = split_names(self.label_columns, columns)
        named = {self.text_column, self.text_pair_column, self.label_column, *labels}
        return {column for column in columns if column in named}

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns; () if the table has them. Columns without a name are passed over."""
        return () if self.columns is None else tuple(map(str.strip, self.columns.split(",")))


# Fields of `ColumnNames` that are given, with their values, as the folder of a model keeps them.
NamedColumns = tuple[tuple[str, str], ...]


def split_names(names: str | None, columns: Collection[str]) -> list[str]:
    """Returns the columns in a list of them; one of the table's `columns` may have commas in its name."""
    if names is None:
        return []
    return [names] if names in columns else [name.strip() for name in names.split(",")]
