"""Labelled spans: read from a model's outputs, and scored with seqeval."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from seqeval.metrics import classification_report

from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tagging_features import Words
from albert_tf.data.fine_tuning.tags import Span, TagTable, find_spans, make_tags, tag_words


class ScoredSpan(NamedTuple):
    """A predicted span.

    Attributes:
        start: its first character in the text.
        end: the character after its last one.
        label: the label.
        score: mean probability of the tags of its words.
    """

    start: int
    end: int
    label: str
    score: float


class EntityScores(NamedTuple):
    """The scores of the spans of a label, or of all labels.

    Attributes:
        precision: fraction of the predicted spans that are right.
        recall: fraction of the true spans that are predicted.
        f1: harmonic mean of both.
        support: number of true spans.
    """

    precision: float
    recall: float
    f1: float
    support: int


# Name of the scores of all labels together, and of averages that are not reported.
ALL = "micro avg"
_OTHER_AVERAGES = ("macro avg", "weighted avg")


def predict_spans(
    probabilities: np.ndarray, words: Words, word_texts: np.ndarray, num_texts: int, table: TagTable
) -> list[list[ScoredSpan]]:
    """Returns the spans of each text, in order.

    Args:
        probabilities: float (w, k), of the tags of each word.
        words: the words of all texts.
        word_texts: int (w,), the text of each word, ascending.
        num_texts: number of texts.
        table: what the tags mean.
    """
    tags = probabilities.argmax(axis=-1)
    is_first = np.diff(word_texts, prepend=-1) > 0
    numbers = find_spans(tags, is_first, table)
    inside = np.flatnonzero(numbers >= 0)
    _, firsts, counts = np.unique(numbers[inside], return_index=True, return_counts=True)
    scores = np.bincount(numbers[inside], probabilities.max(axis=-1)[inside]) / counts
    spans = [[] for _ in range(num_texts)]
    for first, last, score in zip(inside[firsts], inside[firsts + counts - 1], scores, strict=True):
        span = int(words.starts[first]), int(words.ends[last])
        label = table.labels[table.label_ids[tags[first]]]
        spans[word_texts[first]].append(ScoredSpan(*span, label, float(score)))
    return spans


def score_entities(
    texts: Sequence[TaggedText], predicted: Sequence[Sequence[ScoredSpan]], labels: Sequence[str]
) -> dict[str, EntityScores]:
    """Returns the scores by label, and those of all spans under the name `ALL`.

    A span is right if its limits and its label are, as in the CoNLL evaluation. Limits are words in texts
    that are given as words, and characters in others.
    """
    tags = make_tags(labels, "BIO")
    table = TagTable.from_tags(tags)
    sides = [], []
    for text, of_text in zip(texts, predicted, strict=True):
        guessed = [Span(*span[:3]) for span in of_text]
        limits = text.words_to_compare(guessed)
        for side, spans in zip(sides, (text.spans, guessed), strict=True):
            side.append([tags[tag] for tag in tag_words(*limits, spans, table)])
    if not any(tag != tags[0] for side in sides for of_text in side for tag in of_text):
        return {ALL: EntityScores(0.0, 0.0, 0.0, 0)}
    report = classification_report(*sides, output_dict=True, zero_division=0)
    return {
        label: EntityScores(
            *(float(scores[name]) for name in ("precision", "recall", "f1-score")),
            int(scores["support"]),
        )
        for label, scores in report.items()
        if label not in _OTHER_AVERAGES
    }
