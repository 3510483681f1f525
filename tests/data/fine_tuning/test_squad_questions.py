import csv
import functools
import json
import operator

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.squad_questions import (
    Answer,
    SquadExample,
    account_for_questions,
    describe_faults,
    read_questions,
    read_squad,
    read_squad_tfds,
)
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError
from tests.data.squad_file import make_question, make_squad, to_records, write_squad
from tests.data.tfds_folder import write_tfds
from tests.helpers import refused, shared_path

CONTEXT = "Ada wrote the café's first note in 1843."


def test_several_gold_answers_and_impossible_questions(tmp_path):
    one = make_question("one", [("Ada", 0), ("café", 14)])
    two = make_question("two", is_impossible=True, plausible_answers=[])
    three = make_question(3, [("passage", 8)], question="¿qué?")
    squad = make_squad((CONTEXT, [one, two]), ("Another passage.", [three]))
    examples = read_squad(write_squad(tmp_path / "dev.json", squad))
    assert examples == [
        SquadExample("one", "who was it ?", CONTEXT, (Answer("Ada", 0), Answer("café", 14))),
        SquadExample("two", "who was it ?", CONTEXT, (), is_impossible=True),
        SquadExample("3", "¿qué?", "Another passage.", (Answer("passage", 8),)),
    ]
    assert examples[0].context is examples[1].context


MISSING = object()
PARAGRAPH = ("data", 0, "paragraphs", 1)
QUESTION = (*PARAGRAPH, "qas", 0)
ANSWER = (*QUESTION, "answers", 0)
PLACE = "data[0].paragraphs[1].qas[0]."


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("data",), MISSING, "data is missing, expected a list"),
        (("data", 0), 7, "data[0] is a whole number, expected an object"),
        ((*PARAGRAPH, "context"), MISSING, "paragraphs[1].context is missing, expected a text"),
        ((*QUESTION, "id"), MISSING, f"{PLACE}id is missing, expected a text or a whole number"),
        ((*QUESTION, "question"), None, f"{PLACE}question is null, expected a text"),
        ((*QUESTION, "answers"), MISSING, f"{PLACE}answers is missing, expected a list"),
        ((*QUESTION, "answers"), {"text": 1}, f"{PLACE}answers is an object, expected a list"),
        ((*ANSWER, "text"), MISSING, f"{PLACE}answers[0].text is missing, expected a text"),
        ((*ANSWER, "answer_start"), "8", "answers[0].answer_start is a text, expected a whole number"),
        ((*QUESTION, "is_impossible"), 1, "is_impossible is a whole number, expected true or false"),
    ],
)  # fmt: skip
def test_file_with_another_layout_is_refused_with_the_place(tmp_path, place, value, message):
    squad = make_squad(
        (CONTEXT, [make_question("one", [("Ada", 0)])]),
        ("Another passage.", [make_question("two", [("passage", 8)], is_impossible=False)]),
    )
    *path, key = place
    inner = functools.reduce(operator.getitem, path, squad)
    inner[key] = value
    if value is MISSING:
        del inner[key]
        message += f"; received {', '.join(inner)}"
    path = write_squad(tmp_path / "dev.json", squad)
    with pytest.raises(InputError) as error:
        read_squad(path)
    assert str(error.value).startswith(f"{path}: not SQuAD: ")
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r": holds no question"),
        ('{"data": []}', ": holds no question"),
        ('{"data":\n {"', r", line 2: not JSON: .*; expected SQuAD's layout, \{"),
        (
            json.dumps(make_squad((CONTEXT, [make_question("one", [("Ada", 0)])] * 2))),
            r": data\[0\].paragraphs\[0\].qas\[1\].id: 'one' is also the id of "
            r"data\[0\].paragraphs\[0\].qas\[0\]; expected unique ids$",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "dev.json"
    path.write_text(text)
    with refused(f"^{path}{message}"):
        read_squad(str(path))


def test_ids_do_not_matter_in_training(tmp_path):
    one = make_question("one", [("Ada", 0)])
    unnamed = {key: value for key, value in one.items() if key != "id"}
    squad = make_squad((CONTEXT, [one, one, unnamed]))
    path = write_squad(tmp_path / "train.json", squad)
    examples = read_squad(path, training=True)
    assert len({example.id for example in examples}) == len(examples) == 3
    row = {"id": np.int64(3), "question": "who?", "context": CONTEXT}
    row |= {"answers": [{"text": "Ada", "answer_start": np.int64(0)}]}
    examples = read_questions([row, row], training=True)
    assert [example.id for example in examples] == ["3", "data[1]"]
    assert examples[0].answers == (Answer("Ada", 0),)


@pytest.mark.parametrize("part", ["articles", "passages", "rows", "rows in data"])
def test_a_file_may_have_a_part_of_the_layout(tmp_path, part):
    squad = make_squad((CONTEXT, [make_question("one", [("Ada", 0)])]))
    row = {"id": "one", "question": "who was it ?", "context": CONTEXT}
    row["answers"] = {"text": ["Ada"], "answer_start": [0]}
    lists = {"articles": squad["data"], "passages": squad["data"][0]["paragraphs"], "rows": [row]}
    lists["rows in data"] = {"version": "1", "data": [row]}
    path = write_squad(tmp_path / "dev.json", lists[part])
    expected = SquadExample("one", "who was it ?", CONTEXT, (Answer("Ada", 0),))
    assert read_questions(path) == [expected]


def test_repeated_ids_of_rows_are_refused():
    row = {"id": "one", "question": "who?", "context": CONTEXT}
    message = r"^data\[2\]: 'one' is also the id of data\[0\]; expected unique ids$"
    with refused(message):
        read_questions([row, row | {"id": "two"}, row], labelled=False)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answers": {"text": ["Ada"], "answer_start": []}}, "expected as many of answers.text an"),
        ({"is_impossible": "maybe"}, "not SQuAD: is_impossible is a text, expected true or false"),
        (
            {"is_impossible": 2},
            "not SQuAD: is_impossible is a whole number, expected true or false",
        ),
        ({"id": 1.5}, "not SQuAD: id is a number with a point, expected a text or a whole number"),
    ],
)
def test_mistakes_in_rows_are_named(row, message):
    answers = {"text": ["Ada"], "answer_start": [0]}
    row = {"question": "who?", "context": CONTEXT, "answers": answers} | row
    with refused(rf"^data\[0\]: {message}"):
        read_questions([row])


