"""Token classification: parts of texts with labels, such as named entities."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.conll import is_conll
from albert_tf.data.fine_tuning.examples import quote_names
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.tagged_text import (
    TaggedText,
    TaggingFeatures,
    collect_labels,
    encode_tagged,
    label_words,
    make_texts,
    read_tagged,
    read_untagged,
    split_tagged,
)
from albert_tf.data.fine_tuning.tags import (
    OUTSIDE,
    Span,
    TagTable,
    are_classes,
    make_tags,
    tag_words,
)
from albert_tf.data.fine_tuning.windows import cut_windows
from albert_tf.errors import InputError
from albert_tf.evaluation.labelled_spans import (
    ALL,
    ScoredSpan,
    ScoredWord,
    find_labelled_spans,
    find_tagged_spans,
    from_rows,
    predict_spans,
    predict_words,
    score_entities,
    to_rows,
)
from albert_tf.evaluation.metrics import is_collapsed, label_scores
from albert_tf.kinds.classification import interpret_classes
from albert_tf.kinds.given_texts import as_texts, rows_of
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.registry import register
from albert_tf.kinds.taught import NOT_FINITE, TaughtKind
from albert_tf.losses import (
    TARGETS,
    TaughtTokenClassificationLoss,
    TokenClassificationLoss,
    batch_loss,
)
from albert_tf.models import AlbertTokenClassifier
from albert_tf.options.kinds import TokenClassificationFlags
from albert_tf.options.resolution import resolved
from albert_tf.tokenization.word_starts import word_tables

_SPAN_METRICS = ("f1", "precision", "recall")
# What the words of a text may be given in.
_WORDS = list | tuple | np.ndarray


class WordLogits(NamedTuple):
    """What a model returns for the words of n texts."""

    logits: np.ndarray  # float32 (w, k)
    features: TaggingFeatures  # the texts as ids, with their words


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassification(TokenClassificationFlags, TaughtKind):
    """Texts in which spans have labels. `labels` are the tags of words; predictions are `WordLogits`.

    The targets of a student are the spans that a teacher finds, int32 (m, 4): text, start, end and label.
    """

    name: ClassVar = "token_classification"
    texts: ClassVar = ("text",)
    finds_spans: ClassVar = True
    length_options: ClassVar = ("doc_stride",)
    loss: ClassVar = TokenClassificationLoss()
    more_metrics: ClassVar = ("loss",)

    metrics: tuple[str, ...] = _SPAN_METRICS  # of classes of words, `accuracy`

    def __post_init__(self):
        super().__post_init__()
        if self.metrics == _SPAN_METRICS and self.labels and are_classes(self.labels):
            object.__setattr__(self, "metrics", ("accuracy",))
        if self.doc_stride is None:
            object.__setattr__(self, "doc_stride", self.max_seq_length // 2)

    @property
    def label_names(self) -> tuple[str, ...]:
        return self._table.labels

    @property
    def _table(self) -> TagTable:
        return TagTable.from_tags(self.labels)

    @classmethod
    def open(cls, source: Any, split: str, names: ColumnNames) -> Any:
        """Opens a table; a CoNLL file is none, unless the user names its columns."""
        if names.header or not is_conll(source, names.text_column):
            return Table.read(source, split, names)
        if names != ColumnNames():
            raise InputError(f"{source}: a CoNLL file has no names of columns; expected none")
        return source

    def read(self, source: Any, split: str) -> list[TaggedText]:
        """Reads a CoNLL file, or rows with spans or tags of words; see `read_tagged`."""
        if not self.labels:
            return read_tagged(source, split, None)
        return read_tagged(source, split, self.label_names, self._table.has_classes)

    def fit_labels(self, examples: Sequence[TaggedText], path: str) -> Self:
        """Returns the kind with the tags of the labels of the training file, or with its classes."""
        if self.labels:
            return self
        labels = collect_labels(examples, path)
        if examples[0].has_classes:
            if len(labels) < 2:
                raise InputError(
                    f"{path}: every word has the class '{labels[0]}'; expected two classes or more, or "
                    "tags such as B-PER and O"
                )
            return dataclasses.replace(self, labels=labels)
        return dataclasses.replace(self, labels=make_tags(labels))

    @classmethod
    def split_labelled(cls, source: Any) -> tuple[Any, Table | None]:
        return split_tagged(source)

    def read_unlabelled(self, source: Any) -> list[TaggedText]:
        return read_untagged(source)

    def fit_unlabelled(self, labels: Sequence[str], examples: Sequence[TaggedText]) -> Self:
        table = TagTable.from_tags(labels)
        tags = table.labels if table.has_classes else make_tags(table.labels)
        return dataclasses.replace(self, labels=tuple(tags))

    def check_teacher(self, teacher: Kind) -> None:
        theirs, own = (TagTable.from_tags(kind.labels) for kind in (teacher, self))
        if {*theirs.labels} != {*own.labels} or theirs.has_classes != own.has_classes:
            raise InputError(
                f"finds {quote_names(theirs.labels)}; expected the labels of the training set, "
                f"{quote_names(own.labels)}"
            )

    def targets(self, teacher: Kind, examples, predictions: WordLogits) -> np.ndarray:
        assert isinstance(teacher, TokenClassification), "it is of the same kind"
        if not np.isfinite(predictions.logits).all():
            raise InputError(NOT_FINITE)
        return to_rows(teacher._find(examples, predictions), self.label_names)

    def with_targets(self, features, examples, targets: np.ndarray) -> TaggingFeatures:
        spans = from_rows(targets, len(examples), self.label_names)
        return label_words(features, TARGETS, spans, self.labels)

    def measure_teacher(self, teacher: Kind, examples, predictions: WordLogits) -> Quality:
        return dataclasses.replace(teacher, metrics=self.metrics).measure(examples, predictions)

    def taught_loss(self, weight: float) -> TaughtTokenClassificationLoss:
        return TaughtTokenClassificationLoss(self.loss, weight)

    def make_examples(self, texts: Sequence[str] | Sequence[Sequence[str]]) -> list[TaggedText]:
        """Makes examples without labels of n texts of any length, or of n lists of words."""
        if not hasattr(texts, "__len__") or not any(isinstance(x, _WORDS) for x in texts):
            return [TaggedText("", text) for (text,) in rows_of(texts=texts)]
        sentences = []
        for number, words in enumerate(texts):
            name = f"texts[{number}]"
            if not isinstance(words, _WORDS):
                raise InputError(
                    f"{name}: expected a list of words, as others are; received {type(words).__name__}"
                )
            words = as_texts(name, words)
            sentences.append(("", [f"{name}[{place}]" for place in range(len(words))], words, None))
        return list(make_texts(sentences, None))

    def encode(self, examples, tokenizer) -> TaggingFeatures:
        """Converts examples to windows of ids, with the tags of their words if they have any."""
        return encode_tagged(
            examples,
            tags=self.labels,
            tokenizer=tokenizer,
            max_seq_length=self.max_seq_length,
            doc_stride=resolved(self.doc_stride),
        )

    def find_faults(
        self, path: str, split: str, examples: Sequence[TaggedText], features: TaggingFeatures
    ) -> list[str]:
        """Counts the true spans that begin or end inside a word."""
        if not features.token_labels or self._table.has_classes:
            return []
        ids = features.word_labels
        found = find_tagged_spans(
            tags=np.where(ids < 0, self._table.outside, ids),
            words=features.words,
            num_texts=len(examples),
            table=self._table,
        )
        cut = [
            (text, span)
            for text, spans in zip(examples, found, strict=True)
            for span in {*(text.spans or ())}.difference(spans)
        ]
        if not cut:
            return []
        text, span = cut[0]
        count = sum(len(example.spans or ()) for example in examples)
        return [
            f"{path}: {len(cut)} of {count} spans begin or end inside a word, such as "
            f"'{text.text_a[span.start : span.end]}' in {text.guid}; the model finds whole words"
        ]

    def make_model(self, encoder, dropout, seed, dtype) -> AlbertTokenClassifier:
        return AlbertTokenClassifier(encoder, len(self.labels), dropout, seed, dtype=dtype)

    def decode(self, examples, features, batches) -> WordLogits:
        """Returns the logits of all words, each from its window with most context."""
        token_logits = np.zeros((len(features.input_ids), len(self.labels)), np.float32)
        for windows, outputs in batches:
            mask, tokens = features.tokens_of(windows, outputs.shape[1])
            token_logits[tokens] = outputs[: len(windows)][mask]
        logits = np.asarray(self.logits(token_logits[features.words.tokens]))
        return WordLogits(logits, features)

    def measure(self, examples: Sequence[TaggedText], predictions: WordLogits) -> Quality:
        """Measures spans, or the share of words whose class is right, and the loss of words."""
        logits, features = predictions
        ids, probabilities = features.word_labels, self.probabilities(logits)
        found = self._spans(examples, probabilities, features)
        scores = score_entities(examples, found, self.label_names)
        loss = float(batch_loss(self.loss, {"label_ids": ids}, logits))
        # Each word has one class, and one predicted class.
        values = {**scores[ALL]._asdict(), "accuracy": scores[ALL].recall, "loss": loss}
        metrics = {**{name: values[name] for name in self.metrics}, "loss": loss}
        tables = {"entity_scores.tsv": lambda: label_scores(scores)}
        has_label = ids >= 0
        return Quality(
            metrics, is_collapsed(probabilities[has_label], ids[has_label], loss), tables
        )

    def result(self, examples, predictions: WordLogits) -> list[list[ScoredSpan | ScoredWord]]:
        """Returns the spans of each text, in order; all words of a text that is given as words."""
        features, probabilities = predictions.features, self.probabilities(predictions.logits)
        results = self._spans(examples, probabilities, features)
        bounds = np.searchsorted(features.words.texts, np.arange(len(examples) + 1))
        for number, text in enumerate(examples):
            if text.words is not None:
                rows = slice(*bounds[number : number + 2])
                results[number] = predict_words(
                    text,
                    tags=self._tags(text, [span.place for span in results[number]]),
                    starts=features.words.starts[rows],
                    probabilities=probabilities[rows].max(axis=-1),
                )
        return results

    def _find(self, examples, predictions: WordLogits) -> list[list[ScoredSpan]]:
        """Returns the spans of each text, in order."""
        return self._spans(examples, self.probabilities(predictions.logits), predictions.features)

    def _tags(self, text: TaggedText, spans: Sequence[Span]) -> list[str]:
        """Returns the tags of the words that a text is given as."""
        starts, ends = np.array(text.words, np.int64).reshape(-1, 2).T
        ids = tag_words(starts, ends, spans, self._table)
        return [self.labels[id_] if id_ >= 0 else OUTSIDE for id_ in ids]

    def _spans(self, examples, probabilities: np.ndarray, features: TaggingFeatures):
        return predict_spans(
            probabilities, features.words, num_texts=len(examples), table=self._table
        )

    def prediction_files(self, name: str, examples, predictions: WordLogits) -> dict[str, str]:
        """Returns `<name>.jsonl`, a line per text, and `<name>.conll` if the words are given.

        The latter has a line per word: the word, its true tag if known, and the predicted tag.
        """
        rows, lines = [], []
        for text, spans in zip(examples, self._find(examples, predictions), strict=True):
            row = {"guid": text.guid, "text": text.text_a, "spans": _shown(spans)}
            columns = [[span.place for span in spans]]
            if text.spans is not None:
                row["true_spans"] = [span._asdict() for span in text.spans]
                columns.insert(0, text.spans)
            rows.append(json.dumps(row))
            if text.words is not None:
                words = [text.text_a[start:end] for start, end in text.words]
                tags = (self._tags(text, column) for column in columns)
                lines += [*map(" ".join, zip(words, *tags, strict=True)), ""]
        files = {f"{name}.jsonl": rows, f"{name}.conll": lines}
        return {file: "\n".join(part) + "\n" for file, part in files.items() if part}

    def example_of_line(self, fields: Sequence[str]) -> TaggedText:
        """Makes an example of a line, which is one text with its tabs."""
        text = "\t".join(fields)
        if not text.strip():
            raise InputError("the text is empty")
        return TaggedText("", text)

    def answers(self, examples, predictions: WordLogits) -> dict[str, list]:
        """Returns the spans of each text: objects with the keys of `ScoredSpan` and `text`."""
        found = zip(examples, self._find(examples, predictions), strict=True)
        return {
            "spans": [
                [{**x, "text": example.text_a[x["start"] : x["end"]]} for x in _shown(spans)]
                for example, spans in found
            ]
        }

    def interpretation(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Maps logits (..., k) of tokens to `logits`, `probabilities` (..., k) and `label` (...)."""
        return interpret_classes(self.labels, logits)

    def predict_texts(self, predict, tokenizer, graph_tokenizer, text):
        """Finds the spans in texts of any length; see `find_labelled_spans`."""
        tokens = graph_tokenizer.tokenize_with_offsets(text)
        inputs, windows, _ = cut_windows(
            tokens,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=self.max_seq_length,
            doc_stride=self.doc_stride,
        )
        probabilities = predict(**inputs)["probabilities"]
        # In each text later tokens are scored in later windows, so the tokens are in order.
        scored = tf.boolean_mask(probabilities, windows.token_is_max_context)
        return find_labelled_spans(
            text,
            tokens,
            probabilities=scored,
            tables=word_tables(tokenizer),
            table=self._table,
        )


def _shown(spans: Sequence[ScoredSpan]) -> list[dict[str, Any]]:
    """Returns predicted spans as objects for JSON."""
    return [{**span._asdict(), "score": round(span.score, 6)} for span in spans]
