"""The folder of a model, in Hugging Face's layout, and what `config.json` says beside their keys.

All models that this package writes lie in such folders: the best model of a run, conversions and, without
weights, what describes the state of a run and an exported model. The key `albert_tf` holds

    version    the version of this package
    kind       name and fields of the kind of model, see `albert_tf.kinds`; absent after pre-training
    options    the options of the run that trained it, if any
    metrics    those of the evaluation that chose the weights, if any, and their step
    sha256     SHA-256 of each other file of the folder, by name
    checksum   SHA-256 of the values of the file itself

so that files that are damaged, or do not belong together, are refused.
"""

import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, Self

from albert_tf import files, folders
from albert_tf._version import __version__
from albert_tf.errors import InputError
from albert_tf.known_modules import EMBEDDER_FILE, TRANSFORMER_FILES

CONFIG_FILE = "config.json"
MODULES_FILE = (
    "modules.json"  # of sentence-transformers, see `albert_tf.kinds.sentence_transformers`
)
_MODULE_FILES = (MODULES_FILE, *TRANSFORMER_FILES, EMBEDDER_FILE)
# The key with our values, and the model_type of models that Hugging Face does not have.
OWN: Final = "albert_tf"
# Keys of the config of pre-trained weights that say how to use them; conversions and further
# pre-training keep them.
RECOMMENDED_RATE, TRAINED_LAYERS = "recommended_learning_rate", "trained_num_hidden_layers"
# Folders in the output folder of a run: of its best weights, and of its state, without weights.
BEST_DIR, STATE_DIR = "best", "state"
_STATE = re.compile(r"step-(\d+)\.safetensors")

_CHECKSUM, _SHA256 = "checksum", "sha256"
# Others that save the model again keep our key, which no longer describes it.
_TRANSFORMERS_KEY = "transformers_version"


def find_best(output_dir: str) -> str | None:
    """Returns the folder of the best weights of a run; None if there is none."""
    folder = folders.current_folder(os.path.join(output_dir, BEST_DIR))
    return folder if files.exists(os.path.join(folder, CONFIG_FILE)) else None


def list_states(folder: str) -> list[str]:
    """Returns the files with the states of a run, in the order of their steps."""
    names = {path: os.path.basename(path) for path in files.matches(folder, "step-*")}
    steps = {
        path: int(found[1]) for path, name in names.items() if (found := _STATE.fullmatch(name))
    }
    return sorted(steps, key=lambda path: steps[path])


def is_state(path: str) -> bool:
    """Returns whether a path is that of the state of a run."""
    return _STATE.fullmatch(os.path.basename(path)) is not None


def read_values(path: str) -> Any:
    """Returns the content of a `config.json`, without our key if others have saved it again."""
    values = files.read_json(path)
    if not isinstance(values, Mapping) or not (OWN in values or _has_checksum(values)):
        return values
    if _TRANSFORMERS_KEY in values:
        return {key: value for key, value in values.items() if key != OWN}
    own = values.get(OWN)
    if not isinstance(own, Mapping) or not isinstance(own.get(_SHA256), Mapping):
        raise InputError(f"{path}: key '{OWN}' is not as this package writes it")
    written_by = str(own.get("version"))
    if _as_numbers(written_by) > _as_numbers(__version__):
        raise InputError(
            f"{path}: written by albert_tf {written_by}, which is newer than this one, {__version__}"
        )
    if own.get(_CHECKSUM) == _checksum(values):
        return values
    if renamed := _rename_labels(values):
        return renamed
    raise InputError(
        f"{path}: is damaged or was changed; expected it as it was written; only the names in id2label "
        f"may be edited; without the key '{OWN}' it is read as a model of Hugging Face's"
    )


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """A folder with files of a model, whose `config.json` is read and checked once.

    Attributes:
        path: its path.
        modules: the folder around it whose `modules.json` names it, if there is one.
    """

    path: str
    modules: str | None = None

    @classmethod
    def of(cls, path: str) -> Self:
        """Returns the folder whose files describe a model, given by folder, file or prefix.

        The first versions of sentence-transformers keep the model in a folder of its own, such as
        `0_Transformer`, which `modules.json` names.
        """
        if not files.is_folder(path):
            return cls(os.path.dirname(path))
        folder = cls(path.rstrip("/"))
        inner = _find_transformer(folder) if folder.holds(MODULES_FILE) else None
        return folder if inner is None else cls(os.path.join(folder.path, inner), folder.path)

    @property
    def config_file(self) -> str:
        """The path of its `config.json`, also if there is none."""
        return os.path.join(self.path, CONFIG_FILE)

    def holds(self, name: str) -> bool:
        """Returns whether there is a file or a folder with a name."""
        return files.exists(os.path.join(self.path, name))

    def names(self) -> list[str]:
        """Returns the names of its files and folders."""
        return [os.path.basename(path) for path in files.matches(self.path, "*")]

    @functools.cached_property
    def values(self) -> Any:
        """The content of its `config.json`, see `read_values`."""
        return read_values(self.config_file)

    @functools.cached_property
    def own(self) -> Mapping[str, Any]:
        """The values under our key; none if there are none."""
        values = self.values if self.holds(CONFIG_FILE) else {}
        return values.get(OWN, {}) if isinstance(values, Mapping) else {}

    def stored_sum(self, name: str) -> str | None:
        """Returns the SHA-256 that a file should have; None if that is not known."""
        return self.own.get(_SHA256, {}).get(name)

    def check_sum(self, path: str) -> str:
        """Returns the SHA-256 of a file in the folder, which has to be the one in the config."""
        name = os.path.relpath(path, self.path)
        received, expected = files.sha256(path), self.stored_sum(name)
        if expected not in (None, received):
            raise InputError(
                f"{path}: has the SHA-256 {received}; {CONFIG_FILE} next to it says {expected}: the "
                "file is damaged or of another model"
            )
        return received

    def check_modules(self) -> None:
        """Checks the sums of the files that make it a folder of sentence-transformers.

        The kind in the config has all that they say, so nothing else here reads them.
        """
        for name in self.own.get(_SHA256, {}):
            if (os.path.dirname(name) or name in _MODULE_FILES) and self.holds(name):
                self.check_sum(os.path.join(self.path, name))