def test_rows_may_lack_what_others_have():
    row = {"question": "who?", "context": CONTEXT, "answers": {"text": [], "answer_start": []}}
    marked = row | {"id": 7, "is_impossible": True}
    assert [each.id for each in read_questions([row, marked]) if each.is_impossible] == ["0", "7"]
    with refused(r"^data\[0\]: not SQuAD: question is missing, expecte"):
        read_questions([row | {"question": None}])


def flat_row(**cells):
    return {"question": "who?", "context": CONTEXT, **cells}


@pytest.mark.parametrize(
    ("cells", "answers"),
    [
        ({"answer_text": "note", "answer_start": 27}, [("note", 27)]),
        ({"answer_text": "note", "answer_start": "27"}, [("note", 27)]),
        ({"answer": "note", "answer_start": 27.0}, [("note", 27)]),
        ({"answer_text": "note"}, [("note", 27)]),
        ({"answers": "note"}, [("note", 27)]),
        ({"answers": ["note", "1843"]}, [("note", 27), ("1843", 35)]),
        ({"answers": "['note', '1843']", "answer_start": "[27 35]"}, [("note", 27), ("1843", 35)]),
        ({"answers": '{"text": ["note"], "answer_start": [27]}'}, [("note", 27)]),
        ({"answer_text": 1843, "answer_start": None}, [("1843", 35)]),
        ({"answers": []}, []),
        ({"answer_text": "", "answer_start": -1}, []),
        ({"answer_text": "", "answer_start": "", "is_impossible": "True"}, []),
        ({"answer_text": "note", "is_impossible": 0}, [("note", 27)]),
        (
            {"answers": {"text": ["note"], "answer_start": [27]}, "is_impossible": "false"},
            [("note", 27)],
        ),
        ({"answers": "{'text': [], 'answer_start': []}", "is_impossible": "True"}, []),
        ({"answers": {"text": [], "answer_start": []}, "is_impossible": 1.0}, []),
        ({"context": "See [1].", "answer_text": "[1]"}, [("[1]", 4)]),
    ],
)
def test_answers_may_be_flat(cells, answers):
    (example,) = read_questions([flat_row(**cells)])
    assert example.answers == tuple(Answer(*each) for each in answers)
    assert example.is_impossible == (not answers)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"answers": ["Bob"]}, "the answer 'Bob' is not in the context"),
        ({"answer_text": "e", "answer_start": None}, "the answer 'e' is in the context more than once"),
        ({"answers": [""]}, "the answer '' is not in the context"),
        ({"answer_text": "Ada", "answer_start": "x"}, "answer_start is 'x', expected a whole numb"),
        ({"answers": ["Ada", "note"], "answer_start": [0]}, "received 2 of answers and 1 of answer_st"),
        ({"answer_text": "", "answer_start": 7}, "received 0 of answer_text and 1 of answer_start"),
        ({"answers": ["Ada", {"text": "note"}]}, "answers: received dict in place of a text"),
        ({"answer_text": "Ada", "is_impossible": "perhaps"}, "not SQuAD: is_impossible is a text"),
        ({"reply": "Ada"}, "not SQuAD: answers is missing, expected an object; received question"),
    ],
)  # fmt: skip
def test_mistakes_in_flat_answers_are_named(cells, message):
    with refused(rf"^data\[0\]: {message}"):
        read_questions([flat_row(**cells)])


