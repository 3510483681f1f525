"""Files that are damaged, or hold another model: one line says what is wrong, and nothing is loaded."""

import dataclasses
import functools
import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints.hugging_face_reader import is_folder
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.conversion import architecture_of, load_model, save_model
from albert_tf.errors import InputError
from albert_tf.kinds import Classification
from albert_tf.model_folder import ModelFolder
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from albert_tf.tokenization.vocabulary_files import find_vocabulary
from tests.checkpoints.layouts import (
    ARCHITECTURES,
    KERAS_HUB_CONFIG,
    brightmart_pretrainer,
    config_of,
    folder_tensors,
    keras_hub_config,
    keras_hub_tensors,
    original_tensors,
    random_model,
    write_folder,
    write_original,
    write_preset,
)
from tests.helpers import change_json, refused, tiny_config
from tests.tokenization.conftest import train_model


def assert_refused(model, path, message):
    """Asserts that a checkpoint is refused in one line, and that the model is unchanged."""
    before = model.get_weights()
    with refused(message) as caught:
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
    write_original(folder / "theirs", original_tensors(AlbertEncoder(tiny_config())))
    write_preset(folder / "preset", keras_hub_tensors()[0])
    write_folder(folder / "hugging_face", "AlbertModel")
    return folder


_DAMAGED = "the checkpoint is damaged: "


@pytest.mark.parametrize(
    ("file", "path", "message"),
    [
        ("theirs.index", "theirs", _DAMAGED),
        ("theirs.data-00000-of-00001", "theirs", _DAMAGED),
        ("preset/model.weights.h5", "preset", r"weights\.h5: the file is damaged: "),
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "empty: the folder holds no model"),
        ("ckpt-3", "ckpt-3: there is no such checkpoint"),
        ("ckpt-3.index", "ckpt-3: there is no such checkpoint"),
        ("ckpt-3.data-00000-of-00001", "ckpt-3: there is no such checkpoint"),
        ("alone", _DAMAGED),
        ("ours.keras", r"ours\.keras: a file of another format .*save_model writes$"),
        ("other", "expected a model in one of these formats: Hugging Face; Tens"),
        ("hugging_face/model.safetensors", "model.safetensors: expected the folder that holds"),
    ],
)
def test_places_without_a_checkpoint(intact, encoder, name, message):
    if name == "empty":
        (intact / name).mkdir()
    elif name == "alone":  # without its data
        (intact / "alone.index").write_bytes((intact / "theirs.index").read_bytes())
    elif name == "ours.keras":
        encoder.save(intact / name)
    elif name == "other":
        tf.train.Checkpoint(step=tf.Variable(1)).write(str(intact / name))
    assert_refused(encoder, intact / name, message)


def test_brackets_in_a_path(tmp_path, intact, encoder):
    folder = tmp_path / "copy [1]"
    shutil.copytree(intact / "hugging_face", folder / "hugging_face")
    for path in intact.glob("theirs.*"):
        shutil.copy(path, folder)
    message = r"TensorFlow takes '\[' for a pattern; expected a path without it$"
    for path in (folder, folder / "theirs", folder / "theirs.index"):
        assert_refused(encoder, path, message)
    # Only TensorFlow's.
    encoder = AlbertEncoder(config_of("AlbertModel"))
    (folder / "hugging_face" / "vocab.txt").write_text("[PAD]")
    assert load_checkpoint(encoder, str(folder / "hugging_face")).missing == ()
    assert find_vocabulary(ModelFolder(str(folder / "hugging_face")))[1] is not None


@functools.cache
def made(layout):
    """Returns a model of a layout, or class of `transformers`, which no test changes, and its tensors."""
    if layout == "original":
        model = random_model("pretrainer", tiny_config())
        return model, original_tensors(model)
    if layout == "brightmart":
        return brightmart_pretrainer()
    if layout == "keras_hub":
        return AlbertEncoder(KERAS_HUB_CONFIG), keras_hub_tensors()[0]
    model = AlbertEncoder(config_of(layout))
    if layout.endswith("Classification"):
        model = AlbertClassifier(model, 3)
    return model, folder_tensors(layout)


