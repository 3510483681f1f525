"""The models under the other backends of Keras, which `make test-backends` runs.

The losses are those of docs/keras.md. The reference arrays are those of the original implementation.
"""

import functools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertPretrainer,
    AlbertTokenizer,
    Preprocessor,
    fill_mask,
    load,
    score_sentences,
)
from albert_tf.backends import BACKEND
from albert_tf.errors import InputError
from albert_tf.export import export_reusable
from albert_tf.training import Trainer
from tests.helpers import ROOT, assert_agrees, random_inputs, refused, shared_path, tiny_config
from tests.models.test_base_model import make_inputs, make_model
from tests.models.test_keras_protocol import RECIPES
from tests.parity.heads import HEADS, compare_head

TOLERANCE = 1e-5
INPUTS = ("input_ids", "input_mask", "segment_ids")

pytestmark = pytest.mark.skipif(
    BACKEND == "tensorflow", reason="needs KERAS_BACKEND=jax or KERAS_BACKEND=torch"
)


def run_with_gradients(variables, compute):
    """Returns, as arrays, the loss and the outputs that `compute` returns, and the loss's gradients."""
    values = [variable.value for variable in variables]
    if BACKEND == "jax":
        import jax

        def run(values):
            with keras.StatelessScope(zip(variables, values, strict=True)):
                return compute()

        (loss, outputs), gradients = jax.jit(jax.value_and_grad(run, has_aux=True))(values)
    else:
        import torch

        loss, outputs = compute()
        gradients = torch.autograd.grad(loss, values)
    return keras.tree.map_structure(ops.convert_to_numpy, (loss, outputs, list(gradients)))


def make_loss(name, model):
    recipe = RECIPES[name]
    model.compile(**recipe.arguments)
    return lambda batch, outputs: model.compute_loss(
        {key: batch[key] for key in INPUTS}, recipe.labels(batch), outputs, recipe.weights(batch)
    )


@pytest.mark.parametrize("name", HEADS)
def test_outputs_loss_and_gradients_equal_the_reference(name):
    loss = functools.partial(make_loss, name)
    assert_agrees(compare_head(name, loss, run_with_gradients))


@pytest.mark.parametrize("name", ["conditional_span_labeler", "pretrainer"])
def test_functional_models_of_any_length(name):
    model, inputs = make_model(name, tiny_config(max_position_embeddings=128)), make_inputs(name)
    symbols = {key: keras.Input((None,), dtype="int32", name=key) for key in inputs}
    outputs = keras.Model(symbols, model(symbols)).predict(inputs, verbose=0)
    keras.tree.map_structure(
        functools.partial(np.testing.assert_allclose, atol=TOLERANCE),
        outputs,
        model.predict(inputs, verbose=0),
    )


