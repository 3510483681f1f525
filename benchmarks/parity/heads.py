"""Logits, losses and gradients of the models with heads."""

import pathlib

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.losses import (
    ClassificationLoss,
    PretrainingLoss,
    RegressionLoss,
    batch_loss,
)
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from benchmarks.parity.difference import Difference, compare_numbers
from benchmarks.parity.original import assign_by_original_name, by_original_name

_INPUTS = ("input_ids", "input_mask", "segment_ids")
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
        _compare_gradients(part, gradients, golden),
    ]


def compare_classifier(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares logits, loss and the gradient of every variable of a classifier."""
    golden = np.load(golden_dir / "finetune_heads" / "classifier.npz")
    num_classes = golden["logits"].shape[1]
    return _compare_pooled_head(golden_dir, "classifier", golden, num_classes, ClassificationLoss())


def compare_regressor(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares scores, loss and the gradient of every variable of a regression."""
    golden = np.load(golden_dir / "finetune_heads" / "regression.npz")
    return _compare_pooled_head(golden_dir, "regressor", golden, 1, RegressionLoss())


def _compare_pooled_head(
    golden_dir: pathlib.Path,
    part: str,
    golden,
    num_classes: int,
    loss: ClassificationLoss | RegressionLoss,
) -> list[Difference]:
    config_file = golden_dir / "pretraining" / "albert_config.json"
    encoder = AlbertEncoder(AlbertConfig.from_json_file(str(config_file)))
    model = AlbertClassifier(encoder, num_classes=num_classes)
    assign_by_original_name(model, _below(golden, "var/"))
    batch = _batch(golden, *_INPUTS, "label_ids")
    with tf.GradientTape() as tape:
        logits = model(batch, training=False)
        total = batch_loss(loss, batch, logits)
    variables = model.trainable_variables
    gradients = dict(by_original_name(variables, tape.gradient(total, variables)))
    logit_pairs = [("", np.reshape(logits, golden["logits"].shape), golden["logits"])]
    return [
        compare_numbers(part, "logits", logit_pairs, atol=_LOGIT_TOLERANCE),
        compare_numbers(part, "loss", [("", total, golden["loss"])], atol=_LOSS_TOLERANCE),
        _compare_gradients(part, gradients, golden),
    ]


def _compare_gradients(part: str, gradients: dict[str, np.ndarray], golden) -> Difference:
    expected = _below(golden, "grad/")
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
