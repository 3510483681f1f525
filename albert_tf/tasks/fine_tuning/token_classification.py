"""Token classification: parts of texts with labels, such as named entities."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.batches import evaluation_batches, make_batch
from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tagging_features import TaggingFeatures, encode_tagged
from albert_tf.data.fine_tuning.tags import Span, TagTable
from albert_tf.data.windows import TextWindowConfig
from albert_tf.evaluation.entities import ALL, ScoredSpan, predict_spans, score_entities
from albert_tf.evaluation.glue_metrics import is_collapsed
from albert_tf.export import ExportDetails, export_token_classifier
from albert_tf.losses import TokenClassificationLoss, batch_loss
from albert_tf.models import AlbertTokenClassifier
from albert_tf.tasks.fine_tuning import prediction_files
from albert_tf.tasks.fine_tuning.labelled_task import ExampleSet, LabelledTask, PredictBatch
from albert_tf.tasks.training_options import fixed_length
from albert_tf.training import Evaluator


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationTask(LabelledTask):
    """Texts in which spans have labels. The labels of the metadata are the tags of words."""

    loss = TokenClassificationLoss()

    @staticmethod
    def encode(examples, labels, tokenizer, options) -> TaggingFeatures:
        """Converts examples to windows of ids."""
        config = TextWindowConfig(options.max_seq_length, options.doc_stride)
        return encode_tagged(examples, labels, tokenizer, config)

    def make_model(self, encoder, seed) -> AlbertTokenClassifier:
        """Makes the model, with a randomly initialised head."""
        dropout, dtype = self.options.classifier_dropout, self.options.mixed_precision
        return AlbertTokenClassifier(encoder, len(self.metadata.labels), dropout, seed, dtype=dtype)

    def read_exported(self, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits (B, S, k) of an exported model."""
        return outputs["logits"]

    def example_of_line(self, fields: Sequence[str]) -> TaggedText:
        """Makes an example of a line, which is one text with its tabs."""
        return TaggedText("", "\t".join(fields))

    def answer(self, example: TaggedText, predict: PredictBatch) -> str:
        """Returns the spans as JSON: a list of objects with the keys of `ScoredSpan` and `text`."""
        features = self._encode_unlabelled([example])
        rows, size = np.arange(len(features)), self.options.eval_batch_size
        parts = (rows[first : first + size] for first in range(0, len(rows), size))
        outputs = ((part, predict(make_batch(features, part))) for part in parts)
        (spans,) = self._spans(features, self._of_words(features, outputs), 1)
        shown = prediction_files.shown_spans(spans)
        for span in shown:
            span["text"] = example.text_a[span["start"] : span["end"]]
        return json.dumps(shown, ensure_ascii=False)

    def evaluate(self, evaluator: Evaluator) -> tuple[dict[str, float], np.ndarray]:
        """Returns the metrics on the dev set, and the logits of its words."""
        (dev_set,) = self.sets["dev"]
        logits = self._predict(evaluator, dev_set.features)
        scores = self._score(dev_set, logits)[ALL]
        values = {name: getattr(scores, name) for name in self.row.metrics}
        loss = batch_loss(self.loss, {"label_ids": _labels(dev_set.features)}, logits)
        return {**values, "loss": float(loss)}, logits

    def is_collapsed(self, metrics: Mapping[str, float], predictions: np.ndarray) -> bool:
        """Returns whether the model gives all words the same tag."""
        (dev_set,) = self.sets["dev"]
        probabilities = tf.nn.softmax(predictions).numpy()
        return is_collapsed(probabilities, _labels(dev_set.features), metrics["loss"])

    def write_evaluation(self, metrics: Mapping[str, float], predictions: np.ndarray) -> None:
        """Writes predictions and the scores of each label."""
        (dev_set,) = self.sets["dev"]
        self._write_predictions("eval_predictions", dev_set, predictions)
        path = os.path.join(self.options.output_dir, "entity_scores.tsv")
        prediction_files.write_label_scores(path, self._score(dev_set, predictions))

    def predict(self, evaluator: Evaluator) -> None:
        """Predicts the test set and writes the predictions."""
        (test_set,) = self.sets["test"]
        logits = self._predict(evaluator, test_set.features)
        print(f"predictions in {self._write_predictions('test_results', test_set, logits)}")

    def predict_texts(self, evaluator: Evaluator, texts: Sequence[str]) -> list[list[ScoredSpan]]:
        """Returns the spans of some texts."""
        features = self._encode_unlabelled([TaggedText("", text) for text in texts])
        return self._spans(features, self._predict(evaluator, features), len(texts))

    def export(self, model: keras.Model, details: ExportDetails) -> dict[str, str]:
        """Exports the model and returns the written folders."""
        config = TextWindowConfig(self.options.max_seq_length, self.options.doc_stride)
        return export_token_classifier(
            model, self.metadata.labels, self.tokenizer, self.options.export_dir, config, details
        )

    def _encode_unlabelled(self, examples: Sequence[TaggedText]) -> TaggingFeatures:
        return self.encode(examples, self.metadata.labels, self.tokenizer, self.options)

    def _predict(self, evaluator: Evaluator, features: TaggingFeatures) -> np.ndarray:
        """Returns the logits of all words, float32 (w, k)."""
        if not len(features):
            return self._of_words(features, [])
        size = self.options.eval_batch_size
        batches, order = evaluation_batches(features, size, fixed_length(self.options))
        outputs = evaluator.predict_batches(batches)
        rows = (order[number * size : (number + 1) * size] for number in range(len(order)))
        return self._of_words(features, zip(rows, outputs, strict=False))

    def _of_words(
        self, features: TaggingFeatures, outputs: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """Returns the outputs for the words, float32 (w, k).

        Args:
            features: the windows.
            outputs: windows, int (B,), and their outputs, float32 (B or more, S, k), of all batches.
        """
        of_tokens = np.zeros((len(features.input_ids), len(self.metadata.labels)), np.float32)
        for windows, of_batch in outputs:
            mask, tokens = features.tokens_of(windows, of_batch.shape[1])
            of_tokens[tokens] = of_batch[: len(windows)][mask]
        return of_tokens[features.words.tokens]

    def _spans(
        self, features: TaggingFeatures, logits: np.ndarray, num_texts: int
    ) -> list[list[ScoredSpan]]:
        return predict_spans(
            tf.nn.softmax(logits).numpy(),
            features.words,
            features.word_texts,
            num_texts,
            TagTable.from_tags(self.metadata.labels),
        )

    def _score(self, dev_set: ExampleSet, logits: np.ndarray):
        labels = TagTable.from_tags(self.metadata.labels).labels
        spans = self._spans(dev_set.features, logits, len(dev_set.examples))
        return score_entities(dev_set.examples, spans, labels)

    def _write_predictions(self, name: str, examples: ExampleSet, logits: np.ndarray) -> str:
        path = os.path.join(self.options.output_dir, name)
        spans = self._spans(examples.features, logits, len(examples.examples))
        return prediction_files.write_spans(path, examples.examples, spans, self.metadata.labels)


def warn_of_cut_words(path: str, examples: ExampleSet, tags: Sequence[str]) -> None:
    """Counts the true spans that the model cannot predict, as they begin or end inside a word."""
    texts, features = examples.examples, examples.features
    if not features.token_labels:
        return
    one_hot = np.eye(len(tags), dtype=np.float32)[_labels(features)]
    table = TagTable.from_tags(tags)
    found = predict_spans(one_hot, features.words, features.word_texts, len(texts), table)
    cut = [
        (text, span)
        for text, spans in zip(texts, found, strict=True)
        for span in {*text.spans}.difference(Span(*each[:3]) for each in spans)
    ]
    if cut:
        text, span = cut[0]
        count = sum(len(each.spans) for each in texts)
        print(
            f"warning: {path}: {len(cut)} of {count} spans begin or end inside a word, such as "
            f"'{text.text_a[span.start : span.end]}' in {text.guid}; the model finds whole words",
            file=sys.stderr,
        )


def _labels(features: TaggingFeatures) -> np.ndarray:
    """Returns the true tags of all words, int32 (w,)."""
    return features.token_labels["label_ids"][features.words.tokens]
