import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.squad.conventions import AnswerConfig
from albert_tf.export import export_question_answering
from albert_tf.models import AlbertConditionalSpanLabeler, AlbertEncoder, AlbertSpanLabeler
from tests.export.runtimes import run_in_session
from tests.export.samples import VOCAB_SIZE, WORDS
from tests.export.strategies import SHORT_TEXTS
from tests.helpers import random_inputs, tiny_config

RULE = AnswerConfig(23, 5, 7, 20, 4, None)
HEADS = {"simple": AlbertSpanLabeler, "conditional": AlbertConditionalSpanLabeler}


def make_model(head):
    config = tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=1, initializer_range=0.3)
    return HEADS[head](AlbertEncoder(config, with_pooler=False, seed=1), seed=2)


def load(path):
    return tf.saved_model.load(path).signatures["serving_default"]


@pytest.fixture(scope="module")
def answer(tokenizer, tmp_path_factory):
    """The text model of a simple head."""
    folder = str(tmp_path_factory.mktemp("simple"))
    paths = export_question_answering(make_model("simple"), tokenizer, folder, RULE)
    return load(paths["text"])


def ask(answer, *pairs):
    questions, contexts = zip(*pairs, strict=True)
    outputs = answer(question=tf.constant(questions), context=tf.constant(contexts))
    return {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.parametrize("head", HEADS)
def test_answers_in_tensorflow_servings_loader(head, tokenizer, tmp_path):
    model = make_model(head)
    paths = export_question_answering(model, tokenizer, str(tmp_path), RULE)
    pairs = [
        ("Who ran?", " ".join(WORDS * 9)),
        ("", "  Über the\u2003hat "),
        ("cat", ""),
        ("a", " "),
    ]
    expected = ask(load(paths["text"]), *pairs)
    questions, contexts = zip(*pairs, strict=True)
    received = run_in_session(paths["text"], {"question": questions, "context": contexts})
    np.testing.assert_array_equal(received["answer"], expected["answer"])
    np.testing.assert_allclose(received["score"], expected["score"], atol=1e-5)
    for (_, context), text, start, end in zip(
        pairs, received["answer"], received["start"], received["end"], strict=True
    ):
        assert context[start:end] == text.decode() == text.decode().strip()
    assert received["answer"][0]
    assert not any(received["answer"][2:])

    inputs = {
        name: tf.constant(value) for name, value in random_inputs(vocab_size=VOCAB_SIZE).items()
    }
    outputs = load(paths["ids"])(**inputs)
    for name, value in model(inputs).items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5)


@pytest.mark.parametrize("name", ["question", "context"])
@pytest.mark.parametrize("text", ["cat", [["cat"]]])
def test_texts_of_another_shape_are_refused(answer, name, text):
    inputs = {"question": ["cat"], "context": ["a cat"], name: text}
    message = rf"expected {name} of shape \[\?\]; received"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        answer(**{key: tf.constant(value) for key, value in inputs.items()})


def test_one_question_is_answered_as_among_others(answer):
    rng = np.random.default_rng(5)
    pairs = [("who?", " ".join(rng.choice(WORDS, length))) for length in (3, 300, 17, 0, 41)]
    together = ask(answer, *pairs)
    for row, pair in enumerate(pairs):
        alone = ask(answer, pair)
        for name, values in together.items():
            if values.dtype == np.float32:
                assert alone[name][0] == pytest.approx(values[row], abs=1e-4)
            else:
                assert alone[name][0] == values[row]


def test_threshold_decides_what_is_unanswered(tokenizer, tmp_path):
    model = make_model("conditional")
    pairs = [("who?", "the man ran over " * count) for count in range(1, 8)]
    paths = export_question_answering(model, tokenizer, str(tmp_path), RULE)
    outputs = ask(load(paths["text"]), *pairs)
    low, high = np.sort(outputs["null_score"])[[2, 3]]
    threshold = float(low + high) / 2
    rule = AnswerConfig(23, 5, 7, 20, 4, threshold)
    paths = export_question_answering(model, tokenizer, str(tmp_path), rule)
    with_threshold = ask(load(paths["text"]), *pairs)
    kept = outputs["null_score"] <= threshold
    np.testing.assert_array_equal(with_threshold["answer"], np.where(kept, outputs["answer"], b""))
    np.testing.assert_array_equal(with_threshold["end"], np.where(kept, outputs["end"], 0))
    np.testing.assert_array_equal(with_threshold["score"], outputs["score"])
    for path in paths.values():
        saved = json.loads(pathlib.Path(path, "assets", "answer_rule.json").read_text())
        assert AnswerConfig(**saved) == rule


def assert_answered(answer, *pairs):
    outputs = ask(answer, *pairs)
    for (_, context), text, start, end in zip(
        pairs, outputs["answer"], outputs["start"], outputs["end"], strict=True
    ):
        assert context.decode(errors="replace")[start:end] == text.decode()
    assert np.isfinite(outputs["score"]).all()


def test_other_bytes_than_text(answer):
    strange = [b"\xff\xfe", b"a\x00b", b"", "🙂‍↔️".encode(), b"the \xff cat"]
    assert_answered(answer, *zip(strange[::-1], strange, strict=True))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(SHORT_TEXTS, SHORT_TEXTS), min_size=1, max_size=3))
def test_any_bytes_are_answered(answer, pairs):
    assert_answered(answer, *pairs)


def test_long_contexts_of_thousands_of_windows(answer):
    words = np.random.default_rng(3).choice(WORDS, 9000)
    assert_answered(answer, (b"who?", " ".join(words).encode()), (b"", b"sea"))


@pytest.mark.parametrize(("questions", "contexts"), [(0, 0), (2, 1), (1, 2)])
def test_questions_without_a_context_are_refused(answer, questions, contexts):
    with pytest.raises(tf.errors.InvalidArgumentError, match="received of question, context:"):
        answer(
            question=tf.constant(["who?"] * questions, tf.string),
            context=tf.constant(["the cat"] * contexts, tf.string),
        )


def test_each_weight_is_written_once(tokenizer, tmp_path):
    model = make_model("conditional")
    for path in export_question_answering(model, tokenizer, str(tmp_path), RULE).values():
        variables = tf.train.list_variables(os.path.join(path, "variables", "variables"))
        assert sum("VARIABLE_VALUE" in name for name, _ in variables) == len(model.weights)
        data = pathlib.Path(path, "variables", "variables.data-00000-of-00001").stat().st_size
        assert 0 <= data - 4 * model.count_params() < 20_000
