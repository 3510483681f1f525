"""OpenVINO answers as the model that a file was made of, from text or from ids."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import encode_choices, encode_examples
from albert_tf.data.fine_tuning.tsv import Columns, Example, read_examples
from albert_tf.errors import InputError
from albert_tf.export.ids_model import INPUTS, trace
from albert_tf.export.weights import in_float32
from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from tests.export.kinds import (
    KINDS,
    MAX_QA_LENGTH,
    assert_equal,
    expected_of,
    export_kind,
    labels_of,
    make_inputs,
    make_model,
)
from tests.export.samples import (
    LABELS,
    LARGER_THAN_ITS_GRAPH,
    MAX_SEQ_LENGTH,
    TEXTS,
    VOCAB_SIZE,
    expected_of_texts,
)
from tests.helpers import random_inputs, shared_path, tiny_config
from tests.parity.tokenization import read_lines

_REASON = "pip install 'albert-tf[openvino]'; `make test-parity` has it"
openvino = pytest.importorskip("openvino", reason=_REASON)
for package in ("openvino_tokenizers", "nncf"):
    pytest.importorskip(package, reason=_REASON)

from albert_tf.export import openvino_model  # noqa: E402
from albert_tf.export.openvino_text import add_text_tokenizer  # noqa: E402

SIZES = {**LARGER_THAN_ITS_GRAPH, "initializer_range": 0.1}
TAKING_TEXT = ("classifier", "regressor", "multiple_choice", "multi_label", "embedder")


def compile_file(folder):
    """Loads the file as a server does; `import openvino_tokenizers` adds the tokenizer's operators."""
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(f"{folder}/model.xml", "CPU", config)
    names = [output.get_any_name() for output in compiled.outputs]

    def run(inputs):
        outputs = compiled(inputs)
        return {name: outputs[name] for name in names}

    return run


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TAKING_TEXT])
def test_ids_give_the_models_numbers(kind, tokenizer, tmp_path):
    model, inputs = make_model(kind), make_inputs(kind)
    folder = export_kind(kind, model, tokenizer, str(tmp_path), "openvino")["openvino"]
    run = compile_file(folder)
    assert_equal(run(inputs), expected_of(kind, model, inputs))
    shorter = {name: values[:1, ..., :7] for name, values in inputs.items()}
    assert_equal(run(shorter), expected_of(kind, model, shorter))


def test_texts_give_the_models_labels(tokenizer, tmp_path):
    model = make_model("classifier")
    folder = export_kind("classifier", model, tokenizer, str(tmp_path), "openvino")["openvino"]
    run, expected = compile_file(folder), expected_of_texts(model, tokenizer)
    text_a, text_b = (np.array(texts) for texts in zip(*TEXTS, strict=True))
    outputs = run({"text_a": text_a, "text_b": text_b})
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)
    assert outputs["label"].tolist() == [LABELS[index] for index in expected.argmax(axis=1)]
    alone = run({"text_a": text_a[:1], "text_b": text_b[:1]})
    np.testing.assert_allclose(alone["probabilities"], expected[:1], rtol=0, atol=1e-5)
    assert {path.name for path in pathlib.Path(folder).iterdir()} == {
        *("README.md", "assets", "model.bin", "model.xml")
    }
    assert "| input | `text_b` | string (?,) |" in pathlib.Path(folder, "README.md").read_text()


@pytest.mark.parametrize("kind", ["regressor", "multi_label", "embedder"])
def test_texts_give_the_models_scores(kind, tokenizer, tmp_path):
    model = make_model(kind)
    folder = export_kind(kind, model, tokenizer, str(tmp_path), "openvino")["openvino"]
    # An embedder takes single texts.
    rows = [texts[:1] if kind == "embedder" else texts for texts in TEXTS[:5]]
    examples = [Example("", *texts) for texts in rows]
    features = encode_examples(examples, LABELS, tokenizer, MAX_SEQ_LENGTH)
    columns = map(np.array, zip(*rows, strict=True))
    received = compile_file(folder)(dict(zip(("text_a", "text_b"), columns, strict=False)))
    expected = expected_of(kind, model, make_batch(features, np.arange(5)))
    assert_equal(received, expected)
    if kind == "multi_label":
        assert received["label"].tolist() == labels_of(kind, expected)


def test_texts_give_the_models_choices(tokenizer, tmp_path):
    model, kind = make_model("multiple_choice"), "multiple_choice"
    folder = export_kind(kind, model, tokenizer, str(tmp_path), "openvino")["openvino"]
    rows = [
        ("The old man, and the SEA.", "who _ ran", ("cat", "", "naïve dog")),
        ("", "what ran", ("9,999, times", "tree", "")),
        ("the cat " * 9, "_ and _ ran over the hat", ("tree", "man", "the old hat")),
        ("green", "", ("_", "sea", "a")),
    ]
    articles, questions, options = (np.array(texts) for texts in zip(*rows, strict=True))
    received = compile_file(folder)(
        {"article": articles, "question": questions, "options": options}
    )
    examples = [Example("", article, question, None, of) for article, question, of in rows]
    features = encode_choices(examples, LABELS, tokenizer, MAX_SEQ_LENGTH, MAX_QA_LENGTH)
    expected = expected_of(kind, model, make_batch(features, np.arange(len(rows))))
    assert_equal(received, expected)
    best = expected["logits"].argmax(axis=1)
    assert received["label"].tolist() == [LABELS[index] for index in best]


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
    model = openvino_model.convert(Incremented())
    model = add_text_tokenizer(model, tokenizer, max_seq_length=4096, pairs=False)
    outputs = openvino.Core().compile_model(model, "CPU")({"text_a": np.array(texts)})
    rows = zip(outputs["incremented"] - 1, outputs["lengths"], strict=True)
    return [row[1 : length - 1].tolist() for row, length in rows]


