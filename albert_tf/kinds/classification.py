"""Classification: texts, or pairs of texts, with one of several labels."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.features import label_ids
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import InputError
from albert_tf.evaluation.metrics import compute_metrics, is_collapsed
from albert_tf.evaluation.tables import confusion_matrix
from albert_tf.kinds.registry import register
from albert_tf.kinds.texts import TextKind
from albert_tf.losses import ClassificationLoss, batch_loss


class Classes(NamedTuple):
    """The predictions of a classifier or a multiple-choice model for n examples.

    Attributes:
        label: n names of classes, or letters of choices.
        probabilities: float32 (n, k), in the order of the model's `labels`.
    """

    label: list[str]
    probabilities: np.ndarray


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(TextKind):
    """Texts or pairs of texts, with one of several labels. Predictions are logits, float32 (n, k)."""

    name: ClassVar = "classification"
    loss: ClassVar = ClassificationLoss()

    metrics: tuple[str, ...] = ("accuracy",)

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with the labels of the training file, sorted: their order gives the ids.

        Raises:
            InputError: all rows have the same label.
        """
        labels = sorted({example.label for example in examples})
        if len(labels) < 2:
            raise InputError(
                f"{path}: every row has the label '{labels[0]}'; expected two labels or more"
            )
        return dataclasses.replace(super().fit_labels(examples, path), labels=tuple(labels))

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> dict[str, float]:
        """Returns the metrics and the loss."""
        ids = label_ids(examples, self.labels)
        predicted = _probabilities(predictions).argmax(axis=-1)
        loss = batch_loss(self.loss, {"label_ids": ids}, predictions)
        return {**compute_metrics(self.metrics, ids, predicted), "loss": float(loss)}

    def is_collapsed(self, examples, predictions, metrics: Mapping[str, float]) -> bool:
        """Returns whether the model gives all examples the same answer."""
        ids = label_ids(examples, self.labels)
        return is_collapsed(_probabilities(predictions), ids, metrics["loss"])

    def result(self, examples: Sequence[Example], predictions: np.ndarray) -> Classes:
        """Returns the classes and their probabilities."""
        probabilities = _probabilities(predictions)
        return Classes([self.labels[i] for i in probabilities.argmax(axis=-1)], probabilities)

    def rows(self, examples, predictions) -> Iterator[dict[str, str | float]]:
        """Yields ids, labels, predicted labels and the probabilities of all classes."""
        for example, name, row in zip(examples, *self.result(examples, predictions), strict=True):
            yield {**example.known(), "prediction": name, **name_probabilities(self.labels, row)}

    def score_files(self, examples: Sequence[Example], predictions) -> dict[str, str]:
        """Returns the confusion matrix."""
        ids, predicted = label_ids(examples, self.labels), _probabilities(predictions).argmax(-1)
        return {"confusion_matrix.tsv": confusion_matrix(self.labels, ids, predicted)}

    def outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Maps logits (B, k) to `logits`, `probabilities` (B, k) and `label` (B,)."""
        return class_outputs(self.labels, outputs)


def class_outputs(labels: Sequence[str], logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Maps logits (..., k) to `logits`, `probabilities` (..., k) and `label` (...)."""
    return {
        "logits": logits,
        "probabilities": tf.nn.softmax(logits),
        "label": tf.gather(tf.constant(labels), tf.argmax(logits, axis=-1)),
    }


def name_probabilities(labels: Sequence[str], row: np.ndarray) -> dict[str, float]:
    """Returns the columns of a row's probabilities, (k,)."""
    return {f"probability_{label}": x for label, x in zip(labels, row.tolist(), strict=True)}


def _probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax of logits, float32 (n, k)."""
    return tf.nn.softmax(logits).numpy()
