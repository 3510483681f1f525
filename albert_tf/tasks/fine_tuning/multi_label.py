"""Multi-label classification: texts with any number of labels."""

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning.tsv import LABEL_SEPARATOR
from albert_tf.evaluation.label_sets import (
    choose_thresholds,
    compute_label_metrics,
    score_labels,
)
from albert_tf.export import THRESHOLDS_FILE, export_multi_label_classifier
from albert_tf.losses import MultiLabelLoss
from albert_tf.models import AlbertClassifier
from albert_tf.tasks.fine_tuning import prediction_files
from albert_tf.tasks.fine_tuning.text_tasks import TextTask, make_classifier

# Prefix of the metrics that are the thresholds of labels.
_THRESHOLD = "threshold_"

# Of a model without a dev set.
_DEFAULT_THRESHOLD = 0.5


class MultiLabelTask(TextTask):
    """Texts with sets of labels. Each label has the threshold that suits the dev set best."""

    loss = MultiLabelLoss()
    label_scores_file = "label_scores"

    def make_model(self, encoder, seed) -> AlbertClassifier:
        """Makes the model, with a randomly initialised head."""
        return make_classifier(encoder, len(self.metadata.labels), self.options, seed)

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """Maps logits (n, k) to the probabilities of the labels, (n, k)."""
        return tf.sigmoid(logits).numpy()

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Returns which labels are predicted, bool (n, k)."""
        return outputs >= np.array(list(self.thresholds().values()), np.float32)

    def names(self, predictions: np.ndarray) -> list[str]:
        """Returns sets of labels, bool (n, k), as text."""
        labels = np.array(self.metadata.labels)
        return [LABEL_SEPARATOR.join(labels[row]) for row in predictions]

    def measure(self, names, label_ids, outputs) -> dict[str, float]:
        """Returns the metrics and the thresholds: in training the best ones, otherwise those stored."""
        thresholds = self.thresholds()
        if self.options.do_train or not self._thresholds_file:
            best = choose_thresholds(label_ids, outputs)
            thresholds = dict(zip(self.metadata.labels, best, strict=True))
        values = compute_label_metrics(label_ids, outputs, list(thresholds.values()))
        of_labels = {_THRESHOLD + name: value for name, value in thresholds.items()}
        return {**{name: values[name] for name in names}, **of_labels}

    def is_collapsed(self, metrics, predictions) -> None:
        """Returns None: most labels may be rare."""

    def finish_training(self, best_metrics: Mapping[str, float]) -> None:
        """Writes the thresholds that an evaluation chose, if any, next to the checkpoints."""
        names = self.metadata.labels
        if all(_THRESHOLD + name in best_metrics for name in names):
            thresholds = {name: best_metrics[_THRESHOLD + name] for name in names}
            files.write_json(os.path.join(self.options.output_dir, THRESHOLDS_FILE), thresholds)

    def write_evaluation(self, metrics, predictions) -> None:
        """Writes the thresholds, the predictions and the scores of each label."""
        self.finish_training(metrics)
        super().write_evaluation(metrics, predictions)

    def write_label_scores(self, path, label_ids, outputs) -> None:
        """Writes the scores of each label."""
        scores = score_labels(label_ids, outputs, list(self.thresholds().values()))
        by_label = dict(zip(self.metadata.labels, scores, strict=True))
        prediction_files.write_label_scores(path, by_label)

    def export(self, model, details) -> dict[str, str]:
        """Exports the model and returns the written folders."""
        return export_multi_label_classifier(
            model,
            self.thresholds(),
            self.tokenizer,
            self.options.export_dir,
            self.options.max_seq_length,
            self.metadata.pairs,
            details,
        )

    def thresholds(self) -> dict[str, float]:
        """Returns the probability from which on each label is predicted, by name."""
        stored = files.read_json(self._thresholds_file) if self._thresholds_file else {}
        return {name: stored.get(name, _DEFAULT_THRESHOLD) for name in self.metadata.labels}

    @property
    def _thresholds_file(self) -> str | None:
        """The file of the model's thresholds, if there is one."""
        path = os.path.join(self.options.model_dir, THRESHOLDS_FILE)
        return path if tf.io.gfile.exists(path) else None
