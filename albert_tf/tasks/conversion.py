"""Converts a checkpoint to another format or to a SavedModel, and checks the result before it appears."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.checkpoints.hugging_face import HuggingFaceConfig, generic_labels
from albert_tf.checkpoints.loading import LoadReport, find_config, read_config
from albert_tf.checkpoints.tensors import Layout, tensors_of, variables_by_path
from albert_tf.config import ALBERT_CONFIG_FILE, AlbertConfig
from albert_tf.conversion import load_model
from albert_tf.errors import InputError
from albert_tf.kinds import Classification, Kind, MultiLabel, Regression, TokenClassification
from albert_tf.kinds.registry import read_kind
from albert_tf.model_folder import (
    CONFIG_FILE,
    folder_of,
    read_advice,
)
from albert_tf.models import AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.sources import find_model
from albert_tf.tasks.conversion_targets import TARGETS
from albert_tf.tasks.flags import check_addresses, check_vocab_size, load_tokenizer
from albert_tf.tasks.model_options import CheckpointOptions, ConversionOptions
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.interface import check_tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags

# Two runs of one model on one machine differ by rounding only.
_TOLERANCE = 1e-5


def run(options: ConversionOptions) -> LoadReport:
    """Converts a checkpoint, reads back what was written and compares the models.

    Returns the report of the weights that were read from the checkpoint, and of the others.
    """
    options = dataclasses.replace(options, init_checkpoint=find_model(options.init_checkpoint))
    check_addresses(options)
    target, output = TARGETS[options.to], options.output_checkpoint
    config, tokenizer = find_companions(options)
    model, report = load_model(config, options.init_checkpoint)
    kind = read_kind(folder_of(options.init_checkpoint)) or head_of(model, report)
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
    advice = read_advice(options.albert_config_file or find_config(options.init_checkpoint))
    described = {"kind": kind, "dtype": options.output_dtype, "advice": advice}
    with target.write(output, part, tokenizer, **described) as (weights, predict):
        received = predict(inputs)
        _check_written(part, weights, _difference(part(inputs), received), output)
        difference = _difference(expected, received)
    print(f"wrote {output}; its outputs differ by at most {difference:.1e} from those of the input")
    return report


def find_companions(
    options: CheckpointOptions, tokenizer: Tokenizer | None = None
) -> tuple[AlbertConfig, Tokenizer | None]:
    """Returns config and tokenizer, if any: those given, or from next to the checkpoint."""
    path = options.init_checkpoint
    config_file = options.albert_config_file or find_config(path)
    if not config_file:
        raise InputError(
            f"expected --albert_config_file; there is no {ALBERT_CONFIG_FILE} next to "
            f"--init_checkpoint={path}"
        )
    config = read_config(config_file).with_layers(options.num_hidden_layers)
    if tokenizer is None:
        flags = vocabulary_flags(folder_of(path), *options.given_vocabulary)
        tokenizer = load_tokenizer(*flags.values()) if flags else None
    if tokenizer is not None:
        check_tokenizer(tokenizer)
        check_vocab_size(tokenizer, config, config_file)
    return config, tokenizer


def head_of(model: keras.Model, report: LoadReport, unnamed: bool = False) -> Kind | None:
    """Returns what a classifier of texts or tokens of other libraries predicts, if known.

    With `unnamed`, classes without names get those of `generic_labels`.
    """
    if not isinstance(model, AlbertClassifier | AlbertTokenClassifier):
        return None
    labels, problem_type, is_theirs = (), None, report.format_name == "hugging_face"
    if is_theirs:
        stored = HuggingFaceConfig.from_json_file(os.path.join(report.prefix, CONFIG_FILE))
        labels, problem_type = stored.label_names, stored.problem_type
    kind, more = Classification, {"pairs": True}
    is_multi_label = problem_type == "multi_label_classification"
    if not labels and (unnamed or is_multi_label):
        labels = generic_labels(model.num_classes)
    # To `transformers`, a single output without a problem type is a regression.
    is_score = problem_type == "regression" or model.num_classes == 1
    if isinstance(model, AlbertTokenClassifier):
        kind, more = TokenClassification, {}
    elif is_multi_label:
        kind = MultiLabel
    elif is_theirs and is_score:
        if model.num_classes > 1:
            raise InputError(
                f"{report.prefix}: predicts {model.num_classes} scores; only one can be read"
            )
        kind, labels = Regression, ()
    if not labels and kind is not Regression:
        return None
    positions = model.config.max_position_embeddings
    return kind(labels=labels, max_seq_length=positions, **more)


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
