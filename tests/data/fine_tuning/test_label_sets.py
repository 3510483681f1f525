"""Sets of labels are the same, whatever a table has them in; what is nearly a set is refused."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.column_meanings import MEANINGS
from albert_tf.data.fine_tuning.column_names import LABELS as LABEL_NAMES
from albert_tf.data.fine_tuning.column_names import SPANS, TEXTS, ColumnNames
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
    if layout == "only columns of 0 and 1":
        rows = [{"id": f"{number}", "comment_text": text} for number, text in enumerate(texts)]
        return [{**row, **flag} for row, flag in zip(rows, flags, strict=True)], ColumnNames()
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
    layouts = (
        "named columns",
        "only columns of 0 and 1",
        "columns",
        "lists",
        "separator",
        "spaced",
    )
    for layout in layouts:
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


NAMES = st.text(st.characters(codec="ascii", categories=["L"]), min_size=3, max_size=9)
MEANT = {name for meaning in MEANINGS for name in meaning.names}
USUAL = {*LABEL_NAMES, *SPANS, *TEXTS, *MEANT, "idx", "guid", "uuid", "index"}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data())
def test_columns_of_0_and_1_are_labels_if_they_can_be_nothing_else(data, tmp_path_factory):
    names = data.draw(st.lists(NAMES, min_size=2, max_size=5, unique_by=str.lower))
    assume(not {*map(str.lower, names)} & USUAL)
    flag = st.sampled_from(data.draw(st.sampled_from([(0, 1), (True, False), (0.0, 1.0)])))
    text = data.draw(st.sampled_from(["text", "comment_text", "Tweet", "review"]))
    ids = data.draw(st.sampled_from([[], ["id"], ["video-id"], ["Unnamed: 0"], ["comment_id"]]))
    columns = data.draw(st.permutations([text, *ids, *names]))
    cells = {**dict.fromkeys(names, flag), **{name: st.integers(0, 1) for name in ids}}
    cells[text] = st.sampled_from(["a fine day", "0 of 1"])
    rows = [{name: data.draw(cells[name]) for name in columns} for _ in range(3)]
    source = in_form(data.draw(st.sampled_from(FORMS)), rows, tmp_path_factory.mktemp("rows"))
    expected = [(row[text], {name for name in names if row[name]} or {""}) for row in rows]
    assert read(source, ColumnNames()) == expected
    # The table may also have what makes its columns ambiguous: it is refused, and told how to read it.
    name, cell = data.draw(
        st.sampled_from([("notes", "x"), ("notes", 2), ("notes", None), ("sentence", "a b")])
    )
    with refused("may all be the text; --text_col" if name == "sentence" else "--label_columns="):
        read([*rows[:-1], {**rows[-1], name: cell}], ColumnNames())
    if len(names) == 2:  # a single one is none
        with refused("no column of labels, but"):
            read(
                [{key: row[key] for key in columns if key != names[0]} for row in rows],
                ColumnNames(),
            )


def test_names_with_a_meaning_beside_pairs_are_labels_of_single_texts():
    rows = [{"text": "a", "positive": 1, "negative": 0, "relevant": 1}]
    assert read(rows, ColumnNames()) == [("a", {"positive", "relevant"})]


def test_one_line_says_which_columns_of_0_and_1_are_labels(capsys):
    rows, names = in_layout("only columns of 0 and 1", [["toxic"], [], LABELS])
    assert recognise(Table.read(rows), "classification").labels == LABELS
    kind = MultiLabel(labels=LABELS)
    assert [labels for _, labels in read(rows, names, kind)] == [{"toxic"}, {""}, {*LABELS}]
    said = capsys.readouterr().err
    assert said == (
        "train: reads 'comment_text' as the text, 'toxic, severe toxic, threat' as the label; not read: "
        "'id'\n"
    )
    table = hide_labels(open_source(kind, rows, "test", names))
    assert [example.label for example in kind.read(table, "test")] == [None] * 3
    with refused(
        "^dev: received columns of the labels toxic, threat; expected toxic, severe toxic,"
    ):
        read([{"text": "a", "toxic": 1, "threat": 0}], names, kind, "dev")
    # A column whose name says how a row counts is no label unless it is named.
    with refused(
        "^train: no column of labels, but 'id', 'comment_text', .* --label_columns=toxic,"
    ):
        read([{**row, "is_test": 0} for row in rows], names)


def test_columns_with_the_names_of_a_trained_models_labels_are_labels():
    kind, names = MultiLabel(labels=("toxic", "threat")), ColumnNames()
    row = {"text": "a", "source": "b", "threat": 0, "toxic": 1}
    for split in ("dev", "test"):
        assert read([row], names, kind, split) == [("a", {"toxic"})]
    with refused(r"^dev\[1\]: toxic is '2'; expected 0 or 1"):
        read([row, {**row, "toxic": 2}], names, kind, "dev")
    # A test set may lack labels, and other columns of 0 and 1 are none.
    for unlabelled in ({**row, "toxic": None}, {"text": "a", "is_reply": 0, "has_link": 1}):
        assert read([unlabelled], names, kind, "test") == [("a", None)]


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
        (
            {},
            {"tags": ""},
            "--label_column; --label_columns=toxic,threat reads columns of 0 and 1 as sets",
        ),
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
