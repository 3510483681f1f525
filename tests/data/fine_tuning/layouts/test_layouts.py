"""The same rows are the same examples in the layouts of all tools; what is nearly one is refused."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.examples import Columns
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.task_table import TaskFile
from albert_tf.kinds import Classification, MultipleChoice, TokenClassification, recognise
from tests.helpers import refused

OWN = {"annotator": 1, "annotation_id": 7, "created_at": "2024", "updated_at": "2024"}


class Frame:
    """What is used of a pandas DataFrame."""

    def __init__(self, rows):
        self.rows, self.columns, self.iloc = rows, tuple(rows[0]), None

    def to_dict(self, orient):
        return list(self.rows)


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def delimited(rows, header=True, **dialect):
    """Returns a CSV file as pandas writes it: lists and objects as JSON or Python's literals."""
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0], lineterminator="\n", **dialect)
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def written(rows):
    """Returns rows with lists and objects as JSON, as Label Studio writes them into CSV files."""
    return [
        {name: json.dumps(v) if isinstance(v, list | dict) else v for name, v in row.items()}
        for row in rows
    ]


def parquet(rows):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def tasks(results):
    """Returns Label Studio's JSON of texts and the results of their only annotation."""
    return [
        {
            **{"id": number, "data": {"text": text, "source": "web"}, "drafts": []},
            "annotations": [
                {"id": 9, "was_cancelled": False, "ground_truth": False, "result": found}
            ],
            "predictions": [],
        }
        for number, (text, found) in enumerate(results)
    ]


def result(control, kind, **value):
    return {"from_name": control, "to_name": "text", "type": kind, "value": value, "id": "x"}


def sources(folder, contents):
    """Writes the files, and returns their paths and what is in memory."""
    found = []
    for number, (name, content) in enumerate(contents):
        if isinstance(content, str | bytes):
            path = folder / f"{number}-{name}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            content = str(path)
        found.append((name, content))
    return found


def read(source, kind, split="train", **names):
    table = kind.open(source, split, ColumnNames(**names))
    return kind.read(table, split)


