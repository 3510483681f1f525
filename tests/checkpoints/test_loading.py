"""What is loaded into a model: parts that are missing or not needed, and the reports of them."""

import hashlib
import os
import pathlib
import shlex
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.checkpoints.safetensors_files import write_tensors
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.checkpoints.tensors import Stored, variables_by_path
from albert_tf.conversion import save_model, save_tf1_checkpoint
from albert_tf.errors import InputError
from albert_tf.models import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertPretrainer,
    AlbertTokenClassifier,
)
from tests.checkpoints.layouts import MODELS, config_of, folder_tensors, model_of, write_folder
from tests.checkpoints.test_damage import write_shards
from tests.helpers import ROOT, assert_same_weights, refused, tiny_config


def save_ours(model, path):
    """Writes a model under our names, as the state of a run."""
    folder = pathlib.Path(path)
    folder.mkdir()
    state = folder / "step-7.safetensors"
    write_tensors(str(state), {each.path: each.numpy() for each in model.weights})
    return str(state)


@pytest.fixture
def pretrainer():
    return AlbertPretrainer(AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1), seed=2)


@pytest.mark.parametrize(
    ("save_as", "kind"),
    [
        *((save_ours, kind) for kind in MODELS if kind not in ("encoder", "masked lm")),
        (save_tf1_checkpoint, "classifier"),
        (save_model, "span labeler"),
        (save_tf1_checkpoint, "token classifier"),
        (save_model, "conditional span labeler"),
    ],
)
def test_missing_heads_are_initialised_randomly(tmp_path, save_as, kind):
    encoder = AlbertEncoder(tiny_config(), seed=1)
    theirs = save_as(encoder, str(tmp_path / "theirs")) or str(tmp_path / "theirs")
    model = MODELS[kind](AlbertEncoder(tiny_config(), seed=2))
    of_heads = {
        path: variable.numpy()
        for path, variable in variables_by_path(model.weights).items()
        if not path.startswith("albert_encoder/")
    }
    report = load_checkpoint(model, theirs)
    assert set(report.missing) == set(of_heads)
    assert report.unexpected == ()
    variables = variables_by_path(model.weights)
    for path, value in of_heads.items():
        np.testing.assert_array_equal(variables[path], value)
    assert_same_weights(model.encoder, encoder)
    assert f"missing, initialised randomly: {report.missing[0]}" in report.summary()
    message = rf"theirs.* \(.*\): lacks {report.missing[0]}[,;] .*training"
    with refused(message):
        report.check_complete()
    assert load_checkpoint(model.encoder, theirs).check_complete() is None


@pytest.mark.parametrize("save_as", [save_tf1_checkpoint, save_model])
def test_one_of_two_heads_is_initialised_randomly(tmp_path, save_as, pretrainer):
    model = AlbertPretrainer(pretrainer.encoder, sentence_head=False)
    save_as(model, str(tmp_path / "c"))
    assert load_checkpoint(pretrainer, str(tmp_path / "c")).missing == (
        "albert_pretrainer/sentence_order_head/dense/kernel",
        "albert_pretrainer/sentence_order_head/dense/bias",
    )


def test_poolers_may_be_left_and_missing(tmp_path, pretrainer):
    path = save_ours(pretrainer, tmp_path / "ours")
    encoder = AlbertEncoder(pretrainer.encoder.config, with_pooler=False)
    report = load_checkpoint(encoder, path)
    assert "albert_encoder/pooler/dense/bias" in report.unexpected

    folder = write_folder(tmp_path / "theirs", "AlbertForMaskedLM")
    classifier = AlbertClassifier(AlbertEncoder(config_of("AlbertForMaskedLM")), num_classes=2)
    before = classifier.encoder.pooler.get_weights()[0]
    report = load_checkpoint(classifier.encoder, folder)
    assert report.missing == tuple(f"albert_encoder/pooler/dense/{x}" for x in ("kernel", "bias"))
    assert report.missing[0] in report.summary()
    np.testing.assert_array_equal(classifier.encoder.pooler.dense.kernel, before)
    expected = model_of("AlbertForMaskedLM").encoder.embedding
    received = classifier.encoder.embedding
    np.testing.assert_array_equal(received.word_embeddings, expected.word_embeddings)
    assert {name.split(".")[0] for name in report.unexpected} == {"predictions"}


