"""Labels of any characters survive reading, storing, predicting and writing."""

import csv

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

import albert_tf
from albert_tf.conversion import save_model
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.kinds import Classification, MultiLabel
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from tests.helpers import tiny_config
from tests.tasks.animals import write_model

LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
LABELS = LABELS.filter(lambda text: text.strip() and not text.startswith(("['", '["')))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    write_model(folder)
    return albert_tf.AlbertTokenizer(str(folder / "words.model"))


def columns_of(folder, content):
    """Returns the columns of a table by their names, as albert_tf and as `csv` read it."""
    (folder / "table.tsv").write_text(content, encoding="utf-8", newline="")
    table = Table.read(str(folder / "table.tsv"))
    with open(folder / "table.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, "excel-tab"))
    assert [[*table.columns], *map(list, table.rows)] == rows
    return {name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])}


@example(drawn=["0", "\0"], kind_type=MultiLabel)
@example(drawn=["0", '"'], kind_type=Classification)
@settings(deadline=None, max_examples=6)
@given(
    drawn=st.lists(LABELS, min_size=2, max_size=4),
    kind_type=st.sampled_from([Classification, MultiLabel]),
)
def test_labels_of_any_characters_survive(drawn, kind_type, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    if kind_type is MultiLabel:
        drawn = [label.replace("|", "-") for label in drawn]
    rows = [{"text": "the old cat", "label": label} for label in ["a", "b", *drawn]]
    examples = kind_type().read(rows, "train")
    kind = kind_type(max_seq_length=8).fit_labels(examples, "train")
    config = tiny_config(vocab_size=tokenizer.vocab_size, num_hidden_layers=1)
    model = kind.make_model(albert_tf.AlbertEncoder(config, seed=1), 0.0, 2, "float32")
    save_model(model, str(folder / "best"), kind, contents=tokenizer_files(tokenizer, config, kind))

    loaded = albert_tf.load(folder)
    assert loaded.labels == kind.labels
    # Each label is read again as itself, also by the trained kind.
    again = [{"text": "the old cat", "label": label} for label in kind.labels]
    assert {example.label for example in kind.read(again, "dev")} == {*kind.labels}
    assert [example.label for example in kind.read(rows, "dev")] == [x.label for x in examples]

    logits = 9 * np.eye(len(kind.labels), dtype=np.float32) - 5
    predicted = kind.outputs(tf.constant(logits))["label"].numpy()
    served = predicted if predicted.ndim == 1 else predicted.diagonal()
    assert [name.decode() for name in served] == [*kind.labels]
    examples = kind.read(again, "dev")
    (content,) = kind.prediction_files("x", examples, logits).values()
    table = columns_of(folder, content)
    assert table["label"] == table["prediction"] == [*kind.labels]
    assert {f"probability_{label}" for label in kind.labels} < table.keys()
    for make in kind.measure(examples, logits).tables.values():
        assert columns_of(folder, make())["label"] == [*kind.labels]
