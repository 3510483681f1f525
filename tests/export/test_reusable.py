"""The reusable SavedModels, loaded as their users load them."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.features import encode_examples
from albert_tf.export import export_reusable
from albert_tf.export.reusable import ReusableEncoder
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import WordPieceTokenizer
from tests.export.kinds import TEXTS, WORDS
from tests.export.runtimes import run_in_session
from tests.helpers import random_inputs, refused, tiny_config, write_wordpiece

# So many that the rest of a checkpoint is less than 1 % of the weights.
VOCAB_SIZE = 40_000
POSITIONS = np.array([[0, 3, 9], [5, 2, 0], [1, 4, 4]], np.int32)
# Ours and theirs.
INPUTS = {
    "input_ids": "input_word_ids",
    "input_mask": "input_mask",
    "segment_ids": "input_type_ids",
}
SINGLE = [text for pair in TEXTS for text in pair if text]


@pytest.fixture(scope="module")
def pretrainer():
    config = tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=2, hidden_dropout_prob=0.1)
    return AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)


@pytest.fixture(scope="module")
def paths(tmp_path_factory, pretrainer, tokenizer):
    return export_reusable(pretrainer, tokenizer, str(tmp_path_factory.mktemp("reusable")))


@pytest.fixture(scope="module")
def encoder(paths):
    return tf.saved_model.load(paths["encoder"])


@pytest.fixture(scope="module")
def preprocessor(paths):
    return tf.saved_model.load(paths["preprocessor"])


def test_export_without_tensorflow_text(tokenizer, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=1), with_pooler=False)
    paths = export_reusable(encoder, tokenizer, str(tmp_path))
    assert list(paths) == [path.name for path in tmp_path.iterdir()] == ["encoder"]
    assert f"{tmp_path}/preprocessor: not exported: " in capsys.readouterr().err


def encoder_inputs(inputs):
    return {theirs: tf.constant(inputs[ours]) for ours, theirs in INPUTS.items()}


def assert_close(received, expected):
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-6)


def test_outputs_are_the_models(paths, encoder, pretrainer):
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    outputs, expected = encoder(encoder_inputs(inputs)), pretrainer.encoder(inputs)
    assert set(outputs) == {"default", "pooled_output", "sequence_output", "encoder_outputs"}
    assert_close(outputs["default"], expected["pooled_output"])
    assert_close(outputs["pooled_output"], expected["pooled_output"])
    assert_close(outputs["sequence_output"], expected["sequence_output"])
    for received, ours in zip(outputs["encoder_outputs"], expected["encoder_outputs"], strict=True):
        assert_close(received, ours)
    # TensorFlow Serving's loader restores the weights, too.
    served = run_in_session(paths["encoder"], {INPUTS[name]: x for name, x in inputs.items()})
    assert_close(served["pooled_output"], expected["pooled_output"])
    outputs = encoder.mlm({**encoder_inputs(inputs), "masked_lm_positions": POSITIONS})
    logits = pretrainer({**inputs, "masked_lm_positions": POSITIONS})["masked_lm_logits"]
    assert_close(outputs["mlm_logits"], logits)
    assert_close(outputs["pooled_output"], expected["pooled_output"])


def test_a_folder_that_tensorflow_would_not_find_is_refused(pretrainer, tmp_path):
    with refused(r"out \[1\]: TensorFlow takes '\[' for a pattern", tmp_path):
        export_reusable(pretrainer, None, str(tmp_path / "out [1]"))


def test_outputs_of_a_model_in_mixed_precision_are_float32():
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=1), dtype="mixed_bfloat16")
    module = ReusableEncoder(encoder, {})
    outputs = module.serve.get_concrete_function().structured_outputs
    assert {output.dtype for output in outputs.values()} == {tf.float32}


def test_dropout_in_training_alone(encoder):
    inputs = encoder_inputs(random_inputs(vocab_size=VOCAB_SIZE))
    with_positions = {**inputs, "masked_lm_positions": POSITIONS}
    for function, given in ((encoder, inputs), (encoder.mlm, with_positions)):
        calls = [function(given, training=training) for training in (False, False, True, True)]
        without, again, first, second = (outputs["sequence_output"] for outputs in calls)
        np.testing.assert_array_equal(without, again)
        assert np.abs(first - without).max() > 0.01
        assert np.abs(first - second).max() > 0.01


def test_gradients_are_the_models(encoder, pretrainer):
    assert {id(v) for v in encoder.trainable_variables} < {id(v) for v in encoder.variables}
    assert list(encoder.regularization_losses) == []
    inputs = random_inputs(vocab_size=VOCAB_SIZE)

    def gradients(function, given, variables):
        with tf.GradientTape() as tape:
            logits = function({**given, "masked_lm_positions": POSITIONS})
            loss = tf.reduce_mean(tf.nn.log_softmax(logits)[..., 7])
        # Of the pooler no masked LM depends.
        values = tape.gradient(loss, variables, unconnected_gradients="zero")
        return [np.array(tf.convert_to_tensor(value)) for value in values]

    received = gradients(
        lambda given: encoder.mlm(given)["mlm_logits"],
        encoder_inputs(inputs),
        encoder.mlm.trainable_variables,
    )
    heads = [*pretrainer.encoder.weights, *pretrainer.masked_lm_head.weights]
    expected = gradients(
        lambda given: pretrainer(given, training=False)["masked_lm_logits"],
        inputs,
        [variable.value for variable in heads],
    )
    assert max(np.abs(gradient).max() for gradient in expected) > 0.01
    for ours, theirs in zip(received, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_word_ids": np.full((3, 3), VOCAB_SIZE)}, "input_word_ids from 0 to 39999"),
        ({"input_mask": np.full((3, 3), 2)}, "expected input_mask from 0 to 1; received"),
        ({"masked_lm_positions": np.zeros((1, 3))}, "one row of masked_lm_positions per text"),
        ({"masked_lm_positions": np.full((3, 3), 3)}, "expected masked_lm_positions below the l"),
        ({"masked_lm_positions": np.full((3, 3), -1)}, "expected masked_lm_positions below the l"),
    ],
)
def test_refuses_ids_and_positions_out_of_range(encoder, changes, message):
    names = (*INPUTS.values(), "masked_lm_positions")
    inputs = {name: np.zeros((3, 3)) for name in names} | changes
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        encoder.mlm({name: tf.constant(value, tf.int32) for name, value in inputs.items()})


def test_refuses_inputs_of_another_rank(encoder, preprocessor):
    ids = dict.fromkeys(INPUTS.values(), tf.ones((1, 2, 3), tf.int32))
    for model, inputs, message in (
        (encoder, ids, r"input\w+ of shape \[\?, \?\]; received"),
        (preprocessor, {"sentences": tf.fill((2, 1), "cat")}, r"sentences of shape \[\?\]; rec"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            model.signatures["serving_default"](**inputs)


def test_weights_are_written_once_with_config_and_vocabulary(paths, encoder, pretrainer, tokenizer):
    variables = pathlib.Path(paths["encoder"], "variables", "variables.data-00000-of-00001")
    parts = (pretrainer.encoder, pretrainer.masked_lm_head)
    parameters = sum(part.count_params() for part in parts)
    assert 1 <= variables.stat().st_size / (4 * parameters) <= 1.01
    assets = pathlib.Path(paths["encoder"], "assets")
    config = json.loads((assets / "albert_config.json").read_text())
    assert config == pretrainer.encoder.config.to_dict()
    vocabulary = pathlib.Path(encoder.sp_model_file.asset_path.numpy().decode())
    assert vocabulary == assets / pathlib.Path(tokenizer.vocabulary_file).name
    assert vocabulary.read_bytes() == tokenizer.vocabulary


def features(tokenizer, texts, max_seq_length):
    """What training makes of (text, text or None), padded to one length, in their names."""
    examples = [Example("", text_a, text_b) for text_a, text_b in texts]
    encoded = encode_examples(examples, ("any",), tokenizer, max_seq_length)
    batch = make_batch(encoded, np.arange(len(texts)))
    padding = [(0, 0), (0, max_seq_length - batch["input_ids"].shape[1])]
    return {theirs: np.pad(batch[ours], padding) for ours, theirs in INPUTS.items()}


def assert_same_inputs(received, expected):
    assert set(received) == set(expected)
    for name, value in expected.items():
        assert received[name].dtype == tf.int32
        np.testing.assert_array_equal(received[name], value)


def test_single_texts_are_those_of_training(preprocessor, tokenizer):
    # As long as the model allows, below the 128 of TF Hub's preprocessors.
    expected = features(tokenizer, [(text, None) for text in SINGLE], 64)
    assert_same_inputs(preprocessor(tf.constant(SINGLE)), expected)
    ids = preprocessor.tokenize(tf.constant(["", *SINGLE]))
    assert ids.dtype == tf.int32
    assert ids.to_list() == tokenizer.encode_batch(["", *SINGLE])


@pytest.mark.parametrize("seq_length", [64, 23, 8, 5])
def test_pairs_are_those_of_training(preprocessor, tokenizer, seq_length):
    texts = TEXTS[:-1]
    ids = [preprocessor.tokenize(tf.constant(column)) for column in zip(*texts, strict=True)]
    expected = features(tokenizer, texts, seq_length)
    assert_same_inputs(preprocessor.bert_pack_inputs(ids, seq_length=seq_length), expected)
    length = tf.constant(seq_length)
    assert_same_inputs(preprocessor.bert_pack_inputs(ids, length), expected)


def test_special_tokens(preprocessor, tokenizer):
    special = preprocessor.tokenize.get_special_tokens_dict()
    assert {name: int(id_) for name, id_ in special.items()} == {
        "start_of_sequence_id": tokenizer.cls_id,
        "end_of_segment_id": tokenizer.sep_id,
        "padding_id": tokenizer.pad_id,
        "mask_id": tokenizer.mask_id,
        "vocab_size": tokenizer.vocab_size,
    }


@pytest.mark.parametrize("seq_length", [2, 65])
def test_refuses_a_length_that_the_encoder_lacks(preprocessor, seq_length):
    ids = preprocessor.tokenize(["the cat"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected seq_length from 3 to 64"):
        preprocessor.bert_pack_inputs([ids, ids], seq_length=seq_length)


def test_preprocessor_in_an_input_pipeline(preprocessor):
    rows = tf.data.Dataset.from_tensor_slices([a for a, _ in TEXTS]).batch(4).map(preprocessor)
    assert [batch["input_mask"].shape for batch in rows] == [(4, 64), (2, 64)]


@pytest.mark.slow
def test_a_process_without_albert_tf_trains_and_answers(paths, exported):
    program = (
        "import sys, tensorflow as tf\n"
        f"encoder = tf.saved_model.load({paths['encoder']!r})\n"
        "ids = tf.ones((1, 5), tf.int32)\n"
        "inputs = {'input_word_ids': ids, 'input_mask': ids, 'input_type_ids': 0 * ids}\n"
        "with tf.GradientTape() as tape:\n"
        "  loss = tf.reduce_sum(encoder(inputs, training=True)['default'] ** 2)\n"
        "gradients = tape.gradient(loss, encoder.trainable_variables)\n"
        "print(sum(bool(tf.reduce_any(tf.convert_to_tensor(g) != 0)) for g in gradients))\n"
        f"classify = tf.saved_model.load({exported['ids']!r}).signatures['serving_default']\n"
        "print(len(classify(input_ids=ids, input_mask=ids, segment_ids=0 * ids)['label']))\n"
        "print({'albert_tf', 'tensorflow_text', 'sentencepiece'} & set(sys.modules))\n"
        "import tensorflow_text\n"
        f"preprocessor = tf.saved_model.load({paths['preprocessor']!r})\n"
        "print(preprocessor(['the cat'])['input_mask'].shape)\n"
        "print('albert_tf' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    gradients, *others = result.stdout.splitlines()
    assert int(gradients) >= 24
    assert others == ["1", "set()", "(1, 64)", "False"]


@pytest.mark.slow
def test_wordpiece_vocabulary_and_encoder_without_heads(tmp_path):
    model = AlbertEncoder(tiny_config(num_hidden_layers=1), with_pooler=False, seed=1)
    tokenizer = WordPieceTokenizer(write_wordpiece(tmp_path / "vocab.txt", WORDS))
    paths = export_reusable(model, tokenizer, str(tmp_path))
    preprocessor = tf.saved_model.load(paths["preprocessor"])
    expected = features(tokenizer, [(text, None) for text in SINGLE], 64)
    assert_same_inputs(preprocessor(tf.constant(SINGLE)), expected)
    encoder = tf.saved_model.load(paths["encoder"])
    assert not hasattr(encoder, "mlm")
    assert encoder.vocab_file.asset_path.numpy().endswith(b"assets/vocab.txt")
    inputs = random_inputs()
    outputs, expected = encoder(encoder_inputs(inputs)), model(inputs)["sequence_output"]
    assert set(outputs) == {"default", "sequence_output", "encoder_outputs"}
    assert_close(outputs["default"], expected[:, 0])
