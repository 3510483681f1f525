"""The files that describe the checkpoints of a trained folder; exported models carry them as assets.

`run_options.json` holds the options of the run, `task.json` the meaning of the head's outputs. With the
encoder's config and the vocabulary they are all that evaluation, prediction and export need.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf._version import __version__
from albert_tf.checkpoints.folder import BEST_DIR
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import InputError
from albert_tf.kinds.kind import KIND_FILE, Kind
from albert_tf.kinds.registry import read_kind
from albert_tf.tokenization import AlbertTokenizer, Tokenizer, WordPieceTokenizer

OPTIONS_FILE = "run_options.json"
# A key of that file beside the options: SHA-256 of the vocabulary.
VOCABULARY_SHA256 = "vocabulary_sha256"
# Another one: SHA-256 of config and kind, file name -> accepted ones.
_SHA256 = "sha256"
# Another one: version of this package.
_VERSION = "albert_tf_version"

_MODEL_FILES = {
    "albert_config_file": CONFIG_FILE,
    "spm_model_file": AlbertTokenizer.file_name,
    "vocab_file": WordPieceTokenizer.file_name,
}


def kind_of(checkpoint: str) -> Kind | None:
    """Returns the kind next to a checkpoint, given by prefix or folder; None if there is none.

    Raises:
        InputError: its file is damaged.
    """
    folder = folder_of(checkpoint)
    return read_kind(folder) if tf.io.gfile.exists(os.path.join(folder, KIND_FILE)) else None


def folder_of(checkpoint: str) -> str:
    """Returns the folder whose files describe a checkpoint, given by prefix or folder.

    It is the checkpoint's own folder or, for the best checkpoint of a training, the parent.
    """
    is_folder = tf.io.gfile.isdir(checkpoint)
    folder = checkpoint.rstrip("/") if is_folder else os.path.dirname(checkpoint)
    has_config = tf.io.gfile.exists(os.path.join(folder, CONFIG_FILE))
    if os.path.basename(folder) == BEST_DIR and not has_config:
        return os.path.dirname(folder)
    return folder


def options_path(folder: str) -> str:
    """Returns the path of a folder's run options."""
    return os.path.join(folder, OPTIONS_FILE)


def read_options(path: str) -> Mapping[str, Any]:
    """Returns the options that a run wrote.

    Raises:
        InputError: the file cannot be read, does not hold an object, or was written by a newer version
            of this package.
    """
    options = files.read_json(path)
    if not isinstance(options, Mapping) or not isinstance(options.get(_SHA256, {}), Mapping):
        raise InputError(f"{path}: expected an object in braces, as --do_train writes it")
    written_by = str(options.get(_VERSION, "0"))
    if _as_numbers(written_by) > _as_numbers(__version__):
        raise InputError(
            f"{path}: written by albert_tf {written_by}, which is newer than this one, {__version__}: "
            "pip install --upgrade albert-tf"
        )
    return options


def _as_numbers(version: str) -> list[int]:
    """Returns the numbers of a version, to compare with others."""
    return [int(number) for number in re.findall(r"\d+", version)]


def options_asset(tokenizer: Tokenizer, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the run options of an exported model, as an asset.

    Args:
        tokenizer: its tokenizer.
        contents: assets whose SHA-256 are noted, file name -> content.
    """
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

    Args:
        folder: the trained folder.
        options: the options.
        contents: file name -> content.
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


def read_folder(
    model_dir: str, names: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, Any]:
    """Returns the options that a trained folder or the assets of an exported model determine.

    Args:
        model_dir: the folder. The result is empty if it holds no run options.
        names: options to return besides those that name the config and the vocabulary.
        optional: further ones, which the folder may lack.

    Raises:
        InputError: a file is damaged or has changed, or the vocabulary is not the model's.
    """
    path = options_path(model_dir)
    if not tf.io.gfile.exists(path):
        return {}
    saved = read_options(path)
    for name in names:
        if name not in saved:
            raise InputError(f"{path}: lacks '{name}', which --do_train writes")
    lower_case = saved.get("do_lower_case")
    if not isinstance(lower_case, bool | None):
        raise InputError(f"{path}: do_lower_case={lower_case!r}: expected bool")
    values: dict[str, Any] = {name: saved.get(name) for name in (*names, *optional)}
    for name, file in _MODEL_FILES.items():
        model_file = os.path.join(model_dir, file)
        values[name] = model_file if tf.io.gfile.exists(model_file) else None
    noted = {**saved.get(_SHA256, {})}
    for name in ("spm_model_file", "vocab_file"):
        if values[name] and VOCABULARY_SHA256 in saved:
            noted[_MODEL_FILES[name]] = [saved[VOCABULARY_SHA256]]
    for file, expected in noted.items():
        _check_file(os.path.join(model_dir, file), expected)
    return values


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
