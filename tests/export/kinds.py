"""A tiny model of each kind, its export, and its expected outputs."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.packing import TextWindowConfig
from albert_tf.data.fine_tuning.tags import make_tags
from albert_tf.export import ExportDetails, export
from albert_tf.kinds import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    TokenClassification,
)
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEmbedder,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from tests.export.samples import LABELS, MAX_SEQ_LENGTH, VOCAB_SIZE
from tests.helpers import random_inputs, tiny_config

ANSWERS = QuestionAnswering(
    version_2_with_negative=True,
    max_seq_length=MAX_SEQ_LENGTH,
    doc_stride=5,
    max_query_length=7,
    n_best_size=5,
    max_answer_length=4,
    start_n_top=3,
    end_n_top=2,
)
MAX_QA_LENGTH = 9
THRESHOLDS = dict(zip(LABELS, (0.3, 0.5, 0.6), strict=True))
TAGS = make_tags(["LOUD", "MUTE"], "BIOES")
TEXT_WINDOWS = TextWindowConfig(MAX_SEQ_LENGTH, 5)
KINDS = [
    *("classifier", "regressor", "multiple_choice", "multi_label", "token_classifier"),
    *("simple_spans", "conditional_spans", "embedder"),
]
SINGLE_TEXTS = Classification(labels=LABELS, max_seq_length=MAX_SEQ_LENGTH)
OF_NAMES = {
    "classifier": dataclasses.replace(SINGLE_TEXTS, pairs=True),
    "multiple_choice": MultipleChoice(
        labels=LABELS, max_seq_length=MAX_SEQ_LENGTH, max_qa_length=MAX_QA_LENGTH
    ),
    "token_classifier": TokenClassification(
        labels=TAGS, max_seq_length=MAX_SEQ_LENGTH, doc_stride=TEXT_WINDOWS.doc_stride
    ),
    "embedder": Embedding(pooling="weighted_layers", max_seq_length=MAX_SEQ_LENGTH),
    "multi_label": MultiLabel(
        labels=tuple(THRESHOLDS),
        thresholds=tuple(THRESHOLDS.values()),
        max_seq_length=MAX_SEQ_LENGTH,
        pairs=True,
    ),
    "regressor": Regression(max_seq_length=MAX_SEQ_LENGTH, pairs=True),
    "simple_spans": dataclasses.replace(ANSWERS, head="simple"),
    "conditional_spans": dataclasses.replace(ANSWERS, head="conditional"),
}
# There is no file for LiteRT of these.
WITHOUT_TFLITE = {"multiple_choice"}


def make_model(kind):
    # Wide initial values, so that answers differ between texts.
    config = tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=1, initializer_range=0.2)
    encoder = AlbertEncoder(config, seed=1)
    return {
        "classifier": lambda: AlbertClassifier(encoder, len(LABELS), seed=2),
        "regressor": lambda: AlbertClassifier(encoder, 1, seed=2),
        "multi_label": lambda: AlbertClassifier(encoder, len(THRESHOLDS), seed=2),
        "multiple_choice": lambda: AlbertMultipleChoice(encoder, seed=2),
        "token_classifier": lambda: AlbertTokenClassifier(encoder, len(TAGS), seed=2),
        "embedder": lambda: AlbertEmbedder(encoder, "weighted_layers", normalize=True),
        "simple_spans": lambda: AlbertSpanLabeler(encoder, seed=2),
        "conditional_spans": lambda: AlbertConditionalSpanLabeler(encoder, 3, 2, seed=2),
    }[kind]()


def export_kind(kind, model, tokenizer, export_dir, form, weights=None, **more):
    details = ExportDetails(form, weights, **more)
    return export(model, OF_NAMES[kind], tokenizer, export_dir, details)


def make_inputs(kind):
    """The last text has padding, with the id that all pad with, but for the choices."""
    if kind != "multiple_choice":
        inputs = random_inputs(length=MAX_SEQ_LENGTH, vocab_size=VOCAB_SIZE)
        return {**inputs, "input_ids": inputs["input_ids"] * inputs["input_mask"]}
    of_choices = [random_inputs(vocab_size=VOCAB_SIZE, seed=seed) for seed in range(len(LABELS))]
    return {name: np.stack([one[name] for one in of_choices], axis=1) for name in of_choices[0]}


def expected_of(kind, model, inputs):
    outputs = model(inputs, training=False)
    if kind == "regressor":
        return {"score": outputs[:, 0].numpy()}
    if kind == "embedder":
        return {"embedding": outputs.numpy()}
    if kind.endswith("spans"):
        return {name: value.numpy() for name, value in OF_NAMES[kind].outputs(outputs).items()}
    if kind == "multi_label":
        return {"logits": outputs.numpy(), "probabilities": tf.sigmoid(outputs).numpy()}
    # Of a token classifier for each token.
    return {"logits": outputs.numpy(), "probabilities": tf.nn.softmax(outputs).numpy()}


def labels_of(kind, expected):
    """The output `label` that belongs to the others."""
    if kind == "multi_label":
        is_chosen = expected["probabilities"] >= np.array(list(THRESHOLDS.values()), np.float32)
        return np.where(is_chosen, LABELS, "").tolist()
    names = np.array(TAGS if kind == "token_classifier" else LABELS)
    return names[expected["logits"].argmax(axis=-1)].tolist()


def assert_equal(received, expected):
    assert set(received) >= set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(received[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
