"""How kinds read the user's own data: columns, labels, and the mistakes in them."""

import dataclasses
import re

import pytest

from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.columns import hide_labels
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.kinds import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    TokenClassification,
    recognise,
)
from tests.helpers import refused

TEXTS = Classification(task_name="classification", labels=("no", "yes"))


def rows(*columns_and_rows):
    """Returns mappings of a header row and rows."""
    header, *rows = columns_and_rows
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_labels_are_those_of_the_training_set():
    train = rows(("text_a", "source", "label"), ("A pear.", "us", "no"), ("Fig?", "you", " yes "))
    kind = recognise(Table.read(train), "classification")
    assert kind == Classification()
    examples = kind.read(train, "train")
    assert examples[1] == Example("train-1", "Fig?", None, "yes")
    kind = kind.fit_labels(examples, "train")
    assert (kind.labels, kind.pairs) == (("no", "yes"), False)
    assert kind.read(rows(("label", "text"), ("no", "x")), "test")[0].label == "no"
    assert kind.read(rows(("text",), ("x",)), "test")[0].label is None


def test_rows_to_predict_may_lack_a_text(capsys):
    data = rows(("text_a",), ("x",), (None,), (" ",), ("y",))
    assert [example.is_blank for example in TEXTS.read(data, "test")] == [False, True, True, False]
    assert "test[1]: the text is empty; without an answer: 2 of 4 rows" in capsys.readouterr().err
    with refused(r"^test\[0\]: the text is empty$"):
        TEXTS.read(data[1:3], "test")
    texts = rows(CHOICES[1:], ("A", "B", "x", "", "z"), ("A", "B", "x", "y", "z"))
    kind = MultipleChoice(labels=("A", "B", "C"), pairs=True)
    assert [example.is_blank for example in kind.read(texts, "test")] == [True, False]
    blank = [example.is_blank for example in TEXTS.make_examples(["a", "", " \n"])]
    assert blank == [False, True, True]


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (Classification, ["0", "1", "1.0", "LABEL_0"], ["0", "1", "1", "0"]),
        (Classification, [0, 1, 1.0, 0], ["0", "1", "1", "0"]),
        (MultiLabel, [[0], [0, 1], [], ["LABEL_1"]], ["0", "0|LABEL_1", "", "1"]),
        (MultiLabel, ["0", "0|1", "1", "0"], ["0", "0|LABEL_1", "1", "0"]),
        (MultiLabel, [[1, 0], [1, 1], [0, 1], [0, 0]], ["0", "0|LABEL_1", "1", ""]),
    ],
)
def test_numbers_are_the_labels_of_a_model_without_names(kind, given, read, capsys):
    model = kind(labels=("LABEL_0", "LABEL_1"))
    examples = model.read(rows(("text", "label"), *(("x", label) for label in given)), "dev")
    assert [each.label for each in examples] == [name and f"LABEL_{name}" for name in read]
    said = [line for line in capsys.readouterr().err.splitlines() if "LABEL_" in line]
    is_vector = given[0] == [1, 0]
    line = "dev: reads the labels '0', '1' as 'LABEL_0', 'LABEL_1' of the model"
    assert [text.startswith(line) for text in said] == ([] if is_vector else [True])


def test_numbers_are_no_other_labels(capsys):
    model = Classification(labels=("LABEL_0", "LABEL_1"))
    with refused(r"^dev\[1\]: unknown label '2'; expected 'LABEL_0', 'LABEL_1'$"):
        model.read(rows(("text", "label"), ("x", 1), ("y", 2)), "dev")
    model = Classification(labels=("LABEL_1", "LABEL_0"))
    with refused(r"^dev\[0\]: unknown label '1'; expected 'LABEL_1', 'LABEL_0'$"):
        model.read(rows(("text", "label"), ("x", 1)), "dev")
    capsys.readouterr()
    model.read(rows(("text", "label"), ("x", "LABEL_0")), "dev")
    assert "reads the labels" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        (("text", "label"), (0,)),
        (("Category", " Text ", "id"), (1,)),
        (("review", "target"), (0,)),
        (("hypothesis", "premise", "label"), (1, 0)),
        (("question", "sentence", "idx", "label"), (0, 1)),
        (("sentence1", "sentence2", "score"), (0, 1)),
    ],
)
def test_columns_are_found_by_their_usual_names(columns, texts):
    values = tuple(str(place) for place in range(len(columns)))
    kind = Classification(pairs=len(texts) == 2)
    (example,) = kind.read(rows(columns, values), "test")
    found = (example.text_a,) if example.text_b is None else (example.text_a, example.text_b)
    assert found == tuple(map(str, texts))