ODD_TEXTS = [
    "",
    " \t ",
    "9,999, times and 10,",
    "Σίσυφος ΟΔΟΣ. ΣΑΣ'Σ Σ",
    "Ünï¨x ¨ ﷺ½ İI",
    "한국어 \u1100\u1161",
    "a\u3000b\x1cc\x85d\u200be\0f",
    "(x) - “y” \U0001f600\U0001f600",
]


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_of_odd_texts(lower_case, tmp_path):
    path = str(tmp_path / "odd.model")
    train_vocabulary([*ODD_TEXTS, *TEXTS[2]] * 9, path, 80, lower_case=lower_case)
    tokenizer = AlbertTokenizer(path, lower_case)
    assert tokenize(tokenizer, ODD_TEXTS) == tokenizer.encode_batch(ODD_TEXTS)


def test_ids_of_real_texts():
    tokenizer = AlbertTokenizer(str(shared_path("data/sentencepiece/30k-clean.model")))
    texts = [line["text"] for line in read_lines(shared_path("golden"))]
    path = str(shared_path("data/glue/SST-2/dev.tsv"))
    texts += [row.text_a for row in read_examples(path, Columns(text_a="sentence"), "dev")]
    assert tokenize(tokenizer, texts) == tokenizer.encode_batch(texts)


def test_wordpiece_vocabulary_stays_outside(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]) + "\n")
    model = make_model("classifier")
    tokenizer = WordPieceTokenizer(str(path))
    folder = export_kind("classifier", model, tokenizer, str(tmp_path / "x"), "openvino")[
        "openvino"
    ]
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    assert_equal(compile_file(folder)(inputs), expected_of("classifier", model, inputs))


@pytest.fixture(scope="module")
def larger_model():
    return AlbertSpanLabeler(AlbertEncoder(tiny_config(**SIZES), seed=1), seed=2)


def size_of_weights(folder, model):
    """Bytes per parameter; a span labeler does not use its pooler."""
    return pathlib.Path(folder, "model.bin").stat().st_size / model.count_params()


def test_weights_are_stored_once(larger_model, tokenizer, tmp_path):
    paths = export_kind("simple_spans", larger_model, tokenizer, str(tmp_path), "openvino")
    assert 3.8 < size_of_weights(paths["openvino"], larger_model) < 4.1


def test_bfloat16_takes_half_the_space(tokenizer, tmp_path):
    encoder = AlbertEncoder(tiny_config(**SIZES), seed=1, dtype="mixed_bfloat16")
    model = AlbertSpanLabeler(encoder, seed=2, dtype="mixed_bfloat16")
    folder = export_kind("simple_spans", model, tokenizer, str(tmp_path), "openvino")["openvino"]
    assert 1.9 < size_of_weights(folder, model) < 2.1
    assert "stored in bfloat16" in pathlib.Path(folder, "README.md").read_text()
    inputs = random_inputs(vocab_size=1500)
    received, expected = compile_file(folder)(inputs), in_float32(model)(inputs)
    for name, values in expected.items():
        np.testing.assert_allclose(received[name], values, rtol=0, atol=0.03, err_msg=name)


def test_int8_takes_a_quarter_of_the_space(larger_model, tokenizer, tmp_path):
    rows = [random_inputs(1, length, 1500, seed=length) for length in range(5, 25)]
    folder = export_kind(
        "simple_spans",
        larger_model,
        tokenizer,
        str(tmp_path),
        "openvino",
        weights="int8",
        calibration=rows,
    )["openvino"]
    assert 0.95 < size_of_weights(folder, larger_model) < 1.2
    inputs = random_inputs(vocab_size=1500)
    received, expected = compile_file(folder)(inputs), larger_model(inputs)
    for name, values in expected.items():
        np.testing.assert_allclose(received[name], values, rtol=0, atol=0.1, err_msg=name)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("float16", "^export_weights=float16: expected export_format=tflite; received openvino"),
        ("int8", "^weights='int8': form='openvino' needs inputs as `calibration`"),
    ],
)
def test_bad_weights_are_refused(weights, message, tokenizer, tmp_path):
    with pytest.raises(InputError, match=message):
        export_kind(
            "simple_spans",
            make_model("simple_spans"),
            tokenizer,
            str(tmp_path),
            "openvino",
            weights=weights,
        )
    assert list(tmp_path.iterdir()) == []
