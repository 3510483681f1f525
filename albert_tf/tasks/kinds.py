"""Classes, scores, choices: all in which the kinds of fine-tuning tasks differ.

A kind decides the head, the loss, the features, what is predicted of the logits, how that is written, and
what is exported; nothing else asks for it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.features import Features, encode_choices, encode_examples
from albert_tf.data.fine_tuning.task import TaskKind
from albert_tf.data.fine_tuning.tsv import Example, Labels
from albert_tf.export import (
    ExportDetails,
    export_classifier,
    export_multiple_choice,
    export_regressor,
)
from albert_tf.losses import ClassificationLoss, RegressionLoss
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertMultipleChoice
from albert_tf.tasks.classification_options import ClassificationOptions
from albert_tf.tasks.trained_folder import LabelMetadata
from albert_tf.tokenization import Tokenizer
from albert_tf.training.evaluator import Loss


class KindRules(Protocol):
    """What a kind of task decides."""

    loss: Loss

    def make_model(
        self, head: LabelMetadata, encoder: AlbertEncoder, dropout: float, seed: int, dtype: str
    ) -> keras.Model:
        """Makes the model, with a head that starts anew."""

    def encode(
        self,
        examples: Sequence[Example],
        labels: Labels,
        tokenizer: Tokenizer,
        options: ClassificationOptions,
    ) -> Features:
        """Turns examples into ids."""

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """Maps logits (n, k) to what is written of them (n, k)."""

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Maps outputs (n, k) to what is compared with the labels (n,)."""

    def mean_loss(self, outputs: np.ndarray, label_ids: np.ndarray) -> float:
        """Returns the loss of outputs (n, k), given the labels (n,)."""

    def names(self, predictions: np.ndarray, head: LabelMetadata) -> list[str]:
        """Returns predictions (n,) in words."""

    def output_columns(self, head: LabelMetadata) -> list[str]:
        """Returns the names of the columns of outputs, where they say more than the prediction."""

    def example_of_line(self, fields: Sequence[str], head: LabelMetadata) -> Example | None:
        """Makes an example of a line's fields; None where there are too few or too many."""

    def line_format(self, head: LabelMetadata) -> str:
        """Returns what the fields of a line are, in words."""

    def export(
        self,
        model: keras.Model,
        head: LabelMetadata,
        tokenizer: Tokenizer,
        options: ClassificationOptions,
        details: ExportDetails,
    ) -> dict[str, str]:
        """Writes SavedModels and returns their folders."""

    def exported_logits(self, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits (n, k) of what an exported model gives."""


class _TextsKind:
    """What classification and regression share: an example is a text or a pair."""

    def encode(self, examples, labels, tokenizer, options) -> Features:
        return encode_examples(examples, labels, tokenizer, options.max_seq_length)

    def example_of_line(self, fields, head) -> Example | None:
        if len(fields) > 1 + head.pairs:
            return None
        return Example("", *fields)

    def line_format(self, head) -> str:
        return "text_a or text_a, tab, text_b" if head.pairs else "a text without a tab"


class _ClassesKind:
    """What classification and multiple choice share: one of several labels is right."""

    loss = ClassificationLoss()

    def outputs(self, logits) -> np.ndarray:
        return tf.nn.softmax(logits).numpy()

    def predictions(self, outputs) -> np.ndarray:
        return outputs.argmax(axis=-1)

    def mean_loss(self, outputs, label_ids) -> float:
        of_labels = outputs[np.arange(len(outputs)), label_ids]
        # The least normal number keeps the loss of a certain mistake finite.
        return float(-np.log(np.maximum(of_labels, np.finfo(np.float32).tiny)).mean())

    def names(self, predictions, head) -> list[str]:
        return [head.labels[prediction] for prediction in predictions]

    def output_columns(self, head) -> list[str]:
        return [f"probability_{label}" for label in head.labels]

    def exported_logits(self, outputs) -> tf.Tensor:
        return outputs["logits"]


class _Classification(_TextsKind, _ClassesKind):
    def make_model(self, head, encoder, dropout, seed, dtype) -> AlbertClassifier:
        return AlbertClassifier(encoder, len(head.labels), dropout, seed, dtype=dtype)

    def export(self, model, head, tokenizer, options, details) -> dict[str, str]:
        return export_classifier(
            model,
            head.labels,
            tokenizer,
            options.export_dir,
            options.max_seq_length,
            head.pairs,
            details,
        )


class _Regression(_TextsKind):
    loss = RegressionLoss()

    def make_model(self, head, encoder, dropout, seed, dtype) -> AlbertClassifier:
        return AlbertClassifier(encoder, 1, dropout, seed, dtype=dtype)

    def outputs(self, logits) -> np.ndarray:
        return logits

    def predictions(self, outputs) -> np.ndarray:
        return outputs[:, 0]

    def mean_loss(self, outputs, label_ids) -> float:
        return float(np.square(outputs[:, 0] - label_ids).mean())

    def names(self, predictions, head) -> list[str]:
        return [f"{prediction:.6f}" for prediction in predictions]

    def output_columns(self, head) -> list[str]:
        return []

    def export(self, model, head, tokenizer, options, details) -> dict[str, str]:
        return export_regressor(
            model, tokenizer, options.export_dir, options.max_seq_length, head.pairs, details
        )

    def exported_logits(self, outputs) -> tf.Tensor:
        return outputs["score"][:, None]


class _MultipleChoice(_ClassesKind):
    def make_model(self, head, encoder, dropout, seed, dtype) -> AlbertMultipleChoice:
        return AlbertMultipleChoice(encoder, dropout, seed, dtype=dtype)

    def encode(self, examples, labels, tokenizer, options) -> Features:
        return encode_choices(
            examples, labels, tokenizer, options.max_seq_length, options.max_qa_length
        )

    def example_of_line(self, fields, head) -> Example | None:
        texts = 1 + head.pairs
        if len(fields) != texts + len(head.labels):
            return None
        return Example("", *fields[:texts], choices=tuple(fields[texts:]))

    def line_format(self, head) -> str:
        texts = "text_a, text_b" if head.pairs else "text_a"
        return f"{texts} and {len(head.labels)} choices with tabs between them"

    def export(self, model, head, tokenizer, options, details) -> dict[str, str]:
        return export_multiple_choice(
            model,
            head.labels,
            tokenizer,
            options.export_dir,
            options.max_seq_length,
            options.max_qa_length,
            details,
        )


KINDS: Mapping[TaskKind, KindRules] = {
    "classification": _Classification(),
    "regression": _Regression(),
    "multiple_choice": _MultipleChoice(),
}
