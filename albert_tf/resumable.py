"""Outputs that take long to make: a run that was stopped is finished by the same command.

All outputs of a run appear together, when all are complete. Until then they are in folders
`<name>.incomplete` beside their final places, with a note of what the run was asked for. A second run
that is asked for the same goes on with what it finds there; another one starts anew.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
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

    Raises:
        InputError: a file exists, or `make` raises it; then no work stays.
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
            _start_anew(folders, note, request)
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
    existing = [] if overwrite else [path for path in flags if gfile.exists(path)]
    if existing:
        raise InputError(
            f"--{flags[existing[0]]}: '{existing[0]}' exists already; remove it, name another file "
            "or give --overwrite"
        )


def _start_anew(folders: Mapping[str, str], note: str, request: Mapping[str, Any]) -> None:
    _remove(folders)
    for folder, flag in folders.items():
        files.make_directory(folder, flag)
    files.write_json(note, request)


def _remove(folders: Iterable[str]) -> None:
    for folder in folders:
        files.remove(folder)
