"""Folders of sentence-transformers: what their modules say of an `Embedding`."""

import os
from collections.abc import Mapping
from typing import Any

from albert_tf import files
from albert_tf.accounting import account_for, shown
from albert_tf.errors import InputError
from albert_tf.known_files import (
    EMBEDDER,
    MODULE,
    NORMALIZE,
    POOLING,
    TRANSFORMER,
    TRANSFORMER_FILES,
)
from albert_tf.model_folder import CONFIG_FILE, MODULES_FILE, ModelFolder
from albert_tf.options.kinds import Pooling
from albert_tf.tokenization.tokenizer_settings import TOKENIZER_CONFIG_FILE, read_object

_EMBEDDER_FILE = "config_sentence_transformers.json"
# The modules that we have, in their order; the last may be absent. Other packages have such names, too.
_MODULES = ("Transformer", "Pooling", "Normalize")
_PACKAGE = "sentence_transformers."
_POOLINGS: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls_token": "cls",
    "cls": "cls",
}
_OLD_PREFIX = "pooling_mode_"


def read_modules(
    folder: ModelFolder, transformer: ModelFolder, positions: int, lower_case: bool
) -> dict[str, Any]:
    """Returns the fields of an `Embedding` that a folder's modules determine, or their defaults.

    Args:
        folder: the folder, with `modules.json` if it is one of sentence-transformers.
        transformer: that of its encoder, which is the same in all but old versions.
        positions: the maximum length of the encoder.
        lower_case: whether the tokenizer lower-cases.

    Raises:
        InputError: the modules are others than ours, or a file says what ours do not do.
    """
    path = os.path.join(folder.path, MODULES_FILE)
    values: dict[str, Any] = {"normalize": False, "max_seq_length": positions}
    if not folder.holds(MODULES_FILE):
        return values
    _check_prompts(folder)
    try:
        for module, name in _named_modules(files.read_json(path), path):
            place = os.path.join(module["path"], CONFIG_FILE)
            if name == "Pooling":
                values["pooling"] = _read_pooling(os.path.join(folder.path, place))
            elif name == "Normalize":
                values["normalize"] = True
                if folder.holds(place):
                    account_for(read_object(folder, place), NORMALIZE, place)
        values["max_seq_length"] = min(
            positions, _read_length(transformer, lower_case) or positions
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not describe an embedder as expected: {error}") from error
    return values


def _named_modules(modules: Any, path: str) -> list[tuple[Mapping[str, Any], str]]:
    """Returns the modules with the names of their classes, which are ours in our order."""
    if not isinstance(modules, list):
        raise TypeError(f"received {shown(modules)}, expected a list")
    named = []
    for module in modules:
        account_for(module, MODULE, path)
        package, _, name = str(module.get("type")).rpartition(".")
        if name not in _MODULES or not f"{package}.".startswith(_PACKAGE):
            raise InputError(
                f"{path}: has a module '{name}'; expected Transformer, Pooling and Normalize of "
                f"sentence_transformers, received {shown(module.get('type'))}"
            )
        named.append((module, name))
    names = tuple(name for _, name in named)
    if names not in (_MODULES, _MODULES[:2]):
        raise InputError(
            f"{path}: has the modules {', '.join(names)}; expected Transformer, Pooling and, if wanted, "
            "Normalize"
        )
    return named


def _check_prompts(folder: ModelFolder) -> None:
    """Checks that embeddings have the width of the encoder, and texts no prompt in front of them."""
    values, path = read_object(folder, _EMBEDDER_FILE), os.path.join(folder.path, _EMBEDDER_FILE)
    account_for(values, EMBEDDER, path)
    name = values.get("default_prompt_name")
    if name is not None and (values.get("prompts") or {}).get(name) != "":
        raise InputError(
            f"{path}: key 'default_prompt_name' is {shown(name)}; only null is supported, or the name of "
            "an empty prompt"
        )


def _read_length(folder: ModelFolder, lower_case: bool) -> int | None:
    """Returns the maximum length of texts; None if neither a Transformer nor its tokenizer has one."""
    name = next(filter(folder.holds, TRANSFORMER_FILES), None)
    length = read_object(folder, TOKENIZER_CONFIG_FILE).get("model_max_length")
    place, key = TOKENIZER_CONFIG_FILE, "model_max_length"
    if name is not None:
        path = os.path.join(folder.path, name)
        values = account_for(read_object(folder, name), TRANSFORMER, path)
        if values.get("do_lower_case") and not lower_case:
            raise InputError(
                f"{path}: key 'do_lower_case' is true, and the tokenizer keeps case; only false is "
                "supported with such a tokenizer"
            )
        if values.get("max_seq_length") is not None:
            length, place, key = values["max_seq_length"], name, "max_seq_length"
    if length is None:
        return None
    if isinstance(length, bool) or not isinstance(length, int | float) or length < 1 or length % 1:
        raise InputError(
            f"{os.path.join(folder.path, place)}: key '{key}' is {shown(length)}; expected a number of "
            "pieces"
        )
    return int(length)


def _read_pooling(path: str) -> Pooling:
    config = account_for(files.read_json(path), POOLING, path)
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
