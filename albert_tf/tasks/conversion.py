"""Converts a checkpoint to another format or to a SavedModel, and checks the result before it appears."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from albert_tf.checkpoints.loading import LoadReport
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.checkpoints.tensors import Layout, tensors_of, variables_by_path
from albert_tf.config import ALBERT_CONFIG_FILE
from albert_tf.conversion import read_model
from albert_tf.errors import InputError
from albert_tf.kinds import Kind
from albert_tf.kinds.registry import kind_in
from albert_tf.kinds.stored import classifier_kind, stored_module_files
from albert_tf.models import AlbertMultipleChoice
from albert_tf.sources import find_model
from albert_tf.tasks.companions import find_companions
from albert_tf.tasks.conversion_options import ConversionOptions
from albert_tf.tasks.conversion_targets import TARGETS
from albert_tf.tasks.paths import check_addresses
from albert_tf.tokenization import Tokenizer

# Two runs of one model on one machine differ by rounding only.
_TOLERANCE = 1e-5


def run(options: ConversionOptions) -> LoadReport:
    """Converts a checkpoint, reads back what was written and compares the models.

    Returns the report of the weights that were read from the checkpoint, and of the others.
    """
    options = dataclasses.replace(options, init_checkpoint=find_model(options.init_checkpoint))
    check_addresses(options)
    target, output = TARGETS[options.to], options.output_checkpoint
    source = _read(options)
    model, report, kind = source.model, source.report, source.kind
    part = target.part_of(model)
    _print_table(part, report, target.layout(model, kind))
    print(report.summary())
    unwritten = variables_by_path(model.weights).keys() - variables_by_path(part.weights).keys()
    if unwritten:
        print(f"not written, as {options.to} has no place for them: {', '.join(sorted(unwritten))}")
    inputs = _random_inputs(part)
    expected = part(inputs)
    for variable in part.weights:
        variable.assign(np.asarray(variable, options.output_dtype))
    written = target.write(
        output,
        part,
        source.tokenizer,
        kind=kind,
        dtype=options.output_dtype,
        advice=source.advice,
        modules=source.modules,
    )
    with written as (weights, predict):
        received = predict(inputs)
        _check_written(
            model=part,
            weights=weights,
            difference=_difference(part(inputs), received),
            output=output,
        )
        difference = _difference(expected, received)
    print(f"wrote {output}; its outputs differ by at most {difference:.1e} from those of the input")
    return report


class _Source(NamedTuple):
    """What is converted: a model, how it was read, and what describes it."""

    model: keras.Model
    report: LoadReport
    kind: Kind | None
    tokenizer: Tokenizer | None
    advice: Mapping[str, Any]
    modules: Mapping[str, bytes]  # the files of an embedder's, for sentence-transformers


def _read(options: ConversionOptions) -> _Source:
    """Reads the model and what its folder says of it. The tensors of the checkpoint go at the end."""
    path = options.init_checkpoint
    stored = StoredModel.at(path)
    described = stored.described_by(options.albert_config_file)
    if described.config_file is None:
        raise InputError(
            f"expected --albert_config_file; there is no {ALBERT_CONFIG_FILE} next to "
            f"--init_checkpoint={path}"
        )
    config, tokenizer = find_companions(
        described, options.num_hidden_layers, given_vocabulary=options.given_vocabulary
    )
    model, report = read_model(config, stored)
    kind = kind_in(stored.folder) or classifier_kind(stored, config)
    modules = stored_module_files(stored, config, tokenizer.lower_case) if tokenizer else {}
    return _Source(
        model=model,
        report=report,
        kind=kind,
        tokenizer=tokenizer,
        advice=described.advice,
        modules=modules,
    )


def _print_table(model: keras.Model, report: LoadReport, layout: Layout) -> None:
    """Prints for each variable the name it was read from, the name it is written to, and the shape."""
    read = dict(report.read)
    rows = [("read from", "written to", "shape")]
    for path, variable in variables_by_path(model.weights).items():
        for name, tensor in tensors_of({path: variable}, layout).items():
            rows.append((str(read[path]), name, str(tensor.shape)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _check_written(
    model: keras.Model, weights: Sequence[Any], difference: float, output: str
) -> None:
    """Raises an `InputError` if the weights or outputs of a model's written form differ, or are NaN."""
    for ours, theirs in zip(model.weights, weights, strict=True):
        if not np.array_equal(ours, theirs, equal_nan=True):
            raise InputError(
                f"{output}: not written: '{ours.path}' would be read back with other values"
            )
    if not difference <= _TOLERANCE:
        raise InputError(f"{output}: not written: its outputs would differ by {difference}")


def _difference(expected: Any, received: Any) -> float:
    """Returns the largest difference of any output of a model and its written form.

    Of an output with values beyond 1, whose last digits stand for more, it is relative to the largest.
    """
    if isinstance(received, dict):
        # Other forms do not return everything.
        expected = {name: expected[name] for name in received}
    pairs = zip(*map(keras.tree.flatten, (expected, received)), strict=True)
    differences = [
        # -1e30 marks a position that cannot be chosen. It does not count as a size.
        np.abs(np.subtract(ours, theirs)).max()
        / np.abs(ours).max(initial=1, where=np.abs(ours) < 1e29)
        for ours, theirs in pairs
    ]
    return float(np.max(differences))  # keeps a NaN, max may not


def _random_inputs(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns ids of shape (2, 16), or (2, 3, 16) with choices, and one masked position per row.

    Models with fewer than 16 positions get shorter rows.
    """
    config = model.config
    rng = np.random.default_rng(0)
    length = min(16, config.max_position_embeddings)
    shape = (2, 3, length) if isinstance(model, AlbertMultipleChoice) else (2, length)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "segment_ids": rng.integers(0, config.type_vocab_size, shape, np.int32),
        "masked_lm_positions": rng.integers(0, length, (2, 1), np.int32),
    }