@pytest.mark.parametrize("stored", ["SequenceClassification", "TokenClassification"])
def test_a_classifier_of_texts_is_none_of_tokens(tmp_path, stored):
    architecture = f"AlbertFor{stored}"
    folder = write_folder(tmp_path / "theirs", architecture)
    model = model_of(architecture)
    assert load_checkpoint(model, folder).missing == ()
    other = AlbertTokenClassifier if isinstance(model, AlbertClassifier) else AlbertClassifier
    encoder = AlbertEncoder(config_of(architecture))
    report = load_checkpoint(other(encoder, num_classes=3), folder)
    assert [path for path in report.missing if "/dense/kernel" in path and "head/" in path]
    assert report.unexpected == ("classifier.bias", "classifier.weight")


def test_a_trained_folder_means_its_best_model(tmp_path, pretrainer):
    config = pretrainer.encoder.config
    other = AlbertPretrainer(AlbertEncoder(config, seed=2), seed=2)
    best = str(tmp_path / "best")
    save_model(other, best)
    # Whatever names a model and its encoder have.
    named = AlbertPretrainer(AlbertEncoder(config, name="student"), name="teacher")
    assert load_checkpoint(named, str(tmp_path)).prefix == best
    assert_same_weights(named, other)
    assert_same_weights(AlbertPretrainer.from_preset(tmp_path), other)
    # While a run replaces it, the folder has another name for a moment.
    os.rename(best, f"{best}.previous")
    assert load_checkpoint(pretrainer, str(tmp_path)).prefix == f"{best}.previous"


def test_names_of_a_checkpoint_of_tensorflow(tmp_path, pretrainer):
    prefix = str(tmp_path / "model.ckpt-best")
    save_tf1_checkpoint(pretrainer, prefix)
    # A file of it, and its folder, in which no file names the only checkpoint.
    for path in (*(prefix + end for end in (".index", ".data-00000-of-00001", ".meta")), tmp_path):
        assert load_checkpoint(pretrainer.encoder, str(path)).prefix == prefix
    save_tf1_checkpoint(pretrainer, str(tmp_path / "model.ckpt-other"))
    with refused(r"several checkpoints \(model.ckpt-best, model.ckpt-oth"):
        load_checkpoint(pretrainer.encoder, str(tmp_path))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-other"')
    assert load_checkpoint(pretrainer.encoder, str(tmp_path)).prefix.endswith("model.ckpt-other")


KERAS_IMPORTS = ["from albert_tf.models import AlbertEncoder", "from albert_tf import Lamb"]


@pytest.mark.slow
@pytest.mark.parametrize("line", KERAS_IMPORTS)
def test_one_import_registers_all_classes_of_keras_files(line):
    names = ("AlbertPretrainer", "Lamb", "PolynomialDecayWithWarmup", "Preprocessor")
    program = f"""
import keras
{line}
assert all(keras.saving.get_registered_object("albert_tf>" + name) for name in {names})
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_tensors_in_several_files_are_those_of_one(tmp_path):
    folder = write_shards(tmp_path / "shards")
    reader = StoredModel.at(str(folder)).reader
    tensors = folder_tensors("AlbertForMaskedLM")
    assert reader.shapes == {name: tensor.shape for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(reader.read(Stored((name,))), tensor)
    assert reader.sha256 == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("*.safetensors")
    }


@pytest.mark.slow
def test_command_that_the_message_gives_converts_a_pickle(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the group parity: torch")
    tensors = folder_tensors("AlbertForMaskedLM")
    theirs = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    # Two names for one tensor, as old files have them.
    theirs["predictions.decoder.bias"] = theirs["predictions.bias"]
    torch.save(theirs, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError) as error:
        load_checkpoint(AlbertPretrainer(AlbertEncoder(tiny_config())), str(tmp_path))
    command = shlex.split(str(error.value).split("in its folder: ")[1])
    subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, check=True)
    received = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    assert set(received) == set(theirs)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(received[name], tensor)
