"""Every column is read, named, or known to change nothing; the same rows are the same examples."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.column_meanings import MEANINGS
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.data.fine_tuning.squad_questions import read_questions
from albert_tf.data.fine_tuning.written_values import read_written
from albert_tf.errors import InputError
from albert_tf.kinds import (
    Classification,
    Embedding,
    MultiLabel,
    QuestionAnswering,
    TokenClassification,
    recognise,
)
from tests.data.fine_tuning.forms import FORMS, in_form, write
from tests.helpers import refused

ROWS = [{"text": f"text {number}", "label": "ab"[number % 2]} for number in range(6)]
KIND = Classification()


def read(rows, split="train", kind=KIND, **names):
    """Returns the texts and labels of rows."""
    examples = kind.read(kind.open(rows, split, ColumnNames(**names)), split)
    return [(example.text_a, example.text_b, example.label) for example in examples]


def added(values, name="extra", rows=ROWS):
    """Returns rows with one more column."""
    return [{**row, name: value} for row, value in zip(rows, values, strict=True)]


NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=3, max_size=12)
KNOWN = {name for meaning in MEANINGS for name in meaning.names}
OF_PAIRS = {name for meaning in MEANINGS if meaning.of_pairs for name in meaning.names}


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.data())
def test_the_order_of_columns_and_unknown_ones_change_nothing(data):
    usual = {"score", "class", "target", "category", "labels", "tweet", "query"}
    names = data.draw(st.lists(NAMES, unique_by=str.lower, max_size=4))
    names = [f"my {name}" for name in names if name.lower() not in usual]
    rows = [{**row, **dict.fromkeys(names, place)} for place, row in enumerate(ROWS)]
    order = data.draw(st.permutations([*rows[0]]))
    rows = [{name: row[name] for name in order} for row in rows]
    assert read(rows) == read(ROWS)
    renamed = [{"Review": row["text"], "TARGET": row["label"]} for row in rows]
    assert read(renamed) == read(ROWS)


def test_one_line_says_what_is_read_and_what_is_not(capsys):
    read(added(range(6), "id"))
    said = capsys.readouterr().err
    assert said == "train: reads 'text' as the text, 'label' as the label; not read: 'id'\n"
    read([{**row, "clean": "x"} for row in ROWS], "dev", text_column="clean")
    said = capsys.readouterr().err
    assert said == "dev: reads 'clean' as the text, 'label' as the label; not read: 'text'\n"
    read([{"text": "a"}], "test")
    assert capsys.readouterr().err == "test: reads 'text' as the text\n"


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.sampled_from(sorted(KNOWN)),
    st.sampled_from([str.lower, str.upper, str.title, lambda name: name.replace("_", " ")]),
    st.lists(
        st.sampled_from(["accept", "reject", True, False, 0.25, None, "x"]),
        min_size=6,
        max_size=6,
    ),
)
def test_columns_with_a_meaning_are_used_or_refused(name, spell, values):
    """They are used: rows are left out; refused by name; or alike in all rows."""
    rows, column = added(values, spell(name)), spell(name)
    plain = read(ROWS)
    assert read(rows, ignore_columns=column) == plain
    assert len(read(rows, "test")) == len(plain)
    is_alike = len({str(value) for value in values}) == 1
    is_text = name == "answer" and {*values} & {0.25, "x", True, False}
    with refused(f"'{column}'"):
        assert read(rows) != plain or is_alike or is_text or name in OF_PAIRS
        raise InputError(f"'{column}' has been used")


@pytest.mark.parametrize(
    ("name", "values", "kept"),
    [
        ("answer", ["accept", "reject", "ignore", "accept", "accept", "accept"], [0, 3, 4, 5]),
        ("is_rejected", [True, False, False, True, False, None], [1, 2, 4, 5]),
        ("Accepted", ["yes", "no", "no", "yes", "1", "0"], [0, 3, 4]),
        ("Was Cancelled", ["0.0", "1.0", "0.0", "0.0", "", ""], [0, 2, 3, 4, 5]),
    ],
)
def test_rows_that_do_not_count_are_left_out_and_counted_once(name, values, kept, capsys):
    rows = added(values, name)
    table = KIND.open(rows, "train", ColumnNames())
    examples = KIND.read(table, "train")
    assert [example.guid for example in examples] == [f"train-{place}" for place in kept]
    said = capsys.readouterr().err
    assert said.count(f"warning: train: left out {6 - len(kept)} of 6 rows: '{name}' is ") == 1
    assert said.count("left out") == 1
    assert len(read(rows, "test")) == 6
    with refused(rf"^train: left out 2 of 2 rows: '{name}' is .*; expected rows that count, or"):
        only = [row for place, row in enumerate(rows) if place not in kept]
        read([only[0], only[0]])


def test_spans_that_annotators_refused_do_not_count(capsys):
    def row(label, answer):
        spans = [{"start": 0, "end": 3, "label": label}]
        return {"text": "Ann met Bob", "spans": spans, "answer": answer, "_input_hash": 7}

    examples = TokenClassification().read([row("PER", "accept"), row("ORG", "reject")], "train")
    assert [example.spans[0].label for example in examples] == ["PER"]
    with refused("^train: the column 'answer'.* says what the annotator said of the label"):
        TokenClassification().read([row("PER", "accept"), row("ORG", None)], "train")


def test_answers_that_are_texts_or_labels_are_read():
    rows = [{"question": "Who?", "answer": "accept", "label": "a"}] * 2
    assert read(rows)[0] == ("Who?", "accept", "a")
    rows = [{"text": "x", "answer": answer} for answer in ("accept", "reject")]
    assert [label for *_, label in read(rows, label_column="answer")] == ["accept", "reject"]
    rows = [{**row, "answer": f"answer {place}"} for place, row in enumerate(ROWS)]
    assert read(rows) == read(ROWS)


@pytest.mark.parametrize("name", ["set", "Usage", "status"])
@pytest.mark.parametrize(
    "values",
    [
        ["train", "train", "dev", "train", "test", "train"],
        ["Training", "Training", "PublicTest", "Training", "PrivateTest", "Training"],
        ["Train Set", "test-set", "validation_set", "train", "train", "test"],
        ["", "test", "", None, "", "test"],
    ],
)
def test_columns_are_parts_of_the_data_by_their_values(name, values):
    rows = added(values, name)
    for split in ("train", "dev"):
        with refused(rf"^{split}: the column '{name}', such as '.*', says which part of the data"):
            read(rows, split)
    assert read(rows, ignore_columns=name) == read(ROWS)
    assert len(read(rows, "test")) == 6


def test_other_columns_may_have_words_for_parts_of_the_data():
    words = ["train", "bus", "test", "train", "", "dev"]
    assert read(added(words, "set")) == read(ROWS)
    assert read(added(["train"] * 6, "set")) == read(ROWS)
    parts = ["train", "test"] * 3
    assert [label for *_, label in read(added(parts, "set"), label_column="set")] == parts


@pytest.mark.parametrize("name", ["negative", "Hard_Negative", "hard_neg", "neg"])
@pytest.mark.parametrize(
    "pair", [("anchor", "positive"), ("query", "answer"), ("sentence1", "sentence2")]
)
def test_negatives_beside_pairs_make_triplets(pair, name, capsys):
    first, second = pair
    rows = [{first: f"a{x}", second: f"b{x}", name: f"c{x}"} for x in range(3)]
    examples = Embedding().read(rows, "train")
    assert [example.texts for example in examples] == [
        (f"a{x}", f"b{x}", (), f"c{x}") for x in range(3)
    ]
    assert f"'{second}' as the second text, '{name}' as the negative" in capsys.readouterr().err
    ignoring = ColumnNames(ignore_columns=name)
    plain = Embedding().read(Embedding.open(rows, "train", ignoring), "train")
    assert [example.negative for example in plain] == [None] * 3
    assert Embedding().read([{**row, name: None} for row in rows], "train") == plain
    assert Embedding().read(rows, "test")[0].negative is None
    # A column that is read as something else is no negative.
    named = ColumnNames(text_column=first, text_pair_column=name)
    assert Embedding().read(Embedding.open(rows, "train", named), "train")[2].text_b == "c2"


def test_negatives_that_are_no_texts_beside_pairs_are_refused():
    row = {"anchor": "a", "positive": "b"}
    for name in ("negative_1", "negatives", "hard negative", "hard_neg_2"):
        message = (
            rf"^train: the column '{name}', such as 'c', says which text does not belong .*; give one "
            "text a row, in the column 'negative', or pass over it with --ignore_columns"
        )
        with refused(message):
            Embedding().read([{**row, name: "c"}], "train")
    for empty in (None, " "):
        with refused(r"^train\[1\]: negative is empty$"):
            Embedding().read([{**row, "negative": "c"}, {**row, "negative": empty}], "train")
    scored = [{**row, "negative": "c", "score": 1.0}]
    for split in ("train", "dev"):
        message = f"^{split}: has scores in 'score' and negatives in 'negative'; expected one of"
        with refused(message):
            Embedding().read(scored, split)
    assert Embedding().read(scored, "test") == [Example("test-0", "a", "b", "1.0")]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gold_label", ["entailment", "contradiction"]),
        ("is_duplicate", [1, 0]),
        ("relatedness_score", ["4.5", "1.0"]),
        ("Relevance", [1.0, 0.0]),
    ],
)
def test_pairs_belong_together_unless_a_column_says_how_much(name, values):
    rows = [
        {"sentence1": f"a{x}", "sentence2": f"b{x}", name: value} for x, value in enumerate(values)
    ]

    def read_pairs(rows, **names):
        names = ColumnNames(**names)
        examples = Embedding().read(Embedding.open(rows, "train", names), "train")
        return [(example.text_b, example.label) for example in examples]

    message = (
        rf"^train: the column '{name}', such as .*, says whether, or how much, the texts belong "
        rf"together, .*; --label_column reads scores; .*--ignore_columns={name}$"
    )
    with refused(message):
        read_pairs(rows)
    alike = [{**row, name: values[0]} for row in rows]
    for pairs in (read_pairs(rows, ignore_columns=name), read_pairs(alike)):
        assert pairs == [("b0", None), ("b1", None)]
    scored = [{**row, "score": place} for place, row in enumerate(rows)]
    assert read_pairs(scored) == [("b0", "0"), ("b1", "1")]
    if name != "gold_label":
        assert read_pairs(rows, label_column=name)[0] != ("b0", None)
    assert len(read(rows, kind=Classification(), label_column=name)) == 2


def test_columns_to_ignore():
    rows = added(range(6), "split")
    assert read(rows, ignore_columns="split") == read(ROWS)
    assert read(added(range(6), "fold", rows), ignore_columns="split, fold") == read(ROWS)
    rows = added(range(6), "fold, 2")
    assert read(rows, ignore_columns="fold, 2") == read(ROWS)
    with refused(
        "^--ignore_columns=fold: train has no such columns, but 'text', 'label', 'fold, 2'"
    ):
        read(rows, ignore_columns="fold")
    both = added(["x"] * 6, "review")
    assert read(both, ignore_columns="review") == read(ROWS)
    assert read(ROWS, "dev", ignore_columns="review") == read(ROWS, "dev")
    question = {
        "question": "who?",
        "context": "Ann",
        "answers": {"text": ["Ann"], "answer_start": [0]},
    }
    questions = added([1, 2], "fold", [question] * 2)
    with refused("the column 'fold', such as '2', says which part of the data"):
        QuestionAnswering().read(QuestionAnswering.open(questions, "train", ColumnNames()), "train")
    table = QuestionAnswering.open(questions, "train", ColumnNames(ignore_columns="fold"))
    assert len(QuestionAnswering().read(table, "train")) == 2


LEAVES = st.one_of(
    *(st.integers(-9, 9), st.booleans(), st.none(), st.floats(-9, 9, width=16)),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
)
VALUES = st.recursive(
    st.lists(LEAVES, max_size=3),
    lambda values: st.one_of(
        st.lists(values, max_size=3), st.dictionaries(st.text(max_size=3), values, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(VALUES)
def test_written_values_say_what_they_said(value):
    assert read_written(repr(value)) == value
    assert read_written(json.dumps(value)) == value
    assert read_written(json.dumps(value, ensure_ascii=False, indent=1)) == value


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    st.one_of(
        st.lists(st.integers(-99, 99), min_size=1, max_size=99),
        st.lists(st.booleans(), min_size=1, max_size=99),
        st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=99),
        st.lists(st.text("ab 'c", min_size=1, max_size=9), min_size=1, max_size=20),
    )
)
def test_arrays_are_read_as_numpy_prints_them(values):
    array = np.array(values)
    assert read_written(str(array)) == values
    assert read_written(repr(array)) == values
    assert read_written(str([*array])) == values


@pytest.mark.parametrize(
    "text",
    ["[spam]", "[a, b]", "(other)", "(1)", "[1, 2", "[0. 1. ... 0.]", "[2024-01-01]", "a [1]", ""],
)
def test_other_texts_are_only_texts(text):
    assert read_written(text) == text


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([[27], [2, 3], [3], []], ["27", "2|3", "3", ""]),
        ([[27], [3], [3], [2]], ["27", "3", "3", "2"]),
        ([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]], ["0", "0|1", "1", ""]),
        ([[True, False], [False, True], [True, True], [False, False]], ["0", "1", "0|1", ""]),
        ([["a"], ["b", "it's"], ["b"], ["a", 'x "y", z']], ["a", "b|it's", "b", 'a|x "y", z']),
        ([7, 1, 7, 3], ["7", "1", "7", "3"]),
        ([0.5, 1.0, 2.0, 0.5], ["0.5", "1", "2", "0.5"]),
        (["[spam]", "[ham]", "[spam]", "x"], ["[spam]", "[ham]", "[spam]", "x"]),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_are_the_same_examples(labels, expected, form, tmp_path):
    rows = [{"text": "[a, b]", "labels": label} for label in labels]
    source = in_form(form, rows, tmp_path)
    table = open_table(source, "train")
    kind = recognise(table, "classification")
    is_set = any(isinstance(label, list) and len(label) != 1 for label in labels)
    assert isinstance(kind, MultiLabel if is_set else Classification)
    examples = kind.read(table, "train")
    assert [example.label for example in examples] == expected
    assert {example.text_a for example in examples} == {"[a, b]"}


@pytest.mark.parametrize("form", FORMS)
def test_label_studio_writes_several_names_as_an_object(form, tmp_path):
    rows = [{"text": "x", "label": "Dull"}, {"text": "y", "label": '{"choices": ["Fun", "Warm"]}'}]
    source = in_form(form, rows, tmp_path)
    kind = recognise(open_table(source, "train"), "classification")
    assert [label for *_, label in read(source, kind=kind)] == ["Dull", "Fun|Warm"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_other_lists_are_read_from_cells(name, tmp_path):
    row = {"tokens": ["Jane", "Austen's"], "ner_tags": ["B-PER", "I-PER"]}
    (text,) = TokenClassification().read(write(tmp_path, name, [row]), "train")
    assert (text.text_a, text.spans[0].end) == ("Jane Austen's", 13)
    row = {"text": "Jane", "spans": [(0, 4, "PER")]}
    (text,) = TokenClassification().read(write(tmp_path, name, [row]), "train")
    assert text.spans[0].label == "PER"
    row = {"question": "who?", "context": "Ann", "answers": {"text": ["Ann"], "answer_start": [0]}}
    (question,) = read_questions(write(tmp_path, name, [row]))
    assert question.answers[0].text == "Ann"


def test_lists_that_cannot_be_read_are_refused():
    for label in ("[a, b]", "{a,b}", "[0. 0. ... 1.]"):
        with refused(r"^train\[1\]: received the label '" + re.escape(label)):
            read([{"text": "x", "label": "a"}, {"text": "y", "label": label}])