def write(folder, layout, change=None):
    """Writes the model of a layout, and returns it, as it is there, and where.

    `change` are tensors to add, to replace or, if None, to leave out.
    """
    model, tensors = made(layout)
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
        ("original", {f"{POOLER}/bias": zeros(56)}, r"/bias' has shape \(56,\); the .* \(48,\)"),
        (
            "original",
            {"bert/embeddings/word_embeddings": zeros(105, 16)},
            r"word_embeddings' has shape \(105, 16\); the model's '.*' has shape \(97, 16\)",
        ),
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
        ("AlbertModel", {"pooler.weight": zeros(48, 48, dtype="i1")}, "is of type I8; expected F6"),
        ("AlbertForMaskedLM", {"predictions.decoder.bias": zeros(97)}, "differs from 'predictions"),
        ("AlbertModel", dict.fromkeys(folder_tensors("AlbertModel")), "theirs: holds no tensor$"),
        ("keras_hub", dict.fromkeys(keras_hub_tensors()[0]), "preset: holds no tensor$"),
        ("AlbertModel", {"pooler.bias": None}, "'pooler.bias' is not in it"),
        (
            "AlbertModel",
            {"pooler.bias": np.full(48, np.nan, np.float32)},
            "'pooler.bias' holds a number that is not finite",
        ),
        ("AlbertForSequenceClassification", {"classifier.bias": None}, "is not in it; the model's"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, layout, change, message):
    model, path = write(tmp_path, layout, change)
    assert_refused(model, path, message)


