"""A tiny model of each kind, its export, texts, and what the Python road answers."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.export import export
from albert_tf.kinds import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    TokenClassification,
)
from albert_tf.models import AlbertEncoder
from albert_tf.tokenization import train_vocabulary
from tests.helpers import random_inputs, tiny_config

LABELS = ("calm", "loud", "mute")
MAX_SEQ_LENGTH = 23
VOCAB_SIZE = 50
# Sizes of a model whose weights decide the size of its file.
LARGER_THAN_ITS_GRAPH = {
    "vocab_size": 1500,
    "embedding_size": 64,
    "hidden_size": 128,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "initializer_range": 0.1,
}
WORDS = "the old man and sea cat dog ran over under 9,999 times, hat tree green. Über naïve"
WORDS = WORDS.split()
TEXTS = [
    ("The old man, and the SEA.", "A cat ran 9,999, times"),
    ("naïve dog", ""),
    (" ".join(WORDS * 3), "green tree hat"),
    ("green", " ".join(WORDS * 3)),
    (" ".join(WORDS * 2), " ".join(WORDS * 2)),
    ("", ""),
]
CHOICES = [
    ("The old man and the SEA.", "Who _ over the _ ?", ("cat", "the old DOG", "hat")),
    (" ".join(WORDS * 4), "Where?", ("sea, times,", "hat", "9,999")),
    ("cat", " ".join(WORDS * 3), (" ".join(WORDS * 2), "_", "man")),
    ("dog ran", "_", ("cat", "dog", "hat")),
    ("Über", "", ("cat", "", "naïve dog")),
    ("", "the _", ("cat _ dog", "dog", "")),
]
LENGTH = {"max_seq_length": MAX_SEQ_LENGTH}
ANSWERS = QuestionAnswering(
    version_2_with_negative=True,
    **LENGTH,
    doc_stride=5,
    max_query_length=7,
    n_best_size=5,
    max_answer_length=4,
    start_n_top=3,
    end_n_top=2,
)
QUESTIONS = [
    ("Who ran?", " ".join(WORDS * 9)),
    ("", "  Über the\u2003hat "),
    ("cat", ""),
    ("a", " "),
    ("who?", "sea 🙂‍↔️ (green.) 9,999"),
]
TO_TAG = [
    "The old man, and the SEA.",
    "",
    "🙂‍↔️cat dog🙂 (sea) ½ tree",
    "ภาษาไทย\u2003ก็ดี naïve cafe\u0301  ",
    " ".join(WORDS * 20),
    "\u200b",
    "שלום עולם, 漢字かな交じり文 привет",
]
# By kind; others have `TEXTS`.
ROWS = {
    "multiple_choice": CHOICES,
    "token_classifier": [(text,) for text in TO_TAG],
    "simple_spans": QUESTIONS,
    "conditional_spans": QUESTIONS,
}
THRESHOLDS = (0.3, 0.5, 0.6)
TAGS = ("O", *(f"{prefix}-{label}" for label in ("LOUD", "MUTE") for prefix in "BIES"))
# Those of classes and choices, whose probabilities are those of divided logits on every road.
TEMPERATURE = 1.7
SINGLE_TEXTS = Classification(labels=LABELS, temperature=TEMPERATURE, **LENGTH)
OF_NAMES = {
    "classifier": dataclasses.replace(SINGLE_TEXTS, pairs=True, task_name="classification"),
    "multiple_choice": MultipleChoice(
        labels=LABELS, temperature=TEMPERATURE, **LENGTH, max_qa_length=9
    ),
    "token_classifier": TokenClassification(labels=TAGS, **LENGTH, doc_stride=5),
    "embedder": Embedding(**LENGTH),
    "multi_label": MultiLabel(
        labels=LABELS, thresholds=THRESHOLDS, **LENGTH, pairs=True, task_name="multi_label"
    ),
    "regressor": Regression(**LENGTH, pairs=True, task_name="regression"),
    "simple_spans": dataclasses.replace(ANSWERS, head="simple"),
    # The threshold leaves some of the tests' questions without an answer.
    "conditional_spans": dataclasses.replace(
        ANSWERS, head="conditional", null_score_diff_threshold=0.26
    ),
}
KINDS = list(OF_NAMES)
# Their text models return what their ids models do.
OF_TEXTS = ("classifier", "regressor", "multiple_choice", "multi_label", "embedder")


def write_vocabulary(path):
    rng = np.random.default_rng(0)
    sentences = [" ".join(rng.choice(WORDS, 12)) for _ in range(300)]
    train_vocabulary(sentences, str(path), vocab_size=VOCAB_SIZE)
    return path


def make_model(kind, **changes):
    # Wide initial values, so that answers differ between texts.
    sizes = {"vocab_size": VOCAB_SIZE, "num_hidden_layers": 1, "initializer_range": 0.2}
    config = tiny_config(**sizes, **changes)
    return OF_NAMES[kind].make_model(AlbertEncoder(config, seed=1), 0.1, 2, None)


def export_kind(kind, model, tokenizer, export_dir, form, weights=None, **more):
    return export(model, OF_NAMES[kind], tokenizer, export_dir, form, weights, **more)


def make_inputs(kind):
    """The last text has padding, with the id that all pad with, but for the choices."""
    if kind != "multiple_choice":
        inputs = random_inputs(length=MAX_SEQ_LENGTH, vocab_size=VOCAB_SIZE)
        return {**inputs, "input_ids": inputs["input_ids"] * inputs["input_mask"]}
    of_choices = [random_inputs(vocab_size=VOCAB_SIZE, seed=seed) for seed in range(len(LABELS))]
    return {name: np.stack([one[name] for one in of_choices], axis=1) for name in of_choices[0]}


def text_columns(kind, rows=None):
    """The inputs of a text model, in lists; by default of odd texts."""
    columns = zip(*(rows or ROWS.get(kind, TEXTS)), strict=True)
    return dict(zip(OF_NAMES[kind].texts, columns, strict=False))


def expected_of_texts(kind, model, tokenizer, rows=None):
    """What the Python road from text to predictions gives, text by text."""
    outputs = []
    for row in zip(*text_columns(kind, rows).values(), strict=True):
        choices = row[2] if kind == "multiple_choice" else ()
        # No text at all is what only exported models answer.
        text_a = row[0] if row[0] or choices else "x"
        example = Example("", text_a, *row[1:2], choices=choices)
        batch = make_batch(OF_NAMES[kind].encode([example], tokenizer), np.array([0]))
        if not row[0] and not choices:
            ids = np.array([[tokenizer.cls_id, tokenizer.sep_id]], np.int32)
            mask = np.ones_like(ids)
            batch = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}
        outputs.append(expected_of(kind, model, batch))
    return {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}


def expected_of(kind, model, inputs):
    outputs = model(inputs, training=False)
    if kind == "regressor":
        return {"logits": outputs.numpy(), "score": outputs[:, 0].numpy()}
    if kind == "embedder":
        return {"embedding": outputs.numpy()}
    if kind.endswith("spans"):
        return {name: value.numpy() for name, value in OF_NAMES[kind].outputs(outputs).items()}
    outputs = tf.cast(outputs, tf.float32)
    activate = tf.sigmoid if kind == "multi_label" else tf.nn.softmax
    divisor = TEMPERATURE if kind in ("classifier", "multiple_choice") else 1.0
    # Of a token classifier for each token.
    return {"logits": outputs.numpy(), "probabilities": activate(outputs / divisor).numpy()}


def labels_of(kind, expected):
    """The output `label` that belongs to the others."""
    if kind == "multi_label":
        is_chosen = expected["probabilities"] >= np.array(THRESHOLDS, np.float32)
        return np.where(is_chosen, LABELS, "").tolist()
    names = np.array(TAGS if kind == "token_classifier" else LABELS)
    return names[expected["logits"].argmax(axis=-1)].tolist()


def assert_equal(received, expected, atol=1e-5):
    assert set(received) >= set(expected)
    for name, values in expected.items():
        if np.asarray(values).dtype.kind == "f":
            np.testing.assert_allclose(received[name], values, rtol=1e-5, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(received[name], values, err_msg=name)


def assert_labels(kind, received, expected):
    """Compares `label`, bytes or str, with what belongs to the expected outputs."""
    if "probabilities" in expected:
        labels = np.array(received["label"]).astype(object)
        decode = np.vectorize(lambda x: x.decode() if isinstance(x, bytes) else x)
        assert decode(labels).tolist() == labels_of(kind, expected)
