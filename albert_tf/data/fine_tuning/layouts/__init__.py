"""The layouts of other tools: what they write in the formats that `tables` reads, whatever the format.

`LAYOUTS` is the table of them. Each is told by columns and cells, never by the name of a file, and its
reader makes the table that rows with usual columns are, so that nothing behind `Table.read` knows of it.
fastText's files are lines without columns, and so a format of `tables`.
"""

import dataclasses
import sys
from typing import TYPE_CHECKING

from albert_tf.data.fine_tuning.layouts.choices import CHOICES
from albert_tf.data.fine_tuning.layouts.json_tables import JSON_TABLES
from albert_tf.data.fine_tuning.layouts.label_studio import LABEL_STUDIO
from albert_tf.data.fine_tuning.layouts.layout import named_columns
from albert_tf.data.fine_tuning.layouts.prodigy import PRODIGY
from albert_tf.data.fine_tuning.layouts.spacy import SPACY

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.tables import Table

# In the order in which they are looked for: a table may have one within another, such as rows in "data".
LAYOUTS = (*JSON_TABLES, *LABEL_STUDIO, *PRODIGY, *SPACY, *CHOICES)


def read_layout(table: "Table") -> "Table":
    """Reads a table of one of `LAYOUTS`; others are returned as they are.

    Rows whose columns the user names are read as they are.

    Raises:
        InputError: the table has a layout, but one of its rows has not.
    """
    for layout in LAYOUTS:
        may_apply = table.rows and (layout.is_container or not named_columns(table))
        if may_apply and layout.is_of(table):
            print(f"{table.name}: read as {layout.name}", file=sys.stderr)
            unread = None if layout.is_container else table.unread or table
            table = dataclasses.replace(layout.read(table), unread=unread)
    return table
