"""Every source of rows gives the same table, and every mistake names file and row."""

import csv
import datetime
import gzip
import io
import json
import re
import unicodedata

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.tables import Table
from albert_tf.kinds import Classification
from tests.helpers import refused

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

    def __init__(self, format_type=None):
        self.format = {"type": format_type}

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


def workbook(rows):
    """Returns the content of a file of Excel; no text is taken for a formula or an error."""
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row, values in enumerate(rows, 1):
        for column, value in enumerate(values, 1):
            cell = book.active.cell(row, column, value)
            cell.data_type = "s" if isinstance(value, str) else cell.data_type
    book.save(file)
    return file.getvalue()


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
    elif name == "rows.xlsx":
        path.write_bytes(workbook([("text", "label"), *zip(TEXTS, LABELS, strict=True)]))
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
        ("rows.xlsx", "row 3"),
        ("rows.xlsx.gz", "row 3"),
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


# In TSV, texts have no line end, and CSV files none of another program's.
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")
PLAIN_TEXTS = st.text(CHARACTERS, min_size=1).filter(str.strip)
# XML has no form for them.
NOT_IN_WORKBOOKS = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
VALUES = st.one_of(
    PLAIN_TEXTS, st.integers(-9, 99), st.booleans(), st.sampled_from([0.0, 1.0, 2.5])
)
ARROW_TEXTS = [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    *(pa.binary_view(), pa.dictionary(pa.int32(), pa.string())),
]


def as_bytes(text):
    return text.encode()


def delimited(rows, dialect):
    file = io.StringIO()
    csv.writer(file, dialect, lineterminator="\n").writerows([("text", "label"), *rows])
    return file.getvalue()


def parquet(rows, kind):
    texts, labels = zip(*rows, strict=True)
    texts = list(map(as_bytes, texts)) if "binary" in str(kind) else texts
    file = io.BytesIO()
    table = {
        "text": pa.array(texts, kind),
        "label": pa.array([str(label) for label in labels], kind),
    }
    if "binary" in str(kind):
        table["label"] = pa.array([as_bytes(str(label)) for label in labels], kind)
    pyarrow.parquet.write_table(pa.table(table), file)
    return file.getvalue()


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.tuples(PLAIN_TEXTS, VALUES), min_size=1, max_size=4),
    kind=st.sampled_from(ARROW_TEXTS),
)
def test_a_table_gives_the_same_examples_in_every_form(rows, kind, tmp_path_factory):
    # A file with more of them may be refused as a binary one.
    letters = "".join(f"{text}{label}" for text, label in rows)
    assume(sum(unicodedata.category(letter) == "Cc" for letter in letters) <= 8)
    folder = tmp_path_factory.mktemp("forms")
    mappings = [{"text": text, "label": label} for text, label in rows]
    contents = {
        "rows.csv": delimited(rows, csv.excel).encode(),
        "rows.tsv": delimited(rows, csv.excel_tab).encode(),
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in mappings).encode(),
        "rows.json": json.dumps(mappings, indent=1).encode(),
        "rows.parquet": parquet(rows, kind),
    }
    if not any(NOT_IN_WORKBOOKS.search(str(cell)) for row in rows for cell in row):
        contents["rows.xlsx"] = workbook([("text", "label"), *rows])
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    scalars = [{"text": np.str_(text), "label": np.array([label])[0]} for text, label in rows]
    sources = [mappings, scalars, *(folder / name for name in contents)]
    read = [Classification().read(source, "train") for source in sources]
    read = [[(example.text_a, example.label) for example in examples] for examples in read]
    assert read == [read[0]] * len(sources)
    assert [text for text, _ in read[0]] == [text for text, _ in rows]


def test_dates_are_no_texts():
    row = {"text": datetime.date(2024, 1, 1), "label": "x"}
    with refused(r"^train\[0\]: received date in place of a text"):
        Classification().read([row], "train")


@pytest.mark.parametrize(
    ("content", "rows", "warning"),
    [
        ('a\tb\n"x"\ty\n', [("x", "y")], ""),
        ('a\tb\n"x ""1"""\ty\n', [('x "1"', "y")], ""),
        ('a\tb\n"x\ty\nz"\tw\n', [('"x', "y"), ('z"', "w")], "quotes are read as characters"),
        ('a\tb\n"x" z\ty\n', [('"x" z', "y")], "quotes are read as characters"),
        ('a\tb\n"x\n\nz"\tw\n', [("x\n\nz", "w")], "read quoted texts with tabs or ends of lines"),
    ],
)
def test_quotes_of_a_tsv_file_are_read_as_the_file_has_them(
    tmp_path, capsys, content, rows, warning
):
    path = tmp_path / "x.tsv"
    path.write_text(content)
    assert list(map(tuple, Table.read(path).rows)) == rows
    received = capsys.readouterr().err
    assert warning in received if warning else not received


@pytest.mark.parametrize("separator", [";", "\t"])
def test_columns_of_a_csv_file_may_have_another_separator(tmp_path, capsys, separator):
    path = tmp_path / "x.csv"
    path.write_text("text;label\na, b;yes\n;\n;\n".replace(";", separator))
    assert Table.read(path).rows == (["a, b", "yes"],)
    assert "are separated by " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('a, b\nx, "pos"\ny,neg\n', [("x", "pos"), ("y", "neg")]),
        ('sep=;\na;b\n"p, q";  "r; ""s"""\n', [("p, q", 'r; "s"')]),
        ('a,b\nx, "y\nz"\n', [("x", "y\nz")]),
        # The others are characters of texts.
        ('a,b\nx," ""y"""\n', [("x", ' "y"')]),
        ('a,b\n c, "Fine" he said\n', [(" c", ' "Fine" he said')]),
        ('a,b\n c," ""y"""\nx, "z"\n', [(" c", ' "y"'), ("x", ' "z"')]),
    ],
)
def test_spaces_before_the_quotes_of_a_csv_file(tmp_path, capsys, content, rows):
    path = tmp_path / "x.csv"
    path.write_text(content)
    assert list(map(tuple, Table.read(path).rows)) == rows
    is_spaced = not any('"' in field and field.startswith(" ") for row in rows for field in row)
    assert (
        capsys.readouterr().err
        == is_spaced * f"warning: {path}: spaces before quotes are not read\n"
    )


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
        ("x.tsv", b'a\tb\n"it" is\t2\t\n', ", line 2: 'tab' expected after '\"'; expected quotes"),
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
    with refused(rf"^{path}.*{message}"):
        Table.read(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Stream(), "train: received Stream; expected a path, a pandas DataFrame"),
        (
            Dataset("custom"),  # as `with_transform` makes it
            "train: received a datasets.Dataset with a transform, which is not applied; expected one",
        ),
        (3, "train: received int; expected a path, a pandas DataFrame, a datasets.Dataset or a"),
        (
            {"text": ["a"], "label": ["b"]},
            "train: received a mapping with text, label; expected a list of dic",
        ),
        ([{"text": b"caf\xe9"}], r"train\[0\]: holds b'caf\\xe9', which is not UTF-8"),
        ([], "train: holds no rows"),
        ([{"text": "a"}, "b"], r"train\[1\]: expected a mapping from columns to values"),
    ],
)
def test_mistakes_in_memory_are_named(source, message):
    with refused(message):
        Table.read(source, "train")


def test_folders_that_datasets_did_not_write_are_refused(tmp_path):
    with refused("a folder; expected a file, or what save_to_disk of data"):
        Table.read(tmp_path)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with refused("holds the parts train, test; expected the folder of one"):
        Table.read(tmp_path)