def test_a_head_without_the_pooler_that_it_reads(tmp_path):
    change = dict.fromkeys(("bert/pooler/dense/kernel", "bert/pooler/dense/bias"))
    path = write(tmp_path, "original", change)[1]
    with refused(f"^{path}: encoder: AlbertPretrainer needs one"):
        load_model(tiny_config(), path)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A folder with every file that this package writes."""
    folder = tmp_path_factory.mktemp("ours") / "best"
    vocabulary = folder.parent / "words.model"
    vocabulary.write_bytes(train_model())
    contents = tokenizer_files(AlbertTokenizer(str(vocabulary)), tiny_config())
    model = AlbertClassifier(AlbertEncoder(tiny_config(vocab_size=150)), 2, seed=1)
    kind = Classification(labels=("no", "yes"), max_seq_length=32)
    save_model(model, str(folder), kind=kind, contents=contents)
    return folder


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "spiece.model", "tokenizer_config.json", "tokenizer.json"],
)
def test_damage_of_any_byte_is_refused_or_changes_nothing(ours, tmp_path, eagerly, name):
    folder = shutil.copytree(ours, tmp_path / "copy")
    texts = ["a day", "no"]
    expected = albert_tf.load(folder).predict(texts)
    content = (folder / name).read_bytes()
    rng, refused = np.random.default_rng(len(content)), 0
    # Only other libraries read a tokenizer.json where there is a vocabulary.
    for number in range(3 if name == "tokenizer.json" else 12):
        damaged = bytearray(content)
        if number % 3:
            damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        else:
            del damaged[rng.integers(len(content)) :]
        (folder / name).write_bytes(damaged)
        try:
            received = albert_tf.load(folder).predict(texts)
        except InputError as error:
            refused += "\n" not in str(error)
        else:
            np.testing.assert_array_equal(received.probabilities, expected.probabilities)
            assert received.label == expected.label
    assert (refused > 9) == (name != "tokenizer.json")


def test_files_of_other_folders_are_refused(ours, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "copy")
    other = AlbertClassifier(AlbertEncoder(tiny_config(vocab_size=150), seed=3), 2)
    save_model(other, str(tmp_path / "other"))
    for name in ("model.safetensors", "spiece.model"):
        content = (folder / name).read_bytes()
        source = tmp_path / "other" / "model.safetensors"
        shutil.copy(source, folder / name)
        message = rf"{name}: has the SHA-256 \w{{64}}; config.json next to it says \w{{64}}: the f"
        with refused(message):
            albert_tf.load(folder)
        (folder / name).write_bytes(content)
    # What others save again is theirs.
    change_json(folder / "config.json", transformers_version="5.0.0", max_position_embeddings=64)
    shutil.copy(tmp_path / "other" / "model.safetensors", folder)
    assert albert_tf.load(folder).kind.max_seq_length == 64


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
                ("AlbertModel", {"hidden_size": 36}, "hidden_size 48; the model.s config has 36"),
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
    with refused(message):
        AlbertEncoder.from_preset(bert)
    incomplete = keras_hub_config()
    del incomplete["config"]["num_heads"]
    path = write_preset(tmp_path / "incomplete", tensors, config=incomplete)
    with refused(r"config\.json: key 'num_heads' is missing"):
        AlbertEncoder.from_preset(path)
    path = write_preset(tmp_path / "more", tensors, config=keras_hub_config(colour=3))
    with refused(r"config\.json: config: key 'colour' is 3, and not known"):
        AlbertEncoder.from_preset(path)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_config_without_architectures_is_of_what_the_tensors_are(tmp_path, architecture, capsys):
    folder = write_folder(tmp_path / "theirs", architecture, architectures=None)
    config = config_of(architecture)
    if architecture.endswith("ForMultipleChoice"):
        with refused("has no architectures, and its head has one output, as regressions and mult"):
            load_model(config, folder)
        return
    model, _ = load_model(config, folder)
    assert architecture_of(model) == architecture
    said = capsys.readouterr().err
    assert (f"no architectures; read as {architecture}" in said) == ("For" in architecture)


def test_architectures_that_we_do_not_have(tmp_path):
    changes = {"architectures": ["AlbertForNextSentencePrediction"]}
    folder = write_folder(tmp_path / "theirs", "AlbertForQuestionAnswering", **changes)
    config = config_of("AlbertForQuestionAnswering")
    with refused("config.json: architecture .* is not one of A"):
        load_model(config, folder)
    # Its encoder is like any other's.
    report = load_checkpoint(AlbertEncoder(config), folder)
    assert report.unexpected == ("qa_outputs.bias", "qa_outputs.weight")


def test_incomplete_folders(tmp_path, encoder):
    folder = pathlib.Path(write_folder(tmp_path / "roberta", "AlbertModel", model_type="roberta"))
    assert_refused(
        encoder, folder, r"config\.json: is of a model_type 'roberta'; expected 'albert' or"
    )
    (folder / "config.json").unlink()
    assert_refused(encoder, folder, r"roberta/config.json: cannot be read")

    folder = pathlib.Path(write_folder(tmp_path / "theirs", "AlbertModel"))
    (folder / "model.safetensors").unlink()
    assert is_folder(ModelFolder(str(folder)))
    assert_refused(encoder, folder, r"theirs: holds .* expected model.safetensors$")
    # Next to a checkpoint of TensorFlow, their config describes that checkpoint.
    (folder / "model.ckpt-best.index").write_bytes(b"")
    assert not is_folder(ModelFolder(str(folder)))
    # Other libraries have a config.json, too.
    (tmp_path / "config.json").write_text("{}")
    assert not is_folder(ModelFolder(str(tmp_path)))

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
    faults = {
        "[]": "it is a list, expected an object",
        "{}": "weight_map is missing",
        '{"weight_map": {}}': "weight_map is empty",
        '{"weight_map": ["a"]}': "weight_map is a list",
    }
    for content, fault in faults.items():
        index.write_text(content)
        assert_refused(encoder, folder, f"index.json: {fault}")