# Without line ends, which some of the layouts do not have, and at least two words.
WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=6)
PLAIN_TEXTS = st.lists(WORDS, min_size=2, max_size=4).map(" ".join)
NAMES = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=4)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.lists(
        st.tuples(PLAIN_TEXTS, st.lists(NAMES, min_size=1, max_size=2, unique=True)), min_size=1
    )
)
def test_labelled_texts_are_the_same_in_all_layouts(tmp_path_factory, rows):
    names = sorted({name for _, labels in rows for name in labels})
    is_single = all(len(labels) == 1 for _, labels in rows)
    plain = [{"text": text, "label": labels} for text, labels in rows]
    options = [{"id": name, "text": name.upper()} for name in names]
    prodigy = [
        {"text": text, "options": options, "accept": labels, "answer": "accept"}
        for text, labels in rows
    ]
    cats = [{"cats": {name: float(name in labels) for name in names}} for _, labels in rows]
    studio = tasks([(text, [result("mood", "choices", choices=labels)]) for text, labels in rows])
    minimal = [
        {
            **{"text": text, "id": number},
            "mood": labels[0] if len(labels) == 1 else {"choices": labels},
            **{**OWN, "lead_time": 0.5},
        }
        for number, (text, labels) in enumerate(rows)
    ]
    by_columns = {name: [row[name] for row in plain] for name in plain[0]}
    lists = [[row["text"], row["label"]] for row in plain]
    texts = [text for text, _ in rows]
    contents = [
        *(("x.jsonl", jsonl(plain)), ("memory", plain), ("frame", Frame(plain))),
        *(("x.parquet", parquet(plain)), ("x.csv", delimited(plain))),
        *(("x.json", json.dumps(studio)), ("x.json", json.dumps(studio, indent=1))),
        *(("x.json", json.dumps(minimal)), ("x.csv", delimited(written(minimal)))),
        *(("x.csv", delimited(sorted_columns(written(minimal)))), ("x.jsonl", jsonl(prodigy))),
        *(("x.parquet", parquet(prodigy)), ("frame", Frame(prodigy)), ("x.jsonl", jsonl(studio))),
        ("memory", [*zip(texts, cats, strict=True)]),
        ("x.json", json.dumps([*zip(texts, cats, strict=True)])),
        ("x.jsonl", jsonl(zip(texts, cats, strict=True))),
        ("x.csv", delimited([{"text": t, **c} for t, c in zip(texts, cats, strict=True)])),
        ("x.parquet", parquet([{"text": t, **c} for t, c in zip(texts, cats, strict=True)])),
        ("x.json", json.dumps({"data": plain, "version": 1})),
        ("x.json", json.dumps({"data": studio}, indent=2)),
        ("x.json", json.dumps({name: dict(enumerate(v)) for name, v in by_columns.items()})),
        ("x.json", json.dumps({"columns": ["text", "label"], "index": [], "data": lists})),
        ("x.csv", "sep=;\n" + delimited(plain, delimiter=";")),
        ("x.csv", '"sep=|"\n' + delimited(plain, delimiter="|")),
    ]
    if is_single:
        contents.append(("x.json", json.dumps(by_columns)))
    if not any("__label__" in text for text in texts):
        lines = (" ".join([*(f"__label__{x}" for x in labels), text]) for text, labels in rows)
        contents.append(("x.txt", "\n".join(lines) + "\n"))
    found = sources(tmp_path_factory.mktemp("rows"), contents)
    expected = [(text, "|".join(labels)) for text, labels in rows]
    for name, source in found:
        kind = recognise(Table.read(source), "classification")
        assert kind.name == ("classification" if is_single else "multi_label"), name
        examples = read(source, kind)
        sets = [(x.text_a, "|".join(sorted(x.label.split("|")))) for x in examples]
        assert sets == [(text, "|".join(sorted(label.split("|")))) for text, label in expected]
    kind = recognise(Table.read(plain), "classification")
    unnamed = [
        ("x.csv", delimited(plain, header=False)),
        ("x.tsv", delimited(plain, header=False, delimiter="\t")),
        *(("x.json", json.dumps(lists)), ("memory", lists)),
    ]
    for name, source in sources(tmp_path_factory.mktemp("unnamed"), unnamed):
        examples = read(source, kind, columns="text,label")
        assert [(x.text_a, x.label) for x in examples] == expected, name


def sorted_columns(rows):
    return [dict(sorted(row.items())) for row in rows]


