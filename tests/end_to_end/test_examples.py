"""The examples: the model on one page, a classifier with Keras, a notebook."""

import os
import runpy
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.conversion import save_model
from albert_tf.losses import PretrainingLoss, batch_loss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from examples import from_scratch
from tests.helpers import ROOT, random_pretraining_batches, tiny_config
from tests.tasks.animals import write_rows, write_vocabulary
from tests.tasks.language import write_language

SIZES = {"vocab_size": 97, "embedding_size": 16, "hidden_size": 48}


def make_models():
    """Returns the page's model and the package's, with the same weights."""
    page = from_scratch.Albert(**SIZES, num_layers=3, num_heads=4, max_length=64)
    config = tiny_config(num_hidden_layers=3, intermediate_size=4 * 48)
    package = AlbertPretrainer(AlbertEncoder(config))
    (batch,) = random_pretraining_batches(1)
    page(batch)
    rng = np.random.default_rng(0)
    for variable in page.trainable_variables:
        variable.assign(rng.normal(0.0, 0.2, variable.shape))
    return page, package, batch


def pairs_of(page, package):
    encoder, block = package.encoder, package.encoder.blocks[0]
    attention, feed_forward = block.attention, block.feed_forward
    layers = [
        (page.embedding.norm, encoder.embedding.layer_norm),
        (page.embedding.projection, encoder.embedding.projection),
        (page.block.query, attention.query),
        (page.block.key, attention.key),
        (page.block.value, attention.value),
        (page.block.attention_output, attention.output_dense),
        (page.block.attention_norm, attention.layer_norm),
        (page.block.intermediate, feed_forward.intermediate),
        (page.block.output_dense, feed_forward.output_dense),
        (page.block.output_norm, feed_forward.layer_norm),
        (page.transform, package.masked_lm_head.transform),
        (page.transform_norm, package.masked_lm_head.layer_norm),
        (page.pooler, encoder.pooler.dense),
        (page.order, package.sentence_order_head.dense),
    ]
    tables = page.embedding.tables
    yield page.output_bias, package.masked_lm_head.output_bias
    yield tables["words"], encoder.embedding.word_embeddings
    yield tables["positions"], encoder.embedding.position_embeddings
    yield tables["segments"], encoder.embedding.segment_embeddings
    for ours, theirs in layers:
        yield from zip(ours.weights, theirs.weights, strict=True)


def test_page_has_the_packages_losses_and_gradients():
    page, package, batch = make_models()
    pairs = list(pairs_of(page, package))
    assert len(pairs) == len(page.weights) == len(package.weights)
    for ours, theirs in pairs:
        theirs.assign(ours)
    (masked_lm, order), gradients = from_scratch.loss_and_gradients(page, batch)
    with tf.GradientTape() as tape:
        expected = batch_loss(PretrainingLoss(), batch, package(batch, training=True))
    expected_gradients = tape.gradient(expected, [theirs for _, theirs in pairs])
    np.testing.assert_allclose(masked_lm + order, expected, rtol=1e-6)
    number = {id(v): index for index, v in enumerate(page.trainable_variables)}
    for (ours, _), gradient in zip(pairs, expected_gradients, strict=True):
        received, expected = gradients[number[id(ours)]], tf.convert_to_tensor(gradient)
        np.testing.assert_allclose(received, expected, 1e-4, 1e-6, err_msg=ours.path)


@pytest.mark.slow
def test_page_learns_from_records(tmp_path, capsys):
    page, _, _ = make_models()
    keras.utils.set_random_seed(1)
    path = str(tmp_path / "train.tfrecord")
    write_language(path, 8, seed=1)
    batches = from_scratch.read_records([path], batch_size=8)
    before = [float(loss) for loss in from_scratch.losses(page, next(iter(batches)))]
    from_scratch.train(page, batches, num_steps=100, learning_rate=0.02)
    after = [float(loss) for loss in from_scratch.losses(page, next(iter(batches)))]
    assert after[0] < before[0] - 1.0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.slow
def test_keras_example_trains_saves_and_serves(tmp_path, monkeypatch, capsys):
    write_vocabulary(tmp_path / "vocabulary.model")
    for name, count, seed in (("train", 64, 1), ("dev", 16, 2)):
        write_rows(tmp_path / f"{name}.tsv", count, seed)
        rows = [line.split("\t") for line in (tmp_path / f"{name}.tsv").read_text().splitlines()]
        lines = ["label,text", *(f"{int(label == 'plant')},{text}" for text, label in rows[1:])]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    config = tiny_config(vocab_size=50, num_hidden_layers=1)
    save_model(AlbertPretrainer(AlbertEncoder(config)), str(tmp_path / "pretrained"))

    names = ("pretrained", "vocabulary.model", "train.csv", "dev.csv", "output")
    monkeypatch.setattr("sys.argv", ["classify.py", *(str(tmp_path / name) for name in names)])
    with pytest.warns(UserWarning, match="head/dense/kernel.*; initialised randomly"):
        runpy.run_path(str(ROOT / "examples" / "keras" / "classify.py"))
    printed = capsys.readouterr().out
    assert "'accuracy':" in printed

    texts = tf.constant(["the old cat", "a rose"])
    model = keras.models.load_model(tmp_path / "output" / "classifier.keras")
    served = tf.saved_model.load(str(tmp_path / "output" / "1"))
    np.testing.assert_allclose(served.serve(texts), model(texts), atol=1e-5)


@pytest.mark.slow
def test_notebook_runs_and_its_model_answers(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    commands = tmp_path / "bin"
    commands.mkdir()
    for function in ("create_pretraining_data", "pretrain"):
        script = f"#!{sys.executable}\nfrom albert_tf import commands\ncommands.{function}()\n"
        path = commands / f"albert-{function}".replace("_", "-")
        path.write_text(script)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)

    path = ROOT / "examples" / "notebook" / "raw_text_to_answer.ipynb"
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # raises if a cell fails
    (asked,) = (cell for cell in notebook.cells if "classify(text_a=" in cell.source)
    assert asked.outputs[-1]["data"]["text/plain"] == "[b'food', b'sport']"
