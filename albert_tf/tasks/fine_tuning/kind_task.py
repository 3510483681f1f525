"""A task of the run that leaves all decisions to its kind."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import InputError
from albert_tf.export.exporter import export
from albert_tf.kinds.kind import KIND_FILE, Kind
from albert_tf.kinds.registry import read_kind, write_kind
from albert_tf.tasks.common import has_checkpoint
from albert_tf.tasks.fine_tuning import prediction_files
from albert_tf.tasks.fine_tuning.labelled_task import ExampleSet, LabelledTask
from albert_tf.tasks.training_options import fixed_length
from albert_tf.training import Evaluator
from albert_tf.training.evaluator import Loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class KindTask(LabelledTask):
    """A task of any kind.

    Attributes:
        kind: decides all that differs between tasks.
    """

    kind: Kind

    @property
    def loss(self) -> Loss:
        """The training loss."""
        return self.kind.loss

    def make_model(self, encoder, seed) -> keras.Model:
        """Makes the model, with a randomly initialised head."""
        options = self.options
        return self.kind.make_model(
            encoder, options.classifier_dropout, seed, options.mixed_precision
        )

    def read_exported(self, outputs) -> Any:
        """Maps the outputs of an exported model to those of the model it was made from."""
        return self.kind.read_outputs(outputs)

    def check_labels(self) -> None:
        """Checks that the model that the run starts from has the same kind, labels and so on.

        Raises:
            InputError: it has others.
        """
        super().check_labels()
        options, kind = self.options, self.kind
        stored = os.path.join(options.model_dir, KIND_FILE)
        if not (options.exported_model or has_checkpoint(options)) or not tf.io.gfile.exists(
            stored
        ):
            return
        there = read_kind(options.model_dir)
        for name in kind.of_weights:
            if getattr(there, name) != getattr(kind, name):
                raise InputError(
                    f"{options.model_flag}: was trained with --{name}={getattr(there, name)}; this run "
                    f"has {getattr(kind, name)}"
                )

    def write_label_metadata(self) -> None:
        """Writes `task.json`."""
        write_kind(self.options.output_dir, self.kind)

    def fit(self, evaluator: Evaluator) -> Self:
        """Returns the task with thresholds that suit the dev set, and writes them."""
        if type(self.kind).fit is Kind.fit or "dev" not in self.sets:
            return self
        dev_set = self.sets["dev"][0]
        kind = self.kind.fit(dev_set.examples, self._predict(evaluator, dev_set))
        if not self.options.exported_model:
            write_kind(self.options.output_dir, kind)
        return dataclasses.replace(self, kind=kind)

    def evaluate(self, evaluator: Evaluator) -> tuple[dict[str, float], dict[str, Any]]:
        """Returns the metrics on all dev sets, and the predictions for each."""
        metrics, predictions = {}, {}
        kind = None
        for dev_set in self.sets["dev"]:
            of_set = predictions[dev_set.name] = self._predict(evaluator, dev_set)
            kind = kind or self.kind.fit(dev_set.examples, of_set)
            values = kind.measure(dev_set.examples, of_set)
            values |= _measure_subsets(kind, dev_set.examples, of_set)
            metrics |= {dev_set.prefix + name: value for name, value in values.items()}
        return metrics, predictions

    def is_collapsed(self, metrics, predictions) -> bool | None:
        """Returns whether all predictions for the main dev set are alike."""
        dev_set = self.sets["dev"][0]
        of_set = {name: metrics.get(dev_set.prefix + name) for name in (*self.kind.metrics, "loss")}
        return self.kind.is_collapsed(dev_set.examples, predictions[dev_set.name], of_set)

    def write_evaluation(self, metrics, predictions) -> None:
        """Writes predictions and how well each label is predicted."""
        for dev_set in self.sets["dev"]:
            of_set = predictions[dev_set.name]
            self._write_predictions("eval_predictions", dev_set, of_set)
            for name, content in self.kind.score_files(dev_set.examples, of_set).items():
                stem, end = os.path.splitext(name)
                self._write(dev_set.suffixed(stem) + end, content)

    def predict(self, evaluator: Evaluator) -> None:
        """Predicts the test sets; writes the predictions and the leaderboard's files."""
        for test_set in self.sets["test"]:
            predictions = self._predict(evaluator, test_set)
            path = self._write_predictions("test_results", test_set, predictions)
            print(f"predictions in {path}")
            if test_set.name not in self.row.submissions:
                continue
            rows = self.kind.rows(test_set.examples, predictions)
            submission = prediction_files.write_submission(
                self.options.output_dir,
                self.row,
                test_set.name,
                test_set.examples,
                [row["prediction"] for row in rows],
            )
            print(f"for the leaderboard {submission}")

    def example_of_line(self, fields: Sequence[str]) -> Example | None:
        """Makes an example of the fields of a line; None if their number is wrong."""
        return self.kind.example_of_line(fields)

    @property
    def line_format(self) -> str:
        """The expected fields of a line, as text for messages."""
        return self.kind.line_format

    def answer(self, example, predict) -> str:
        """Returns the line that answers an example without a label."""
        features = self.kind.encode([example], self.tokenizer)
        rows, size = np.arange(len(features)), self.options.eval_batch_size
        parts = (rows[first : first + size] for first in range(0, len(rows), size))
        outputs = ((part, predict(make_batch(features, part))) for part in parts)
        return self.kind.answer(example, self.kind.decode([example], features, outputs))

    def assets(self) -> dict[str, bytes]:
        """Returns none; the export adds those of the kind."""
        return {}

    def export(self, model, details) -> dict[str, str]:
        """Exports the model and returns the written folders."""
        return export(model, self.kind, self.tokenizer, self.options.export_dir, details)

    def _predict(self, evaluator: Evaluator, examples: ExampleSet) -> Any:
        return self.kind.predict(
            evaluator,
            examples.examples,
            examples.features,
            self.options.eval_batch_size,
            fixed_length(self.options),
        )

    def _write_predictions(self, name: str, examples: ExampleSet, predictions: Any) -> str:
        """Writes the files of predictions and returns the first one."""
        name = examples.suffixed(name)
        contents = self.kind.prediction_files(name, examples.examples, predictions)
        paths = [self._write(*each) for each in contents.items()]
        return paths[0]

    def _write(self, name: str, content: str) -> str:
        path = os.path.join(self.options.output_dir, name)
        files.write_text(path, content)
        return path


def _measure_subsets(
    kind: Kind, examples: Sequence[Example], predictions: np.ndarray
) -> dict[str, float]:
    """Returns the metrics of each subset of a set that has several."""
    subset_of_row = np.array([getattr(example, "subset", "") for example in examples])
    subsets = np.unique(subset_of_row)
    results = {}
    for subset in subsets if len(subsets) > 1 else ():
        rows = np.flatnonzero(subset_of_row == subset)
        values = kind.measure([examples[row] for row in rows], predictions[rows])
        results |= {f"{subset}_{name}": values[name] for name in kind.metrics}
    return results
