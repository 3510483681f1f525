"""Outputs that take long to make: the same command resumes a stopped run.

All outputs of a run appear together when all are complete. Until then they are in folders
`<name>.incomplete` next to their final places, below a folder named by the hash of the request. A second
run with the same request resumes the work; one with another request restarts it. After a mistake of the
user the work is removed; after an error from outside complete parts are kept. One process at a time can
make the same files.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from albert_tf import files, folders
from albert_tf.errors import InputError, StoppedError

# The folder of what is valid for any request, and those of requests.
_PARTS = "parts"
_WORK = re.compile(rf"{_PARTS}|[0-9a-f]{{64}}|{re.escape(folders.LOCK)}")
_WRITING = "is making the same files; wait until it has ended, or choose other names"
_COMPLETE = "complete"


def make_outputs(
    name: str,
    paths: Mapping[str, str],
    request: Mapping[str, Any],
    overwrite: bool,
    make: Callable[[dict[str, str], str], None],
) -> None:
    """Makes several files that appear together.

    Args:
        name: the work is in the folder `<name>.incomplete`, and in one of that name next to each file.
        paths: the files to make, and the flag that named each, for messages.
        request: everything that decides the content of the files; JSON-serializable.
        overwrite: whether to replace existing files. Otherwise they raise an error.
        make: makes the missing files. It gets the path to write each file to, and a folder for parts that
            it checks itself, as they are kept for any request.
    """
    work = os.path.basename(name) + files.INCOMPLETE
    main = os.path.join(os.path.dirname(name), work)
    # The main one is cleared last, as it says that all files are complete.
    work_folders = sorted(
        {main, *(os.path.join(os.path.dirname(path), work) for path in paths)}, key=main.__eq__
    )
    digest = hashlib.sha256(json.dumps(request).encode()).hexdigest()
    parts, complete = os.path.join(main, _PARTS), os.path.join(main, digest, _COMPLETE)
    incomplete = {
        path: os.path.join(os.path.dirname(path), work, digest, os.path.basename(path))
        for path in paths
    }
    if not files.exists(complete):
        _check_new(paths, overwrite)
    files.make_directory(main)
    with folders.lock_folder(main, _WRITING):
        if not files.exists(complete):
            _clear(work_folders, [digest, _PARTS, folders.LOCK])
            for folder in dict.fromkeys([parts, *map(os.path.dirname, incomplete.values())]):
                files.make_directory(folder)
                for unfinished in files.matches(folder, "*" + files.INCOMPLETE):
                    files.remove(unfinished)
            try:
                make(incomplete, parts)
            except StoppedError as error:
                raise StoppedError(
                    f"{error}; complete work is kept in '{main}', the same command resumes"
                ) from error
            except InputError:
                _clear(work_folders)
                raise
            files.write_text(complete, "")
        for path, unnamed in incomplete.items():
            if files.exists(unnamed):  # otherwise it was renamed before the run was stopped
                with files.explain_refusal(path):
                    files.rename(unnamed, path)
        _clear(work_folders, [digest, folders.LOCK])
        _clear(work_folders)


def _check_new(paths: Mapping[str, str], overwrite: bool) -> None:
    for path, flag in paths.items():
        if files.is_folder(path):
            raise InputError(f"{flag}: {path} is a folder; expected the name of a file to write")
        if files.exists(path) and not overwrite:
            raise InputError(
                f"{flag}: {path} exists already; remove it, choose another name or set --overwrite"
            )


def _clear(work_folders: Sequence[str], kept: Collection[str] = ()) -> None:
    """Removes work except for some names, and folders without other files, which are the user's."""
    for folder in filter(files.is_folder, work_folders):
        names = set(files.list_names(folder))
        work = set(filter(_WORK.fullmatch, names)).difference(kept)
        for path in [folder] if work == names else [os.path.join(folder, name) for name in work]:
            files.remove(path)