def spans_of(text, places):
    """Returns spans of whole words, given their numbers."""
    words = text.split(" ")
    starts = [sum(len(word) + 1 for word in words[:number]) for number in range(len(words))]
    return [
        (starts[number], starts[number] + len(words[number]), label)
        for number, label in sorted(
            {number % len(words): label for number, label in places}.items()
        )
    ]


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.lists(
        st.builds(
            lambda text, places: (text, spans_of(text, places)),
            PLAIN_TEXTS,
            st.lists(st.tuples(st.integers(0, 3), NAMES), max_size=2),
        ),
        min_size=1,
    ).filter(lambda rows: any(spans for _, spans in rows))
)
def test_labelled_spans_are_the_same_in_all_layouts(tmp_path_factory, rows):
    def objects(spans, **more):
        return [{"start": s, "end": e, "label": label, **more} for s, e, label in spans]

    def studio(text, spans):
        return [{"start": s, "end": e, "text": text[s:e], "labels": [x]} for s, e, x in spans]

    texts = [text for text, _ in rows]
    plain = [{"text": text, "spans": objects(spans)} for text, spans in rows]
    prodigy = [
        {
            **{"text": text, "_input_hash": 3, "answer": "accept"},
            **({"spans": objects(spans, token_start=0)} if spans else {}),
        }
        for text, spans in rows
    ]
    results = [
        (text, [result("ner", "labels", **span) for span in studio(text, spans)])
        for text, spans in rows
    ]
    minimal = [
        {
            **{"text": text, "id": number, "ner": studio(text, spans)},
            **{**OWN, "lead_time": 0.5},
        }
        for number, (text, spans) in enumerate(rows)
    ]
    entities = [{"entities": [[*span] for span in spans]} for _, spans in rows]
    together = [{"text": t, **e} for t, e in zip(texts, entities, strict=True)]
    contents = [
        *(("x.jsonl", jsonl(plain)), ("memory", plain), ("frame", Frame(plain))),
        *(("x.parquet", parquet(plain)), ("x.csv", delimited(plain))),
        *(("x.jsonl", jsonl(prodigy)), ("x.json", json.dumps(tasks(results)))),
        *(("x.json", json.dumps(minimal)), ("x.csv", delimited(written(minimal)))),
        *(("memory", [*zip(texts, entities, strict=True)]), ("x.jsonl", jsonl(together))),
        ("x.json", json.dumps([*zip(texts, entities, strict=True)])),
        ("x.jsonl", jsonl(zip(texts, entities, strict=True))),
        *(("x.csv", delimited(together)), ("x.csv", "sep=;\n" + delimited(plain, delimiter=";"))),
    ]
    expected = [(text, tuple(spans)) for text, spans in rows]
    for name, source in sources(tmp_path_factory.mktemp("spans"), contents):
        examples = read(source, TokenClassification())
        assert [(x.text_a, tuple(map(tuple, x.spans))) for x in examples] == expected, name


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.integers(2, 5).flatmap(
        lambda count: st.lists(
            st.tuples(
                PLAIN_TEXTS,
                PLAIN_TEXTS,
                st.lists(PLAIN_TEXTS, min_size=count, max_size=count),
                st.integers(0, count - 1),
            ),
            min_size=1,
            max_size=4,
        )
    )
)
def test_choices_are_the_same_in_the_layouts_of_all_data_sets(tmp_path_factory, rows):
    count = len(rows[0][2])
    letters = "ABCDE"[:count]

    def own(label):
        return [
            {
                **{"article": passage, "question": question, "label": label(right)},
                **{f"choice_{x.lower()}": c for x, c in zip(letters, choices, strict=True)},
            }
            for passage, question, choices, right in rows
        ]

    def make(*names, label):
        return [{**dict(zip(names, row[:3], strict=True)), "label": label(row[3])} for row in rows]

    hellaswag = make("ctx_a", "ctx_b", "endings", label=str)
    race = [
        {"article": p, "question": q, "options": c, "answer": letters[right], "example_id": "x"}
        for p, q, c, right in rows
    ]
    forms = [own(letters.__getitem__), own(int), own(str), own(lambda x: letters[x].lower())]
    forms += [race, hellaswag]
    if count == 2:
        copa = [
            {**{"premise": p, "question": q, "idx": 3, "label": right}, "choice1": c[0]}
            | {"choice2": c[1]}
            for p, q, c, right in rows
        ]
        forms += [copa, [{**row, "label": f"choice{1 + row['label']}"} for row in copa]]
    if count == 4:
        forms.append(
            [
                {**{"": 7, "video-id": "x", "sent1": p, "sent2": q, "label": right}}
                | {f"ending{number}": choice for number, choice in enumerate(c)}
                for p, q, c, right in rows
            ]
        )
    contents = [
        source
        for form in forms
        for source in (
            *(("x.jsonl", jsonl(form)), ("x.csv", delimited(form))),
            *(("x.parquet", parquet(form)), ("frame", Frame(form))),
        )
    ]
    folder = tmp_path_factory.mktemp("choices")
    for name, source in sources(folder, contents):
        kind = recognise(Table.read(source), "classification")
        assert kind == MultipleChoice(labels=tuple(letters)), name
        examples = read(source, kind)
        found = [(x.text_a, x.text_b, [*x.choices], x.label) for x in examples]
        assert found == [(p, q, c, letters[right]) for p, q, c, right in rows], name
    for keys in (letters, [str(1 + number) for number in range(count)]):
        arc = [
            {
                **{"id": "x", "question": question, "answerKey": keys[right]},
                "choices": {"text": choices, "label": [*keys]},
            }
            for _, question, choices, right in rows
        ]
        for _, source in sources(folder, [("x.jsonl", jsonl(arc)), ("x.csv", delimited(arc))]):
            examples = read(source, recognise(Table.read(source), "classification"))
            found = [(x.text_a, x.text_b, [*x.choices], x.label) for x in examples]
            assert found == [(q, None, c, letters[right]) for _, q, c, right in rows]


