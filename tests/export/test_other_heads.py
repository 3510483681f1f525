import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.features import encode_choices, encode_examples
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.data.pipeline import make_batch
from albert_tf.export import export_multiple_choice, export_regressor
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertMultipleChoice
from tests.export.runtimes import run_loaded
from tests.export.samples import VOCAB_SIZE, WORDS
from tests.export.strategies import SHORT_TEXTS
from tests.helpers import random_inputs, tiny_config

LABELS = ("A", "B", "C")
MAX_SEQ_LENGTH, MAX_QA_LENGTH = 27, 13
QUESTIONS = [
    ("The old man and the SEA.", "Who _ over the _ ?", ("cat", "the old DOG", "hat")),
    (" ".join(WORDS * 4), "Where?", ("sea, times,", "hat", "9,999")),
    ("cat", " ".join(WORDS * 3), (" ".join(WORDS * 2), "_", "man")),
    ("dog ran", "_", ("cat", "dog", "hat")),
    ("Über", "", ("cat", "dog", "hat")),
    ("", "the _", ("cat _ dog", "dog", "")),
]


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=2), seed=1)


@pytest.fixture(scope="module")
def choices(tmp_path_factory, tokenizer, encoder):
    """A multiple choice model, and the folders of its exported forms."""
    model = AlbertMultipleChoice(encoder, seed=2)
    folder = str(tmp_path_factory.mktemp("choices"))
    return model, export_multiple_choice(
        model, LABELS, tokenizer, folder, MAX_SEQ_LENGTH, MAX_QA_LENGTH
    )


def predict(path, **inputs):
    return run_loaded(path, inputs)


def test_multiple_choice_in_text_form_gives_the_models_numbers(choices, tokenizer):
    model, paths = choices
    outputs = predict(
        paths["text"],
        article=[article for article, _, _ in QUESTIONS],
        question=[question for _, question, _ in QUESTIONS],
        options=[options for _, _, options in QUESTIONS],
    )
    examples = [Example("", a, q, None, options) for a, q, options in QUESTIONS]
    features = encode_choices(examples, LABELS, tokenizer, MAX_SEQ_LENGTH, MAX_QA_LENGTH)
    for row in range(len(QUESTIONS)):
        logits = model(make_batch(features, np.array([row]))).numpy()[0]
        np.testing.assert_allclose(outputs["logits"][row], logits, rtol=0, atol=1e-5)
        assert outputs["label"][row].decode() == LABELS[logits.argmax()]
    np.testing.assert_allclose(outputs["probabilities"].sum(axis=1), 1, rtol=1e-6)
    assert pathlib.Path(paths["text"], "assets", "labels.txt").read_text() == "A\nB\nC\n"


def test_multiple_choice_in_ids_gives_the_models_numbers(choices):
    model, paths = choices
    inputs = {
        name: ids.reshape(4, 3, 11)
        for name, ids in random_inputs(12, vocab_size=VOCAB_SIZE).items()
    }
    outputs = predict(paths["ids"], **inputs)
    np.testing.assert_allclose(outputs["logits"], model(inputs), rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def loaded(choices):
    return {form: tf.saved_model.load(path) for form, path in choices[1].items()}


@pytest.fixture(scope="module")
def choose(loaded):
    def choose(article, question, options):
        return loaded["text"].signatures["serving_default"](
            article=tf.constant(article, tf.string),
            question=tf.constant(question, tf.string),
            options=tf.reshape(tf.constant(options, tf.string), (-1, len(LABELS))),
        )

    return choose


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(*[SHORT_TEXTS] * (2 + len(LABELS))), min_size=1, max_size=3))
def test_any_bytes_are_answered(choose, rows):
    articles, questions, *options = zip(*rows, strict=True)
    outputs = choose(articles, questions, list(zip(*options, strict=True)))
    assert np.isfinite(outputs["logits"]).all()
    assert outputs["label"].shape == (len(rows),)


def test_many_questions_are_answered_as_few(choose):
    few = [list(column) for column in zip(*QUESTIONS, strict=True)]
    expected = np.tile(choose(*few)["logits"], (9, 1))
    outputs = choose(*(column * 9 for column in few))
    np.testing.assert_allclose(outputs["logits"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("counts", [(0, 0, 0), (2, 1, 2), (1, 1, 2), (2, 2, 1)])
def test_questions_without_an_article_or_options_are_refused(choose, counts):
    articles, questions, options = counts
    message = "received of article, question, options:"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        choose(["cat"] * articles, ["who?"] * questions, [["a", "b", "c"]] * options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"article": "cat"}, r"article of shape \[\?\]; received:\] \[\]"),
        ({"question": [["who?"]]}, r"question of shape \[\?\]; received:\] \[1 1\]"),
        ({"options": ["a", "b", "c"]}, r"options of shape \[\?, 3\]; received:\] \[3\]"),
        ({"options": [["a", "b"]]}, r"options of shape \[\?, 3\]; received:\] \[1 2\]"),
    ],
)
def test_questions_of_another_shape_are_refused(loaded, changes, message):
    inputs = {"article": ["cat"], "question": ["who?"], "options": [["a", "b", "c"]], **changes}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded["text"].signatures["serving_default"](
            **{name: tf.constant(value) for name, value in inputs.items()}
        )


@pytest.mark.parametrize("shape", [(2, 8), (2, 5, 8), (1, 2, 3, 8)])
def test_ids_of_other_choices_are_refused(loaded, shape):
    inputs = {name: tf.ones(shape, tf.int32) for name in random_inputs()}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\w+ of shape \[\?, 3, \?\]; received"
    ):
        loaded["ids"].signatures["serving_default"](**inputs)


@pytest.mark.parametrize("pairs", [True, False])
def test_regressor_gives_a_score(tmp_path, tokenizer, encoder, pairs):
    model = AlbertClassifier(encoder, num_classes=1, seed=2)
    paths = export_regressor(model, tokenizer, str(tmp_path), MAX_SEQ_LENGTH, pairs)
    texts = {"text_a": ["the cat", "Über"], "text_b": ["old man", "hat"]}
    outputs = predict(paths["text"], **(texts if pairs else {"text_a": texts["text_a"]}))
    assert set(outputs) == {"score"}
    for row, text_a in enumerate(texts["text_a"]):
        example = Example("", text_a, texts["text_b"][row] if pairs else None)
        features = encode_examples([example], (), tokenizer, MAX_SEQ_LENGTH)
        expected = model(make_batch(features, np.array([0]))).numpy()[0, 0]
        np.testing.assert_allclose(outputs["score"][row], expected, rtol=0, atol=1e-5)
