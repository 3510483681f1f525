"""Tasks on texts: classification, regression and multiple choice."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.batches import evaluation_batches, make_batch, restore_order
from albert_tf.data.fine_tuning.features import Features, encode_examples
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.evaluation.metrics import compute_metrics, is_collapsed
from albert_tf.losses import ClassificationLoss, batch_loss
from albert_tf.tasks.fine_tuning import prediction_files
from albert_tf.tasks.fine_tuning.labelled_task import ExampleSet, LabelledTask, PredictBatch
from albert_tf.tasks.training_options import fixed_length
from albert_tf.training import Evaluator


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask(LabelledTask):
    """A task whose examples are texts or pairs of texts, each with one of several labels or a score."""

    loss = ClassificationLoss()
    # Whether an evaluation reports the loss.
    reports_loss = True
    label_scores_file = "confusion_matrix"

    # Where the kinds of tasks differ.

    @staticmethod
    def encode(examples, labels, tokenizer, options) -> Features:
        """Converts examples to ids."""
        return encode_examples(examples, labels, tokenizer, options.max_seq_length)

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """Maps logits (n, k) to the reported outputs (n, k), such as probabilities."""
        return tf.nn.softmax(logits).numpy()

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Maps outputs (n, k) to predictions (n,) that are compared with the labels."""
        return outputs.argmax(axis=-1)

    def names(self, predictions: np.ndarray) -> list[str]:
        """Returns predictions (n,) as text."""
        return [self.metadata.labels[prediction] for prediction in predictions]

    def measure(
        self, names: Sequence[str], label_ids: np.ndarray, outputs: np.ndarray
    ) -> dict[str, float]:
        """Returns the metrics of outputs (n, k) by name."""
        return compute_metrics(names, label_ids, self.predictions(outputs))

    def write_label_scores(self, path: str, label_ids: np.ndarray, outputs: np.ndarray) -> None:
        """Writes how well each label is predicted: a confusion matrix."""
        predictions = self.predictions(outputs)
        prediction_files.write_confusion_matrix(path, self.metadata.labels, label_ids, predictions)

    def example_of_line(self, fields: Sequence[str]) -> Example | None:
        """Makes an example of the fields of a line; None if their number is wrong."""
        if len(fields) > 1 + self.metadata.pairs:
            return None
        return Example("", *fields)

    @property
    def line_format(self) -> str:
        """The expected fields of a line, as text for messages."""
        pairs = self.metadata.pairs
        return "text_a or text_a, tab, text_b" if pairs else "a text without a tab"

    def read_exported(self, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits (n, k) of an exported model."""
        return outputs["logits"]

    # Shared by all kinds of tasks.

    def evaluate(self, evaluator: Evaluator) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Returns the metrics on all dev sets, and the logits of each set."""
        names = (*self.row.metrics, *self.row.more_metrics)
        metrics, logits = {}, {}
        for dev_set in self.sets["dev"]:
            of_set = logits[dev_set.name] = self._predict(evaluator, dev_set)
            label_ids = dev_set.features.labels["label_ids"]
            outputs = self.outputs(of_set)
            values = self.measure(names, label_ids, outputs)
            if self.reports_loss:
                values["loss"] = float(batch_loss(self.loss, {"label_ids": label_ids}, of_set))
            values |= self._evaluate_subsets(dev_set, outputs)
            metrics |= {dev_set.prefix + name: value for name, value in values.items()}
        return metrics, logits

    def is_collapsed(
        self, metrics: Mapping[str, float], predictions: Mapping[str, np.ndarray]
    ) -> bool | None:
        """Returns whether the model gives all rows of the main dev set the same answer."""
        if not self.metadata.labels:
            return None
        main_set = self.sets["dev"][0]
        probabilities = self.outputs(predictions[main_set.name])
        label_ids = main_set.features.labels["label_ids"]
        return is_collapsed(probabilities, label_ids, metrics[main_set.prefix + "loss"])

    def write_evaluation(
        self, metrics: Mapping[str, float], predictions: Mapping[str, np.ndarray]
    ) -> None:
        """Writes predictions and how well each label is predicted."""
        for dev_set in self.sets["dev"]:
            outputs = self.outputs(predictions[dev_set.name])
            self._write_predictions("eval_predictions", dev_set, outputs)
            if self.metadata.labels:
                path = self._path(self.label_scores_file, dev_set)
                self.write_label_scores(path, dev_set.features.labels["label_ids"], outputs)

    def predict(self, evaluator: Evaluator) -> None:
        """Predicts the test sets; writes the predictions and the leaderboard's files."""
        for test_set in self.sets["test"]:
            outputs = self.outputs(self._predict(evaluator, test_set))
            print(f"predictions in {self._write_predictions('test_results', test_set, outputs)}")
            submission = prediction_files.write_submission(
                self.options.output_dir,
                self.row,
                test_set.name,
                test_set.examples,
                self.names(self.predictions(outputs)),
            )
            if submission:
                print(f"for the leaderboard {submission}")

    def answer(self, example: Example, predict: PredictBatch) -> str:
        """Returns the prediction and, for classes, the probability of each, separated by tabs."""
        labels = self.metadata.accepted_labels
        features = self.encode([example], labels, self.tokenizer, self.options)
        outputs = self.outputs(predict(make_batch(features, np.array([0]))))
        (name,) = self.names(self.predictions(outputs))
        shown = [f"{value:.6f}" for value in outputs[0][: len(self.metadata.labels)]]
        return "\t".join([name, *shown])

    def predict_examples(self, evaluator: Evaluator, examples: Sequence[Example]) -> np.ndarray:
        """Returns the outputs (n, k) for some examples, which have no labels."""
        labels = self.metadata.accepted_labels
        features = self.encode(examples, labels, self.tokenizer, self.options)
        return self.outputs(self._predict(evaluator, ExampleSet("", examples, features)))

    def _predict(self, evaluator: Evaluator, examples: ExampleSet) -> np.ndarray:
        """Returns the logits, float32 (n, k), in the order of the examples."""
        batches, order = evaluation_batches(
            examples.features, self.options.eval_batch_size, fixed_length(self.options)
        )
        return restore_order(evaluator.predict(batches), order)

    def _evaluate_subsets(self, dev_set: ExampleSet, outputs: np.ndarray) -> dict[str, float]:
        """Returns the metrics of each subset of a set that has several."""
        subset_of_row = np.array([example.subset for example in dev_set.examples])
        subsets = np.unique(subset_of_row)
        if len(subsets) < 2:
            return {}
        label_ids = dev_set.features.labels["label_ids"]
        results = {}
        for subset in subsets:
            rows = subset_of_row == subset
            values = self.measure(self.row.metrics, label_ids[rows], outputs[rows])
            results |= {_prefix(subset) + name: value for name, value in values.items()}
        return results

    def _write_predictions(self, name: str, examples: ExampleSet, outputs: np.ndarray) -> str:
        path = self._path(name, examples)
        names = self.names(self.predictions(outputs))
        prediction_files.write_predictions(
            path, examples.examples, names, self.metadata.labels, outputs
        )
        return path


def _prefix(set_name: str) -> str:
    """Returns the prefix of the metrics of a set or a subset."""
    return f"{set_name}_" if set_name else ""
