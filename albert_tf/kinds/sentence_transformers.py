"""Folders of sentence-transformers: what their modules say of an `Embedding`, and files that say it."""

import os
from collections.abc import Sequence
from typing import Any, get_args

from albert_tf import files
from albert_tf.accounting import account_for, shown
from albert_tf.checkpoints.hugging_face import has_equivalent
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place
from albert_tf.kinds.embedder_layers import LAYERS
from albert_tf.kinds.embedding import Embedding
from albert_tf.kinds.kind import Kind
from albert_tf.known_modules import (
    DROPOUT,
    EMBEDDER,
    EMBEDDER_FILE,
    MODULE,
    NORMALIZE,
    POOLING,
    TRANSFORMER,
    TRANSFORMER_FILES,
)
from albert_tf.model_folder import CONFIG_FILE, MODULES_FILE, ModelFolder
from albert_tf.options import check_layout
from albert_tf.options.kinds import Pooling, PoolingName, pooling_names
from albert_tf.tokenization.tokenizer_settings import TOKENIZER_CONFIG_FILE, read_object

# The modules that begin, that may follow in any number, and that may end. Dropout is of the training.
_FIRST, _OPTIONAL, _LAST = ("Transformer", "Pooling"), (*LAYERS, "Dropout"), "Normalize"
_EXPECTED = f"{', '.join(_FIRST)}, then any of {', '.join(_OPTIONAL)}, and if wanted {_LAST}"
# Other packages have such names, too.
_PACKAGE = "sentence_transformers."
# The keys of poolings before version 6, without their prefix, which differ from the names.
_OLD_POOLINGS = {
    "mean_tokens": "mean",
    "cls_token": "cls",
    "max_tokens": "max",
    "weightedmean_tokens": "weightedmean",
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
    values |= _read_prompts(folder)
    try:
        for name, place in named_modules(folder):
            inner = ModelFolder(place)
            if name == "Pooling":
                has_prompts = any(prompt for _, prompt in values["prompts"])
                values["pooling"] = _read_pooling(inner.config_file, has_prompts)
            elif name in (_LAST, "Dropout"):
                known = NORMALIZE if name == _LAST else DROPOUT
                account_for(read_object(inner, CONFIG_FILE), known, inner.config_file)
                values["normalize"] = values["normalize"] or name == _LAST
        values["max_seq_length"] = min(
            positions, _read_length(transformer, lower_case) or positions
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not describe an embedder as expected: {error}") from error
    return values


def named_modules(folder: ModelFolder) -> list[tuple[str, str]]:
    """Returns the names of the classes and the folders of modules, which are ours in our order."""
    path = os.path.join(folder.path, MODULES_FILE)
    modules = files.read_json(path)
    if not isinstance(modules, list):
        raise TypeError(f"received {shown(modules)}, expected a list")
    named = []
    for module in modules:
        account_for(module, MODULE, path)
        package, _, name = str(module.get("type")).rpartition(".")
        known = (*_FIRST, *_OPTIONAL, _LAST)
        if name not in known or not f"{package}.".startswith(_PACKAGE):
            raise InputError(
                f"{path}: has a module '{name}'; expected {', '.join(known)} of sentence_transformers, "
                f"received {shown(module.get('type'))}"
            )
        named.append((name, os.path.join(folder.path, module["path"])))
    names = tuple(name for name, _ in named)
    rest = names[2:-1] if names[-1:] == (_LAST,) else names[2:]
    if names[:2] != _FIRST or not {*rest} <= {*_OPTIONAL}:
        raise InputError(f"{path}: has the modules {', '.join(names)}; expected {_EXPECTED}")
    return named


def _read_prompts(folder: ModelFolder) -> dict[str, Any]:
    """Returns the prompts, and the one that is put before each text by default."""
    values, path = read_object(folder, EMBEDDER_FILE), os.path.join(folder.path, EMBEDDER_FILE)
    account_for(values, EMBEDDER, path)
    prompts, name = values.get("prompts") or {}, values.get("default_prompt_name")
    check_layout(prompts, {}, path, "prompts")
    check_layout([*prompts.values()], [str], path, "prompts")
    if name is not None and name not in [*prompts]:
        raise InputError(
            f"{path}: key 'default_prompt_name' is {shown(name)}; expected null or one of "
            f"{', '.join(prompts) or 'the prompts, of which there are none'}"
        )
    return {"prompts": tuple(prompts.items()), "prompt": prompts.get(name, "")}


def stored_similarity(folder: ModelFolder) -> str:
    """Returns how the library compares the embeddings of a folder."""
    return read_object(folder, EMBEDDER_FILE).get("similarity_fn_name") or "cosine"


def _read_length(folder: ModelFolder, lower_case: bool) -> int | None:
    """Returns the maximum length of texts; None if neither a Transformer nor its tokenizer has one."""
    name = next(filter(folder.holds, TRANSFORMER_FILES), None)
    place, tokenizer = TOKENIZER_CONFIG_FILE, read_object(folder, TOKENIZER_CONFIG_FILE)
    key = "model_max_length" if "model_max_length" in tokenizer else "max_len"  # its old name
    length = tokenizer.get(key)
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


def _read_pooling(path: str, has_prompts: bool) -> Pooling:
    config = account_for(files.read_json(path), POOLING, path)
    if config.get("include_prompt") is False and has_prompts:
        raise InputError(
            f"{path}: key 'include_prompt' is False; only True is supported in a folder with prompts"
        )
    modes = config.get("pooling_mode")
    if modes is None:  # before version 6
        modes = [
            key.removeprefix(_OLD_PREFIX)
            for key, value in config.items()
            if key.startswith(_OLD_PREFIX) and value
        ]
        order = get_args(PoolingName)  # whatever that of the keys
        modes = sorted(
            (_OLD_POOLINGS.get(mode, mode) for mode in modes),
            key=lambda mode: order.index(mode) if mode in order else 0,
        )
    pooling = modes if isinstance(modes, str) else "+".join(modes)
    with name_place(path):
        pooling_names(pooling)
    return pooling


def module_files(
    kind: Kind | None,
    config: AlbertConfig,
    layers: Sequence[tuple[str, str]] = (),
    similarity: str = "cosine",
) -> dict[str, bytes]:
    """Returns the files that make an embedder of a folder of Hugging Face's, name -> content.

    They are in the layout that all versions since 2 read. There are none for another kind, nor if
    `transformers` does not have the encoder.

    Args:
        kind: what the model predicts.
        config: the encoder's.
        layers: names of the classes and folders of its modules, as `named_modules` returns them, of which
            those with weights are copied.
        similarity: how the library compares embeddings, unless it is asked otherwise.
    """
    if not isinstance(kind, Embedding) or not has_equivalent(config):
        return {}
    contents: dict[str, Any] = {
        TRANSFORMER_FILES[0]: {"max_seq_length": kind.max_seq_length, "do_lower_case": False},
        EMBEDDER_FILE: {
            "prompts": dict(kind.prompts),
            "default_prompt_name": kind.prompt_name,
            "similarity_fn_name": similarity,
        },
    }
    old_names = {ours: theirs for theirs, ours in _OLD_POOLINGS.items()}
    pooling = {
        f"{_OLD_PREFIX}{old_names.get(name, name)}": name in pooling_names(kind.pooling)
        for name in get_args(PoolingName)
    }
    places = [("Transformer", ""), ("Pooling", "1_Pooling")]
    contents[f"1_Pooling/{CONFIG_FILE}"] = {
        "word_embedding_dimension": config.hidden_size,
        **pooling,
    }
    copies = {}
    for name, folder in layers:
        if name in LAYERS:
            places.append((name, f"{len(places)}_{name}"))
            for file in files.list_names(folder):
                content = files.read_bytes(os.path.join(folder, file))
                copies[f"{places[-1][1]}/{file}"] = content
    if kind.normalize:
        places.append((_LAST, f"{len(places)}_{_LAST}"))
        contents[f"{places[-1][1]}/{CONFIG_FILE}"] = {}
    contents[MODULES_FILE] = [
        {"idx": number, "name": str(number), "path": place, "type": f"{_PACKAGE}models.{name}"}
        for number, (name, place) in enumerate(places)
    ]
    written = {name: files.to_json(value).encode() for name, value in contents.items()}
    return written | copies
