"""Folders of sentence-transformers: what their modules say of an `Embedding`."""

import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.model_folder import ModelFolder
from albert_tf.options.kinds import Pooling
from albert_tf.tokenization.vocabulary_files import TOKENIZER_CONFIG_FILE, read_object

_MODULES_FILE = "modules.json"
_EMBEDDER_FILE = "config_sentence_transformers.json"
_POOLING_FILE = "config.json"
# Files that may say the maximum length, and the key of each. A later file overrides an earlier one.
_LENGTHS = {
    TOKENIZER_CONFIG_FILE: "model_max_length",
    "sentence_bert_config.json": "max_seq_length",
}
_POOLINGS: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls_token": "cls",
    "cls": "cls",
}
_OLD_PREFIX = "pooling_mode_"


def read_modules(folder: ModelFolder, positions: int) -> dict[str, Any]:
    """Returns the fields of an `Embedding` that a folder's modules determine, or their defaults."""
    path, config = (os.path.join(folder.path, name) for name in (_MODULES_FILE, _EMBEDDER_FILE))
    values: dict[str, Any] = {"normalize": False, "max_seq_length": positions}
    if not folder.holds(_MODULES_FILE):
        return values
    for key in ("default_prompt_name", "truncate_dim"):
        if (value := read_object(folder, _EMBEDDER_FILE).get(key)) is not None:
            raise InputError(f"{config}: key '{key}' is {value!r}; only null is supported")
    try:
        for module in files.read_json(path):
            name = str(module.get("type")).rpartition(".")[2]
            if name == "Pooling":
                pooling = os.path.join(folder.path, module["path"], _POOLING_FILE)
                values["pooling"] = _read_pooling(pooling)
            elif name == "Normalize":
                values["normalize"] = True
            elif name != "Transformer":
                raise InputError(
                    f"{path}: has a module '{name}'; expected Transformer, Pooling and Normalize"
                )
        for file, key in _LENGTHS.items():
            if length := read_object(folder, file).get(key):
                values["max_seq_length"] = min(positions, length)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not describe an embedder as expected: {error}") from error
    return values


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
