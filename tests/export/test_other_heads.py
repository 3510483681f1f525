import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import encode_choices
from albert_tf.data.fine_tuning.tsv import Example
from tests.export.kinds import MAX_QA_LENGTH
from tests.export.runtimes import load, run_loaded
from tests.export.samples import LABELS, MAX_SEQ_LENGTH, WORDS
from tests.export.strategies import SHORT_TEXTS
from tests.helpers import random_inputs

QUESTIONS = [
    ("The old man and the SEA.", "Who _ over the _ ?", ("cat", "the old DOG", "hat")),
    (" ".join(WORDS * 4), "Where?", ("sea, times,", "hat", "9,999")),
    ("cat", " ".join(WORDS * 3), (" ".join(WORDS * 2), "_", "man")),
    ("dog ran", "_", ("cat", "dog", "hat")),
    ("Über", "", ("cat", "dog", "hat")),
    ("", "the _", ("cat _ dog", "dog", "")),
]


@pytest.fixture(scope="module")
def choices(exported_kind):
    """A multiple choice model, and the folders of its exported forms."""
    return exported_kind("multiple_choice")


def test_multiple_choice_in_text_form_gives_the_models_numbers(choices, tokenizer):
    model, paths = choices
    articles, questions, options = zip(*QUESTIONS, strict=True)
    inputs = {"article": articles, "question": questions, "options": options}
    outputs = run_loaded(paths["text"], inputs)
    examples = [Example("", a, q, None, options) for a, q, options in QUESTIONS]
    features = encode_choices(examples, LABELS, tokenizer, MAX_SEQ_LENGTH, MAX_QA_LENGTH)
    for row in range(len(QUESTIONS)):
        logits = model(make_batch(features, np.array([row]))).numpy()[0]
        np.testing.assert_allclose(outputs["logits"][row], logits, rtol=0, atol=1e-5)
        assert outputs["label"][row].decode() == LABELS[logits.argmax()]
    np.testing.assert_allclose(outputs["probabilities"].sum(axis=1), 1, rtol=1e-6)


@pytest.fixture(scope="module")
def loaded(choices):
    return {form: load(path) for form, path in choices[1].items()}


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


def test_answers_do_not_depend_on_the_number_of_questions(choose):
    few = [list(column) for column in zip(*QUESTIONS, strict=True)]
    expected = np.tile(choose(*few)["logits"], (9, 1))
    outputs = choose(*(column * 9 for column in few))
    np.testing.assert_allclose(outputs["logits"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 8), (2, 5, 8), (1, 2, 3, 8)])
def test_refuses_ids_of_another_number_of_choices(loaded, shape):
    inputs = {name: tf.ones(shape, tf.int32) for name in random_inputs()}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\w+ of shape \[\?, 3, \?\]; received"
    ):
        loaded["ids"].signatures["serving_default"](**inputs)