def test_columns_may_be_named():
    data = rows(("text", "body", "reply", "mood"), ("no", "a", "b", "yes"))
    names = ColumnNames(text_column="body", text_pair_column="reply", label_column="mood")
    kind = dataclasses.replace(TEXTS, pairs=True)
    table = Table.read(data, names=names)
    assert kind.read(table, "dev") == [Example("dev-0", "a", "b", "yes")]
    with refused(r"^x: a CoNLL file has no names of columns; expected non"):
        TokenClassification.open("x", "dev", names)


@pytest.mark.parametrize(
    ("names", "columns", "message"),
    [
        ({}, ("text", "review", "label"), "the columns 'text', 'review' may all be the text; --text_c"),
        ({}, ("text", "premise", "hypothesis", "label"), "'text', 'premise' may all be the text"),
        ({}, ("text", "label", "score"), "'label', 'score' may all be the label; --label_column"),
        ({}, ("words", "label"), "no column of texts, but 'words', 'label'; expected 'text_a', 'te"),
        ({}, ("text", "mood"), "no column of labels, but 'text', 'mood'; expected 'label', 'labels'"),
        ({}, ("text", "spans"), "and --label_column; --task_name=token_classification reads 'spans'"),
        ({}, ("text", "Text", "label"), "has the column 'text' twice"),
        ({"text_column": "x"}, ("text", "label"), "--text_column=x: dev has no such column, but 't"),
        ({"label_column": "x"}, ("text", "label"), "--label_column=x: dev has no such column"),
        ({"text_pair_column": "text"}, ("text", "label"), "--text_pair_column: expected --text_col"),
        ({}, ("text", "text_pair", "label"), "has the text in 'text' and 'text_pair'; .* single te"),
    ],
)  # fmt: skip
def test_doubtful_columns_are_refused(names, columns, message):
    table = Table.read(rows(columns, columns), "dev", ColumnNames(**names))
    with refused(message):
        TEXTS.read(table, "dev")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("  ", "yes"), r"^dev\[1\]: the text is empty$"),
        ((None, "yes"), r"^dev\[1\]: the text is empty$"),
        ((["a"], "yes"), r"^dev\[1\]: received list in place of a text$"),
        (("a", float("nan")), r"^dev\[1\]: the label is missing \(nan\)$"),
        (("a", " "), r"^dev\[1\]: the label is empty$"),
        (("a", []), r"^dev\[1\]: the label is missing \(None\)$"),
        (
            ("a", "p\ud83d"),
            r"^dev\[1\]: the label 'p\\ud83d' has half a surrogate pair, no character$",
        ),
        (("a", "maybe"), r"^dev\[1\]: unknown label 'maybe'; expected 'no', 'yes'$"),
        (("a", "['no', "), r"^dev\[1\]: received the label '\['no','; expected a name, or names"),
        (("a", "[no, yes]"), r"^dev\[1\]: received the label '\[no, yes\]'; expected a name"),
        (("a", "[0. 1. ... 0.]"), r"^dev\[1\]: received the label '\[0. 1. ... 0.\]'; expected"),
        (("a", [0.25, 0.75]), r"^dev\[1\]: received the label '0.25'; expected a name"),
        (("a", [[0, 1, "X"]]), r"^dev\[1\]: received the label '\[0, 1, 'X'\]'; expected a name"),
    ],
)
def test_mistakes_in_rows_are_named(row, message):
    with refused(message):
        TEXTS.read(rows(("text", "label"), ("fine", "no"), row), "dev")


