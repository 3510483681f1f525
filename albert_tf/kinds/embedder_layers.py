"""The layers after the pooling of an embedder of sentence-transformers: modules Dense and LayerNorm."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import keras

from albert_tf.accounting import account_for, shown
from albert_tf.checkpoints.hugging_face_reader import WEIGHTS_FILE, check_weights
from albert_tf.checkpoints.safetensors_files import FLOATS, read_tensors
from albert_tf.errors import InputError
from albert_tf.known_modules import DENSE, LAYER_NORM
from albert_tf.model_folder import CONFIG_FILE, ModelFolder
from albert_tf.options import check_layout
from albert_tf.tokenization.tokenizer_settings import read_object

# Their classes of activations -> Keras's names.
_ACTIVATIONS = {
    f"torch.nn.modules.{name}": ours
    for name, ours in {
        "activation.Tanh": "tanh",
        "activation.ReLU": "relu",
        "activation.Sigmoid": "sigmoid",
        "activation.SiLU": "silu",
        "activation.GELU": "gelu",
        "linear.Identity": "linear",
    }.items()
}
_EPSILON = 1e-5  # of PyTorch's layer norms


def _read_dense(folder: ModelFolder, name: str) -> tuple[keras.layers.Layer, int, list[str]]:
    path, values = folder.config_file, read_object(folder, CONFIG_FILE)
    layout = {"in_features": int, "out_features": int, "bias?": bool, "activation_function?": str}
    check_layout(account_for(values, DENSE, path), layout, path)
    given = values.get("activation_function", "torch.nn.modules.activation.Tanh")
    if given not in _ACTIVATIONS:
        raise InputError(
            f"{path}: key 'activation_function' is {shown(given)}; expected one of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    use_bias = values.get("bias", True)
    layer = keras.layers.Dense(
        values["out_features"],
        activation=_ACTIVATIONS[given],
        use_bias=use_bias,
        name=name,
        dtype="float32",
    )
    tensors = ["linear.weight", *(["linear.bias"] if use_bias else [])]
    return layer, values["in_features"], tensors


def _read_layer_norm(folder: ModelFolder, name: str) -> tuple[keras.layers.Layer, int, list[str]]:
    values = account_for(read_object(folder, CONFIG_FILE), LAYER_NORM, folder.config_file)
    check_layout(values, {"dimension": int}, folder.config_file)
    layer = keras.layers.LayerNormalization(epsilon=_EPSILON, name=name, dtype="float32")
    return layer, values["dimension"], ["norm.weight", "norm.bias"]


# Names of their classes -> the layer, the width of its input, and the names of its tensors.
LAYERS: Mapping[str, Callable[[ModelFolder, str], tuple[keras.layers.Layer, int, list[str]]]] = {
    "Dense": _read_dense,
    "LayerNorm": _read_layer_norm,
}


def read_layers(modules: list[tuple[str, str]], width: int) -> list[keras.layers.Layer]:
    """Returns the layers of modules, with their weights.

    Args:
        modules: name of the class and folder of each module; others than `LAYERS` are passed over.
        width: H, the width of what the first of them gets.

    Raises:
        InputError: a file is missing or damaged, or describes another layer than ours, or another width.
    """
    layers: list[keras.layers.Layer] = []
    for class_name, path in modules:
        if class_name not in LAYERS:
            continue
        folder = ModelFolder(path)
        layer, expected, names = LAYERS[class_name](folder, f"projection_{len(layers)}")
        if expected != width:
            raise InputError(f"{folder.config_file}: takes width {expected}; receives {width}")
        layer.build((None, width))
        width = layer.compute_output_shape((None, width))[1]
        _set_weights(layer, path, names)
        layers.append(layer)
    return layers


def _set_weights(layer: keras.layers.Layer, path: str, names: list[str]) -> None:
    check_weights(path)
    file = os.path.join(path, WEIGHTS_FILE)
    tensors = read_tensors(file, FLOATS)
    if sorted(tensors) != sorted(names):
        raise InputError(f"{file}: holds {', '.join(tensors)}; expected {', '.join(names)}")
    values: list[Any] = [tensors[name].T for name in names]
    for name, value, weight in zip(names, values, layer.weights, strict=True):
        if value.shape != weight.shape:
            raise InputError(
                f"{file}: '{name}' has shape {value.T.shape}; expected {tuple(weight.shape)[::-1]}"
            )
    layer.set_weights(values)
