"""The files of a corpus: found, and checked for changes."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.data.source_files import without_compression
from albert_tf.errors import InputError, StoppedError

_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}$")


class InputFile(NamedTuple):
    """A file, as it is now."""

    path: str
    size: int  # in bytes
    modified: int  # time of the last change, nanoseconds since 1970


def find_files(patterns: Sequence[str]) -> list[InputFile]:
    """Returns the files that match, sorted within each pattern, each file once.

    A pattern may be a file, a glob, or a folder: all files below it but hidden and unfinished ones.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if files.is_folder(pattern):
            matches = _files_below(pattern)
            if not matches:
                raise InputError(f"the folder '{pattern}' holds no file")
        else:
            matches = files.expand_globs([pattern])
        found.update(dict.fromkeys(matches))
    return [find_file(path) for path in found]


def find_file(path: str) -> InputFile:
    """Returns a file with its size and time."""
    return InputFile(path, *files.status(path))


def _files_below(folder: str) -> list[str]:
    found: list[str] = []
    entered: set[str] = set()
    for parent, folders, names in files.walk(folder):
        real = os.path.realpath(parent)
        if real in entered:  # a symbolic link, perhaps to a folder above
            folders.clear()
            continue
        entered.add(real)
        # The order decides under which name a folder that has several is entered.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(parent, name) for name in names if not name.startswith(".")]
    # The run that resumes a stopped one finds its work, if the output is below the folder.
    return sorted(path for path in found if files.INCOMPLETE not in path[len(folder) :])


@contextlib.contextmanager
def expect_unchanged(inputs: Sequence[InputFile]) -> Iterator[None]:
    """Checks after the block, and after an `InputError` in it, that the files have not changed."""
    fault = None
    try:
        yield
    except InputError as error:
        fault = error
    for file in inputs:
        if not files.exists(file.path) or find_file(file.path) != file:
            raise StoppedError(f"{file.path}: changed while it was read") from fault
    if fault is not None:
        raise fault


def name_files(paths: Sequence[str]) -> str:
    """Returns a short name for some files, for messages."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def stats_file_of(path: str) -> str:
    """Returns the path of the stats file next to a record file or its shards."""
    stem, _ = os.path.splitext(without_compression(path))
    return _SHARD_NUMBER.sub("", stem) + ".stats.json"
