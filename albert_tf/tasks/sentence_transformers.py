"""What a folder of sentence-transformers says about how it embeds texts."""

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.layers import Pooling

_MODULES_FILE = "modules.json"
_POOLING_FILE = "config.json"
_TRANSFORMER_FILE = "sentence_bert_config.json"
_POOLINGS: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls_token": "cls",
    "cls": "cls",
}
_OLD_PREFIX = "pooling_mode_"


def read_modules(folder: str) -> dict[str, Any]:
    """Returns the fields of an `Embedding` that the modules of a folder determine; none without them."""
    path = os.path.join(folder, _MODULES_FILE)
    if not tf.io.gfile.exists(path):
        return {}
    try:
        return _read_modules(folder, path)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not describe an embedder as expected: {error}") from error


def _read_modules(folder: str, path: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for module in files.read_json(path):
        name = str(module.get("type")).rpartition(".")[2]
        if name == "Pooling":
            values["pooling"] = _read_pooling(os.path.join(folder, module["path"], _POOLING_FILE))
        elif name == "Normalize":
            values["normalize"] = True
        elif name != "Transformer":
            raise InputError(
                f"{path}: has a module '{name}'; expected Transformer, Pooling and Normalize"
            )
    path = os.path.join(folder, _TRANSFORMER_FILE)
    if tf.io.gfile.exists(path):
        values["max_seq_length"] = files.read_json(path).get("max_seq_length")
    return {name: value for name, value in values.items() if value is not None}


def _read_pooling(path: str) -> Pooling:
    config = files.read_json(path)
    modes = config.get("pooling_mode")
    if modes is None:  # before version 6
        modes = [
            key.removeprefix(_OLD_PREFIX)
            for key, value in config.items()
            if key.startswith(_OLD_PREFIX) and value
        ]
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise InputError(
            f"{path}: has the pooling {', '.join(modes) or 'of no mode'}; expected mean or cls"
        )
    return _POOLINGS[modes[0]]
