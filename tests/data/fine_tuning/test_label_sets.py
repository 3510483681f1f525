"""Sets of labels are the same, whatever a table has them in; what is nearly a set is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.columns import hide_labels
from albert_tf.data.fine_tuning.opened_tables import named_columns
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.kinds import Classification, Embedding, MultiLabel, TokenClassification, recognise
from albert_tf.kinds.kind import open_source
from tests.data.fine_tuning.forms import FORMS, in_form
from tests.helpers import refused

LABELS = ("toxic", "severe toxic", "threat")


def in_layout(layout, sets, labels=LABELS):
    """Returns rows with sets of labels, and the names that the user gives."""
    texts = [f"text {number}" for number in range(len(sets))]
    flags = [{label: int(label in names) for label in labels} for names in sets]
    if layout == "named columns":
        rows = [{"comment_text": text, **row} for text, row in zip(texts, flags, strict=True)]
        return rows, ColumnNames(label_columns=",".join(labels))
    if layout == "columns":
        rows = [
            {"text": text, **{f"label_{name}": value for name, value in row.items()}}
            for text, row in zip(texts, flags, strict=True)
        ]
        return rows, ColumnNames()
    separator = {"lists": "", "separator": ";", "spaced": "; "}[layout]
    cells = [separator.join(names) if separator else [*names] for names in sets]
    rows = [{"text": text, "tags": cell} for text, cell in zip(texts, cells, strict=True)]
    return rows, ColumnNames(label_column="tags", label_separator=separator.strip() or None)


def read(source, names, kind=None, split="train", columns=()):
    table = open_source(kind or Classification, source, split, names, columns)
    kind = kind or recognise(table, "classification")
    assert isinstance(kind, MultiLabel)
    examples = kind.read(table, split)
    return [(e.text_a, e.label if e.label is None else {*e.label.split("|")}) for e in examples]


SETS = st.lists(st.lists(st.sampled_from(LABELS), unique=True, min_size=1), min_size=2, max_size=6)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(SETS.filter(lambda sets: {len(names) for names in sets} != {1}))
def test_the_same_sets_are_the_same_examples(tmp_path_factory, sets):
    folder = tmp_path_factory.mktemp("rows")
    expected = [(f"text {number}", {*names}) for number, names in enumerate(sets)]
    for layout in ("named columns", "columns", "lists", "separator", "spaced"):
        rows, names = in_layout(layout, sets)
        for form in FORMS:
            source = in_form(form, rows, folder)
            assert read(source, names) == expected
            # A trained model reads them in its own order of labels, without the flags.
            kind = MultiLabel(labels=LABELS[::-1])
            assert read(source, ColumnNames(), kind, "dev", named_columns(names)) == expected


def test_rows_may_have_no_label_in_columns(capsys):
    rows, names = in_layout("named columns", [["toxic"], [], LABELS])
    assert [labels for _, labels in read(rows, names)] == [{"toxic"}, {""}, {*LABELS}]
    said = capsys.readouterr().err
    assert said.endswith(
        "train: reads 'comment_text' as the text, 'toxic, severe toxic, threat' as the label\n"
    )


def test_columns_that_say_how_a_row_counts_may_be_labels():
    sets = [["ignore"], ["ignore", "weight"], ["weight"]]
    rows, names = in_layout("named columns", sets, labels=("ignore", "weight"))
    assert [labels for _, labels in read(rows, names)] == [{*labels} for labels in sets]


def test_a_test_set_may_lack_the_columns(capsys):
    rows, names = in_layout("named columns", [["toxic"], []])
    kind, columns = MultiLabel(labels=LABELS), named_columns(names)
    unlabelled = [{"comment_text": "a"}]
    for given_names in (names, ColumnNames()):
        assert read(unlabelled, given_names, kind, "test", columns) == [("a", None)]
        table = hide_labels(open_source(kind, rows, "test", given_names, columns))
        assert [example.label for example in kind.read(table, "test")] == [None, None]
    capsys.readouterr()
    with refused("^dev: no column of labels, but 'comment_text', 'toxic'"):
        read([{"comment_text": "a", "toxic": 1}], ColumnNames(), kind, "dev", columns)
    said = capsys.readouterr().err
    assert "has no column 'severe toxic', 'threat', the --label_columns that the model" in said
    # What the user names replaces what the training named.
    rows, _ = in_layout("lists", [["toxic"], LABELS])
    given_names = ColumnNames(label_column="tags")
    assert read(rows, given_names, kind, "dev", columns)[0] == ("text 0", {"toxic"})


@pytest.mark.parametrize(
    ("names", "row", "message"),
    [
        (
            {"label_columns": "toxic, x"},
            {},
            "--label_columns=toxic, x: train has no column 'x', but",
        ),
        (
            {"label_columns": "toxic"},
            {},
            "--label_columns=toxic: received 'toxic'; expected two col",
        ),
        ({"label_columns": "toxic,toxic"}, {}, "train: has the column 'toxic'; expected names of"),
        (
            {"label_columns": "toxic,threat", "label_column": "toxic"},
            {},
            "--label_columns=toxic,threat: received --label_column, too; expected one of them",
        ),
        (
            {"label_columns": "toxic,threat", "label_separator": ";"},
            {},
            "--label_columns=toxic,threat: received --label_separator, too; expected one of them",
        ),
        (
            {"label_columns": "toxic,threat"},
            {"toxic": -1},
            r"train\[1\]: toxic is '-1'; expected 0 or",
        ),
        ({}, {}, "--label_column; --label_columns=toxic,threat reads columns of 0 and 1 as sets"),
        (
            {"label_column": "tags", "label_separator": ""},
            {},
            "--label_separator: expected one char",
        ),
        (
            {"label_column": "tags", "label_separator": "/"},
            {},
            "--label_separator=/: is in no row of",
        ),
        (
            {"label_column": "tags", "label_separator": ";"},
            {"tags": "a;;b"},
            r"train\[1\]: received the labels 'a\|\|b'; expected one name or more",
        ),
        (
            {"label_column": "tags", "label_separator": ";"},
            {"tags": "a|b"},
            r"train\[1\]: the label 'a\|b' has \|, which separates labels",
        ),
    ],
)
def test_what_is_nearly_a_set_is_refused(names, row, message):
    rows = [{"text": "a", "toxic": 1, "threat": 0, "tags": "x;y"}] * 2
    with refused(message):
        read([rows[0], {**rows[1], **row}], ColumnNames(**names))


@pytest.mark.parametrize("names", [{"label_columns": "a,b"}, {"label_separator": ";"}])
def test_other_kinds_have_no_sets(names):
    rows = [{"text": "x", "a": 1, "b": 0, "label": "a;b", "tokens": ["x"], "tags": ["O"]}] * 2
    pair = {"text": "x", "text_pair": "y", "a": 1, "b": 0, "label": 1}
    for kind, row in (
        (Classification(labels=("a", "b")), {"text": "x", "label": "a", "b": 0, "a": 1}),
        (TokenClassification(), {"tokens": ["x"], "tags": ["B-X"], "a": 1, "b": 0}),
        (Embedding(), pair),
    ):
        with refused(
            r"^--label_(columns=a,b|separator=;): dev is read with one label in a row, or no"
        ):
            kind.read(Table.read([row], "dev", ColumnNames(**names)), "dev")
    if "label_columns" in names:
        with refused("a score cannot be a set of labels"):
            recognise(Table.read(rows, "train", ColumnNames(**names)), "regression")
