"""Conversion: a checkpoint of any kind into one of another, checked before it counts as done."""

import dataclasses
import os
from typing import Literal

import keras
import numpy as np

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import LoadReport, load_model, save_tf1_checkpoint
from albert_tf.conversion.tf1 import config_there, stored_as_original
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option
from albert_tf.training.checkpoint_files import (
    checkpoint_exists,
    plain_name,
    stored_by_path,
    tensors_of,
)
from albert_tf.training.checkpoints import save_checkpoint, variables_by_path

# How each kind names variables, and what writes it.
_KINDS = {
    "tf1": (stored_as_original, save_tf1_checkpoint),
    "albert_tf": (stored_by_path, save_checkpoint),
}
# Two runs of one model on one machine differ by rounding alone.
_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionOptions:
    """The options of `convert_checkpoint.py`."""

    init_checkpoint: str = option("Checkpoint to convert, or a folder with one.")
    albert_config_file: str = option("JSON file with the shape of its model.")
    output_checkpoint: str | None = option("Prefix of the checkpoint to write.", None)
    to: Literal["tf1", "albert_tf"] = option("Kind of the checkpoint to write.")
    dry_run: bool = option("Only show what would be written.", False)

    def __post_init__(self):
        if not (self.output_checkpoint or self.dry_run):
            raise FlagError("expected --output_checkpoint or --dry_run; received neither")
        if self.output_checkpoint and not os.path.basename(self.output_checkpoint):
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
    output = options.output_checkpoint
    if output and checkpoint_exists(output):
        raise InputError(
            f"--output_checkpoint: '{output}' exists already; remove it or name another"
        )
    config = AlbertConfig.from_json_file(options.albert_config_file)
    written_config = config_there(config) if options.to == "tf1" else config
    model, report = load_model(config, options.init_checkpoint)
    _, save = _KINDS[options.to]
    _print_table(model, report, options.to)
    print(report.summary())
    if written_config != config:
        print(f"there the config has num_hidden_groups {written_config.num_hidden_groups}")
    if options.dry_run:
        return report
    files.make_directory(os.path.dirname(output) or ".", "output_checkpoint")
    save(model, output)
    difference = _check_written(model, config, output)
    print(f"wrote {output}; read back, its outputs differ by {difference:.1e} at most")
    return report


def _print_table(model: keras.Model, report: LoadReport, to: str) -> None:
    """Prints of each variable the name that it was read from, the name it is written to, the shape."""
    layout, _ = _KINDS[to]
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


def _check_written(model: keras.Model, config: AlbertConfig, prefix: str) -> float:
    """Returns the largest difference of any output between a model and what was written of it.

    Raises:
        InputError: they differ by more than rounding, or are no numbers.
    """
    written, _ = load_model(config, prefix)
    for ours, theirs in zip(model.weights, written.weights, strict=True):
        if not np.array_equal(ours, theirs, equal_nan=True):
            raise InputError(f"{prefix}: do not use it: '{ours.path}' reads back as other values")
    inputs = _random_inputs(config)
    pairs = zip(*(keras.tree.flatten(one(inputs)) for one in (model, written)), strict=True)
    # np.max, and not max, which a NaN passes by.
    difference = float(np.max([np.abs(np.subtract(*pair)).max() for pair in pairs]))
    if not difference <= _TOLERANCE:
        raise InputError(f"{prefix}: do not use it: its outputs differ by {difference}")
    return difference


def _random_inputs(config: AlbertConfig) -> dict[str, np.ndarray]:
    """Returns ids, (B, S) = (2, 16) where there are so many positions, and one masked position."""
    rng = np.random.default_rng(0)
    shape = (2, min(16, config.max_position_embeddings))
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "segment_ids": rng.integers(0, config.type_vocab_size, shape, np.int32),
        "masked_lm_positions": rng.integers(0, shape[1], (2, 1), np.int32),
    }