@pytest.mark.parametrize(
    ("label", "text"),
    [
        *((1, "1"), (2.0, "2"), ("2.0", "2"), (0.25, "0.25"), (True, "True"), ("a|b", "a|b")),
        *((["pos"], "pos"), (" very\tgood\n", "very good")),
    ],
)
def test_labels_of_other_types_are_text(label, text):
    (example,) = Classification().read([{"text": "a", "label": label}], "train")
    assert example.label == text


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (TEXTS, {"text": "a", "label": "maybe", "score": None}),
        (MultiLabel(labels=("x",)), {"text": "a", "label_y": "often"}),
        (Regression(), {"text": "a", "label": "good"}),
        (TokenClassification(labels=("O", "B-X", "I-X")), {"text": "a", "spans": "none"}),
        (TokenClassification(labels=("O", "B-X", "I-X")), {"tokens": ["a"], "ner_tags": ["B-Z"]}),
    ],
)
def test_labels_of_rows_to_predict_do_not_matter(kind, row):
    (example,) = kind.read(hide_labels(Table.read([row])), "test")
    assert (example.text_a, example.label) == ("a", None)


def test_an_empty_list_of_labels_is_no_label_of_a_row_to_predict():
    row = {"text": "a", "label": []}
    assert TEXTS.read([row], "test")[0].label is None
    assert MultiLabel(labels=("x",)).read([row], "test")[0].label == ""


@pytest.mark.parametrize("kind", [Classification(), MultiLabel()])
def test_labels_that_may_be_missing_values_are_counted(kind, capsys):
    names = ["nan", "yes", "None", "nan", r"\N", "N/A"]
    train = [{"text": "a", "label": name} for name in names]
    fitted = kind.fit_labels(kind.read(train, "train"), "x.csv")
    assert fitted.labels == ("N/A", "None", r"\N", "nan", "yes")
    said = [line for line in capsys.readouterr().err.splitlines() if "name of a label" in line]
    assert said == [
        "warning: x.csv: 'nan' is read as the name of a label; rows with it: 2",
        r"warning: x.csv: '\N' is read as the name of a label; rows with it: 1",
    ]
    dataclasses.replace(kind, labels=fitted.labels).fit_labels(kind.read(train, "train"), "x.csv")
    assert "name of a label" not in capsys.readouterr().err


def test_other_data_than_the_model_is_trained_on():
    one = rows(("text", "label"), ("a", "no"))
    with refused(r"^dev: has the text in 'text'; the model is trained"):
        dataclasses.replace(TEXTS, pairs=True).read(one, "dev")
    with refused(r"^rows.tsv: every row has the label 'no'"):
        Classification().fit_labels(Classification().read(one, "train"), "rows.tsv")
    with refused(r"^rows.tsv: every row has the score 5; expected two or more$"):
        Regression().fit_labels([Example("", "a", label="5")] * 2, "rows.tsv")
    some = rows(("text", "label"), ("a", "no"), ("b", None))
    with refused(r"^test\[1\]: expected a label in all rows, or in none"):
        TEXTS.read(some, "test")


def test_scores():
    kind = recognise(Table.read(rows(("label", "text"), ("1", "x"))), "regression")
    assert kind == Regression()
    scores = rows(("label", "text"), (-1.5, "a"), ("2e3", "b"))
    labels = [example.label for example in kind.read(scores, "dev")]
    assert labels == ["-1.5", "2e3"]
    for label, message in [
        ("1e39", r"dev\[0\]: label 1e39; expected a number from -1e\+18 to"),
        (float("nan"), r"dev\[0\]: the label is missing"),
    ]:
        with refused(message):
            kind.read([{"label": label, "text": "x"}], "dev")


