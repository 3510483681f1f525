import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.features import encode_examples
from albert_tf.data.fine_tuning.preprocessor import Preprocessor
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from tests.helpers import refused, tiny_config, write_wordpiece
from tests.tokenization.conftest import ALPHABETS, WORDS, make_sentences
from tests.tokenization.test_in_graph import TEXTS as HOSTILE_TEXTS

MAX_SEQ_LENGTH = 23
TEXTS = [*HOSTILE_TEXTS, " ".join(WORDS), "the keeper"]
PAIRS = list(zip(TEXTS, [*TEXTS[::-1][:-1], ""], strict=True))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    model_file = str(folder / "small.model")
    train_vocabulary(make_sentences(), model_file, vocab_size=250)
    vocab_file = write_wordpiece(folder / "vocab.txt", [*WORDS, *ALPHABETS[0], "##s"])
    return {"albert": AlbertTokenizer(model_file), "wordpiece": WordPieceTokenizer(vocab_file)}


@pytest.fixture(params=["albert", pytest.param("wordpiece", marks=pytest.mark.slow)])
def tokenizer(tokenizers, request):
    return tokenizers[request.param]


def expected_inputs(tokenizer, texts_a, texts_b=None, max_seq_length=MAX_SEQ_LENGTH):
    """Returns what the scripts compute, padded to the longest text."""
    texts_b = texts_b or [None] * len(texts_a)
    examples = [Example("", *texts) for texts in zip(texts_a, texts_b, strict=True)]
    features = encode_examples(examples, (), tokenizer, max_seq_length)
    return make_batch(features, np.arange(len(examples)), features.max_length)


def assert_same(received, expected):
    assert set(received) == set(expected)
    for name, ids in expected.items():
        np.testing.assert_array_equal(received[name], ids, err_msg=name)
        assert received[name].dtype == tf.int32


def test_the_ids_of_the_scripts(tokenizer):
    preprocessor = Preprocessor(tokenizer, MAX_SEQ_LENGTH)
    assert_same(preprocessor(TEXTS), expected_inputs(tokenizer, TEXTS))
    expected = expected_inputs(tokenizer, ["the old keeper"])
    assert_same(preprocessor("the old keeper"), {name: x[0] for name, x in expected.items()})
    texts_a, texts_b = map(list, zip(*PAIRS, strict=True))
    expected = expected_inputs(tokenizer, texts_a, texts_b)
    assert_same(preprocessor(texts_a, texts_b), expected)
    assert_same(preprocessor(np.array(texts_a, object), tf.constant(texts_b)), expected)
    assert_same(preprocessor((texts_a, tf.constant(texts_b))), expected)
    assert_same(preprocessor({"text_a": texts_a, "text_b": texts_b}), expected)
    assert_same(preprocessor(("a", "b")), preprocessor(["a", "b"]))


def test_in_a_dataset(tokenizer):
    texts_a, texts_b = map(list, zip(*PAIRS, strict=True))
    expected = expected_inputs(tokenizer, texts_a, texts_b)
    rows = tf.data.Dataset.from_tensor_slices((texts_a, texts_b))
    batches = rows.batch(len(PAIRS)).map(Preprocessor(tokenizer, MAX_SEQ_LENGTH))
    assert_same(next(iter(batches)), expected)

    fixed = Preprocessor(tokenizer, MAX_SEQ_LENGTH, padding="max_length")
    singles = rows.map(fixed).batch(len(PAIRS))
    assert singles.element_spec["input_ids"].shape == (None, MAX_SEQ_LENGTH)
    padding = [(0, 0), (0, MAX_SEQ_LENGTH - expected["input_ids"].shape[1])]
    assert_same(next(iter(singles)), {name: np.pad(x, padding) for name, x in expected.items()})


def test_in_saved_models(tokenizer, tmp_path):
    config = tiny_config(vocab_size=tokenizer.vocab_size, num_hidden_layers=1)
    encoder = albert_tf.AlbertEncoder(config, seed=1)
    classifier = albert_tf.AlbertClassifier(encoder, num_classes=3, seed=2)
    text = keras.Input((), dtype="string", name="text")
    inputs = Preprocessor(tokenizer, MAX_SEQ_LENGTH)(text)
    assert {name: x.shape for name, x in inputs.items()} == dict.fromkeys(inputs, (None, None))
    model = keras.Model(text, classifier(inputs))
    expected = classifier(expected_inputs(tokenizer, TEXTS))
    texts = tf.constant(TEXTS)

    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(restored.predict(texts, verbose=0), expected, atol=1e-6)
    restored.export(str(tmp_path / "exported"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(served.serve(texts), expected, atol=1e-6)
    clone = keras.models.clone_model(model).get_layer("preprocessor")
    assert clone.tokenizer.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)


def test_keras_may_be_reset_after_the_layer_was_made(tokenizer):
    preprocessor = Preprocessor(tokenizer, MAX_SEQ_LENGTH)
    keras.utils.set_random_seed(1)
    keras.utils.clear_session()
    assert_same(preprocessor(["the old keeper"]), expected_inputs(tokenizer, ["the old keeper"]))


@pytest.fixture(scope="module")
def preprocessor(tokenizers):
    return Preprocessor(tokenizers["wordpiece"], MAX_SEQ_LENGTH)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((["a", 3],), "^Preprocessor: text_a: expected strings; received int at index 1$"),
        ((["a", None],), "text_a: expected strings; received NoneType at index 1"),
        ((np.ones(3),), "text_a: expected strings; received ndarray"),
        ((tf.ones(3),), r"text_a: expected strings, \(B,\) or \(\); received float32 \(3,\)"),
        (([["a"], ["b"]],), r"expected strings, \(B,\) or \(\); received string \(2, 1\)"),
        ((["\ud800"],), "text_a: expected strings; received a surrogate, which is no character"),
        ((["a"], 7), "text_b: expected strings; received int"),
        (({"text": ["a"]},), "received the keys text; expected text_a and, for pairs, text_b"),
        ((["a", "b"], ["c"]), r"expected as many text_b as text_a; received \(1,\) and \(2,\)"),
    ],
)
def test_refuses_what_is_no_text(preprocessor, texts, message):
    with refused(message):
        preprocessor(*texts)


def test_refuses_other_arguments(tokenizers, monkeypatch):
    tokenizer = tokenizers["wordpiece"]
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    for arguments, message in [
        (("vocab.txt", 9), "^tokenizer: expected an AlbertTokenizer or a WordPiece.*; .* str$"),
        ((tokenizer, 4), "^max_seq_length=4: expected at least 5"),
        ((tokenizer, 9, "right"), "^padding='right': expected longest or max_length"),
        ((tokenizer, 9), "needs TensorFlow Text, .*: pip install 'tensorflow-text=="),
    ]:
        with refused(message):
            Preprocessor(*arguments)


def test_operators_for_another_tensorflow_are_named(tokenizers, monkeypatch, tmp_path):
    module = (
        "import tensorflow\nraise tensorflow.errors.NotFoundError(None, None, 'undefined symbol')"
    )
    (tmp_path / "tensorflow_text.py").write_text(module)
    monkeypatch.delitem(sys.modules, "tensorflow_text", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with refused(r"cannot be imported \(undefined symbol\): pip install"):
        Preprocessor(tokenizers["wordpiece"], 9)
