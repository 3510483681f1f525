"""No layout takes a table that is read without it."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning import layouts
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.errors import InputError
from albert_tf.kinds import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    TokenClassification,
    recognise,
)
from albert_tf.kinds.kind import open_source

TEXTS = st.sampled_from(["a fine day", "a", "cause"])
SPANS = st.just([{"start": 0, "end": 1, "labels": ["X"]}])
LISTS = st.sampled_from([["a b", "c"], ["c", "d"], [], ["B-X", "O"]])
# The columns of layouts, and the usual ones of plain tables, with cells that they may have.
CELLS = {
    **dict.fromkeys(("text", "article", "question", "premise", "text_a", "text_b"), TEXTS),
    **dict.fromkeys(("sent1", "sent2", "startphrase", "ctx_a", "ctx_b", "comment"), TEXTS),
    **dict.fromkeys(("ending0", "ending1", "ending2", "ending3"), TEXTS),
    **dict.fromkeys(("choice1", "choice2", "choice_a", "choice_b", "annotator"), TEXTS),
    **dict.fromkeys(("label", "target", "answerKey", "lead_time"), st.sampled_from(["A", "1", 0])),
    "answer": st.sampled_from(["accept", "A"]),
    "labels": st.one_of(st.sampled_from(["x", "1"]), SPANS, LISTS),
    **dict.fromkeys(("options", "endings", "tokens", "accept", "index", "columns"), LISTS),
    "ner_tags": st.just(["B-X", "O"]),
    "spans": st.sampled_from([None, [], [[0, 1, "X"]]]),
    "entities": st.one_of(st.just([[0, 1, "X"]]), TEXTS, SPANS),
    "cats": st.sampled_from([{"x": 1, "y": 0}, "x", {"x": 0.5}]),
    "choices": st.sampled_from([{"text": ["a", "b"], "label": ["1", "2"]}, ["a", "b"]]),
    "data": st.sampled_from([[{"text": "b c", "label": "z"}], {"text": "b c"}, [["a", "b"]], "x"]),
    "annotations": st.sampled_from([[], [{"result": []}], "x"]),
}
GROUPS = (
    *(("text", "label"), ("text", "spans"), ("tokens", "ner_tags"), ("text_a", "text_b")),
    *(("article", "question", "choice_a", "choice_b", "label"), ("text", "ner_tags"), ("comment",)),
)
KINDS = (
    *(Classification(), MultiLabel(), Regression(), TokenClassification(), Embedding()),
    MultipleChoice(labels=("A", "B")),
)
NAMES = (
    *({}, {"label_column": "labels"}, {"label_column": "entities"}, {"text_column": "ctx_a"}),
    {"text_column": "comment", "label_column": "answerKey"},
    {"text_column": "startphrase", "label_column": "label"},
    {"text_column": "article", "text_pair_column": "question", "label_column": "answer"},
)


def read(source, kind, split, names, known):
    """Returns the examples, and the kind that the rows are recognised as; None if they are refused."""
    try:
        opened = open_source(
            kind, source, split, names=ColumnNames(**names), columns=tuple(known.items())
        )
        own = None
        if kind.name == "classification" and split == "train":
            own = recognise(opened, "classification").name
        return kind.read(opened, split), own
    except InputError:
        return None


@settings(deadline=None, derandomize=True, max_examples=400)
@given(data=st.data())
def test_tables_that_are_read_without_layouts_are_read_as_before(data, tmp_path_factory):
    group = data.draw(st.sampled_from(GROUPS))
    others = data.draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=4, unique=True))
    columns = data.draw(st.permutations([*dict.fromkeys((*group, *others))]))
    number = data.draw(st.sampled_from([1, 2]))
    rows = [{name: data.draw(CELLS[name]) for name in columns} for _ in range(number)]
    path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = data.draw(st.sampled_from([rows, str(path)]))
    kind, split = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(["train", "dev"]))
    names = data.draw(st.sampled_from(NAMES))
    known = {} if data.draw(st.booleans()) else names
    names = {} if known else names
    table, layouts.LAYOUTS = layouts.LAYOUTS, ()
    try:
        before = read(source, kind, split, names, known)
    finally:
        layouts.LAYOUTS = table
    if before is not None:
        assert read(source, kind, split, names, known) == before
