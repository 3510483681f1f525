"""Means as pairs of total and weight, and the cross-entropy that most losses are made of."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

Batch = Mapping[str, tf.Tensor]


class Mean(NamedTuple):
    """A mean `total / weight`, kept as a pair so that the means of parts can be added."""

    total: tf.Tensor
    weight: tf.Tensor


def count_rows(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the number of rows, float32 ()."""
    return tf.cast(tf.shape(tensor)[0], tf.float32)


def label_weights(batch: Batch, rows: tf.Tensor) -> tf.Tensor:
    """Returns 1 for each of the rows (B, ...) with a label and 0 for others, float32 (B,).

    The batch has them as `label_weights` if some rows have no label.
    """
    if "label_weights" in batch:
        return batch["label_weights"]
    return tf.ones(tf.shape(rows)[:1])


def loss_and_accuracy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, label_smoothing: float = 0.0
) -> tuple[Mean, Mean]:
    """Returns weighted cross-entropy and accuracy of logits (..., classes), labels and weights (...).

    `label_smoothing` s makes the target `(1 - s) * one-hot + s / classes`, of Szegedy et al. 2016,
    https://arxiv.org/abs/1512.00567, section 7.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if label_smoothing:
        uniform = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=-1)
        losses = (1 - label_smoothing) * losses + label_smoothing * uniform
    correct = tf.cast(tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels, tf.float32)
    weight = tf.reduce_sum(weights)
    return (
        Mean(tf.reduce_sum(losses * weights), weight),
        Mean(tf.reduce_sum(correct * weights), weight),
    )
