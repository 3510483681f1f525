"""Labels that are numbers in the data, and `LABEL_0`, `LABEL_1`, ... in a model that knows no names."""

import sys
from collections.abc import Mapping

from albert_tf.checkpoints.hugging_face import generic_labels
from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR, is_missing
from albert_tf.data.fine_tuning.examples import (
    Columns,
    Labels,
    MultiLabels,
    label_name,
    quote_names,
)
from albert_tf.data.fine_tuning.tables import Table


def find_numbered_labels(table: Table, columns: Columns, labels: Labels) -> Mapping[str, str]:
    """Returns the label that each number stands for, and says so in a line; none if there are names.

    Args:
        table: the data.
        columns: its columns.
        labels: those of the model.
    """
    known = labels.names if isinstance(labels, MultiLabels) else labels
    numbered = names_of_numbers(known) if isinstance(known, tuple) else {}
    received = _names_in(table, columns) if numbered else set()
    used = [number for number in numbered if number in received]
    if not used:
        return {}
    names = [numbered[number] for number in used]
    print(
        f"{table.name}: reads the labels {quote_names(used)} as {quote_names(names)} of the model, whose "
        "labels have no names",
        file=sys.stderr,
    )
    return numbered


def names_of_numbers(labels: tuple[str, ...]) -> dict[str, str]:
    """Returns the label of a model that each number stands for; none if its labels have names."""
    if labels != generic_labels(len(labels)):
        return {}
    return {str(number): name for number, name in enumerate(labels)}


def _names_in(table: Table, columns: Columns) -> set[str]:
    """Returns the names of labels in a table, also those in sets."""
    if columns.label is None:
        return set()
    assert isinstance(columns.label, str), "tables of the user have a header row"
    place = table.columns.index(columns.label)
    lists = (row[place] if isinstance(row[place], list) else [row[place]] for row in table.rows)
    cells = (str(cell) for cells in lists for cell in cells if not is_missing(cell))
    return {label_name(part) for cell in cells for part in cell.split(LABEL_SEPARATOR)}