def test_recomputed_activations_have_the_same_gradients():
    inputs = random_inputs()
    results = []
    for remat in (False, True):
        config = tiny_config(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
        encoder = AlbertEncoder(config, remat=remat, seed=1)

        def compute(encoder=encoder):
            outputs = encoder(inputs, training=True)["pooled_output"]
            return ops.sum(outputs**2), outputs

        results.append(run_with_gradients(encoder.trainable_variables, compute))
    (loss, _, gradients), (remat_loss, _, remat_gradients) = results
    np.testing.assert_allclose(remat_loss, loss, rtol=1e-5)
    assert max(np.abs(gradient).max() for gradient in gradients) > 0.1
    for ours, theirs in zip(remat_gradients, gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=TOLERANCE)


@pytest.mark.parametrize("remat", [False, True])
def test_fit_uses_the_weights_it_updates(remat):
    config = tiny_config(num_hidden_layers=2, initializer_range=0.2)
    encoder = AlbertEncoder(config, remat=remat, seed=1)
    model = AlbertClassifier(encoder, num_classes=2, dropout=0.0, seed=2)
    inputs, labels = random_inputs(8), np.arange(8) % 2
    (is_token,) = np.nonzero(inputs["input_mask"].ravel())
    model.compile(keras.optimizers.Adam(1e-2), **RECIPES["classifier"].arguments)
    losses = [model.train_on_batch({**inputs, "token_positions": is_token}, labels)]
    losses += [model.train_on_batch(inputs, labels) for _ in range(4)]
    assert losses[-1] < 0.8 * losses[0]
    kernel = encoder.blocks[0].attention.query.kernel
    fresh = AlbertEncoder(config, seed=1).blocks[0].attention.query.kernel
    assert np.abs(ops.convert_to_numpy(kernel) - ops.convert_to_numpy(fresh)).max() > 1e-3


def test_preprocessor_maps_texts_but_is_no_part_of_a_model():
    import tensorflow as tf

    vocabulary = shared_path("data/sentencepiece/30k-clean.model")
    tokenizer = AlbertTokenizer(str(vocabulary))
    preprocessor = Preprocessor(tokenizer, max_seq_length=8)
    inputs = preprocessor(["a fine film.", "no"])
    assert ops.is_tensor(inputs["input_ids"])
    expected = [tokenizer.cls_id, *tokenizer.encode("no"), tokenizer.sep_id]
    ids = ops.convert_to_numpy(inputs["input_ids"])[1].tolist()
    assert ids[: len(expected)] == expected
    batches = tf.data.Dataset.from_tensors(["a fine film.", "no"]).map(preprocessor)
    (batch,) = batches.as_numpy_iterator()
    assert batch["input_ids"][1].tolist() == ids
    model = AlbertEncoder(tiny_config(vocab_size=tokenizer.vocab_size))
    assert model.predict(batches, verbose=0)["pooled_output"].shape == (2, 48)
    with refused("Preprocessor in a model needs the TensorFlow backend"):
        preprocessor(keras.Input((), dtype="string"))


def test_a_pretrainer_fills_masks_and_scores_sentences():
    model, tokenizer = (x.from_preset("small_en") for x in (AlbertPretrainer, AlbertTokenizer))
    # As the README has it.
    (fillings,) = fill_mask(model, tokenizer, "She put on [MASK] coat.")
    assert [filling.text for filling in fillings] == ["her", "his", "the", "a", "this"]
    (fillings,) = fill_mask(model, tokenizer, "[MASK]", top_k=tokenizer.vocab_size)
    probability = next(filling.probability for filling in fillings if filling.piece == "▁the")
    scores = score_sentences(model, tokenizer, ["the", ""])
    np.testing.assert_allclose(scores, [np.log(probability), 0.0], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda folder: load(folder), "albert_tf.load"),
        (lambda folder: Trainer(None, None, None, None, seed=0), "Trainer"),
        (lambda folder: export_reusable(AlbertEncoder(tiny_config()), None, folder), "export"),
        (lambda folder: AlbertEncoder(tiny_config()).export(folder), "AlbertEncoder.export"),
    ],
)
def test_a_part_that_needs_tensorflow_says_so(call, part, tmp_path):
    with pytest.raises(InputError) as error:
        call(str(tmp_path))
    assert str(error.value) == f"{part} needs the TensorFlow backend; KERAS_BACKEND is {BACKEND}"


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (BACKEND, f"this command needs the TensorFlow backend; KERAS_BACKEND is {BACKEND}"),
        ("numpy", "KERAS_BACKEND is numpy; expected one of tensorflow, jax, torch"),
    ],
)
def test_a_command_refuses_another_backend_in_one_line(backend, message, tmp_path):
    done = subprocess.run(
        [sys.executable, "run_classifier.py", f"--output_dir={tmp_path}", "--predict_file=-"],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"run_classifier.py: error: {message}"
    assert "Traceback" not in done.stderr


def test_the_example_pre_trains_the_shipped_model(tmp_path):
    def run(command, backend):
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )

    sizes = ["--max_seq_length=32", "--max_predictions_per_seq=6"]
    files = ["--input_format=text", f"--input_file={ROOT / 'README.md'}"]
    output = "--output_file=train.tfrecord"
    create = [str(ROOT / "create_pretraining_data.py"), "--model=small_en", *files, output, *sizes]
    run([*create, "--dupe_factor=2"], "tensorflow")
    pretrain = [str(ROOT / "examples" / "keras" / "pretrain.py"), "small_en", "train*.tfrecord"]
    steps = ["--train_batch_size=4", "--num_train_steps=3", "--warmup_steps=1"]
    done = run([*pretrain, "trained", *sizes, *steps], BACKEND)
    assert "masked_lm_logits_accuracy" in done.stdout
    before = AlbertPretrainer.from_preset("small_en").get_weights()
    after = AlbertPretrainer.from_preset(tmp_path / "trained").get_weights()
    changes = [np.abs(old - new).max() for old, new in zip(before, after, strict=True)]
    assert 1e-4 < max(changes) < 0.5  # NaN fails, too

    run([*pretrain, "longer", *sizes, *steps, "--trained_positions=24"], BACKEND)
    longer = AlbertPretrainer.from_preset(tmp_path / "longer")
    for weight, old, new in zip(longer.weights, before, longer.get_weights(), strict=True):
        kept = len(old)
        if weight.path.endswith("position_embeddings"):
            kept = 24
            assert np.all(new[24:] != old[24:])
        np.testing.assert_array_equal(new[:kept], old[:kept])
