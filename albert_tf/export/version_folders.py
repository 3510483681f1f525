"""Version folders as TensorFlow Serving watches them, `<export_dir>/<name>/<n>/`, and their assets.

Models that are exported together have the same version number and appear together. `assets/` of each has
the config of the encoder, the vocabulary and what else describes the model.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator

import tensorflow as tf

from albert_tf import files
from albert_tf.backends import require_tensorflow
from albert_tf.errors import InputError, warn
from albert_tf.options.export_forms import DEFAULT_FORM, FORMS, Form
from albert_tf.tokenization.in_graph import import_tensorflow_text


def can_write_text(export_dir: str, name: str) -> bool:
    """Returns whether TensorFlow Text is there for a model of texts; warns if it is missing.

    Models of ids, which are exported together with one of texts, do without it.
    """
    try:
        import_tensorflow_text()
    except InputError as error:
        warn(f"{os.path.join(export_dir, name)}: not exported: {error}")
        return False
    return True


@contextlib.contextmanager
def write_next_version(
    export_dir: str, names: Iterable[str]
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yields each model's folder of the next version, and a temporary one, renamed to it on success.

    The version is one above the greatest in any of the models' folders, which are made if missing.
    """
    require_tensorflow("export")
    files.refuse_for_tensorflow(export_dir)  # a SavedModel has a checkpoint in it
    directories = {name: os.path.join(export_dir, name) for name in names}
    for directory in directories.values():
        files.make_directory(directory)
    version = str(1 + max(map(latest_version, directories.values())))
    paths = {name: os.path.join(directory, version) for name, directory in directories.items()}
    with contextlib.ExitStack() as stack:
        written = {
            name: stack.enter_context(files.write_atomically(path)) for name, path in paths.items()
        }
        yield paths, written


def latest_version(directory: str) -> int:
    """Returns the highest version of a model's folder; 0 for a folder without versions."""
    if not files.is_folder(directory):
        return 0
    names = files.list_names(directory)
    return max((int(name) for name in names if name.isdecimal()), default=0)


def check_saved_model(folder: str) -> None:
    """Raises an `InputError` if a folder holds no SavedModel."""
    if not tf.saved_model.contains_saved_model(folder):
        raise InputError(f"{folder}: holds no SavedModel; expected a version's folder")


def assets_folder(version_dir: str, form: Form = DEFAULT_FORM) -> str:
    """Returns the folder of a version's assets."""
    assets = FORMS[form].assets
    return os.path.join(version_dir, assets) if assets else version_dir
