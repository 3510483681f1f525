import hashlib
import json
import pathlib
import shlex
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints.hugging_face_reader import FolderReader, is_folder
from albert_tf.checkpoints.tensor_files import Stored
from albert_tf.errors import InputError
from tests.conversion.hugging_face_folder import random_tensors, write_folder


def test_folders_are_told_from_checkpoints(tmp_path):
    folder = write_folder(tmp_path / "theirs", "AlbertModel")
    assert is_folder(folder)
    # Our runs write a config.json too.
    (tmp_path / "config.json").write_text("{}")
    assert not is_folder(str(tmp_path))
    assert not is_folder(str(tmp_path / "model.ckpt-best"))


@pytest.mark.parametrize("dtype", [np.float16, tf.bfloat16.as_numpy_dtype])
def test_half_precision_is_read_as_float32_without_loss(tmp_path, dtype):
    tensors = {
        name: tensor.astype(dtype) for name, tensor in random_tensors("AlbertForMaskedLM").items()
    }
    name = "albert.embeddings.word_embeddings.weight"
    tensors["predictions.decoder.weight"] = tensors[name]
    reader = FolderReader(write_folder(tmp_path / "theirs", "AlbertForMaskedLM", tensors))
    received = reader.read(Stored((name,)))
    assert received.dtype == np.float32
    np.testing.assert_array_equal(received, tensors[name].astype(np.float32))
    assert "predictions.decoder.weight" not in reader.shapes


def test_other_types_are_refused(tmp_path):
    tensors = random_tensors("AlbertModel")
    tensors["pooler.weight"] = tensors["pooler.weight"].astype(np.int8)
    folder = write_folder(tmp_path / "theirs", "AlbertModel", tensors)
    with pytest.raises(InputError, match=r"'pooler.weight' is of type I8; expected F32, F16, BF16"):
        FolderReader(folder)


def test_refuses_copies_that_differ(tmp_path):
    tensors = random_tensors("AlbertForMaskedLM")
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"] + 1
    folder = write_folder(tmp_path / "theirs", "AlbertForMaskedLM", tensors)
    with pytest.raises(
        InputError, match=r"'predictions.decoder.bias' differs from 'predictions.bias'"
    ):
        FolderReader(folder)


@pytest.mark.parametrize("length", [0, 5, 100, 10_000, -1])
def test_truncated_weights_are_refused(tmp_path, length):
    folder = write_folder(tmp_path / "theirs", "AlbertModel")
    path = pathlib.Path(folder) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match=f"^{path}: the file is damaged: ") as error:
        FolderReader(folder)
    assert "\n" not in str(error.value)


def test_folder_without_its_config_is_refused(tmp_path):
    folder = pathlib.Path(write_folder(tmp_path / "theirs", "AlbertModel"))
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"theirs/config.json: cannot be read"):
        FolderReader(str(folder))


def test_folder_of_another_model_is_refused(tmp_path):
    folder = write_folder(tmp_path / "theirs", "AlbertModel", model_type="roberta")
    with pytest.raises(InputError, match=r"config.json: expected .* model_type 'albert' or 'bert'"):
        FolderReader(folder)


def test_file_instead_of_its_folder_is_refused(tmp_path):
    folder = write_folder(tmp_path / "theirs", "AlbertModel")
    with pytest.raises(InputError, match=r"model.safetensors: expected the folder that holds"):
        FolderReader(f"{folder}/model.safetensors")


def test_folder_without_weights_is_refused(tmp_path):
    folder = pathlib.Path(write_folder(tmp_path / "theirs", "AlbertModel"))
    (folder / "model.safetensors").unlink()
    assert is_folder(str(folder))
    with pytest.raises(InputError, match=r"theirs: holds .* expected model.safetensors$"):
        FolderReader(str(folder))
    # Next to a checkpoint of TensorFlow, their config describes that checkpoint.
    (folder / "model.ckpt-best.index").write_bytes(b"")
    assert not is_folder(str(folder))


def test_pickle_is_never_read(tmp_path):
    pickle = tmp_path / "pytorch_model.bin"
    pickle.write_bytes(b"whatever it holds")
    for path in (tmp_path, pickle):
        assert is_folder(str(path))
        with pytest.raises(
            InputError, match=r"pytorch_model.bin is a pickle, which can run"
        ) as error:
            FolderReader(str(path))
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_command_that_the_message_gives_converts_a_pickle(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the group parity: torch")
    tensors = random_tensors("AlbertForMaskedLM")
    theirs = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    # Two names for one tensor, as old files have them.
    theirs["predictions.decoder.bias"] = theirs["predictions.bias"]
    torch.save(theirs, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError) as error:
        FolderReader(str(tmp_path))
    command = shlex.split(str(error.value).split("in its folder: ")[1])
    subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, check=True)
    received = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    assert set(received) == set(theirs)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(received[name], tensor)


def write_shards(folder, tensors, **changes):
    """Writes a folder whose tensors are in two files; `changes` are of the index's `weight_map`."""
    folder = pathlib.Path(write_folder(folder, "AlbertForMaskedLM", tensors))
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


def test_tensors_in_several_files_are_those_of_one(tmp_path):
    tensors = random_tensors("AlbertForMaskedLM")
    folder = write_shards(tmp_path / "shards", tensors)
    assert is_folder(str(folder))
    reader = FolderReader(str(folder))
    assert reader.shapes == {name: tensor.shape for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(reader.read(Stored((name,))), tensor)
    assert reader.sha256 == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("*.safetensors")
    }


@pytest.mark.parametrize(
    "file", ["../model.safetensors", "/etc/model.safetensors", "parts/a", "..", "", 3, None]
)
def test_index_names_no_file_outside_of_its_folder(tmp_path, file):
    change = {"predictions.bias": file}
    folder = write_shards(tmp_path / "shards", random_tensors("AlbertForMaskedLM"), **change)
    with pytest.raises(
        InputError, match=r"index.json: 'predictions.bias' is in .*; expected the n"
    ):
        FolderReader(str(folder))


def test_refuses_an_index_with_missing_tensors(tmp_path):
    tensors = random_tensors("AlbertForMaskedLM")
    folder = write_shards(tmp_path / "a", tensors, more="model-00001-of-00002.safetensors")
    with pytest.raises(InputError, match=r"index.json: lists 'more' in .*, which does not hold it"):
        FolderReader(str(folder))
    folder = write_shards(tmp_path / "b", tensors)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(InputError, match=r"model-00002-of-00002.safetensors: cannot be read"):
        FolderReader(str(folder))


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {}}', '{"weight_map": ["a"]}'])
def test_refuses_another_json_file_as_index(tmp_path, content):
    folder = write_shards(tmp_path / "shards", random_tensors("AlbertForMaskedLM"))
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(InputError, match=r"index.json: expected an object with a 'weight_map'"):
        FolderReader(str(folder))


def test_file_without_a_tensor_is_refused(tmp_path):
    folder = write_folder(tmp_path / "theirs", "AlbertModel", {})
    with pytest.raises(InputError, match=rf"^{folder}/model.safetensors: holds no tensor$"):
        FolderReader(folder)
