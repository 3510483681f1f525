"""What a run notes of its options in its folder: the same after any number of stops, and no place.

The folder may be moved, published, or resumed where everything lies elsewhere. So of a path its last part
is noted, and of a model that is found by name that name.
"""

import os
from collections.abc import Mapping
from typing import Any

from albert_tf.options import to_json_dict
from albert_tf.options.resolution import Resolution
from albert_tf.sources import is_path
from albert_tf.tasks.paths import MODELS

# What the names of options end with whose values are paths.
_PATHS = ("_file", "_dir", "add_pieces")


def note_options(values: Resolution[Any], begun: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a run as its folder notes them, with who set those without a flag.

    `begun` is what the folder notes of a run that is resumed; empty for a new one. A resumed run does not
    read the model that it began with, and takes its files from the folder; it notes both as before.
    """
    notes = {}
    for name, value in to_json_dict(values.options()).items():
        is_begun = name in MODELS or (name.endswith(_PATHS) and values.source(name) == "folder")
        if is_begun and name in begun:
            notes[name] = begun[name]
        else:
            # Who starts from a model has a path in place of its name.
            notes[name] = note(name, getattr(values.given, name) if name in MODELS else value)
    del notes["output_dir"]
    return {**notes, **values.noted()}


def note(name: str, value: Any) -> Any:
    """Returns the value of an option as a run notes it, with tuples as lists."""
    if isinstance(value, list | tuple):
        return [note(name, each) for each in value]
    if isinstance(value, str) and (name.endswith(_PATHS) or (name in MODELS and is_path(value))):
        return os.path.basename(os.path.normpath(value)) or os.sep
    return value
