"""Files that are damaged, or hold another model: one line says what is wrong, and nothing is loaded."""

import dataclasses
import json
import pathlib
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints.hugging_face_reader import is_folder
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.conversion import load_model
from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tokenization.vocabulary_files import find_vocabulary
from albert_tf.training.checkpoint_manager import Checkpoints, save_checkpoint
from tests.checkpoints.layouts import (
    KERAS_HUB_CONFIG,
    brightmart_pretrainer,
    config_of,
    folder_tensors,
    h5_bytes,
    keras_hub_config,
    keras_hub_tensors,
    original_tensors,
    random_model,
    write_folder,
    write_original,
    write_preset,
)
from tests.helpers import tiny_config


def assert_refused(model, path, message):
    """Asserts that a checkpoint is refused in one line, and that the model is unchanged."""
    before = model.get_weights()
    with pytest.raises(InputError, match=message) as caught:
        load_checkpoint(model, str(path))
    assert "\n" not in str(caught.value)
    for first, second in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(tiny_config())


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A folder with an encoder in every format."""
    folder = tmp_path_factory.mktemp("intact")
    model = AlbertEncoder(tiny_config())
    save_checkpoint(model, str(folder / "ours"))
    write_original(folder / "theirs", original_tensors(model))
    model.save(folder / "model.keras")
    backbone, _ = keras_hub_tensors()
    (folder / "model.weights.h5").write_bytes(h5_bytes(backbone))
    write_folder(folder / "hugging_face", "AlbertModel")
    return folder


_DAMAGED = "the checkpoint is damaged: "


@pytest.mark.parametrize(
    ("file", "path", "message"),
    [
        ("ours.index", "ours", _DAMAGED),
        ("ours.data-00000-of-00001", "ours", _DAMAGED),
        ("theirs.index", "theirs", _DAMAGED),
        ("theirs.data-00000-of-00001", "theirs", _DAMAGED),
        ("model.keras", "model.keras", r"model\.keras: cannot be read as a model of Keras"),
        ("model.weights.h5", "model.weights.h5", r"weights\.h5: the file is damaged: "),
        ("hugging_face/model.safetensors", "hugging_face", r"^\S+/model\.safetensors: the file i"),
    ],
)
def test_truncated_files_and_other_content(intact, encoder, file, path, message):
    content = (intact / file).read_bytes()
    try:
        for length in (0, 5, 100, len(content) // 2, len(content) - 50):
            (intact / file).write_bytes(content[:length])
            assert_refused(encoder, intact / path, message)
        (intact / file).write_bytes(b"something else" * 20)
        assert_refused(encoder, intact / path, message)
    finally:
        (intact / file).write_bytes(content)


def test_a_compressed_archive_with_damaged_bytes(intact, encoder):
    path = intact / "deflated.keras"
    with (
        zipfile.ZipFile(intact / "model.keras") as stored,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as deflated,
    ):
        for name in stored.namelist():
            deflated.writestr(name, stored.read(name))
        places = [info.header_offset + 30 + len(info.filename) for info in deflated.infolist()]
    content = bytearray(path.read_bytes())
    for place in places:
        content[place : place + 8] = b"\xff" * 8
    path.write_bytes(content)
    assert_refused(encoder, path, r"deflated\.keras: cannot be read as a model of Keras: Error -3")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "empty: the folder holds no checkpoint"),
        ("ckpt-3", "ckpt-3: there is no such checkpoint"),
        ("ckpt-3.index", "ckpt-3: there is no such checkpoint"),
        ("ckpt-3.data-00000-of-00001", "ckpt-3: there is no such checkpoint"),
        ("no.keras", r"no\.keras: there is no such file$"),
        ("alone", _DAMAGED),
        ("other", "expected .* formats: albert_tf; TensorFlow 1.*; Hugging Face; "),
        ("of_keras.weights.h5", r"does not say which model .* model\.save\('model\.keras'"),
        ("table.h5", "does not say which model its weights belong to"),
        ("hugging_face/model.safetensors", "model.safetensors: expected the folder that holds"),
    ],
)
def test_places_without_a_checkpoint(intact, encoder, name, message):
    if name == "empty":
        (intact / name).mkdir()
    elif name == "alone":  # without its data
        (intact / "alone.index").write_bytes((intact / "ours.index").read_bytes())
    elif name == "other":
        tf.train.Checkpoint(step=tf.Variable(1)).write(str(intact / name))
    elif name == "table.h5":
        with h5py.File(intact / name, "w") as file:
            file["layers/numbers"] = np.zeros(3)
    elif name.startswith("of_keras"):
        encoder.save_weights(intact / name)
    assert_refused(encoder, intact / name, message)


def test_brackets_in_a_path(tmp_path, intact, encoder):
    folder = tmp_path / "copy [1]"
    shutil.copytree(intact / "hugging_face", folder / "hugging_face")
    for path in intact.glob("ours.*"):
        shutil.copy(path, folder)
    message = r"TensorFlow takes '\[' for a pattern; expected a path without it$"
    for path in (folder, folder / "ours", folder / "ours.index"):
        assert_refused(encoder, path, message)
    with pytest.raises(InputError, match=message):
        Checkpoints(str(folder), {}, 1)
    # Only TensorFlow's.
    encoder = AlbertEncoder(config_of("AlbertModel"))
    (folder / "hugging_face" / "vocab.txt").write_text("[PAD]")
    assert load_checkpoint(encoder, str(folder / "hugging_face")).missing == ()
    assert find_vocabulary(str(folder / "hugging_face"))[1] is not None


def write(folder, layout, change=None):
    """Writes a model of a layout, or class of `transformers`, and returns it, as it is there, and where.

    `change` are tensors to add, to replace or, if None, to leave out.
    """
    if layout == "original":
        model = random_model("pretrainer", tiny_config())
        tensors = original_tensors(model)
    elif layout == "brightmart":
        model, tensors = brightmart_pretrainer()
    elif layout == "keras_hub":
        model, tensors = AlbertEncoder(KERAS_HUB_CONFIG), keras_hub_tensors()[0]
    else:
        model, tensors = AlbertEncoder(config_of(layout)), folder_tensors(layout)
        if layout.endswith("Classification"):
            model = AlbertClassifier(model, 3)
    tensors = {**tensors, **(change or {})}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if layout in ("original", "brightmart"):
        return model, write_original(folder / "ckpt", tensors)
    if layout == "keras_hub":
        return model, write_preset(folder / "preset", tensors)
    return model, write_folder(folder / "theirs", layout, tensors)


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


POOLER = "bert/pooler/dense"
ENCODER, DENSE = "layers/transformer_encoder", "layers/dense"
POOLER_OF_KERAS_HUB = ("layers/dense_1/vars/0", "layers/dense_1/vars/1")


@pytest.mark.parametrize(
    ("layout", "change", "message"),
    [
        (
            "original",
            {f"{POOLER}/kernel": None},
            rf"'{POOLER}/kernel' is not in it; the model's 'albert_encoder/pooler/dense/kernel' has "
            r"shape \(48, 48\); the closest in it is '.*' of shape",
        ),
        # Every model of the original has a pooler.
        ("original", {f"{POOLER}/kernel": None, f"{POOLER}/bias": None}, "/kernel' is not in it"),
        ("original", {f"{POOLER}/bias": zeros(47)}, r"/bias' has shape \(47,\); the .* \(48,\)"),
        (
            "original",
            {"cls/seq_relationship/output_weights": zeros(3, 48)},
            r"'cls/seq_relationship/output_weights' has shape \(3, 48\), transposed; "
            r"the model's '.*/sentence_order_head/dense/kernel' has shape \(48, 2\)",
        ),
        (
            "original",
            {"bert/encoder/transformer/group_1/inner_group_0/LayerNorm/beta": zeros(48)},
            "holds 'bert/.*group_1/.*/beta', for which the model of this config has no place",
        ),
        (
            "original",
            {f"{POOLER}/bias": np.full(48, b"a")},
            "is of type string; .*bias' is float32",
        ),
        (
            "brightmart",
            {"bert/embeddings/word_embeddings": np.zeros((97, 5), np.float32)},
            r"word_embeddings_2' has shape \(97, 5\) x \(16, 48\); the model's '.*' has shape \(97, 48",
        ),
        (
            "AlbertModel",
            {"encoder.embedding_hidden_mapping_in.weight": np.zeros((), np.float32)},
            r"mapping_in.weight' has shape \(\), transposed; the model's",
        ),
        (
            "keras_hub",
            {f"{ENCODER}/_feedforward_layer_norm/vars/0": None},
            "'albert_backbone/transformer_encoder/_feedforward_layer_norm/0' is not in it; the",
        ),
        (
            "keras_hub",
            {f"{ENCODER}_4/_self_attention_layer_norm/vars/0": zeros(48)},
            "encoder_4/.*for which the model of this config has no",
        ),
        ("keras_hub", {f"{DENSE}/vars/0": zeros(16, 48, dtype="i1")}, "'dense/0' is of type int8"),
        # A BERT.
        ("keras_hub", dict.fromkeys(POOLER_OF_KERAS_HUB), "holds another model of KerasHub"),
        ("AlbertModel", {"pooler.weight": zeros(48, 48, dtype="i1")}, "is of type I8; expected F3"),
        ("AlbertForMaskedLM", {"predictions.decoder.bias": zeros(97)}, "differs from 'predictions"),
        ("AlbertModel", dict.fromkeys(folder_tensors("AlbertModel")), "theirs: holds no tensor$"),
        ("keras_hub", dict.fromkeys(keras_hub_tensors()[0]), "preset: holds no tensor$"),
        ("AlbertModel", {"pooler.bias": None}, "'pooler.bias' is not in it"),
        ("AlbertForSequenceClassification", {"classifier.bias": None}, "is not in it; the model's"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, layout, change, message):
    model, path = write(tmp_path, layout, change)
    assert_refused(model, path, message)


def test_a_head_without_the_pooler_that_it_reads(tmp_path):
    change = dict.fromkeys(("bert/pooler/dense/kernel", "bert/pooler/dense/bias"))
    path = write(tmp_path, "original", change)[1]
    with pytest.raises(InputError, match=f"^{path}: encoder: AlbertPretrainer needs one"):
        load_model(tiny_config(), path)


def test_weights_of_ours_that_do_not_fit(tmp_path, encoder):
    save_checkpoint(AlbertEncoder(tiny_config(sharing="none")), str(tmp_path / "layers"))
    fewer = AlbertEncoder(tiny_config(sharing="none", num_hidden_layers=2))
    message = "holds 'albert_encoder/block_2/.* has no place"
    assert_refused(fewer, tmp_path / "layers", message)
    save_checkpoint(AlbertClassifier(encoder, 7), str(tmp_path / "classes"))
    message = r"head/dense/kernel' has shape \(48, 7\); .* \(48, 3\)"
    assert_refused(AlbertClassifier(encoder, 3), tmp_path / "classes", message)


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        ("brightmart", {"embedding_size": 16}, "embedding_size is 16; expected 48, the hidden"),
        ("brightmart", {"inner_group_num": 2}, "the config has 1 groups of 2 blocks"),
        ("brightmart", {"sharing": "none"}, "the config has 3 groups of 1 blocks"),
        ("brightmart", {"sharing": "attention"}, "sharing 'attention' .* brightmart's check"),
        *(
            (architecture, changes, f"config.json has {message}")
            for architecture, changes, message in [
                ("AlbertModel", {"num_attention_heads": 3}, "num_attention_heads 4; .* has 3"),
                ("AlbertModel", {"num_hidden_layers": 6}, "num_hidden_layers 3; .* config has 6"),
                ("AlbertModel", {"hidden_act": "relu"}, "hidden_act 'gelu'; .* has 'relu'"),
                ("AlbertModel", {"vocab_size": 96}, "vocab_size 97; the model's config has 96"),
                ("BertModel", {"embedding_size": 16}, "embedding_size 48; .* config has 16"),
                ("BertModel", {"sharing": "all"}, "sharing 'none'; .* has 'all'"),
            ]
        ),
        ("keras_hub", {"num_hidden_layers": 8}, "num_layers is 4 there; .* num_hidden_layers 8"),
        ("keras_hub", {"num_attention_heads": 6}, "num_heads is 4 there; .* num_attention_heads 6"),
        ("keras_hub", {"hidden_act": "relu"}, "hidden_act is 'relu'; KerasHub's models have only"),
        ("keras_hub", {"sharing": "attention"}, "KerasHub's checkpoints hold whole blocks only"),
        ("keras_hub", {"num_hidden_layers": 3}, "3 layers in 2 groups: KerasHub has no such model"),
    ],
)
def test_config_of_another_model(tmp_path, layout, changes, message):
    model, path = write(tmp_path, layout)
    config = dataclasses.replace(getattr(model, "encoder", model).config, **changes)
    names = {"brightmart": "TensorFlow 1, brightmart's names", "keras_hub": "KerasHub"}
    place = rf"^{path} \({names.get(layout, f'Hugging Face, {layout}')}\): "
    assert_refused(AlbertEncoder(config), path, place + f".*{message}")


def test_another_config_of_keras_hub(tmp_path):
    tensors = keras_hub_tensors()[0]
    bert = write_preset(tmp_path / "bert", tensors, config=keras_hub_config("BertBackbone"))
    message = r"bert/config\.json: class_name is 'BertBackbone'; of KerasHub's models only AlbertB"
    assert_refused(AlbertEncoder(KERAS_HUB_CONFIG), bert, message)
    with pytest.raises(InputError, match=message):
        AlbertEncoder.from_preset(bert)
    incomplete = keras_hub_config()
    del incomplete["config"]["num_heads"]
    path = write_preset(tmp_path / "incomplete", tensors, config=incomplete)
    with pytest.raises(InputError, match=r"config\.json: key 'num_heads' is missing"):
        AlbertEncoder.from_preset(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["AlbertForNextSentencePrediction"]}, "architecture .* is not one of A"),
        ({"architectures": None}, "architecture None is not one of AlbertM"),
    ],
)
def test_architectures_that_we_do_not_have(tmp_path, changes, message):
    folder = write_folder(tmp_path / "theirs", "AlbertForQuestionAnswering", **changes)
    config = config_of("AlbertForQuestionAnswering")
    with pytest.raises(InputError, match=f"config.json: {message}"):
        load_model(config, folder)
    # Its encoder is like any other's.
    report = load_checkpoint(AlbertEncoder(config), folder)
    assert report.unexpected == ("qa_outputs.bias", "qa_outputs.weight")


def test_incomplete_folders(tmp_path, encoder):
    folder = pathlib.Path(write_folder(tmp_path / "roberta", "AlbertModel", model_type="roberta"))
    assert_refused(encoder, folder, "config.json: expected .* model_type 'albert' or 'bert'")
    (folder / "config.json").unlink()
    assert_refused(encoder, folder, r"roberta/config.json: cannot be read")

    folder = pathlib.Path(write_folder(tmp_path / "theirs", "AlbertModel"))
    (folder / "model.safetensors").unlink()
    assert is_folder(str(folder))
    assert_refused(encoder, folder, r"theirs: holds .* expected model.safetensors$")
    # Next to a checkpoint of TensorFlow, their config describes that checkpoint.
    (folder / "model.ckpt-best.index").write_bytes(b"")
    assert not is_folder(str(folder))
    # Our runs write a config.json too.
    (tmp_path / "config.json").write_text("{}")
    assert not is_folder(str(tmp_path))

    pickle = tmp_path / "pickle" / "pytorch_model.bin"
    pickle.parent.mkdir()
    pickle.write_bytes(b"whatever it holds")
    for path in (pickle.parent, pickle):
        assert_refused(encoder, path, r"pytorch_model.bin is a pickle, which can run")


def write_shards(folder, **changes):
    """Writes a folder whose tensors are in two files; `changes` are of the index's `weight_map`."""
    tensors = folder_tensors("AlbertForMaskedLM")
    folder = pathlib.Path(write_folder(folder, "AlbertForMaskedLM", {}))
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    file_of = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        safetensors.numpy.save_file({name: tensors[name] for name in part}, folder / file)
        file_of |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": {**file_of, **changes}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_indices_of_several_files(tmp_path, encoder):
    folder = write_shards(tmp_path / "shards")
    index = folder / "model.safetensors.index.json"
    elsewhere = ["../model.safetensors", "/etc/model.safetensors", "parts/a", "..", "", 3, None]
    for number, file in enumerate(elsewhere):
        other = write_shards(tmp_path / str(number), **{"predictions.bias": file})
        assert_refused(encoder, other, r"index.json: 'predictions.bias' is in .*; expected the n")
    other = write_shards(tmp_path / "more", more="model-00001-of-00002.safetensors")
    assert_refused(encoder, other, r"index.json: lists 'more' in .*, which does not hold it")
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert_refused(encoder, folder, r"model-00002-of-00002.safetensors: cannot be read")
    for content in ("[]", "{}", '{"weight_map": {}}', '{"weight_map": ["a"]}'):
        index.write_text(content)
        assert_refused(encoder, folder, r"index.json: expected an object with a 'weight_map'")
