"""Any checkpoint into a model: ours and those of others, told apart by what they hold."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import keras

from albert_tf import files
from albert_tf.checkpoints.tensor_files import (
    VARIABLES,
    CheckpointReader,
    Layout,
    Stored,
    TensorReader,
    assign,
    find_checkpoint,
    plain_name,
    stored_by_path,
    variables_by_path,
)
from albert_tf.config import AlbertConfig
from albert_tf.conversion import hugging_face, tf1, tf_hub
from albert_tf.conversion.hugging_face_config import (
    HuggingFaceConfig,
    ProblemType,
    generic_labels,
    is_hugging_face,
)
from albert_tf.conversion.hugging_face_reader import (
    CONFIG_FILE,
    FolderReader,
    is_bare,
    is_folder,
    is_with_heads,
)
from albert_tf.conversion.keras_file import KerasReader, is_keras_file
from albert_tf.errors import InputError, name_place
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
)

KindName = Literal["albert_tf", "tf1", "brightmart", "hugging_face", "tf_hub"]


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What a model took from a checkpoint, and what not.

    Attributes:
        prefix: the checkpoint, or the folder.
        kind_name: whose checkpoint it is.
        kind: the same in words.
        read: for each variable that was read its path and how the checkpoint holds it.
        kept: paths of the variables that are not in it and are as they were.
        left: names of the weights in the checkpoint that the model has no place for.
        optimizer: names of the optimizer's variables, the step and TensorFlow's own; no model has them.
        labels: names of a classifier's classes, where a Hugging Face folder gives them names.
        problem_type: what a classifier's outputs mean, where a Hugging Face folder says so.
        sha256: of the files without a checksum of their own (safetensors), by name.
    """

    prefix: str
    kind_name: KindName
    kind: str
    read: tuple[tuple[str, Stored], ...]
    kept: tuple[str, ...]
    left: tuple[str, ...]
    optimizer: tuple[str, ...]
    labels: tuple[str, ...] = ()
    problem_type: ProblemType | None = None
    sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def summary(self) -> str:
        """Returns the report as a paragraph."""
        left = f": {', '.join(self.left)}" if self.left else ""
        kept = f"; it lacks, so they start anew: {', '.join(self.kept)}" if self.kept else ""
        sums = "".join(f"; SHA-256 of {name}: {value}" for name, value in self.sha256.items())
        return (
            f"read {len(self.read)} variables from {self.prefix} ({self.kind}); left "
            f"{len(self.optimizer)} of its optimizer and {len(self.left)} others{left}{kept}{sums}"
        )

    def check_complete(self) -> None:
        """Raises an `InputError` where a part starts anew, of use only where training follows."""
        if self.kept:
            raise InputError(
                f"{self.prefix} ({self.kind}): lacks {', '.join(self.kept)}; without training they "
                "would stay as they start"
            )