def test_rows_with_an_unusual_number_of_choices_are_left_out_of_a_training(capsys):
    def row(*texts):
        keys = [*"1234"][: len(texts)]
        return {"question": "Why?", "choices": {"text": texts, "label": keys}, "answerKey": "2"}

    rows = [row("a", "b", "c"), row("a", "b"), row("d", "e", "f"), row("a", "b", "c", "d")]
    kind = recognise(Table.read(rows), "classification")
    assert [x.choices for x in read(rows, kind)] == [("a", "b", "c"), ("d", "e", "f")]
    received = capsys.readouterr().err
    assert "data[1]: has not 3 choices, as most rows; in all 2 such rows" in received
    assert "left out 2 of 4 rows: 'is_excluded' is true (2)" in received
    # A row to predict that lacks a choice has no answer.
    assert [x.is_blank for x in read(rows[:3], kind, "test")] == [False, True, False]
    received = capsys.readouterr().err
    assert "test[1]: the choice_c is empty; without an answer: 1 of 3 rows" in received


def test_answers_that_are_not_published_are_none():
    rows = [{"ctx_a": "a", "ctx_b": "b", "endings": ["c", "d"], "label": ""}]
    kind = MultipleChoice(labels=("A", "B"), pairs=True)
    assert read(rows, kind, "test")[0].label is None
    copa = {"premise": "a", "question": "cause", "choice1": "b", "choice2": "c", "label": -1}
    assert read([copa], kind, "test")[0].label is None


def test_annotations_of_several_people_are_rows(capsys):
    task, other = tasks(
        [("a b", [result("mood", "choices", choices=["x"])]), ("c", [{"type": "relation"}])]
    )
    second = result("mood", "choices", choices=["y"])
    task["annotations"].append({"was_cancelled": False, "result": [second]})
    other["annotations"][0]["was_cancelled"] = True
    examples = read([task, other], Classification())
    assert [(x.guid, x.text_a, x.label) for x in examples] == [
        *(("train-0", "a b", "x"), ("train-0", "a b", "y"))
    ]
    assert "left out 1 of 3 rows: 'was_cancelled' is true (1)" in capsys.readouterr().err
    unlabelled = tasks([("a b", [])])
    unlabelled[0]["annotations"] = []
    assert read(unlabelled, Classification(), "test")[0].label is None


def test_annotations_that_a_reviewer_rejected_are_left_out(capsys):
    def reviewed(label, *reviews):
        (task,) = tasks([(f"a {label}", [result("mood", "choices", choices=[label])])])
        task["annotations"][0]["reviews"] = list(reviews)
        return task

    no, yes = ({"accepted": accepted, "created_at": "2024-02"} for accepted in (False, True))
    earlier = {"created_at": "2024-01"}
    found = [reviewed("x", yes), reviewed("y", no), reviewed("z"), reviewed("u", yes, no | earlier)]
    found += [reviewed("v", yes | earlier, no), reviewed("w", {"id": 3})]
    assert [x.label for x in read(found, Classification())] == ["x", "z", "u", "w"]
    assert "left out 2 of 6 rows: 'is_rejected' is true (2)" in capsys.readouterr().err


def test_controls_that_are_not_read_are_named(capsys):
    results = [result("mood", "choices", choices=["x"]), {"type": "relation"}]
    results += [
        result("topic", "taxonomy", taxonomy=[["a", "b"]]),
        result("stars", "rating", rating=4),
    ]
    results += [result("tone", "choices", choices=["y"], start=0, end=1)]
    (example,) = read(tasks([("a b", results)]), Classification())
    assert example.label == "x"
    assert "; not read: 'relation', 'topic', 'stars', 'tone', 'id'" in capsys.readouterr().err


