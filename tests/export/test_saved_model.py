import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import StoppedError
from albert_tf.export import ExportedModel, export
from albert_tf.export.saved_models import SEQUENCES_PER_SLICE, map_slices
from tests.export.kinds import OF_NAMES, SINGLE_TEXTS, VOCAB_SIZE, text_columns
from tests.helpers import random_inputs, refused


def test_text_model_computes_no_padding(exported, model, tokenizer):
    loaded = tf.saved_model.load(exported["text"])
    embedding = model.encoder.embedding.word_embeddings
    (table,) = (weight for weight in loaded.weights if weight.shape == embedding.shape)
    # Outputs at padding positions become a part of every answer.
    table.assign(np.where(np.arange(VOCAB_SIZE)[:, None] == tokenizer.pad_id, np.nan, embedding))
    texts = {name: tf.constant(column) for name, column in text_columns("classifier").items()}
    outputs = loaded.signatures["serving_default"](**texts)
    assert np.isfinite(outputs["probabilities"]).all()


# TensorFlow Serving cannot join the parts of a request whose outputs differ in N, the number of spans.
@pytest.mark.parametrize(("kind", "splits"), [("classifier", True), ("token_classifier", False)])
def test_files_of_both_models(kind, splits, exported_kind):
    paths = {name: pathlib.Path(path) for name, path in exported_kind(kind)[1].items()}
    for path in paths.values():
        labels = (path / "assets" / "labels.txt").read_text().splitlines()
        assert tuple(labels) == OF_NAMES[kind].labels
    parameters = (paths["text"] / "batching_params.pbtxt").read_text()
    assert ("max_execution_batch_size { value: 32 }" in parameters) == splits
    assert not (paths["ids"] / "batching_params.pbtxt").exists()


def test_a_failed_export_leaves_neither_form(tmp_path, model, tokenizer, monkeypatch):
    def save(module, path, **arguments):
        if "/text/" in path:
            raise OSError("No space left on device")
        pathlib.Path(path).mkdir(exist_ok=True)
        pathlib.Path(path, "saved_model.pb").touch()

    monkeypatch.setattr(tf.saved_model, "save", save)
    for name in ("ids/9", "ids/notes", "text/7", "text/011.incomplete"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(StoppedError, match="text/10: cannot be written: No space left"):
        export(model, SINGLE_TEXTS, tokenizer, str(tmp_path))
    assert {path.name for path in (tmp_path / "ids").iterdir()} == {"9", "notes"}
    assert {path.name for path in (tmp_path / "text").iterdir()} == {"7", "011.incomplete"}


def test_names_a_folder_that_cannot_be_made(tmp_path, model, tokenizer):
    (tmp_path / "file").write_text("")
    with refused("cannot make the folder"):
        export(model, SINGLE_TEXTS, tokenizer, str(tmp_path / "file"))


# In place of a model


def test_is_a_layer_of_a_keras_model(exported, model):
    layer = keras.layers.TFSMLayer(exported["ids"])
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    tensors = {name: keras.Input((None,), dtype="int32", name=name) for name in inputs}
    ids = tensors["input_ids"]
    outputs = layer(ids, **{name: tensors[name] for name in ("input_mask", "segment_ids")})
    app = keras.Model(tensors, outputs["logits"])
    np.testing.assert_allclose(app(inputs), model(inputs), rtol=0, atol=1e-5)


def save_module(path):
    module = tf.Module()
    module.weights = [tf.Variable(tf.ones(500))]
    module.answer = tf.function(lambda x: x, input_signature=[tf.TensorSpec((None,), tf.int32)])
    tf.saved_model.save(module, str(path), signatures={"answer": module.answer})


@pytest.mark.parametrize("name", ["variables.data-00000-of-00001", "variables.index"])
@pytest.mark.parametrize("size", [0, 100])
def test_truncated_variables(tmp_path, name, size):
    save_module(tmp_path)
    os.truncate(tmp_path / "variables" / name, size)
    with refused("cannot be loaded: ") as info:
        ExportedModel(str(tmp_path), dict)
    assert "\n" not in str(info.value)


def test_refuses_other_folders(tmp_path):
    with refused("holds no SavedModel; expected a version's folder"):
        ExportedModel(str(tmp_path), dict)
    (tmp_path / "saved_model.pb").write_bytes(b"neither a graph nor anything")
    with refused("cannot be loaded: "):
        ExportedModel(str(tmp_path), dict)
    save_module(tmp_path)
    with refused("is not a model that this package exported"):
        ExportedModel(str(tmp_path), dict)


# Slices give what the whole gives, a few rows at a time


def in_slices(function, *shape):
    """Applies `function` to the numbers 0, 1, ... in this shape, in a graph with free sizes."""
    spec = tf.TensorSpec([None] * len(shape), tf.int32)

    @tf.function(input_signature=[spec])
    def run(numbers):
        return map_slices(function, {"numbers": numbers})

    return run(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))


def sizes(given):
    """Of each row, of how many the slice is."""
    count = tf.shape(given["numbers"])[0]
    return tf.fill([count], count)


def test_slices_have_at_most_32_sequences():
    assert SEQUENCES_PER_SLICE == 32
    assert in_slices(sizes, 70, 3).numpy().tolist() == [32] * 64 + [6] * 6
    assert in_slices(sizes, 20, 5, 3).numpy().tolist() == [6] * 18 + [2] * 2
    assert in_slices(sizes, 2, 40, 3).numpy().tolist() == [1, 1]
    assert in_slices(sizes, 3, 0, 3).numpy().tolist() == [3] * 3


def test_static_shapes_are_kept():
    spec = tf.TensorSpec((None, 7), tf.int32)
    run = tf.function(lambda x: map_slices(lambda given: given["x"][:, :4], {"x": x}))
    assert run.get_concrete_function(spec).structured_outputs.shape.as_list() == [None, 4]
