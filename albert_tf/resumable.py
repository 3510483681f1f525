"""Outputs that take long to make: a run that was stopped is finished by the same command.

All outputs of a run appear together, when all are complete. Until then they are in folders
`<name>.incomplete` beside their final places, each with a note of the request that the run serves. A
second run with the same request resumes the work; one with another request restarts it.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from albert_tf import files, gfile
from albert_tf.errors import InputError, StoppedError

_REQUEST = "request.json"
_COMPLETE = "complete"


def make_outputs(
    name: str,
    flags: Mapping[str, str],
    request: Mapping[str, Any],
    overwrite: bool,
    make: Callable[[dict[str, str]], None],
    reusable: Collection[str] = (),
) -> None:
    """Makes several files that get their names together.

    Args:
        name: the folder `<name>.incomplete` holds the work, and one of that name lies beside each file
            to make.
        flags: each file to make -> the flag that names it, for messages.
        request: all that decides what is in the files, as JSON writes it.
        overwrite: whether files that exist are replaced; otherwise they are refused.
        make: is given each file -> the name to write it under, and makes those that are not there.
            What it finds there under any other name is its own work from before, too.
        reusable: names in `<name>.incomplete` that stay for a run with another request, which has to see
            for itself what it can use of them.

    Raises:
        InputError: a file exists, a folder is in the way, or `make` raises it; then no work stays.
        StoppedError: `make` raises it, or the file system refuses; then complete work stays.
    """
    work = name + files.INCOMPLETE
    incomplete = {
        path: os.path.join(os.path.dirname(path), os.path.basename(work), os.path.basename(path))
        for path in flags
    }
    folders = {os.path.dirname(unnamed): flags[path] for path, unnamed in incomplete.items()}
    note, complete = os.path.join(work, _REQUEST), os.path.join(work, _COMPLETE)
    goes_on = _holds(note, request)
    if not (goes_on and gfile.exists(complete)):
        _check_new(flags, overwrite)
        if not goes_on:
            _check_ours(folders)
            files.remove(complete)
            _clear(folders, reusable)
            # The note in `work` comes last: it says that all folders are ready.
            for folder in sorted(folders, key=lambda folder: folder == work):
                files.write_json(os.path.join(folder, _REQUEST), request)
        try:
            make(incomplete)
        except StoppedError as error:
            raise StoppedError(
                f"{error}; complete work is kept in '{work}', the same command goes on from there"
            ) from error
        except InputError:
            _remove(folders)
            raise
        files.write_text(complete, "")
    for path, unnamed in incomplete.items():
        if gfile.exists(unnamed):  # else it got its name before the run was stopped
            with files.explain_refusal(path):
                gfile.rename(unnamed, path, overwrite=True)
    _remove(folders)


def _holds(note: str, request: Mapping[str, Any]) -> bool:
    if not gfile.exists(note):
        return False
    return files.read_json(note) == json.loads(json.dumps(request))  # tuples are lists there


def _check_new(flags: Mapping[str, str], overwrite: bool) -> None:
    for path, flag in flags.items():
        if gfile.isdir(path):
            raise InputError(
                f"--{flag}: '{path}' is a folder; expected the name of a file to write"
            )
    existing = [] if overwrite else [path for path in flags if gfile.exists(path)]
    if existing:
        raise InputError(
            f"--{flags[existing[0]]}: '{existing[0]}' exists already; remove it, name another file "
            "or give --overwrite"
        )


def _check_ours(folders: Mapping[str, str]) -> None:
    """Checks that the folders to work in are absent, empty, or of an earlier run."""
    for folder, flag in folders.items():
        if not gfile.exists(folder):
            continue
        names = gfile.listdir(folder) if gfile.isdir(folder) else [""]
        if names and not any(name.startswith(_REQUEST) for name in names):
            raise InputError(
                f"--{flag}: '{folder}', the place for unfinished work, holds something else; expected "
                "it to be free: move it away or name another file"
            )


def _clear(folders: Mapping[str, str], reusable: Collection[str]) -> None:
    """Makes the folders to work in, and removes what is in them but old notes and what is reusable."""
    for folder, flag in folders.items():
        files.make_directory(folder, flag)
        for name in gfile.listdir(folder):
            if name.rstrip("/") not in (_REQUEST, *reusable):
                files.remove(os.path.join(folder, name))


def _remove(folders: Iterable[str]) -> None:
    for folder in folders:
        files.remove(folder)