def test_several_controls_keep_their_names():
    results = [result("mood", "choices", choices=["x"]), result("topic", "choices", choices=["y"])]
    found = tasks([("a b", [*results, result("stars", "rating", rating=4)])])
    with refused(
        "no column of labels, but 'id', 'was_cancelled', 'ground_truth', 'text', 'source',"
    ):
        read(found, Classification())
    assert read(found, Classification(), label_column="topic")[0].label == "y"
    only = tasks([("a b", results[:1])])
    assert read(only, Classification(), label_column="mood")[0].label == "x"


def test_rejected_rows_of_prodigy_may_lack_an_answer():
    options = [{"id": 1, "text": "one"}, {"id": 2, "text": "two"}]
    rows = [
        {"text": "a", "options": options, "answer": "ignore"},
        {"text": "b", "options": options, "accept": [2], "answer": "accept"},
    ]
    assert [(x.text_a, x.label) for x in read(rows, Classification())] == [("b", "2")]
    rows[0] |= {"answer": "accept", "accept": [], "config": {"choice_style": "single"}}
    with refused(r"^train\[0\]: the label is missing \(None\)$"):
        read(rows, Classification())


def test_columns_that_flags_name_are_read_as_they_are():
    row = {"startphrase": "a b", "sent2": "c", "label": "0"}
    rows = [{**row, **{f"ending{number}": "d" for number in range(4)}}]
    (example,) = read(rows, Classification(), text_column="startphrase")
    assert (example.text_a, example.label, example.choices) == ("a b", "0", ())


STUDIO = tasks([("a b", [result("ner", "labels", start=0, end=1, labels=["X"])])])[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.json",
            json.dumps([STUDIO, {**STUDIO, "annotations": [3]}]),
            r"x.json\[1\]: not Label Studio's JSON: annotations\[0\] is a whole number, expected an obj",
        ),
        (
            "x.json",
            json.dumps(tasks([("a", [result("ner", "hypertextlabels", start="/p[1]")])])),
            r"x.json\[0\]: not Label Studio's JSON: result\[0\] is a span in HTML; expected plain text",
        ),
        (
            "x.csv",
            'text,ner\na b,"[{""start"": 0, ""end"": 1, ""labels"": [""X""]}]"\nc d,none\n',
            "x.csv, line 3: not Label Studio's JSON-MIN or CSV: 'ner' is 'none'; expected a list",
        ),
        (
            "x.jsonl",
            jsonl([{"text": "a", "options": [{"id": "x"}], "accept": ["y"], "answer": "accept"}]),
            r"x.jsonl, line 1: not Prodigy's choices: accepts 'y'; expected ids of the options \['x'\]",
        ),
        (
            "x.jsonl",
            jsonl([["a b", {"entities": []}], ["c d", 3]]),
            r"x.jsonl, line 2: not spaCy's pairs of a text and annotations: received \['c d', 3\]",
        ),
        (
            "x.json",
            json.dumps([["a b", {"ents": []}]]),
            r"x.json\[0\]: not spaCy's pairs .*: expected 'entities' or 'cats' in the annotations",
        ),
        (
            "x.jsonl",
            jsonl([{"text": "a", "cats": {"x": 1}}, {"text": "b", "cats": {"x": 0.3}}]),
            "line 2: not spaCy's annotations: 'cats' is {'x': 0.3}; expected an object of 0 and 1",
        ),
        (
            "x.jsonl",
            jsonl([{"text": "a", "entities": []}, {"text": "b", "entities": "x"}]),
            "x.jsonl, line 2: not spaCy's annotations: 'entities' is 'x'",
        ),
        (
            "x.txt",
            "__label__x a b\n__label__y\n",
            "x.txt, line 2: not fastText: expected labels such as __label__yes, and after them a text",
        ),
        ("x.txt", "__label__x a\nb __label__x\n", "x.txt, line 2: not fastText: expected labels such"),
        (
            "x.json",
            json.dumps({"text": {"0": "a"}, "label": {"1": "x"}}),
            "x.json: not JSON by columns: 'label' has other rows than 'text'; expected a value for",
        ),
        (
            "x.json",
            json.dumps({"columns": ["text", "label"], "data": [["a", "x"], ["b"]]}),
            r"x.json: not JSON of pandas, orient=split: data\[1\] is \['b'\]; expected a list with a val",
        ),
        ("x.json", json.dumps({"text": {}, "label": {}}), "x.json: holds no rows"),
        ("x.json", '{"data": [{"text": "a"}, 3]}', r"x.json\[1\]: expected a mapping from columns"),
        (
            "x.jsonl",
            jsonl(
                {"article": "a", "question": "b", "options": options, "answer": "A"}
                for options in (["c", "d"], ["c", "d"], ["c"])
            ),
            "x.jsonl, line 3: not RACE: received 1 choices, expected 2",
        ),
        (
            "x.jsonl",
            jsonl(
                {"ctx_a": "a", "ctx_b": "b", "endings": endings, "label": "0"}
                for endings in (["c", "d"], "c")
            ),
            "x.jsonl, line 2: not HellaSwag: 'endings' is 'c'; expected a list of texts",
        ),
        (
            "x.jsonl",
            jsonl(
                {"question": "b", "choices": {"text": texts, "label": ["A", "B"]}, "answerKey": "A"}
                for texts in (["c", "d"], ["c"])
            ),
            "x.jsonl, line 2: not CommonsenseQA or ARC: 'choices' is .*; expected lists of texts as",
        ),
        ("x.csv", "sep=;\ntext;label\na;x\nb;y;z\n", "x.csv, line 4: columns: received 3, expected 2"),
        ("x.json", '{\n"text": "a",\n', "x.json, line 1: not JSON: .*; expected an object per line"),
    ],
)  # fmt: skip
def test_what_is_nearly_a_layout_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with refused(message):
        Table.read(path)