def test_sets_of_labels():
    train = rows(("label", "text"), ("b| a ", "first"), ("c", "second"))
    kind = recognise(Table.read(train), "multi_label")
    assert kind == MultiLabel()
    examples = kind.read(train, "train")
    assert [example.label for example in examples] == ["b|a", "c"]
    kind = kind.fit_labels(examples, "train")
    assert kind.labels == ("a", "b", "c")
    assert MultiLabel().fit_labels([Example("", "x", label="10|9")], "").labels == ("9", "10")

    # Columns in another order, lists, and rows without a label.
    columns = rows(("label_c", "label_a", "text", "label_b"), (1, 0, "x", 1), ("0", "0", "y", "0"))
    assert [example.label for example in kind.read(columns, "dev")] == ["b|c", ""]
    lists = rows(("text", "labels"), ("x", ["c", "b"]), ("y", []))
    assert recognise(Table.read(lists), "classification") == MultiLabel()
    assert [example.label for example in kind.read(lists, "dev")] == ["c|b", ""]
    assert kind.read(rows(("text",), ("x",)), "test")[0].label is None
    assert kind.read([{"text": "x", "label": {"c", "a"}}], "dev")[0].label == "a|c"
    for label, message in [
        ("a|z", "unknown label 'z'"),
        ("", r"received the labels ''; expected one name or more, with \| between two"),
        ("a| a", "received the label 'a' twice"),
        (["a", None], r"the label is missing \(\['a', None\]\)"),
        ("a||b", r"received the labels 'a\|\|b'; expected one name or more"),
    ]:
        with refused(message):
            kind.read([{"text": "x", "label": label}], "dev")


def test_columns_of_labels():
    data = rows(("text_a", "label_z", "label_a"), ("first", "0", "1"))
    for kind in ("classification", "multi_label"):
        assert recognise(Table.read(data), kind) == MultiLabel(labels=("z", "a"))
    with refused(r"^dev\[0\]: label_z is '2'; expected 0 or 1"):
        MultiLabel().read(rows(("text", "label_z", "label_a"), ("x", "2", "1")), "dev")
    with refused("columns of the labels z, a; expected a, y, as in"):
        MultiLabel(labels=("a", "y")).read(data, "dev")
    for names in (("label_a", "label_a"), ("label_a|b", "label_c"), ("label_", "label_a")):
        table = Table("train", ("text", *names), [["x", "0", "0"]], [1])
        with refused(r"has the column 'label_.*'; expected names of"):
            recognise(table, "classification")
    unlabelled = MultiLabel().read([{"text": "x", "label": []}], "train")
    with refused(r"^rows.csv: no row has a label; expected one label or m"):
        MultiLabel().fit_labels(unlabelled, "rows.csv")
    with refused("has columns or vectors of the labels z, a; a score"):
        recognise(Table.read(data), "regression")
    # Beside a column of all labels they are columns like any other.
    data = rows(("text_a", "label_source", "label"), ("first", "us", "yes"))
    assert recognise(Table.read(data), "classification") == Classification()


@pytest.mark.parametrize(
    "vectors",
    [([1, 0, 1], [0, 0, 0]), ("[1, 0, 1]", "[0 0 0]"), ([True, False, True], [False] * 3)],
)
def test_vectors_of_labels(vectors):
    data = [{"text": "x", "Labels": vector} for vector in vectors]
    kind = recognise(Table.read(data), "classification")
    assert kind == MultiLabel(labels=("0", "1", "2"))
    assert [example.label for example in kind.read(data, "dev")] == ["0|2", ""]
    named = MultiLabel(labels=("a", "b", "c"))
    assert [example.label for example in named.read(data, "dev")] == ["a|c", ""]
    with refused(r"^dev: received 3 labels in each row; expected 2, as in"):
        MultiLabel(labels=("a", "b")).read(data, "dev")


def test_a_single_column_of_numbered_labels_has_classes():
    data = rows(("text", "label_id"), ("x", "0"), ("y", "1"))
    assert recognise(Table.read(data), "classification") == Classification()
    assert [example.label for example in Classification().read(data, "train")] == ["0", "1"]


def test_truth_values_are_zeros_and_ones():
    data = rows(("text", "label_a", "LABEL_b"), ("x", "True", 0.0), ("y", False, "1.0"))
    kind = recognise(Table.read(data), "classification")
    assert [example.label for example in kind.read(data, "train")] == ["a", "b"]


def test_names_with_the_separator_of_sets_are_refused():
    with refused(r"^dev\[0\]: the label 'a\|b' has \|, which separates"):
        MultiLabel().read([{"text": "x", "label": ["a|b", "c"]}], "dev")


CHOICES = ("label", "article", "question", "choice_a", "choice_b", "choice_c")


