"""The files that describe the checkpoints of a trained folder; exported models carry them as assets.

`run_options.json` holds the options of the run, `task.json` the meaning of the head's outputs. With the
encoder's config and the vocabulary they are all that evaluation, prediction and export need.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf._version import __version__
from albert_tf.checkpoints.keras_hub import is_keras_hub
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import InputError
from albert_tf.kinds.kind import KIND_FILE, Kind
from albert_tf.kinds.registry import read_kind
from albert_tf.sources import folder_of
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.vocabulary_files import OPTIONS_FILE, VOCABULARY_SHA256, find_vocabulary

# A key of the run options: SHA-256 of config and kind, file name -> accepted ones.
_SHA256 = "sha256"
# Another one: version of this package.
_VERSION = "albert_tf_version"


def kind_of(checkpoint: str) -> Kind | None:
    """Returns the kind next to a checkpoint, given by prefix or folder; None if there is none."""
    folder = folder_of(checkpoint)
    path = os.path.join(folder, KIND_FILE)
    # KerasHub has a file of this name, too.
    if not tf.io.gfile.exists(path) or is_keras_hub(files.read_json(path)):
        return None
    return read_kind(folder)


def options_path(folder: str) -> str:
    """Returns the path of a folder's run options."""
    return os.path.join(folder, OPTIONS_FILE)


def read_options(path: str) -> Mapping[str, Any]:
    """Returns the options that a run wrote."""
    options = files.read_json(path)
    if not isinstance(options, Mapping) or not isinstance(options.get(_SHA256, {}), Mapping):
        raise InputError(f"{path}: expected an object in braces, as --do_train writes it")
    written_by = str(options.get(_VERSION, "0"))
    if _as_numbers(written_by) > _as_numbers(__version__):
        raise InputError(
            f"{path}: written by albert_tf {written_by}, which is newer than this one, {__version__}"
        )
    return options


def _as_numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def options_asset(tokenizer: Tokenizer, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the run options of an exported model, as an asset; they note the SHA-256 of `contents`."""
    values = {
        "do_lower_case": tokenizer.lower_case,
        VOCABULARY_SHA256: tokenizer.vocabulary_sha256,
        _SHA256: {name: [hashlib.sha256(each).hexdigest()] for name, each in contents.items()},
        _VERSION: __version__,
    }
    return {OPTIONS_FILE: files.to_json(values).encode()}


def write_options(folder: str, options: Mapping[str, Any], contents: Mapping[str, bytes]) -> None:
    """Writes the options of a run, and files that describe its model.

    The options note the SHA-256 of these files: of the new content and, as the run may be killed between
    two files, of the one that there is.
    """
    noted = dict(options.get(_SHA256, {}))
    for name, content in contents.items():
        path, accepted = os.path.join(folder, name), [hashlib.sha256(content).hexdigest()]
        if tf.io.gfile.exists(path):
            accepted.append(files.sha256(path))
        noted[name] = sorted(set(accepted))
    values = {**options, _SHA256: noted, _VERSION: __version__}
    files.write_json(options_path(folder), values)
    for name, content in contents.items():
        files.write_bytes(os.path.join(folder, name), content)


def write_kind(folder: str, kind: Kind) -> None:
    """Writes `task.json` to a trained folder."""
    content = kind.assets()[KIND_FILE]
    write_options(folder, read_options(options_path(folder)), {KIND_FILE: content})


def read_folder(model_dir: str) -> dict[str, Any]:
    """Returns the options that a trained folder or the assets of an exported model determine.

    They are the config, the vocabulary, its case and the dropout; none if there are no run options.
    """
    path = options_path(model_dir)
    if not tf.io.gfile.exists(path):
        return {}
    saved = read_options(path)
    if "do_lower_case" not in saved:
        raise InputError(f"{path}: lacks 'do_lower_case', which --do_train writes")
    lower_case = saved["do_lower_case"]
    if not isinstance(lower_case, bool | None):
        raise InputError(f"{path}: do_lower_case={lower_case!r}: expected bool")
    for file, expected in saved.get(_SHA256, {}).items():
        _check_file(os.path.join(model_dir, file), expected)
    config_file = os.path.join(model_dir, CONFIG_FILE)
    spm_model_file, vocab_file = find_vocabulary(model_dir)
    return {
        "do_lower_case": lower_case,
        "dropout": saved.get("dropout"),
        "albert_config_file": config_file if tf.io.gfile.exists(config_file) else None,
        "spm_model_file": spm_model_file,
        "vocab_file": vocab_file,
    }


def read_trained(model_dir: str) -> dict[str, Any]:
    """Returns what `read_folder` does and, if there is a kind, its task and length."""
    values = read_folder(model_dir)
    if tf.io.gfile.exists(os.path.join(model_dir, KIND_FILE)):
        kind = read_kind(model_dir)
        values |= {"task_name": kind.task_name, "max_seq_length": kind.max_seq_length}
    return values


def check_vocabulary(model_dir: str, tokenizer: Tokenizer) -> None:
    """Checks that a trained folder, or an exported model, was trained with the tokenizer's vocabulary."""
    path, copy = options_path(model_dir), os.path.join(model_dir, tokenizer.file_name)
    trained_with = None
    if tf.io.gfile.exists(path):
        trained_with = read_options(path).get(VOCABULARY_SHA256)
    elif tf.io.gfile.exists(copy):  # users may have removed damaged run options
        trained_with = files.sha256(copy)
    if trained_with != tokenizer.vocabulary_sha256:
        raise InputError(f"was trained with another vocabulary than {tokenizer.vocabulary_file}")


def _check_file(path: str, expected: Sequence[str]) -> None:
    if not tf.io.gfile.exists(path):
        return
    received = files.sha256(path)
    if received not in expected:
        raise InputError(
            f"{path}: has the SHA-256 {received}; {OPTIONS_FILE} next to it says "
            f"{' or '.join(expected)}: the file is damaged or another one; copy that of the training "
            "there"
        )
