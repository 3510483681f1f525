"""The same rows in the forms that tables have."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet

FORMS = ("rows.csv", "rows.jsonl", "rows.parquet", "frame")


def write(folder, name, rows):
    """Returns the path of a file with rows, as `csv`, `json` or pyarrow writes them."""
    path = folder / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name.endswith(".parquet"):
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        file = io.StringIO()
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(file.getvalue())
    return str(path)


class Frame:
    """What is used of a pandas DataFrame."""

    def __init__(self, rows):
        self.rows, self.columns, self.iloc = rows, tuple(rows[0]), None

    def to_dict(self, orient):
        return list(self.rows)


def in_form(form, rows, folder):
    """Returns rows as what has one of `FORMS`."""
    return Frame(rows) if form == "frame" else write(folder, form, rows)