_WORDS = st.lists(
    st.sampled_from(["Ada", "wrote", "it", "東京", '"a"', "b,c"]), min_size=1, max_size=6
)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.tuples(_WORDS, st.integers(0, 6)), min_size=1, max_size=4))
def test_the_same_rows_in_any_layout_are_the_same_questions(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("questions")
    rows = []
    for number, (words, place) in enumerate(drawn):
        answers = [words[place]] if place < len(words) else []
        starts = [len(" ".join(words[:place])) + (place > 0) for _ in answers]
        row = {"id": f"q{number}", "question": "what?", "context": " ".join(words)}
        rows.append((row, answers, starts))
    objects = [row | {"answers": {"text": a, "answer_start": s}} for row, a, s in rows]
    expected = read_questions(objects)
    lists = [row | {"answers": a, "answer_start": s} for row, a, s in rows]
    flat = [
        row | {"answer_text": "".join(a), "answer_start": "".join(map(str, s))}
        for row, a, s in rows
    ]
    assert read_questions(lists) == read_questions(flat) == expected
    # As pandas has a column of numbers with gaps.
    typed = [row | {"answer_start": float(row["answer_start"] or "nan")} for row in flat]
    assert read_questions(typed) == expected
    layouts = {"objects": objects, "lists": lists, "flat": flat}
    for name, layout in layouts.items():
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, layout[0])
            writer.writeheader()
            writer.writerows(layout)
        lines = [json.dumps(row) + "\n" for row in layout]
        (folder / f"{name}.jsonl").write_text("".join(lines))
        pyarrow.parquet.write_table(pa.Table.from_pylist(layout), folder / f"{name}.parquet")
    for path in folder.iterdir():
        assert read_questions(path) == expected, path.name


def test_answers_of_rows_to_predict_do_not_matter():
    row = {"question": "who?", "context": CONTEXT, "answers": "Ada"}
    assert read_questions([row], labelled=False) == [SquadExample("0", "who?", CONTEXT)]


