"""The tokenizer inside a model for OpenVINO."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.tables import Table
from albert_tf.export import export
from albert_tf.export.openvino_text import add_tokenizer, convert_to_openvino
from albert_tf.export.saved_models import INPUTS, trace
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from tests.export.kinds import (
    OF_NAMES,
    TEXTS,
    assert_equal,
    expected_of,
    expected_of_texts,
    export_kind,
    make_inputs,
    make_model,
    text_columns,
)
from tests.export.runtimes import run_openvino
from tests.helpers import shared_path, write_wordpiece
from tests.parity.tokenization import read_lines

openvino = pytest.importorskip("openvino", reason="needs the group parity: `make test-parity`")
pytest.importorskip("openvino_tokenizers", reason="needs the group parity: `make test-parity`")


class Incremented(tf.Module):
    """Returns its ids, one added, so that its inputs stay apart from its outputs, and their number."""

    def __init__(self):
        super().__init__()
        specs = {name: tf.TensorSpec((None, None), tf.int32, name) for name in INPUTS}

        def predict(input_ids, input_mask, segment_ids):
            lengths = tf.reduce_sum(input_mask - segment_ids, axis=1)
            return {"incremented": input_ids + 1, "lengths": lengths}

        self.serve = trace(predict, **specs)


def tokenize(tokenizer, texts):
    """The ids that the tokenizer inside a model gives texts, without [CLS], [SEP] and padding."""
    model = convert_to_openvino(Incremented())
    model = add_tokenizer(model, tokenizer, ("text_a",), max_seq_length=4096)
    outputs = openvino.Core().compile_model(model, "CPU")({"text_a": np.array(texts)})
    rows = zip(outputs["incremented"] - 1, outputs["lengths"], strict=True)
    return [row[1 : length - 1].tolist() for row, length in rows]


ODD_TEXTS = [
    "",
    " \t ",
    "9,999, times and 10,",
    "Σίσυφος ΟΔΟΣ. ΣΑΣ'Σ Σ",
    "Ünï¨x ¨ ﷺ½ İI",
    "ma\u0301 ạ\u0308 パンダ",
    "한국어 \u1100\u1161",
    "a\u3000b\x1cc\x85d\u200be\0f",
    "(x) - “y” \U0001f600\U0001f600",
]


@pytest.mark.parametrize("keep_accents", [True, False])
@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_of_odd_texts(lower_case, keep_accents, tmp_path):
    path = str(tmp_path / "odd.model")
    train_vocabulary([*ODD_TEXTS, *TEXTS[2]] * 9, path, 85, lower_case, keep_accents=keep_accents)
    tokenizer = AlbertTokenizer(path, lower_case)
    for texts in (ODD_TEXTS, [""]):
        assert tokenize(tokenizer, texts) == tokenizer.encode_batch(texts)


def test_ids_of_real_texts():
    tokenizer = AlbertTokenizer(str(shared_path("data/sentencepiece/30k-clean.model")))
    texts = [line["text"] for line in read_lines()]
    table = Table.read(str(shared_path("data/glue/SST-2/dev.tsv")))
    texts += [row[table.columns.index("sentence")] for row in table.rows]
    assert tokenize(tokenizer, texts) == tokenizer.encode_batch(texts)


def test_models_that_may_read_pairs_need_no_second_text(tokenizer, tmp_path):
    """Those of other libraries, which do not say whether they were trained on pairs."""
    model = make_model("classifier")
    kind = dataclasses.replace(OF_NAMES["classifier"], task_name="")
    (folder,) = export(model, kind, tokenizer, str(tmp_path), "openvino").values()
    columns = text_columns("classifier")
    expected = expected_of_texts("classifier", model, tokenizer)
    assert_equal(run_openvino(folder, columns, "pairs"), expected)
    single = run_openvino(folder, {"text_a": columns["text_a"]})
    without = {**columns, "text_b": [""] * len(columns["text_a"])}
    assert_equal(single, run_openvino(folder, without, "pairs"))
    card = (pathlib.Path(folder) / "README.md").read_text()
    assert "the file `pairs.xml` of OpenVINO, also take `text_b`" in card
    assert "| input | `text_b`" not in card


def test_wordpiece_vocabulary_stays_outside(tmp_path):
    model = make_model("classifier")
    tokenizer = WordPieceTokenizer(write_wordpiece(tmp_path / "vocab.txt", ["the"]))
    export_dir = str(tmp_path / "x")
    (folder,) = export_kind("classifier", model, tokenizer, export_dir, "openvino").values()
    inputs = make_inputs("classifier")
    assert_equal(run_openvino(folder, inputs), expected_of("classifier", model, inputs))
