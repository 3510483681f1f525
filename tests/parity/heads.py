"""Logits, losses and gradients of the models with heads."""

import pathlib

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
from tests.parity.difference import Difference, compare_numbers, count_unequal
from tests.parity.original import assign_by_original_name, by_original_name

_INPUTS = ("input_ids", "input_mask", "segment_ids")
_ANSWERS = ("start_positions", "end_positions", "is_impossible")
_PREDICTIONS = (
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)
_GRADIENT_TOLERANCE = {"atol": 2e-6, "rtol": 1e-4}
_LOSS_TOLERANCE = 5e-6
_LOGIT_TOLERANCE = 1e-5


def compare_pretraining(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares masked-LM and sentence-order logits, losses and the gradient of every variable."""
    folder = golden_dir / "pretraining"
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(config))
    load_checkpoint(model, str(folder / "ckpt"))
    golden = np.load(folder / "io.npz")
    batch = _batch(golden, *_INPUTS, *_PREDICTIONS)
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True)
        total = batch_loss(PretrainingLoss(), batch, outputs)
    variables = model.trainable_variables
    gradients = dict(by_original_name(variables, tape.gradient(total, variables)))
    masked_lm = batch_loss(PretrainingLoss(sentence_objective=False), batch, outputs)
    sentence_order, sequences = PretrainingLoss().metrics(batch, outputs)["sentence_order_loss"]

    masked_lm_logits = np.reshape(outputs["masked_lm_logits"], golden["mlm_logits"].shape)
    logits = {
        "masked-LM logits": (masked_lm_logits, golden["mlm_logits"]),
        "sentence-order logits": (outputs["sentence_order_logits"], golden["sop_logits"]),
    }
    losses = [
        ("masked LM", masked_lm, golden["mlm_loss"]),
        ("sentence order", sentence_order / sequences, golden["sop_loss"]),
        ("total", total, golden["total_loss"]),
    ]
    part = "pre-training"
    return [
        *(
            compare_numbers(part, name, [(name, *pair)], atol=_LOGIT_TOLERANCE)
            for name, pair in logits.items()
        ),
        compare_numbers(part, "losses", losses, atol=_LOSS_TOLERANCE),
        _compare_gradients(part, gradients, _below(golden, "grad/")),
    ]


def compare_classifier(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares logits, loss and the gradient of every variable of a classifier."""
    golden = _read_head(golden_dir, "classifier")
    model = AlbertClassifier(_make_encoder(golden_dir), num_classes=golden["logits"].shape[1])
    return _compare_pooled(
        "classifier", model, _batch(golden, *_INPUTS), golden, ClassificationLoss()
    )


def compare_regressor(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares scores, loss and the gradient of every variable of a regression."""
    golden = _read_head(golden_dir, "regression")
    model = AlbertClassifier(_make_encoder(golden_dir), num_classes=1)
    inputs = _batch(golden, *_INPUTS)
    return _compare_pooled("regressor", model, inputs, golden, RegressionLoss())


def compare_multiple_choice(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares logits, loss and the gradient of every variable of a choice among four texts."""
    golden = _read_head(golden_dir, "multiple_choice")
    model = AlbertMultipleChoice(_make_encoder(golden_dir))
    # The original has the choices of an example side by side, (B, C * S).
    shape = (*golden["logits"].shape, -1)
    inputs = {name: tf.reshape(ids, shape) for name, ids in _batch(golden, *_INPUTS).items()}
    return _compare_pooled("multiple choice", model, inputs, golden, ClassificationLoss())


def compare_span_labeler(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares logits, loss and gradients of a span labeler; the pooler has none."""
    golden = _read_head(golden_dir, "squad_v1")
    model = AlbertSpanLabeler(_make_encoder(golden_dir))
    assign_by_original_name(model, _below(golden, "var/"))
    inputs, expected = _below(golden, "input/"), _below(golden, "training/")
    with tf.GradientTape() as tape:
        outputs = model({name: tf.constant(inputs[name]) for name in _INPUTS}, training=False)
        total = batch_loss(SpanLoss(), inputs, outputs)
    variables = [v for v in model.trainable_variables if "/pooler/" not in v.path]
    logits = [(name, output, expected[name]) for name, output in outputs.items()]
    return _compare_head(
        "span labeler",
        logits,
        (total, expected["total_loss"]),
        dict(by_original_name(variables, tape.gradient(total, variables))),
        _below(golden, "training/grad/"),
    )


def compare_conditional_span_labeler(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares the span labeler for SQuAD 2.0: training, beam search and where it ends up."""
    part = "conditional span labeler"
    golden = _read_head(golden_dir, "squad_v2")
    model = AlbertConditionalSpanLabeler(_make_encoder(golden_dir), dropout=0.0)
    assign_by_original_name(model, _below(golden, "var/"))
    arrays = _below(golden, "input/")
    inputs = {name: tf.constant(arrays[name]) for name in (*_INPUTS, *_ANSWERS)}
    expected, beam = _below(golden, "training/"), _below(golden, "inference/")
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        total = batch_loss(ConditionalSpanLoss(), inputs, outputs)
    variables = [v for v in model.trainable_variables if "/pooler/" not in v.path]
    found = {name: output.numpy() for name, output in model(inputs, training=False).items()}
    # Positions that are masked have a score of -1e30, up to rounding.
    scores = [
        (name, np.maximum(output, -1e20), np.maximum(beam[name], -1e20))
        for name, output in found.items()
        if name in beam and not name.endswith("index")
    ]
    positions = [
        [tuple(row) for name in ("start_top_index", "end_top_index") for row in arrays[name]]
        for arrays in (found, beam)
    ]
    return [
        *_compare_head(
            part,
            [
                (name, output, expected[name])
                for name, output in outputs.items()
                if name in expected
            ],
            (total, expected["total_loss"]),
            dict(by_original_name(variables, tape.gradient(total, variables))),
            _below(golden, "training/grad/"),
        ),
        compare_numbers(part, "scores of the beam", scores, atol=_LOGIT_TOLERANCE),
        count_unequal(part, "positions of the beam", *positions),
    ]


def _compare_pooled(
    part: str,
    model: keras.Model,
    inputs: dict[str, tf.Tensor],
    golden,
    loss: ClassificationLoss | RegressionLoss,
) -> list[Difference]:
    """Compares a model whose logits come from the pooled output."""
    assign_by_original_name(model, _below(golden, "var/"))
    with tf.GradientTape() as tape:
        logits = model(inputs, training=False)
        total = batch_loss(loss, _batch(golden, "label_ids"), logits)
    variables = model.trainable_variables
    return _compare_head(
        part,
        [("", np.reshape(logits, golden["logits"].shape), golden["logits"])],
        (total, golden["loss"]),
        dict(by_original_name(variables, tape.gradient(total, variables))),
        _below(golden, "grad/"),
    )


def _compare_head(
    part: str,
    logits: list[tuple],
    loss: tuple,
    gradients: dict[str, np.ndarray],
    expected_gradients: dict[str, np.ndarray],
) -> list[Difference]:
    return [
        compare_numbers(part, "logits", logits, atol=_LOGIT_TOLERANCE),
        compare_numbers(part, "loss", [("", *loss)], atol=_LOSS_TOLERANCE),
        _compare_gradients(part, gradients, expected_gradients),
    ]


def _read_head(golden_dir: pathlib.Path, name: str):
    """Returns the arrays of a head for fine-tuning, with its weights among them."""
    return np.load(golden_dir / "finetune_heads" / f"{name}.npz")


def _make_encoder(golden_dir: pathlib.Path) -> AlbertEncoder:
    """Returns an encoder of the config of pre-training, which the heads have too."""
    config_file = golden_dir / "pretraining" / "albert_config.json"
    return AlbertEncoder(AlbertConfig.from_json_file(str(config_file)))


def _compare_gradients(
    part: str, gradients: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> Difference:
    if gradients.keys() != expected.keys():
        raise ValueError(f"other variables: {sorted(gradients.keys() ^ expected.keys())}")
    pairs = [(name, gradient, expected[name]) for name, gradient in gradients.items()]
    quantity = f"gradients of {len(pairs)} variables"
    return compare_numbers(part, quantity, pairs, **_GRADIENT_TOLERANCE)


def _below(golden, prefix: str) -> dict[str, np.ndarray]:
    """Returns the arrays whose names begin with a prefix, under the rest of their names."""
    return {name.removeprefix(prefix): golden[name] for name in golden if name.startswith(prefix)}


def _batch(golden, *names: str) -> dict[str, tf.Tensor]:
    return {name: tf.constant(golden[name]) for name in names}
