import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.conversion import load_model, save_hugging_face
from albert_tf.errors import InputError, StoppedError
from albert_tf.models import AlbertClassifier, AlbertEncoder
from tests.checkpoints.layouts import read_folder
from tests.helpers import assert_same_weights, tiny_config


def load(folder):
    return load_model(read_config(f"{folder}/config.json"), str(folder))[0]


@pytest.mark.parametrize("with_head", [False, True])
def test_model_without_projection_there_and_back(tmp_path, with_head):
    model = encoder = AlbertEncoder(tiny_config(embedding_size=48), seed=1)
    if with_head:
        model = AlbertClassifier(encoder, 2)
    save_hugging_face(model, str(tmp_path / "there"))
    weight = "albert.encoder.embedding_hidden_mapping_in.weight"
    tensors = read_folder(tmp_path / "there")
    np.testing.assert_array_equal(tensors[weight], np.eye(48))
    assert_same_weights(load(tmp_path / "there"), model)
    tensors[weight][3, 4] = 0.1
    safetensors.numpy.save_file(tensors, tmp_path / "there" / "model.safetensors")
    with pytest.raises(InputError, match=r"holds 'albert\.encoder\.embedding_hidden_mapping_in"):
        load(tmp_path / "there")


@pytest.mark.parametrize("changes", [{"num_hidden_groups": 5}, {}])
def test_baselines_are_written_as_bert(tmp_path, changes):
    config = tiny_config(embedding_size=48, sharing="none", **changes)
    encoder = AlbertEncoder(config, seed=1)
    save_hugging_face(encoder, str(tmp_path / "theirs"))
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert (config["model_type"], config["hidden_act"]) == ("bert", "gelu_new")
    assert not {"embedding_size", "num_hidden_groups", "inner_group_num"} & set(config)
    again = load(tmp_path / "theirs")
    assert again.config == dataclasses.replace(encoder.config, num_hidden_groups=1)
    assert_same_weights(again, encoder)
    load_checkpoint(AlbertEncoder(encoder.config), str(tmp_path / "theirs"))


def test_groups_of_other_layers_are_not_written(tmp_path):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=22, num_hidden_groups=22))
    message = "layer 15 belongs to group 15 in a Hugging Face model and to group 14 in"
    with pytest.raises(InputError, match=message):
        save_hugging_face(encoder, str(tmp_path / "theirs"))
    assert list(tmp_path.iterdir()) == []


def test_labels_of_other_classes_are_refused(tmp_path):
    encoder = AlbertEncoder(tiny_config())
    for model, count in ((encoder, 0), (AlbertClassifier(encoder, 2), 2)):
        with pytest.raises(InputError, match=f"^labels: received 1 for {count} classes$"):
            save_hugging_face(model, str(tmp_path / "theirs"), labels=["a"])


def test_vocabulary_goes_along_and_folder_is_complete_or_absent(tmp_path):
    encoder = AlbertEncoder(tiny_config())
    save_hugging_face(encoder, str(tmp_path / "out"), more_files={"spiece.model": b"pieces"})
    names = ["README.md", "config.json", "model.safetensors", "spiece.model"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert (tmp_path / "out" / "spiece.model").read_bytes() == b"pieces"
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    with pytest.raises(StoppedError, match="out: cannot be written"):
        save_hugging_face(AlbertEncoder(tiny_config()), str(tmp_path / "out"))
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
