"""Opens checkpoints of all formats, and loads them into models."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf.checkpoints import keras_hub
from albert_tf.checkpoints.hugging_face import HuggingFaceConfig, is_hugging_face
from albert_tf.checkpoints.hugging_face_reader import FolderReader, is_folder
from albert_tf.checkpoints.names import SHARED, BrightmartReader, OriginalReader
from albert_tf.checkpoints.tensors import (
    StateReader,
    Stored,
    TensorReader,
    assign,
    find_checkpoint,
    open_tensors,
    strip_scope,
    variables_by_path,
)
from albert_tf.config import ALBERT_CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.model_folder import CONFIG_FILE, TRAINED_LAYERS, folder_of, is_state, read_values
from albert_tf.options.parts import FormatName
from albert_tf.sources import find_model

# What names begin with -> whose checkpoint of TensorFlow it is.
_TENSORFLOW_READERS = {SHARED: BrightmartReader, "bert/": OriginalReader}
# All that can be read, for messages.
_FORMATS = "; ".join(
    reader.description
    for reader in (FolderReader, *_TENSORFLOW_READERS.values(), keras_hub.KerasHubReader)
)


def open_checkpoint(path: str) -> TensorReader:
    """Opens a checkpoint; its files and the names of its tensors tell its format."""
    if keras_hub.is_preset(path):
        return keras_hub.KerasHubReader(path)
    if is_state(path):
        return StateReader(path)
    return FolderReader(path) if is_folder(path) else _open_tensorflow(find_checkpoint(path))


def _open_tensorflow(prefix: str) -> TensorReader:
    tensors = open_tensors(prefix)
    names = [*map(strip_scope, tensors.get_variable_to_shape_map())]
    for start, reader_class in _TENSORFLOW_READERS.items():
        if any(name.startswith(start) for name in names):
            return reader_class(prefix, tensors)
    raise InputError(
        f"{prefix}: holds '{min(names, default='nothing')}'; expected a model in one of these formats: "
        f"{_FORMATS}"
    )


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The weights that were loaded from a checkpoint, and those that were not.

    Attributes:
        prefix: the checkpoint, or the folder.
        format_name: name of the checkpoint's format.
        format: the format, as text for messages.
        read: for each variable that was read, its path and how the checkpoint stores it.
        missing: paths of the variables that the checkpoint lacks and that keep their values.
        unexpected: names of the weights in the checkpoint that the model has no place for.
        optimizer: names of the optimizer's variables, the step and TensorFlow's own.
        sha256: sums of the files without a checksum of their own (safetensors), by name.
    """

    prefix: str
    format_name: FormatName
    format: str
    read: tuple[tuple[str, Stored], ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    optimizer: tuple[str, ...]
    sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def summary(self) -> str:
        """Returns the report as one line."""
        others = [f"{len(self.optimizer)} of the optimizer"] if self.optimizer else []
        if self.unexpected:
            others.append(f"{len(self.unexpected)} of other parts: {', '.join(self.unexpected)}")
        unneeded = f"; not needed by this model: {' and '.join(others)}" if others else ""
        missing = (
            f"; missing, initialised randomly: {', '.join(self.missing)}" if self.missing else ""
        )
        sums = "".join(f"; SHA-256 of {name}: {value}" for name, value in self.sha256.items())
        return (
            f"read {len(self.read)} variables from {self.prefix} ({self.format})"
            f"{unneeded}{missing}{sums}"
        )

    def check_complete(self) -> None:
        """Raises an `InputError` if weights are missing, which only training would make useful."""
        if self.missing:
            raise InputError(
                f"{self.prefix} ({self.format}): lacks {', '.join(self.missing)}; without training they "
                "would keep their random initial values"
            )


def find_config(path: str) -> str | None:
    """Returns the config file beside a checkpoint (a folder or a prefix), for `read_config`."""
    folder = folder_of(path)
    hub_config = os.path.join("assets", ALBERT_CONFIG_FILE)  # of TensorFlow Hub's modules
    paths = [os.path.join(folder, name) for name in (ALBERT_CONFIG_FILE, CONFIG_FILE, hub_config)]
    return next(filter(tf.io.gfile.exists, paths), None)


def read_config(path: str) -> AlbertConfig:
    """Reads a published `albert_config.json`, or the `config.json` of Hugging Face or KerasHub.

    Their keys tell them apart. `gelu` means another function in each (docs/fidelity.md).

    Raises:
        InputError: the file cannot be read or does not describe a model that we have.
    """
    return _read_config(path)[0]


def read_trained_layers(path: str) -> list[int]:
    """Returns the numbers of layers that a model was trained with, given its config.

    It reads the same files as `read_config`, and raises the same errors.
    """
    return _read_config(path)[1]


def _read_config(path: str) -> tuple[AlbertConfig, list[int]]:
    """Returns a config, and the numbers of layers that its model was trained with."""
    values = read_values(path)
    with name_place(path):
        if is_hugging_face(values):
            config = HuggingFaceConfig.from_dict(values).encoder
        elif keras_hub.is_keras_hub(values):
            config = keras_hub.config_from_dict(values)
        else:
            config = AlbertConfig.from_dict(values)
        trained = values.get(TRAINED_LAYERS, [config.num_hidden_layers])
        if not isinstance(trained, list) or not all(isinstance(count, int) for count in trained):
            raise InputError(f"{TRAINED_LAYERS} {trained!r} is not a list of numbers")
    return config, trained


def _warn_of_depth(config: AlbertConfig, path: str) -> None:
    """Warns if the weights at a path were not trained with a config's number of layers."""
    file, number = find_config(path), config.num_hidden_layers
    try:
        trained = read_trained_layers(file) if file else [number]
    except InputError:
        return  # The file is not that of this model, whose config is elsewhere.
    if number not in trained:
        warn(
            f"num_hidden_layers={number}: the model was trained with "
            f"{', '.join(map(str, trained))}, and is worse with others until it is trained with them"
        )


def load_checkpoint(model: keras.Model, path: str) -> LoadReport:
    """Loads all weights of a model, or of a part such as its encoder, from a checkpoint.

    Whatever else the checkpoint holds, such as other heads and the optimizer's variables, is ignored. A
    weight of the encoder that the model has no place for is an error: the config would be wrong.

    If the checkpoint holds nothing of a head, the head keeps its random initial values, and so does a
    pooler, which some of Hugging Face's models lack. The report names them; call
    `LoadReport.check_complete` if no training follows.

    Args:
        model: an encoder, or a model with one.
        path: name of a model as for `albert_tf.load`, such as `small_en`; the output folder of a run, for
            its best weights; the state of a run (`.../state/step-1000.safetensors`); a Hugging Face
            folder with safetensors; a preset's folder of KerasHub; prefix of a checkpoint of the
            original or of brightmart's (`.../model.ckpt-best`), or a folder with such checkpoints, for
            its latest or only one; the folder of an ALBERT of TensorFlow Hub, in its first format.

    Returns:
        The variables that were read, the missing ones and the unexpected weights.

    Raises:
        InputError: there is no checkpoint, it is damaged, or it does not fit the model: the encoder or
            a part of a head is missing or has another shape. The model is unchanged.
    """
    reader = open_checkpoint(find_model(path))
    return load_reader(model, reader, _find_missing(model, reader))


def stored_labels(path: str) -> tuple[str, ...]:
    """Returns the names that a Hugging Face folder gives to a classifier's classes.

    The tuple is empty for any other path, and for names that are only `LABEL_0` and so on.
    """
    if not is_folder(path):
        return ()
    return HuggingFaceConfig.from_json_file(os.path.join(path, CONFIG_FILE)).label_names


def stored_shape(path: str, variable_path: str) -> tuple[int, ...] | None:
    """Returns the shape of one of our variables in a checkpoint; None if it is not there."""
    reader = open_checkpoint(path)
    if not reader.holds(variable_path):
        return None
    return tuple(reader.shape(reader.layout(variable_path)))


def variables_of(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the variables of a model by path, with the default names of its parts in the paths."""
    parts = model, getattr(model, "encoder", model)
    names = {part.name: getattr(part, "NAME", part.name) for part in parts}
    variables = {}
    for path, variable in variables_by_path(model.weights).items():
        name, _, rest = path.partition("/")
        variables[f"{names.get(name, name)}/{rest}"] = variable
    return variables


def _find_missing(model: keras.Model, reader: TensorReader) -> list[str]:
    """Returns the paths of the parts that a checkpoint may lack and of which it holds nothing."""
    encoder_paths = variables_of(getattr(model, "encoder", model))
    parts: dict[tuple[str, ...], list[str]] = {}
    for path in variables_of(model):
        if path not in encoder_paths or reader.may_lack(path):
            part = tuple(path.split("/")[:2])  # the names of the model and the layer
            parts.setdefault(part, []).append(path)
    return [path for paths in parts.values() if not any(map(reader.holds, paths)) for path in paths]


def load_reader(
    model: keras.Model, reader: TensorReader, missing: Sequence[str] = ()
) -> LoadReport:
    """Loads the weights of a model from an open checkpoint; `missing` are the paths that it lacks."""
    encoder = getattr(model, "encoder", model)
    with name_place(f"{reader.prefix} ({reader.description})"):
        reader.check_config(encoder.config)
    variables = variables_of(model)
    wanted = {path: variable for path, variable in variables.items() if path not in missing}
    values = reader.read_all(wanted)
    read = {path: reader.layout(path) for path in wanted}
    taken = {name for stored in read.values() for name in stored.names}
    unexpected, optimizer = [], []
    for name in sorted(reader.shapes.keys() - taken):
        (optimizer if reader.is_no_weight(name) else unexpected).append(name)
    for name in unexpected:
        is_encoder = name.startswith((*reader.encoder_prefixes, f"{encoder.NAME}/"))
        if is_encoder and (encoder.with_pooler or "pooler" not in name):
            raise InputError(
                f"{reader.prefix}: holds '{name}', for which the model of this config has no place"
            )
    assign(wanted, values)
    _warn_of_depth(encoder.config, reader.prefix)
    return LoadReport(
        prefix=reader.prefix,
        format_name=reader.format_name,
        format=reader.description,
        read=tuple(read.items()),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        optimizer=tuple(optimizer),
        sha256=reader.sha256,
    )