def test_answers_of_rows_to_predict_are_named_as_not_read(capsys):
    row = {"question": "who?", "context": CONTEXT, "answers": "Ada", "is_impossible": False}
    for split, read in [
        ("dev", ", 'answers' as the answers, 'is_impossible' as the is_impossible\n"),
        ("test", "; not read: 'answers', 'is_impossible'\n"),
    ]:
        account_for_questions(Table.read([row], split), split)
        said = f"{split}: reads 'question' as the question, 'context' as the context{read}"
        assert capsys.readouterr().err == said


def test_a_table_without_a_known_column_is_said_to_have_none_read(capsys):
    account_for_questions(Table.read([{"Question": "who?", "Context": CONTEXT}], "dev"), "dev")
    said = "dev: reads no column; not read: 'Question', 'Context'\n"
    assert capsys.readouterr().err == said


def example(id_="one", answers=(), context=CONTEXT, is_impossible=False):
    return SquadExample(id_, "q", context, tuple(Answer(*item) for item in answers), is_impossible)


@pytest.mark.parametrize(
    "answer", [("Ada", 1), ("café", 13), ("1843.", -5), ("x", 999), ("", 3), (" ", 3)]
)
def test_answer_not_at_its_offset_is_not_trained_on(answer):
    assert not example(answers=[answer]).is_trainable
    later = example(answers=[answer, ("café", 14)])
    assert later.is_trainable
    assert later.found_answer == Answer("café", 14)


def test_trainable_examples():
    sound = [example(answers=[("Ada", 0)]), example(is_impossible=True)]
    faulty = [example(), example(context="", is_impossible=True)]
    faulty += [example(context=" \n", answers=[("\n", 1)])]
    assert [example for example in sound + faulty if example.is_trainable] == sound


def test_faults_are_counted_with_the_first_five_ids():
    examples = [example(f"m{n}", [("Ada", 1), ("Ada", 2), ("Ada", 0)]) for n in range(7)]
    examples += [example("sound", [("Ada", 0)]), example("bare"), example("void", context=" ")]
    assert describe_faults(examples, "train.json", training=True) == [
        "train.json: answers whose text is not at their offset: 14, skipped, with the question where "
        "it has no other (m0, m1, m2, m3, m4, ...)",
        "train.json: questions without an answer that are not marked is_impossible: 2, skipped "
        "(bare, void)",
        "train.json: questions about an empty passage: 1, skipped (void)",
    ]
    lines = describe_faults(examples, "dev.json", training=False)
    assert [line.partition(", ")[2] for line in lines] == [
        "kept, as scores go by the text (m0, m1, m2, m3, m4, ...)",
        "kept (bare, void)",
        "kept, and answered with an empty text (void)",
    ]


@pytest.mark.filterwarnings("ignore:::tensorflow_datasets")
@pytest.mark.parametrize(
    ("builder", "file"), [("squad", "xquad.hi.json"), ("squad/v2.0", "dev-v2.0-half.json")]
)
def test_real_questions_are_equal_from_all_sources(tmp_path, builder, file):
    squad = json.loads(shared_path(f"data/squad/{file}").read_bytes())
    squad["data"] = squad["data"][:2]
    path = write_squad(tmp_path / "dev.json", squad)
    records = list(to_records(path))
    write_tfds(builder, tmp_path, {"validation": records})
    expected = read_squad(path)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "dev.parquet")
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, records)))
    for record in records:  # as pandas reads them
        record["answers"] = {name: np.array(each) for name, each in record["answers"].items()}
    by_id = operator.attrgetter("id")
    for received in (
        read_squad_tfds(builder, "validation", str(tmp_path)),
        read_questions(str(tmp_path / "dev.parquet")),
        read_questions(tmp_path / "rows.json"),
        read_questions(write_squad(tmp_path / "capitals.JSON", squad)),
        read_questions(records),
    ):
        assert sorted(received, key=by_id) == sorted(expected, key=by_id)
        assert len({id(one.context) for one in received}) == len({one.context for one in expected})
