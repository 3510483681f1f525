"""Outputs that take long to make: the same command resumes a stopped run.

All outputs of a run appear together when all are complete. Until then they are in folders
`<name>.incomplete` next to their final places, each with a file that describes the request. A second run
with the same request resumes the work; one with another request restarts it. After a mistake of the user
the work is removed; after an error from outside complete parts are kept.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, StoppedError

_REQUEST = "request.json"
_COMPLETE = "complete"


def make_outputs(
    name: str,
    paths: Mapping[str, str],
    request: Mapping[str, Any],
    overwrite: bool,
    make: Callable[[dict[str, str]], None],
    reusable: Collection[str] = (),
) -> None:
    """Makes several files that appear together.

    Args:
        name: the work is in the folder `<name>.incomplete`, and in one of that name next to each file.
        paths: the files to make, and the flag that named each, for messages.
        request: everything that decides the content of the files; JSON-serializable.
        overwrite: whether to replace existing files. Otherwise they raise an error.
        make: makes the missing files. Its argument maps each file to the path to write it to. Other files
            next to that path are its own earlier work.
        reusable: names in `<name>.incomplete` that `make` checks itself, kept for any request.
    """
    work = name + files.INCOMPLETE
    incomplete = {
        path: os.path.join(os.path.dirname(path), os.path.basename(work), os.path.basename(path))
        for path in paths
    }
    # The request in `work` is written last, as it marks all folders as ready, and removed last.
    folders = sorted(dict.fromkeys(map(os.path.dirname, incomplete.values())), key=work.__eq__)
    note, complete = os.path.join(work, _REQUEST), os.path.join(work, _COMPLETE)
    resumes = tf.io.gfile.exists(note) and (
        files.read_json(note) == json.loads(json.dumps(request))  # with lists instead of tuples
    )
    if not (resumes and tf.io.gfile.exists(complete)):
        _check_new(paths, overwrite)
        if not resumes:
            _check_ours(folders)
            files.remove(complete)
            _clear(folders, reusable)
            for folder in folders:
                files.write_json(os.path.join(folder, _REQUEST), request)
        try:
            make(incomplete)
        except StoppedError as error:
            raise StoppedError(
                f"{error}; complete work is kept in '{work}', the same command resumes"
            ) from error
        except InputError:
            _remove(folders)
            raise
        files.write_text(complete, "")
    for path, unnamed in incomplete.items():
        if tf.io.gfile.exists(unnamed):  # otherwise it was renamed before the run was stopped
            with files.explain_refusal(path):
                tf.io.gfile.rename(unnamed, path, overwrite=True)
    _remove(folders)


def _check_new(paths: Mapping[str, str], overwrite: bool) -> None:
    for path, flag in paths.items():
        if tf.io.gfile.isdir(path):
            raise InputError(f"{flag}: {path} is a folder; expected the name of a file to write")
        if tf.io.gfile.exists(path) and not overwrite:
            raise InputError(
                f"{flag}: {path} exists already; remove it, choose another name or set --overwrite"
            )


def _check_ours(folders: Sequence[str]) -> None:
    """Checks that the work folders are missing, empty, or of an earlier run."""
    for folder in folders:
        if not tf.io.gfile.exists(folder):
            continue
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else [""]
        if names and not any(name.startswith(_REQUEST) for name in names):
            raise InputError(
                f"{folder}: this folder for unfinished work holds other files; move it away or choose "
                "another name"
            )


def _clear(folders: Sequence[str], reusable: Collection[str]) -> None:
    """Makes the work folders, and empties them except for requests and reusable work."""
    for folder in folders:
        files.make_directory(folder)
        for name in tf.io.gfile.listdir(folder):
            if name.rstrip("/") not in (_REQUEST, *reusable):
                files.remove(os.path.join(folder, name))


def _remove(folders: Sequence[str]) -> None:
    """Removes the work folders. Until the end a run that is killed meanwhile can be resumed."""
    _clear(folders, [_COMPLETE])
    for folder in folders:
        files.remove(folder)
