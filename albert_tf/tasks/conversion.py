"""Conversion: a checkpoint of any kind into one of another, checked before it counts as done.

Which kind the first one is shows in itself, so only the second is asked for.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import (
    LoadReport,
    hugging_face,
    load_checkpoint,
    load_model,
    read_config,
    save_hugging_face,
    save_tf1_checkpoint,
    tf1,
)
from albert_tf.conversion.hugging_face_reader import CONFIG_FILE, check_folder, is_folder
from albert_tf.errors import FlagError, InputError
from albert_tf.models import AlbertMultipleChoice
from albert_tf.options import option
from albert_tf.tasks import common
from albert_tf.tokenization import load_tokenizer
from albert_tf.training.checkpoint_files import (
    Layout,
    checkpoint_exists,
    plain_name,
    stored_by_path,
    tensors_of,
)
from albert_tf.training.checkpoints import save_checkpoint, variables_by_path

# Two runs of one model on one machine differ by rounding alone.
_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class _Target:
    """A kind of checkpoint to write.

    Attributes:
        config_there: makes of our config the one that goes with it.
        layout_of: how it holds the variables of a model.
        save: writes a model; None: as a folder, config, vocabulary and all.
    """

    config_there: Callable[[AlbertConfig], AlbertConfig]
    layout_of: Callable[[keras.Model], Layout]
    save: Callable[[keras.Model, str], None] | None = None

    def exists(self, output: str) -> bool:
        """Returns whether there is one of this name."""
        return checkpoint_exists(output) if self.save else tf.io.gfile.exists(output)

    def config_file(self, output: str) -> str:
        """Returns where its config is: in the folder, or beside the files with the prefix."""
        if self.save:
            return os.path.join(os.path.dirname(output), common.CONFIG_FILE)
        return os.path.join(output, CONFIG_FILE)


_TARGETS = {
    "tf1": _Target(tf1.config_there, lambda model: tf1.stored_as_original, save_tf1_checkpoint),
    "albert_tf": _Target(lambda config: config, lambda model: stored_by_path, save_checkpoint),
    "hugging_face": _Target(hugging_face.config_there, hugging_face.layout_of),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionOptions:
    """The options of `convert_checkpoint.py`."""

    init_checkpoint: str = option(
        "Checkpoint to convert, or a folder with one; its kind shows in itself."
    )
    albert_config_file: str | None = option(
        "JSON file with the shape of its model; a Hugging Face folder has its own.", None
    )
    spm_model_file: str | None = option(
        "SentencePiece model that goes along; a Hugging Face folder has its own.", None
    )
    output_checkpoint: str | None = option(
        "Prefix of the checkpoint to write; with --to=hugging_face, the folder.", None
    )
    to: Literal["tf1", "albert_tf", "hugging_face"] = option("Kind of the checkpoint to write.")
    dry_run: bool = option("Only show what would be written.", False)

    def __post_init__(self):
        if not (self.output_checkpoint or self.dry_run):
            raise FlagError("expected --output_checkpoint or --dry_run; received neither")
        with_prefix = _TARGETS[self.to].save is not None
        if with_prefix and self.output_checkpoint and not os.path.basename(self.output_checkpoint):
            raise FlagError(
                f"--output_checkpoint={self.output_checkpoint}: expected the prefix of a "
                "checkpoint, such as converted/model.ckpt-best; received a folder"
            )


def run(options: ConversionOptions) -> LoadReport:
    """Converts a checkpoint, reads back what was written and compares the models.

    Returns:
        what was read of the checkpoint and what was left.

    Raises:
        InputError: the checkpoint or the config is not what the options say, the other kind cannot
            hold the model, or there is an output of this name.
    """
    target, output = _TARGETS[options.to], options.output_checkpoint
    config, spm_model_file = _find_companions(options)
    written_config = target.config_there(config)
    if output:
        _check_output(target, output, written_config, spm_model_file)
    model, report = load_model(config, options.init_checkpoint)
    _print_table(model, report, target.layout_of(model))
    print(report.summary())
    if written_config != config:
        print(f"there the config has num_hidden_groups {written_config.num_hidden_groups}")
    if options.dry_run:
        return report
    files.make_directory(os.path.dirname(output) or ".", "output_checkpoint")
    _write(target, output, model, written_config, spm_model_file)
    difference = _check_written(target, model, output)
    print(f"wrote {output}; read back, its outputs differ by {difference:.1e} at most")
    return report


def _find_companions(options: ConversionOptions) -> tuple[AlbertConfig, str | None]:
    """Returns the config, and the SentencePiece model where there is one.

    Raises:
        InputError: there is no config, or the vocabulary has another size than it says.
    """
    config_file, spm_model_file = options.albert_config_file, options.spm_model_file
    if is_folder(options.init_checkpoint):
        check_folder(options.init_checkpoint)
        config_file = config_file or os.path.join(options.init_checkpoint, CONFIG_FILE)
        vocabulary = os.path.join(options.init_checkpoint, hugging_face.VOCABULARY_FILE)
        if not spm_model_file and tf.io.gfile.exists(vocabulary):
            spm_model_file = vocabulary
    if not config_file:
        raise FlagError(
            "expected --albert_config_file; only a Hugging Face folder goes without it, and "
            f"--init_checkpoint={options.init_checkpoint} is none"
        )
    config = read_config(config_file)
    if spm_model_file:
        vocab_size = load_tokenizer(spm_model_file, None, lower_case=True).vocab_size
        if vocab_size != config.vocab_size:
            raise InputError(
                f"{spm_model_file} has {vocab_size} pieces; {config_file} says vocab_size "
                f"{config.vocab_size}"
            )
    return config, spm_model_file


def _check_output(
    target: _Target, output: str, config: AlbertConfig, spm_model_file: str | None
) -> None:
    """Raises an `InputError` where writing would replace something."""
    if target.exists(output):
        raise InputError(
            f"--output_checkpoint: '{output}' exists already; remove it or name another"
        )
    config_file = target.config_file(output)
    if tf.io.gfile.exists(config_file) and read_config(config_file) != config:
        raise InputError(
            f"--output_checkpoint: '{config_file}' is another model's; name another folder"
        )
    vocabulary_file = _vocabulary_beside(output)
    if (
        spm_model_file
        and tf.io.gfile.exists(vocabulary_file)
        and files.read_bytes(vocabulary_file) != files.read_bytes(spm_model_file)
    ):
        raise InputError(
            f"--output_checkpoint: '{vocabulary_file}' is another model's; name another folder"
        )


def _vocabulary_beside(prefix: str) -> str:
    return os.path.join(os.path.dirname(prefix), hugging_face.VOCABULARY_FILE)


def _write(
    target: _Target,
    output: str,
    model: keras.Model,
    config: AlbertConfig,
    spm_model_file: str | None,
) -> None:
    """Writes the model with its config and vocabulary, as the published archives have them."""
    if target.save is None:
        save_hugging_face(model, output, spm_model_file)
        return
    target.save(model, output)
    config_file = target.config_file(output)
    if not tf.io.gfile.exists(config_file):
        config.to_json_file(config_file)
    if spm_model_file:
        files.write_bytes(_vocabulary_beside(output), files.read_bytes(spm_model_file))


def _print_table(model: keras.Model, report: LoadReport, layout: Layout) -> None:
    """Prints of each variable the name that it was read from, the name it is written to, the shape."""
    read = dict(report.read)
    rows = [("read from", "written to", "shape")]
    for path, variable in variables_by_path(model.weights).items():
        for name, tensor in tensors_of({path: variable}, layout).items():
            rows.append((str(read[path]), plain_name(name), str(tensor.shape)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _read_back(target: _Target, model: keras.Model, output: str) -> keras.Model:
    """Returns the model that was written, as its next user gets it."""
    if target.save is None:
        return load_model(read_config(target.config_file(output)), output)[0]
    # The original has one name for the heads of two of our models, so the model has to be said.
    written = type(model).from_config(model.get_config())
    load_checkpoint(written, output)
    return written


def _check_written(target: _Target, model: keras.Model, output: str) -> float:
    """Returns the largest difference of any output between a model and what was written of it.

    Raises:
        InputError: they differ by more than rounding, or are no numbers.
    """
    written = _read_back(target, model, output)
    for ours, theirs in zip(model.weights, written.weights, strict=True):
        if not np.array_equal(ours, theirs, equal_nan=True):
            raise InputError(f"{output}: do not use it: '{ours.path}' reads back as other values")
    inputs = _random_inputs(model)
    pairs = zip(*(keras.tree.flatten(one(inputs)) for one in (model, written)), strict=True)
    # np.max, and not max, which a NaN passes by.
    difference = float(np.max([np.abs(np.subtract(*pair)).max() for pair in pairs]))
    if not difference <= _TOLERANCE:
        raise InputError(f"{output}: do not use it: its outputs differ by {difference}")
    return difference


def _random_inputs(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns ids, (B, S) = (2, 16) where there are so many positions, and one masked position.

    For multiple choice (B, C, S) = (2, 3, 16).
    """
    config = getattr(model, "encoder", model).config
    rng = np.random.default_rng(0)
    length = min(16, config.max_position_embeddings)
    shape = (2, 3, length) if isinstance(model, AlbertMultipleChoice) else (2, length)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "segment_ids": rng.integers(0, config.type_vocab_size, shape, np.int32),
        "masked_lm_positions": rng.integers(0, length, (2, 1), np.int32),
    }
