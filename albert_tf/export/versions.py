"""Version folders as TensorFlow Serving watches them: `<export_dir>/<name>/<n>/`.

What is exported together has one number, and appears together.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf

from albert_tf import files


def next_version(export_dir: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the folder of the next version of each model, and makes what it will lie in.

    Args:
        export_dir: folder of the models' folders.
        names: of the models' folders; the version is one above the greatest in any of them.

    Raises:
        InputError: a folder cannot be made.
    """
    directories = {name: os.path.join(export_dir, name) for name in names}
    for directory in directories.values():
        files.make_directory(directory)
    version = str(1 + max(map(_latest_version, directories.values())))
    return {name: os.path.join(directory, version) for name, directory in directories.items()}


@contextlib.contextmanager
def write_version(paths: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Gives for each folder one to write instead; all get their names once all are complete.

    Args:
        paths: from `next_version`.

    Raises:
        InputError: the file system refuses.
    """
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(files.write_atomically(path)) for name, path in paths.items()
        }


def _latest_version(directory: str) -> int:
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    return max((int(name) for name in names if name.isdigit()), default=0)