def test_multiple_choice():
    data = rows(CHOICES, ("C", "A story.", "Who?", "Ann", "Bob", "Cleo"))
    kind = recognise(Table.read(data), "classification")
    assert kind == MultipleChoice(labels=("A", "B", "C"))
    (example,) = kind.read(data, "train")
    assert example == Example("train-0", "A story.", "Who?", "C", ("Ann", "Bob", "Cleo"))
    with refused(r"has the column 'choice_a'; .* is a letter, not a score"):
        recognise(Table.read(data), "regression")
    with refused(r"has no columns choice_a, choice_b, \.\.\.$"):
        recognise(Table.read(rows(("label", "text"), ("A", "x"))), "multiple_choice")


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        (CHOICES, ("D", "A", "B", *"xyz"), r"dev\[0\]: unknown label 'D'; expected 'A', 'B', 'C'"),
        (CHOICES, ("A", "A", "B", "x", "", "z"), r"dev\[0\]: the choice_b is empty"),
        (CHOICES[:4], "AABx", "has the columns choice_a; expected choice_a, choice_b and so on"),
        ((*CHOICES[:4], "choice_c"), "AABxy", "has the columns choice_a, choice_c; expected cho"),
        ((*CHOICES, "choice_d"), "AABxyzv", "dev: has 4 choices; the model is trained on 3"),
        (CHOICES[:5], "AABxy", "dev: has 2 choices; the model is trained on 3"),
    ],
)
def test_mistakes_in_multiple_choice(columns, row, message):
    kind = MultipleChoice(labels=("A", "B", "C"), pairs=True)
    with refused(message):
        kind.read(rows(columns, row), "dev")


def test_choices_of_a_line_are_counted():
    kind = MultipleChoice(labels=("A", "B", "C"), pairs=True)
    assert kind.example_of_line([*"abcde"]) == Example("", "a", "b", choices=("c", "d", "e"))
    for fields, message in [
        ("abcd", "received 4 texts; expected text_a, text_b and 3 choices with tabs between them"),
        ("abcd ", "a choice is empty"),
    ]:
        with refused(message):
            kind.example_of_line([*fields])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([None], r"^options\[0\]: expected a string or a list of strings; received NoneType"),
        ([["b"]], r"^options\[0\]: expected a list of 2 texts"),
        (["b", "c", "d"], r"^options\[0\]: expected a list of 2 texts"),
        ([["b", 3]], r"^options\[0\]\[1\]: expected a string; received int"),
    ],
)
def test_mistakes_in_options_are_named(options, message):
    with refused(message):
        MultipleChoice(labels=("A", "B")).make_examples("a", None, options)


@pytest.mark.parametrize("kind_class", [Classification, MultipleChoice])
@pytest.mark.parametrize(
    ("pairs", "second", "message"),
    [
        (True, None, "missing; the model was trained on pairs of texts"),
        (False, "b", "the model was trained on single texts"),
    ],
)
def test_second_texts_are_those_of_the_training(kind_class, pairs, second, message):
    kind = kind_class(labels=("A", "B"), pairs=pairs, task_name="own")
    options = ([["c", "d"]],) if kind_class is MultipleChoice else ()
    with refused(f"^(text_b|question): {message}$"):
        kind.make_examples("a", second, *options)


def test_pairs_to_embed():
    pairs = rows(("anchor", "positive"), ("a", "b"))
    assert Embedding().read(pairs, "train") == [Example("train-0", "a", "b")]
    scored = rows(("sentence1", "sentence2", "score"), ("a", "b", 4.5))
    assert Embedding().read(scored, "dev") == [Example("dev-0", "a", "b", "4.5")]
    assert Embedding().read(scored, "train") == [Example("train-0", "a", "b", "4.5")]
    for data, message in [
        (rows(("text",), ("a",)), "has the text in 'text'; expected pairs of texts"),
        (rows(("text_a", "text_b"), ("a", " ")), r"train\[0\]: text_b is empty"),
    ]:
        with refused(message):
            Embedding().read(data, "train")
    with refused("text_b is empty"):
        Embedding().example_of_line(["a", " "])
    some = rows(("text_a", "text_b"), ("", "b"), ("", ""), ("a", "b"))
    assert Embedding().read(some, "train") == [Example("train-2", "a", "b")]
    named = rows(("text_a", "text_b", "label"), ("a", "b", "no"))
    for data, message in [
        (pairs, "no column of labels, but 'anchor', 'positive'"),
        (named, r"dev\[0\]: label 'no'; expected a n"),
    ]:
        with refused(message):
            Embedding().read(data, "dev")


