"""A folder that is not an exported model is refused with one line."""

import os

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export import ExportedModel


def test_folder_without_a_saved_model(tmp_path):
    with pytest.raises(InputError, match="holds no SavedModel; expected a version's folder"):
        ExportedModel(str(tmp_path), dict)


def test_damaged_saved_model(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"neither a graph nor anything")
    with pytest.raises(InputError, match="cannot be loaded: "):
        ExportedModel(str(tmp_path), dict)


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
    with pytest.raises(InputError, match="cannot be loaded: ") as info:
        ExportedModel(str(tmp_path), dict)
    assert "\n" not in str(info.value)


def test_refuses_a_saved_model_of_others(tmp_path):
    save_module(tmp_path)
    with pytest.raises(InputError, match="is not a model that this package exported"):
        ExportedModel(str(tmp_path), dict)
