"""Every source of rows gives the same table, and every mistake names file and row."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError

TEXTS, LABELS = ["a, b", 'says "it"\nand more'], ["yes", "no"]
ROWS = [dict(zip(("text", "label"), row, strict=True)) for row in zip(TEXTS, LABELS, strict=True)]
CSV = 'text,label\n"a, b",yes\n\n"says ""it""\nand more",no\n'


class Frame:
    """What is used of a pandas DataFrame, which no test installs."""

    columns, iloc = ("text", "label"), None

    def to_dict(self, orient):
        assert orient == "records"
        return ROWS


class Dataset:
    """What is used of a `datasets.Dataset`."""

    def with_format(self, type):
        assert type == "arrow"
        return self

    def __getitem__(self, rows):
        assert rows == slice(None)
        return arrow_table()

    def __len__(self):
        return len(ROWS)


class Stream:
    """A `datasets.IterableDataset`, as far as it looks like the other one."""

    def with_format(self, type):
        return self


def arrow_table():
    feature = {"names": ["no", "yes"], "_type": "ClassLabel"}
    about = {"info": {"features": {"text": {"_type": "Value"}, "label": feature}}}
    table = pa.table({"text": TEXTS, "label": [1, 0]})
    return table.replace_schema_metadata({"huggingface": json.dumps(about)})


def write(folder, name):
    path = folder / name
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    contents = {
        "rows.csv": CSV,
        "rows.tsv": CSV.replace('",', '"\t').replace("text,", "text\t"),
        "rows.jsonl": lines,
    }
    if name.lower() in contents:
        path.write_text(contents[name.lower()])
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(write(folder, name.removesuffix(".gz")).read_bytes()))
    elif name == "rows.parquet":
        pyarrow.parquet.write_table(arrow_table(), path)
    else:
        path.mkdir()
        (path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
        with pa.ipc.new_stream(path / "data.arrow", arrow_table().schema) as stream:
            stream.write_table(arrow_table())
    return path


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("rows.CSV", "line 4"),
        ("rows.csv.gz", "line 4"),
        ("rows.tsv", "line 4"),
        ("rows.jsonl", "line 2"),
        ("rows.jsonl.gz", "line 2"),
        ("rows.parquet", "row 2"),
        ("rows.parquet.gz", "row 2"),
        ("rows", "row 2"),
        (ROWS, "data[1]"),
        (Frame(), "data[1]"),
        (Dataset(), "data[1]"),
    ],
)
def test_all_sources_give_the_same_rows(tmp_path, source, last):
    table = Table.read(write(tmp_path, source) if isinstance(source, str) else source)
    assert table.columns == ("text", "label")
    assert [tuple(row) for row in table.rows] == list(zip(TEXTS, LABELS, strict=True))
    assert table.place(table.numbers[-1]).endswith(last)


def test_arrays_and_bytes_in_memory_are_lists_and_texts():
    spans = np.array([{"labels": np.array(["no"], object)}, None], object)
    (row,) = Table.read([{"text": b"caf\xc3\xa9", "spans": spans}]).rows
    assert row == ["café", [{"labels": ["no"]}, None]]


def test_texts_may_be_long(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,label\n{'a' * 200_000},no\n")
    assert len(Table.read(path).rows[0][0]) == 200_000


def test_the_label_minus_one_is_none(tmp_path):
    path, table = tmp_path / "test.parquet", arrow_table()
    table = table.set_column(1, "label", pa.array([-1, 1])).cast(table.schema)
    pyarrow.parquet.write_table(table, path)
    assert [label for _, label in Table.read(path).rows] == [None, "yes"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"", "holds no rows$"),
        ("x.csv", b"text,label\n", "holds no rows after the header row$"),
        ("x.csv", b"a,b\n1,2\na,b\n", ", line 3: repeats the header row; expected it once, at the"),
        ("x.csv", b'a,b\n1,2\n"open,2\n3,4\n', ", line 3: unexpected end of data; expected quotes"),
        ("x.tsv", b'a\tb\n"it" is\t2\n', ", line 2: 'tab' expected after '\"'; expected quotes"),
        ("x.csv", b"a,b\r1,2\r", r", line 1: received lines that end in \\r; expected \\n or"),
        ("x.csv", "a,b\n".encode("utf-16"), ", line 1: begins like UTF-16 text; expected UTF-8"),
        ("x.csv.gz", b"a,b\n", "is damaged, or no .gz file"),
        ("x.jsonl", b'{"a": 1}\n[1]\n', ", line 2: expected an object in braces"),
        ("x.parquet", b"text", "cannot be read: "),
    ],
)
def test_mistakes_in_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"^{path}.*{message}"):
        Table.read(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Stream(), "train: received Stream; expected a path, a pandas DataFrame"),
        (3, "train: received int; expected a path, a pandas DataFrame, a datasets.Dataset or a"),
        ({"train": [], "test": []}, "train: holds the parts train, test; expected one of them"),
        ([{"text": b"caf\xe9"}], r"train: holds b'caf\\xe9', which is not UTF-8"),
        ([], "train: holds no rows"),
        ([{"text": "a"}, "b"], r"train\[1\]: expected a mapping from columns to values"),
    ],
)
def test_mistakes_in_memory_are_named(source, message):
    with pytest.raises(InputError, match=message):
        Table.read(source, "train")


def test_folders_that_datasets_did_not_write_are_refused(tmp_path):
    with pytest.raises(InputError, match="a folder; expected a file, or what save_to_disk of data"):
        Table.read(tmp_path)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InputError, match="holds the parts train, test; expected the folder of one"):
        Table.read(tmp_path)
