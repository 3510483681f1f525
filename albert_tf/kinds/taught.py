"""Kinds that learn from a teacher: a model of the same kind, which answers texts without labels, too.

`tasks/fine_tuning/teacher.py` calls the methods of `TaughtKind`. Targets are what the teacher answers, in
a form that the teacher's order of labels, its vocabulary and its thresholds have no influence on. They
are kept in the folder of the run, and are what `taught_loss` learns.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np

from albert_tf.data.fine_tuning.examples import Example, make_examples, quote_names
from albert_tf.data.fine_tuning.features import Features, with_labels
from albert_tf.data.fine_tuning.label_sets import label_columns
from albert_tf.data.fine_tuning.opened_tables import open_unlabelled, split_labelled
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.numbered_labels import names_of_numbers
from albert_tf.kinds.text_kind import LongTextKind
from albert_tf.losses import TARGETS, TaughtLoss

# What is said of a teacher that answers NaN.
NOT_FINITE = "its answers to some of the training texts are not finite; expected numbers"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaughtKind(Kind):
    """A kind whose models may learn from a teacher."""

    can_be_taught: ClassVar[bool] = True  # False of a subclass whose models may not
    label_options: ClassVar[tuple[str, ...]] = ()  # options that the loss of labels alone reads

    # Data

    @classmethod
    @abc.abstractmethod
    def split_labelled(cls, source: Any) -> tuple[Any, Table | None]:
        """Splits what `open` returns into rows with a label and rows without; an empty part is None."""

    @abc.abstractmethod
    def read_unlabelled(self, source: Any) -> list[Any]:
        """Reads examples without labels from what `open` returns, whether it has labels or not."""

    @abc.abstractmethod
    def fit_unlabelled(self, labels: Sequence[str], examples: Sequence[Any]) -> Self:
        """Returns the kind with the labels of a teacher, if no row has a label; see `fit_labels`."""

    # The teacher

    def check_name(self, teacher: Kind) -> None:
        """Raises an `InputError` if a model is of another kind."""
        if teacher.name != self.name:
            raise InputError(f"predicts {teacher.name}; expected a teacher of {self.name}")

    def check_teacher(self, teacher: Kind) -> None:
        """Raises an `InputError` if a model of this kind predicts something else, as other labels."""

    @abc.abstractmethod
    def targets(self, teacher: Kind, examples: Sequence[Any], predictions: Any) -> np.ndarray:
        """Returns what is learnt of a teacher's predictions for n examples."""

    @abc.abstractmethod
    def measure_teacher(self, teacher: Kind, examples: Sequence[Any], predictions: Any) -> Quality:
        """Measures a teacher's predictions for examples with labels, as `measure` does its own."""

    # Training

    def fit_targets(self, targets: np.ndarray) -> Self:
        """Returns the kind with what the targets decide if no row has a label."""
        return self

    def with_targets(
        self, features: Features, examples: Sequence[Any], targets: np.ndarray
    ) -> Features:
        """Returns the features of n examples with targets, which `taught_loss` reads in batches."""
        del examples
        return with_labels(features, **{TARGETS: targets})

    def taught_model(self, model: keras.Model, targets: np.ndarray, seed: int) -> keras.Model:
        """Returns the model of a training, given that of `make_model` and the targets."""
        del targets, seed
        return model

    @abc.abstractmethod
    def taught_loss(self, weight: float) -> TaughtLoss:
        """Returns the training loss, in which the teacher has a weight, see `TaughtLoss`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaughtTextKind(LongTextKind, TaughtKind):
    """A kind of labels or scores of texts; its targets are probabilities or scores, float32 (n, k)."""

    @classmethod
    def split_labelled(cls, source: Table) -> tuple[Table | None, Table | None]:
        return split_labelled(source, label_columns(source))

    def read_unlabelled(self, source: Any) -> list[Example]:
        return read_unlabelled_texts(source)

    def fit_unlabelled(self, labels: Sequence[str], examples: Sequence[Example]) -> Self:
        fitted = LongTextKind.fit_labels(self, examples, "the training set")
        return dataclasses.replace(fitted, labels=tuple(labels))

    def check_teacher(self, teacher: Kind) -> None:
        assert isinstance(teacher, TaughtTextKind), "it is of the same kind"
        teacher.check_second("text_b", () if self.pairs else None)
        self._places_in(teacher.labels)

    def _places_in(self, labels: tuple[str, ...]) -> list[int]:
        """Returns the place of each label among those of a teacher, which may be numbered."""
        names = names_of_numbers(labels)
        wanted = [label if label in labels else names.get(label) for label in self.labels]
        if sorted(filter(None, wanted)) != sorted(labels):
            raise InputError(
                f"has the labels {quote_names(labels)}; expected those of the training set, "
                f"{quote_names(self.labels)}, in any order"
            )
        return [labels.index(label) for label in wanted if label]

    def targets(self, teacher: Kind, examples, predictions: np.ndarray) -> np.ndarray:
        """Returns the probabilities of the labels."""
        return teacher.probabilities(predictions)[:, self._places_in(teacher.labels)]

    @abc.abstractmethod
    def predictions_of(self, targets: np.ndarray) -> np.ndarray:
        """Returns the predictions that a model of this kind makes if it has learnt the targets."""

    def measure_teacher(self, teacher: Kind, examples, predictions: np.ndarray) -> Quality:
        targets = self.targets(teacher, examples, predictions)
        own = self.predictions_of(targets).astype(np.float32)
        return self.fit(examples, own).measure(examples, own)


def read_unlabelled_texts(source: Any) -> list[Example]:
    """Reads the texts, or the pairs of texts, of a table; rows without one are left out."""
    table, columns = open_unlabelled(source)
    return make_examples(table, columns, "train")