def test_rows_of_an_embedder_decide_what_it_learns():
    texts = ("text_a", "text_b")
    for header, row, expected in [
        (texts, ("a", "b"), "pairs"),
        ((*texts, "label"), ("a", "b", 1), "scored_pairs"),
        ((*texts, "negative"), ("a", "b", "c"), "triplets"),
    ]:
        other = [str(cell) + "0" for cell in row]
        examples = Embedding().read(rows(header, row, other), "train")
        assert Embedding().fit_labels(examples, "train").rows == expected


@pytest.mark.parametrize("score", [float("nan"), "nan", "", None, float("inf"), "high"])
def test_scores_are_numbers(score):
    data = rows(("text_a", "text_b", "score"), ("a", "b", 1.0), ("a", "c", score))
    for split in ("train", "dev"):
        with refused(
            rf"^{split}\[1\]: (the label is (missing|empty)|label '.*'; expected a number)"
        ):
            Embedding().read(data, split)


def test_scores_that_are_all_alike_have_no_order():
    data = rows(("text_a", "text_b", "score"), ("a", "b", "1.0"), ("a", "c", "1"))
    kind, examples = Embedding(), Embedding().read(data, "dev")
    message = (
        "x: every pair has the score 1; expected two or more, whose order the cosines can have"
    )
    with refused(f"^{message}, or --ignore_columns for pairs that belong together$"):
        kind.fit_labels(examples, "x")
    assert kind.find_faults("x", split="dev", examples=examples, features=None) == [message]


def fit(class_weights, counts):
    """Returns the kind that learns from as many examples of each label."""
    examples = [
        Example("", "x", None, label) for label, count in counts.items() for _ in range(count)
    ]
    return Classification(class_weights=class_weights).fit_labels(examples, "train.csv")


@pytest.mark.parametrize(
    ("class_weights", "weights"),
    [
        ("none", ()),
        # n / (k * count), as in scikit-learn.
        ("balanced", (10 / 18, 10 / 2)),
        ("yes:3", (1 / 1.2, 3 / 1.2)),
        ("no:0.5,yes:9", (0.5 / 1.35, 9 / 1.35)),
        ('{"no": 0.5, "yes": 9}', (0.5 / 1.35, 9 / 1.35)),
        # In any form that data may have, too.
        (" no :0.5,yes\n:9", (0.5 / 1.35, 9 / 1.35)),
    ],
)
def test_weights_of_labels_are_one_on_average(class_weights, weights):
    assert fit(class_weights, {"no": 9, "yes": 1}).weights == pytest.approx(weights)


@pytest.mark.parametrize(
    ("class_weights", "message"),
    [
        ("maybe:2", "unknown label 'maybe'; expected 'no', 'yes'"),
        (
            "yes:0",
            r"received 'yes:0'; .*, label:weight,\.\.\. or a JSON object, with weights above 0$",
        ),
        ("yes", "received 'yes'; expected none, balanced, label:weight,..."),
        ("yes:2,no:x", "received 'no:x'; expected none, balanced"),
        ('{"yes": []}', r"received 'yes:\[\]'; expected none, balanced"),
    ],
)
def test_mistakes_in_weights_are_named(class_weights, message):
    with refused(f"^--class_weights={re.escape(class_weights)}: {message}"):
        fit(class_weights, {"no": 9, "yes": 1})


def test_f1_and_matthews_are_always_reported():
    kind = fit("none", {"no": 9, "yes": 1})
    assert kind.reported == ("accuracy", "f1", "macro_f1", "matthews_corrcoef")
    assert fit("none", {"10": 1, "9": 1, "-1": 1}).labels == ("-1", "9", "10")
    kind = fit("none", {"a": 1, "b": 1, "c": 1})
    assert kind.reported == ("accuracy", "macro_f1", "matthews_corrcoef")
