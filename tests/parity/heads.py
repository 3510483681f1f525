"""Logits, losses and gradients of the models with heads."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.losses import (
    ClassificationLoss,
    ConditionalSpanLoss,
    PretrainingLoss,
    RegressionLoss,
    SpanLoss,
    batch_loss,
)
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
)
from tests.helpers import shared_path
from tests.parity.difference import Difference, compare_numbers, count_unequal
from tests.parity.original import assign_by_original_name, by_original_name

Batch = Mapping[str, np.ndarray]
# Makes a model of its encoder, and a loss.
HEADS = {
    "pretrainer": (AlbertPretrainer, PretrainingLoss()),
    "classifier": (lambda encoder: AlbertClassifier(encoder, 3, dropout=0.0), ClassificationLoss()),
    "regressor": (lambda encoder: AlbertClassifier(encoder, 1, dropout=0.0), RegressionLoss()),
    "multiple_choice": (
        lambda encoder: AlbertMultipleChoice(encoder, dropout=0.0),
        ClassificationLoss(),
    ),
    "span_labeler": (AlbertSpanLabeler, SpanLoss()),
    "conditional_span_labeler": (
        lambda encoder: AlbertConditionalSpanLabeler(encoder, dropout=0.0),
        ConditionalSpanLoss(),
    ),
}
_FILES = {
    **{"regressor": "regression", "span_labeler": "squad_v1"},
    "conditional_span_labeler": "squad_v2",
}


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the original computed: outputs, loss and gradients of a model for a batch with labels.

    `beam` are the outputs of the conditional span labeler without `start_positions`.
    """

    model: keras.Model
    batch: Batch
    outputs: Batch
    loss: np.ndarray
    gradients: Batch
    beam: Batch


def _read_reference(name: str) -> Reference:
    """Reads one of `HEADS`."""
    make, _ = HEADS[name]
    pretraining = shared_path("golden/pretraining")
    config = AlbertConfig.from_json_file(str(pretraining / "albert_config.json"))
    model = make(AlbertEncoder(config))
    if name == "pretrainer":
        golden = np.load(pretraining / "io.npz")
        load_checkpoint(model, str(pretraining / "ckpt"))
        names = {"masked_lm_logits": "mlm_logits", "sentence_order_logits": "sop_logits"}
        outputs = {ours: golden[theirs] for ours, theirs in names.items()}
        gradients = _below(golden, "grad/")
        return Reference(model, golden, outputs, golden["total_loss"], gradients, {})
    golden = np.load(shared_path(f"golden/finetune_heads/{_FILES.get(name, name)}.npz"))
    assign_by_original_name(model, _below(golden, "var/"))
    if name.endswith("span_labeler"):
        outputs = _below(golden, "training/")
        gradients = _below(golden, "training/grad/")
        batch, beam = _below(golden, "input/"), _below(golden, "inference/")
        return Reference(model, batch, outputs, outputs["total_loss"], gradients, beam)
    batch = {key: golden[key] for key in ("input_ids", "input_mask", "segment_ids", "label_ids")}
    if name == "multiple_choice":
        # The original has the choices of an example side by side, (B, C * S).
        shape = (*golden["logits"].shape, -1)
        batch = {
            key: array if key == "label_ids" else array.reshape(shape)
            for key, array in batch.items()
        }
    outputs = {"logits": golden["logits"]}
    return Reference(model, batch, outputs, golden["loss"], _below(golden, "grad/"), {})


def _with_tape(variables: list[keras.Variable], compute: Callable) -> tuple:
    with tf.GradientTape() as tape:
        loss, outputs = compute()
    return loss, outputs, tape.gradient(loss, variables)


def compare_head(
    name: str,
    make_loss: Callable[[keras.Model], Callable[[Batch, Any], Any]] | None = None,
    differentiate: Callable = _with_tape,
) -> list[Difference]:
    """Compares outputs, loss and the gradient of every variable of one of `HEADS`.

    `make_loss` returns for a model another loss, of a batch and outputs, than that of the scripts.
    `differentiate` returns loss, outputs and gradients, given variables and what computes the first two.
    """
    reference, (_, loss) = _read_reference(name), HEADS[name]
    model, batch = reference.model, reference.batch
    inputs = {key: batch[key] for key in model.INPUTS if key in batch}

    compute_loss = make_loss(model) if make_loss else functools.partial(batch_loss, loss)

    def compute():
        outputs = model(inputs, training=True)
        return compute_loss(batch, outputs), outputs

    variables = [
        variable
        for variable in model.trainable_variables
        # The pooler has no gradient there.
        if not (name.endswith("span_labeler") and "/pooler/" in variable.path)
    ]
    total, outputs, gradients = differentiate(variables, compute)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    pairs = [
        (key, np.reshape(output, reference.outputs[key].shape), reference.outputs[key])
        for key, output in outputs.items()
        if key in reference.outputs
    ]
    gradients = dict(by_original_name(variables, gradients))
    if gradients.keys() != reference.gradients.keys():
        others = sorted(gradients.keys() ^ reference.gradients.keys())
        raise ValueError(f"other variables: {others}")
    of_gradients = [(key, x, reference.gradients[key]) for key, x in gradients.items()]
    part = name.replace("_", " ")
    differences = [
        compare_numbers(f"{part}, logits", pairs, atol=1e-5),
        compare_numbers(f"{part}, loss", [("", total, reference.loss)], atol=5e-6),
        compare_numbers(f"{part}, gradients", of_gradients, atol=2e-6, rtol=1e-4),
    ]
    return differences + (_compare_beam(part, reference) if reference.beam else [])


def _compare_beam(part: str, reference: Reference) -> list[Difference]:
    """Compares the search of starts and ends, and where it ends up."""
    names = ("input_ids", "input_mask", "segment_ids")
    outputs = reference.model({key: reference.batch[key] for key in names})
    found, expected = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs), reference.beam
    if keras.backend.backend() == "torch":  # which is free to order equal scores, those of -1e30
        found, expected = _without_impossible(found), _without_impossible(expected)
    # Positions that are masked have a score of -1e30, up to rounding.
    scores = [
        (key, np.maximum(output, -1e20), np.maximum(expected[key], -1e20))
        for key, output in found.items()
        if key in expected and not key.endswith("index")
    ]
    positions = [
        [tuple(row) for key in ("start_top_index", "end_top_index") for row in arrays[key]]
        for arrays in (found, expected)
    ]
    return [
        compare_numbers(f"{part}, scores of the beam", scores, atol=1e-5),
        count_unequal(f"{part}, positions of the beam", *positions),
    ]


def _without_impossible(beam: Batch) -> dict[str, np.ndarray]:
    """Returns a beam with zeros where a start or an end cannot be part of an answer."""
    starts = beam["start_top_log_probs"] > -1e20  # (B, I)
    ends = np.repeat(starts, beam["end_top_log_probs"].shape[1] // starts.shape[1], axis=1)
    ends &= beam["end_top_log_probs"] > -1e20
    where = {"start_top": starts, "end_top": ends}
    return {
        key: array * where.get(key.removesuffix("_index").removesuffix("_log_probs"), 1)
        for key, array in beam.items()
    }


def _below(golden, prefix: str) -> dict[str, np.ndarray]:
    """Returns the arrays whose names begin with a prefix, under the rest of their names."""
    return {name.removeprefix(prefix): golden[name] for name in golden if name.startswith(prefix)}
