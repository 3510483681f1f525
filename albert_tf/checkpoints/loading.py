"""Loads checkpoints of all formats into models, and reports what was read and what is missing."""

import dataclasses
from collections.abc import Mapping

import keras

from albert_tf.accounting import shown
from albert_tf.checkpoints.growth import Growth
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.checkpoints.tensors import Stored, TensorReader, assign, variables_by_path
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.options.models import FormatName


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
        unknown: those of them that are of no head either.
        optimizer: names of the optimizer's variables, the step and TensorFlow's own.
        sha256: sums of the files without a checksum of their own (safetensors), by name.
    """

    prefix: str
    format_name: FormatName
    format: str
    read: tuple[tuple[str, Stored], ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    unknown: tuple[str, ...]
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

    def warn_of_unknown(self) -> None:
        """Warns if there are weights of no known head, which other code may apply before its own."""
        if self.unknown:
            warn(
                f"{self.prefix}: holds {shown(', '.join(self.unknown))}, weights of no known head; they "
                "are left out, and a model that applies them has other outputs"
            )

    def check_complete(self) -> None:
        """Raises an `InputError` if weights are missing, which only training would make useful."""
        if self.missing:
            raise InputError(
                f"{self.prefix} ({self.format}): lacks {', '.join(self.missing)}; without training they "
                "would keep their random initial values"
            )


def read_config(path: str) -> AlbertConfig:
    """Reads a published `albert_config.json`, or the `config.json` of Hugging Face or KerasHub.

    Their keys tell them apart; Google's BERTs are known by the name `bert_config.json`. `gelu` means
    another function in each (docs/fidelity.md).

    Raises:
        InputError: the file cannot be read or does not describe a model that we have.
    """
    return StoredModel.of_config(path).config


def _warn_of_depth(config: AlbertConfig, stored: StoredModel) -> None:
    """Warns if weights were not trained with a config's number of layers, as their own config says."""
    number = config.num_hidden_layers
    try:
        trained = stored.trained_layers if stored.config_file else [number]
    except InputError:
        return  # The file is not that of this model, whose config is elsewhere.
    if number not in trained:
        warn(
            f"num_hidden_layers={number}: the model was trained with "
            f"{', '.join(map(str, trained))}, and is worse with others until it is trained with them"
        )


def load_checkpoint(model: keras.Model, path: str, growth: Growth | None = None) -> LoadReport:
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
            original, of brightmart's or of Google's BERT (`.../model.ckpt-best`), or a folder with
            such checkpoints, for its latest or only one; the folder of an ALBERT of TensorFlow Hub, in
            its first format.
        growth: how rows are made that the model has and the checkpoint lacks; without it both have the
            same.

    Returns:
        The variables that were read, the missing ones and the unexpected weights.

    Raises:
        InputError: there is no checkpoint, it is damaged, or it does not fit the model: the encoder or
            a part of a head is missing or has another shape. The model is unchanged.
    """
    return load_stored(model, StoredModel.find(path), growth=growth)


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


def load_stored(
    model: keras.Model,
    stored: StoredModel,
    may_lack: bool = True,
    growth: Growth | None = None,
) -> LoadReport:
    """Loads the weights of a model from where it is stored, as `load_checkpoint` does.

    Unless it `may_lack` heads and pooler, everything has to be there.
    """
    reader = stored.reader
    encoder = getattr(model, "encoder", model)
    missing = _find_missing(model, reader) if may_lack else []
    with name_place(f"{reader.prefix} ({reader.description})"):
        reader.check_config(growth.config_of(encoder.config) if growth else encoder.config)
    variables = variables_of(model)
    wanted = {path: variable for path, variable in variables.items() if path not in missing}
    values = reader.read_all(growth.stored(wanted) if growth else wanted)
    if growth:
        sizes = {path: variable.shape[0] for path, variable in wanted.items()}
        values = {path: growth.grow(path, value, sizes[path]) for path, value in values.items()}
    read = {path: reader.layout(path) for path in wanted}
    taken = {name for stored in read.values() for name in stored.names}
    unexpected: list[str] = []
    unknown: list[str] = []
    optimizer: list[str] = []
    for name in sorted(reader.shapes.keys() - taken):
        (optimizer if reader.is_no_weight(name) else unexpected).append(name)
    for name in unexpected:
        is_encoder = name.startswith((*reader.encoder_prefixes, f"{encoder.NAME}/"))
        if is_encoder and (encoder.with_pooler or "pooler" not in name):
            raise InputError(
                f"{reader.prefix}: holds '{name}', for which the model of this config has no place"
            )
        if not is_encoder and not reader.is_of_head(name):
            unknown.append(name)
    assign(wanted, values)
    _warn_of_depth(encoder.config, stored)
    return LoadReport(
        prefix=reader.prefix,
        format_name=reader.format_name,
        format=reader.description,
        read=tuple(read.items()),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        unknown=tuple(unknown),
        optimizer=tuple(optimizer),
        sha256=reader.sha256,
    )