def test_labels_of_choices_are_numbered_from_0():
    row = {"text": "a", "choice_a": "b", "choice_b": "c", "label": "2"}
    with refused(r"^train\[0\]: unknown label '2'; expected 'A', 'B'$"):
        read([row], MultipleChoice(labels=("A", "B")))


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("ham\tfine\n", "label", "line 1: columns: received 2, expected 1: --columns=label$"),
        ("ham\tfine\n", "text,text", "^--columns=text,text: received 'text' twice; expected it"),
        ("text\tlabel\na\tx\n", "label,text", "line 1: is a header row; expected none beside --columns"),
        ("ham\tfine\n", None, "no column of texts, but 'ham', 'fine'; .* a header row needs --columns"),
    ],
)  # fmt: skip
def test_mistakes_in_names_of_columns_are_named(tmp_path, content, columns, message):
    path = tmp_path / "x.tsv"
    path.write_text(content + "egg\tbad\n")
    with refused(message):
        read(path, Classification(), columns=columns)


def test_only_tables_without_names_take_some(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("ham,2024,fine\nham,2024,fine\n")
    (first, second) = read(path, Classification(), columns="label,,text")
    assert (first.text_a, first.label, second.guid) == ("fine", "ham", "train-1")
    with refused(
        "^--columns=label,text: train has the columns text, label; expected a table without"
    ):
        read([{"text": "a", "label": "b"}], Classification(), columns="label,text")
    words = tmp_path / "words.tsv"
    words.write_text('["a", "b"]\t["O", "B-X"]\n')
    (text,) = read(words, TokenClassification(), columns="tokens,ner_tags")
    assert text.spans == ((2, 3, "X"),)


def test_files_of_tasks_are_read_as_they_are(tmp_path):
    row = {"premise": "a", "question": "cause", "choice1": "b", "choice2": "c", "label": 1}
    (tmp_path / "copa.jsonl").write_text(jsonl([row]))
    columns = Columns("premise", "question", "label", choices=("choice1", "choice2"))
    (example,) = TaskFile("copa.jsonl", columns).read(str(tmp_path), "train", None)
    assert (example.text_a, example.text_b, example.label) == ("a", "cause", "1")
    assert example.choices == ("b", "c")