def _find_transformer(folder: ModelFolder) -> str | None:
    """Returns the name of the folder of an embedder's first module; None if it has none of its own."""
    modules = files.read_json(os.path.join(folder.path, MODULES_FILE))
    first = modules[0] if isinstance(modules, list) and modules else None
    name = first.get("path") if isinstance(first, Mapping) else None
    if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
        return None
    return name if folder.holds(name) else None


def read_own(folder: str) -> Mapping[str, Any]:
    """Returns the values under our key in the config of a folder; none if there are none."""
    return ModelFolder(folder).own


def write_config(
    folder: str, values: Mapping[str, Any], own: Mapping[str, Any], sums: Mapping[str, str]
) -> None:
    """Writes `config.json`: Hugging Face's keys, and under our key kind, options, metrics and sums."""
    values = {**values, OWN: {"version": __version__, **own, _SHA256: dict(sums)}}
    values = json.loads(json.dumps(values))  # as it is read
    values[OWN][_CHECKSUM] = _checksum(values)
    files.write_json(os.path.join(folder, CONFIG_FILE), values)


def replace_own(folder: str, **changes: Any) -> None:
    """Replaces values under our key in the config of a folder."""
    values = dict(read_values(os.path.join(folder, CONFIG_FILE)))
    own = {**values.pop(OWN), **changes}
    write_config(folder, values, own, sums=own[_SHA256])


def _rename_labels(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the content of a config whose labels alone have other names than it was written with.

    Names of labels may be edited in `id2label`, as before a model is published. Our key then gets them,
    too. None if something else was changed, or names are missing or equal.
    """
    kind, id2label = values[OWN].get("kind"), values.get("id2label")
    if not isinstance(kind, Mapping) or not isinstance(id2label, Mapping):
        return None
    written, names = kind.get("labels"), [*id2label.values()]
    numbers = [str(number) for number in range(len(names))]
    if not isinstance(written, list) or [*id2label] != numbers or len(written) != len(names):
        return None
    if not all(isinstance(name, str) and name for name in names) or len({*names}) < len(names):
        return None
    before = {
        **values,
        "id2label": dict(zip(numbers, written, strict=True)),
        "label2id": {name: number for number, name in enumerate(written)},
    }
    if values[OWN][_CHECKSUM] != _checksum(before):
        return None
    return {
        **before,
        "id2label": id2label,
        "label2id": {name: number for number, name in enumerate(names)},
        OWN: {**values[OWN], "kind": {**kind, "labels": names}},
    }


def _has_checksum(values: Mapping[str, Any]) -> bool:
    """Returns whether there is our key, whatever damage has made of its name."""
    return any(isinstance(value, Mapping) and _CHECKSUM in value for value in values.values())


def _checksum(values: Mapping[str, Any]) -> str:
    own = {key: value for key, value in values[OWN].items() if key != _CHECKSUM}
    content = json.dumps({**values, OWN: own}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _as_numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