def _make_model(config: AlbertConfig, reader: TensorReader, layout: Layout) -> keras.Model:
    """Makes the model whose heads a checkpoint holds."""

    def holds(path: str) -> bool:
        return reader.holds(layout(path))

    encoder = AlbertEncoder(config, with_pooler=holds("albert_encoder/pooler/dense/bias"))
    if holds("albert_pretrainer/masked_lm_head/output_bias"):
        sentence_head = holds("albert_pretrainer/sentence_order_head/dense/bias")
        return AlbertPretrainer(encoder, sentence_head)
    if holds("albert_classifier/head/dense/bias"):
        (num_classes,) = reader.shape(layout("albert_classifier/head/dense/bias"))
        return AlbertClassifier(encoder, num_classes)
    if holds("albert_multiple_choice/head/dense/bias"):
        return AlbertMultipleChoice(encoder)
    if holds("albert_span_labeler/span_head/dense/bias"):
        return AlbertSpanLabeler(encoder)
    if holds("albert_conditional_span_labeler/conditional_span_head/start_logits/bias"):
        return AlbertConditionalSpanLabeler(encoder)
    return encoder


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of checkpoint.

    Attributes:
        name: whose; Hugging Face has two kinds.
        description: in words.
        recognises: whether a checkpoint is of this kind.
        layout: how it holds a variable.
        config_here: makes of a config that goes with it the one under which we have the same model.
        check: raises an `InputError` where a checkpoint does not hold a model of a config.
        is_no_weight: whether a name is the optimizer's, the step's or TensorFlow's own.
        of_encoder: what the names of the encoder's weights start with.
        may_lack: whether a path is of a part of the encoder that a checkpoint may lack.
        make_model: makes the model that a checkpoint holds.
    """

    name: KindName
    description: str
    recognises: Callable[[TensorReader], bool]
    layout: Layout
    config_here: Callable[[AlbertConfig], AlbertConfig] = lambda config: config
    check: Callable[[AlbertConfig, TensorReader], object] = lambda config, reader: None
    is_no_weight: Callable[[str], bool] = lambda name: False
    of_encoder: tuple[str, ...] = ()
    may_lack: Callable[[str], bool] = lambda path: False
    make_model: Callable[[AlbertConfig, TensorReader, Layout], keras.Model] = _make_model


def _is_ours(reader: TensorReader) -> bool:
    return any(name.startswith(f"{VARIABLES}/") for name in reader.shapes)


def _is_no_weight_of_ours(name: str) -> bool:
    """Keras joins the path of a slot's variable with `_`, so an optimizer's paths have two parts."""
    return not name.startswith(f"{VARIABLES}/") or plain_name(name).count("/") == 1


_KINDS = (
    _Kind("albert_tf", "albert_tf", _is_ours, stored_by_path, is_no_weight=_is_no_weight_of_ours),
    _Kind(
        "tf_hub",
        "TF Hub",
        tf_hub.is_hub_encoder,
        tf_hub.stored_in_hub,
        check=tf_hub.check_hub_config,
    ),
    _Kind(
        "brightmart",
        "TensorFlow 1, brightmart's names",
        tf1.is_brightmart,
        tf1.stored_as_brightmart,
        config_here=tf1.config_of_brightmart,
        check=lambda config, reader: tf1.check_brightmart_config(config),
        is_no_weight=tf1.is_no_weight,
        of_encoder=("bert/",),
    ),
    _Kind(
        "tf1",
        "TensorFlow 1, the original's names",
        tf1.is_original,
        tf1.stored_as_original,
        check=lambda config, reader: tf1.check_config(config),
        is_no_weight=tf1.is_no_weight,
        of_encoder=("bert/",),
    ),
    _Kind(
        "hugging_face",
        "Hugging Face",
        is_with_heads,
        hugging_face.stored_with_heads,
        check=hugging_face.check_config,
        of_encoder=("albert.",),
        may_lack=hugging_face.is_pooler,
        make_model=hugging_face.make_model,
    ),
    _Kind(
        "hugging_face",
        "Hugging Face, AlbertModel",
        is_bare,
        hugging_face.stored_bare,
        check=hugging_face.check_config,
        of_encoder=("embeddings.", "encoder.", "pooler."),
        may_lack=hugging_face.is_pooler,
        make_model=hugging_face.make_model,
    ),
)


def read_config(path: str) -> AlbertConfig:
    """Reads a config file, a published `albert_config.json` or a Hugging Face folder's `config.json`.

    The two tell themselves apart by the key `model_type`, and mean different functions by `gelu`; see
    docs/fidelity.md.

    Raises:
        InputError: the file cannot be read or does not describe a model that we have.
    """
    if is_hugging_face(files.read_json(path)):
        return HuggingFaceConfig.from_json_file(path).encoder
    return AlbertConfig.from_json_file(path)


def load_checkpoint(model: keras.Model, path: str) -> LoadReport:
    """Reads all weights of a model, or of a part such as its encoder, from a checkpoint.

    What the checkpoint holds beyond them, such as other heads and the optimizer's variables, is left.
    Of an encoder nothing may be left: the config would be another's.

    A head of which the checkpoint holds nothing starts anew, and so does a pooler, which some of Hugging
    Face's models lack; the report says so. Where no training follows, see `LoadReport.check_complete`.

    Args:
        model: what to read: an encoder, or a model with one.
        path: prefix of a checkpoint of albert_tf, of the original or of brightmart's
            (`.../ckpt-1000`, `.../model.ckpt-best`); or a folder, for its latest or only one; or a
            Hugging Face folder with safetensors, the folder of a SavedModel of TF Hub, or a `.keras`
            file.

    Returns:
        what was read, what was left and what starts anew.

    Raises:
        InputError: there is no checkpoint, it is damaged, or it does not fit the model: the encoder or
            a part of a head is missing or of another shape; names both variables and both shapes. The
            model is as it was.
    """
    reader = _open(path)
    kind = _recognise(reader)
    return _load(model, reader, kind, kept=_find_lacking(model, reader, kind))


def load_model(config: AlbertConfig, path: str) -> tuple[keras.Model, LoadReport]:
    """Makes the model that a checkpoint holds, with the heads that are there, and reads it.

    Args:
        config: of the encoder; brightmart's as it was published, with an E of its own.
        path: as for `load_checkpoint`.

    Returns:
        one of the models of `albert_tf.models`, and what was read and left.

    Raises:
        InputError: as for `load_checkpoint`, and where anything of the model is missing.
    """
    reader = _open(path)
    kind = _recognise(reader)
    model = kind.make_model(kind.config_here(config), reader, kind.layout)
    return model, _load(model, reader, kind, kept=[])


def stored_labels(path: str) -> tuple[str, ...]:
    """Returns the names that a Hugging Face folder gives to a classifier's classes.

    Args:
        path: as for `load_checkpoint`.

    Returns:
        None of them where it is no such folder, or has no names but `LABEL_0` and so on.

    Raises:
        InputError: its `config.json` cannot be read.
    """
    if not is_folder(path):
        return ()
    return _labels_in(HuggingFaceConfig.from_json_file(os.path.join(path, CONFIG_FILE)))


def _labels_in(config: HuggingFaceConfig) -> tuple[str, ...]:
    return () if config.labels == generic_labels(len(config.labels)) else config.labels


def stored_shape(path: str, variable_path: str) -> tuple[int, ...] | None:
    """Returns the shape in which a checkpoint holds a variable; None where it does not hold it.

    Args:
        path: as for `load_checkpoint`.
        variable_path: the variable's path in our models.

    Raises:
        InputError: there is no checkpoint, or it is of no kind that we know.
    """
    reader = _open(path)
    stored = _recognise(reader).layout(variable_path)
    return tuple(reader.shape(stored)) if reader.holds(stored) else None


def _open(path: str) -> TensorReader:
    if is_keras_file(path):
        return KerasReader(path)
    if tf_hub.is_saved_model(path):
        return tf_hub.open_saved_model(path)
    return FolderReader(path) if is_folder(path) else CheckpointReader(find_checkpoint(path))


def _recognise(reader: TensorReader) -> _Kind:
    for kind in _KINDS:
        if kind.recognises(reader):
            return kind
    raise InputError(
        f"{reader.prefix}: holds '{min(reader.shapes, default='nothing')}'; expected a checkpoint of "
        f"one of these kinds: {'; '.join(kind.description for kind in _KINDS)}"
    )


def _find_lacking(model: keras.Model, reader: TensorReader, kind: _Kind) -> list[str]:
    """Returns the paths of the parts that a checkpoint may lack and of which it holds nothing."""
    of_encoder = {weight.path for weight in getattr(model, "encoder", model).weights}
    parts: dict[tuple[str, ...], list[str]] = {}
    for path in variables_by_path(model.weights):
        if path not in of_encoder or kind.may_lack(path):
            part = tuple(path.split("/")[:2])  # of the model's name and the layer's
            parts.setdefault(part, []).append(path)
    return [
        path
        for paths in parts.values()
        if not any(reader.holds(kind.layout(path)) for path in paths)
        for path in paths
    ]


def _load(model: keras.Model, reader: TensorReader, kind: _Kind, kept: list[str]) -> LoadReport:
    encoder = getattr(model, "encoder", model)
    with name_place(f"{reader.prefix} ({kind.description})"):
        kind.check(encoder.config, reader)
    variables = variables_by_path(model.weights)
    wanted = {path: variable for path, variable in variables.items() if path not in kept}
    values = reader.read_all(wanted, kind.layout)
    report = _report(reader, kind, {path: kind.layout(path) for path in wanted}, kept)
    for name in report.left:
        of_encoder = name.startswith((*kind.of_encoder, f"{encoder.name}/"))
        if of_encoder and (encoder.with_pooler or "pooler" not in name):
            raise InputError(
                f"{reader.prefix}: holds '{name}', for which the model of this config has no place"
            )
    assign(wanted, values)
    return report


def _report(
    reader: TensorReader, kind: _Kind, read: dict[str, Stored], kept: list[str]
) -> LoadReport:
    taken = {name for stored in read.values() for name in stored.names}
    rest = sorted(name for name in reader.shapes if name not in taken)
    said: dict[str, Any] = {}
    if isinstance(reader, FolderReader):
        said = {
            "labels": _labels_in(reader.config),
            "problem_type": reader.config.problem_type,
            "sha256": reader.sha256,
        }
    return LoadReport(
        prefix=reader.prefix,
        kind_name=kind.name,
        kind=kind.description,
        read=tuple(read.items()),
        kept=tuple(kept),
        left=tuple(plain_name(name) for name in rest if not kind.is_no_weight(name)),
        optimizer=tuple(plain_name(name) for name in rest if kind.is_no_weight(name)),
        **said,
    )
