"""Reference arrays of the original's fine-tuning heads, with their weights inside."""

import json

import numpy as np
import tensorflow as tf

from albert_tf.conversion.tf1 import stored_as_original
from tests.helpers import shared_path


def read_golden(name):
    """Returns the arrays of a head and the settings of its config."""
    golden = np.load(shared_path(f"golden/finetune_heads/{name}.npz"))
    info = json.loads(shared_path("golden/finetune_heads/info.json").read_text())
    settings = {key: x for key, x in info["albert_config"].items() if key != "down_scale_factor"}
    return golden, settings


def write_checkpoint(prefix, golden):
    """Writes the weights as TensorFlow 1 does and returns the prefix."""
    tensors = {
        name.removeprefix("var/"): golden[name] for name in golden.files if name.startswith("var/")
    }
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return str(prefix)


def check_gradients(variables, gradients, golden, prefix):
    """Compares the gradient of each variable with the original's."""
    for variable, gradient in zip(variables, gradients, strict=True):
        stored = stored_as_original(variable.path)
        expected = golden[f"{prefix}{stored}"]
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            expected.T if stored.transposed else expected,
            rtol=1e-4,
            atol=2e-6,
            err_msg=variable.path,
        )
