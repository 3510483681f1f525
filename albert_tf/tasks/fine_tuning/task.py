"""The protocol between the run and the tasks."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import keras
import tensorflow as tf

from albert_tf.data.fine_tuning.features import Features
from albert_tf.export import ExportDetails
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator
from albert_tf.training.evaluator import Loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningTask:
    """What a task decides; `albert_tf.tasks.fine_tuning.run` does the rest.

    A task holds the data of the run. Trials share it: each has a copy with its own options.

    Attributes:
        options: options of the run.
        tokenizer: maps text to ids.
        train_features: training set; None without `--do_train`.
        num_dev_examples: size of the dev set that selects the best checkpoint; 0 without a dev set.
        name: name of the training in progress lines.
        metric: metric of the learning curve.
        best_metric: metric that selects the best checkpoint. The higher, the better.
    """

    options: FineTuningOptions
    tokenizer: Tokenizer
    train_features: Features | None
    num_dev_examples: int
    name: str
    metric: str
    best_metric: str

    @property
    def loss(self) -> Loss:
        """The training loss."""
        raise NotImplementedError

    def make_model(self, encoder: AlbertEncoder, seed: int) -> keras.Model:
        """Makes the model, with a randomly initialised head."""
        raise NotImplementedError

    def read_exported(self, outputs: Mapping[str, tf.Tensor]) -> Any:
        """Maps the outputs of an exported model to those of the model it was made from."""
        raise NotImplementedError

    def check_labels(self) -> None:
        """Checks that the model that the run starts from has this task's labels.

        Raises:
            InputError: it has others.
        """

    def write_label_metadata(self) -> None:
        """Describes the head next to the checkpoints."""

    def evaluate(self, evaluator: Evaluator) -> tuple[dict[str, float], Any]:
        """Returns the metrics on the dev set, and the predictions that they measure."""
        raise NotImplementedError

    def is_collapsed(self, metrics: Mapping[str, float], predictions: Any) -> bool | None:
        """Returns whether all dev predictions are alike; None if that has no meaning."""
        return None

    def fit(self, evaluator: Evaluator) -> Self:
        """Returns the task with what the dev set decides, such as thresholds."""
        return self

    def finish_training(self, best_metrics: Mapping[str, float]) -> None:
        """Keeps what the evaluation of the best checkpoint has found."""

    def write_evaluation(self, metrics: Mapping[str, float], predictions: Any) -> None:
        """Writes the files of the final evaluation other than the metrics."""
        raise NotImplementedError

    def predict(self, evaluator: Evaluator) -> None:
        """Predicts what `--do_predict` asks for and writes the predictions."""
        raise NotImplementedError

    @property
    def dev_features(self) -> Features | None:
        """The first dev set; None if the run reads none."""
        raise NotImplementedError

    def assets(self) -> dict[str, bytes]:
        """Returns the task's own files for an exported model, by name."""
        return {}

    def export(self, model: keras.Model, details: ExportDetails) -> dict[str, str]:
        """Exports the model and returns the written folders."""
        raise NotImplementedError

    def predict_lines(self, model: keras.Model) -> None:
        """Answers lines of text on standard output, if the options ask for it."""
