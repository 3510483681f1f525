"""Any checkpoint into a model: ours and those of others, told apart by what they hold."""

import dataclasses
from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.conversion import tf1, tf_hub
from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.training.checkpoint_files import (
    VARIABLES,
    CheckpointReader,
    Layout,
    Stored,
    assign,
    find_checkpoint,
    plain_name,
    stored_by_path,
)
from albert_tf.training.checkpoints import variables_by_path


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What a model took from a checkpoint, and what not.

    Attributes:
        prefix: the checkpoint.
        kind: whose checkpoint it is, in words.
        read: for each variable of the model its path and how the checkpoint holds it.
        left: names of the weights in the checkpoint that the model has no place for.
        optimizer: names of the optimizer's variables, the step and TensorFlow's own; no model has them.
    """

    prefix: str
    kind: str
    read: tuple[tuple[str, Stored], ...]
    left: tuple[str, ...]
    optimizer: tuple[str, ...]

    def summary(self) -> str:
        """Returns the report as a paragraph."""
        left = f": {', '.join(self.left)}" if self.left else ""
        return (
            f"read {len(self.read)} variables from {self.prefix} ({self.kind}); left "
            f"{len(self.optimizer)} of its optimizer and {len(self.left)} others{left}"
        )


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of checkpoint.

    Attributes:
        description: in words.
        recognises: whether a checkpoint is of this kind.
        layout: how it holds a variable.
        check: raises an `InputError` where a checkpoint cannot hold a model of a config.
        is_no_weight: whether a name is the optimizer's, the step's or TensorFlow's own.
    """

    description: str
    recognises: Callable[[CheckpointReader], bool]
    layout: Layout
    check: Callable[[AlbertConfig, CheckpointReader], object]
    is_no_weight: Callable[[str], bool]


def _is_ours(reader: CheckpointReader) -> bool:
    return any(name.startswith(f"{VARIABLES}/") for name in reader.shapes)


def _is_no_weight_of_ours(name: str) -> bool:
    """Keras joins the path of a slot's variable with `_`, so an optimizer's paths have two parts."""
    return not name.startswith(f"{VARIABLES}/") or plain_name(name).count("/") == 1


_KINDS = (
    _Kind("albert_tf", _is_ours, stored_by_path, lambda *_: None, _is_no_weight_of_ours),
    _Kind(
        "TF Hub",
        tf_hub.is_hub_encoder,
        tf_hub.stored_in_hub,
        tf_hub.check_hub_config,
        lambda name: False,
    ),
    _Kind(
        "TensorFlow 1, brightmart's names",
        tf1.is_brightmart,
        tf1.stored_as_brightmart,
        lambda config, _: tf1.check_brightmart_config(config),
        tf1.is_no_weight,
    ),
    _Kind(
        "TensorFlow 1, the original's names",
        tf1.is_original,
        tf1.stored_as_original,
        lambda config, _: tf1.config_there(config),
        tf1.is_no_weight,
    ),
)


def load_checkpoint(model: keras.Model, path: str) -> LoadReport:
    """Reads all weights of a model, or of a part such as its encoder, from a checkpoint.

    What the checkpoint holds beyond them, such as other heads and the optimizer's variables, is left.
    Of an encoder nothing may be left: the config would be another's.

    Args:
        model: what to read: an encoder, or a model with one; every weight has to be there.
        path: prefix of a checkpoint of albert_tf, of the original or of brightmart's
            (`.../ckpt-1000`, `.../model.ckpt-best`); or a folder, for its latest or only one; or the
            folder of a SavedModel of TF Hub.

    Returns:
        what was read and what was left.

    Raises:
        InputError: there is no checkpoint, it is damaged, or it does not fit the model: names both
            variables and both shapes. The model is as it was.
    """
    reader = _open(path)
    return _load(model, reader, _recognise(reader))


def load_model(config: AlbertConfig, path: str) -> tuple[keras.Model, LoadReport]:
    """Makes the model that a checkpoint holds, with the heads that are there, and reads it.

    Args:
        config: of the encoder.
        path: as for `load_checkpoint`.

    Returns:
        an `AlbertPretrainer`, `AlbertClassifier` or `AlbertEncoder`, and what was read and left.

    Raises:
        InputError: as for `load_checkpoint`.
    """
    reader = _open(path)
    kind = _recognise(reader)
    encoder = AlbertEncoder(config)
    model = encoder
    masked_lm = kind.layout("albert_pretrainer/masked_lm_head/output_bias")
    sentence_order = kind.layout("albert_pretrainer/sentence_order_head/dense/bias")
    classifier = kind.layout("albert_classifier/head/dense/bias")
    if reader.holds(masked_lm):
        model = AlbertPretrainer(encoder, sentence_head=reader.holds(sentence_order))
    elif reader.holds(classifier):
        model = AlbertClassifier(encoder, num_classes=reader.shape(classifier)[0])
    return model, _load(model, reader, kind)


def _open(path: str) -> CheckpointReader:
    if tf_hub.is_saved_model(path):
        return tf_hub.open_saved_model(path)
    return CheckpointReader(find_checkpoint(path))


def _recognise(reader: CheckpointReader) -> _Kind:
    for kind in _KINDS:
        if kind.recognises(reader):
            return kind
    raise InputError(
        f"{reader.prefix}: not a checkpoint of albert_tf, of the original or of an encoder of TF Hub; "
        f"it holds '{min(reader.shapes, default='nothing')}'"
    )


def _load(model: keras.Model, reader: CheckpointReader, kind: _Kind) -> LoadReport:
    encoder = getattr(model, "encoder", model)
    try:
        kind.check(encoder.config, reader)
    except InputError as error:
        raise InputError(f"{reader.prefix} ({kind.description}): {error}") from error
    variables = variables_by_path(model.weights)
    values = reader.read_all(variables, kind.layout)
    read = {path: kind.layout(path) for path in variables}
    report = _report(reader, kind, read)
    for name in report.left:
        if name.startswith(("bert/", f"{encoder.name}/")):
            raise InputError(
                f"{reader.prefix}: holds '{name}', for which the model of this config has no place"
            )
    assign(variables, values)
    return report


def _report(reader: CheckpointReader, kind: _Kind, read: dict[str, Stored]) -> LoadReport:
    taken = {name for stored in read.values() for name in stored.names}
    rest = sorted(name for name in reader.shapes if name not in taken)
    return LoadReport(
        prefix=reader.prefix,
        kind=kind.description,
        read=tuple(read.items()),
        left=tuple(plain_name(name) for name in rest if not kind.is_no_weight(name)),
        optimizer=tuple(plain_name(name) for name in rest if kind.is_no_weight(name)),
    )
