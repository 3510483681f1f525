"""Labelled spans: read from a model's outputs, and scored."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tags import Span, TagTable, find_spans, make_tags, tag_words
from albert_tf.data.fine_tuning.windows import Words


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
    """The scores of the spans of a label, or of all labels."""

    precision: float  # fraction of the predicted spans that are right
    recall: float  # fraction of the true spans that are predicted
    f1: float  # harmonic mean of both
    support: int  # number of true spans


# Name of the scores of all labels together.
ALL = "micro avg"


def predict_spans(
    probabilities: np.ndarray, words: Words, num_texts: int, table: TagTable
) -> list[list[ScoredSpan]]:
    """Returns the spans of each text, in order.

    `probabilities`, float (w, k), are those of the tags of each of the words of all texts.
    """
    tags = probabilities.argmax(axis=-1)
    numbers = find_spans(tags, np.diff(words.texts, prepend=-1) > 0, table)
    firsts, lasts = _limits(numbers)
    is_inside = numbers >= 0
    totals = np.bincount(numbers[is_inside], probabilities.max(axis=-1)[is_inside])
    spans = [[] for _ in range(num_texts)]
    for first, last, total in zip(firsts, lasts, totals, strict=True):
        span = int(words.starts[first]), int(words.ends[last])
        label = table.labels[table.label_ids[tags[first]]]
        score = float(total / (last - first + 1))
        spans[words.texts[first]].append(ScoredSpan(*span, label, score))
    return spans


def score_entities(
    texts: Sequence[TaggedText], predicted: Sequence[Sequence[ScoredSpan]], labels: Sequence[str]
) -> dict[str, EntityScores]:
    """Returns the scores of each label that occurs, and those of all spans under the name `ALL`.

    A span is right if its limits and its label are, as in the CoNLL evaluation. Limits are words in texts
    that are given as words, and characters in others.
    """
    table = TagTable.from_tags(make_tags(labels))
    right, made, true = (collections.Counter() for _ in range(3))
    for text, of_text in zip(texts, predicted, strict=True):
        expected, received = (
            _comparable(text, spans, table)
            for spans in (text.spans, [Span(*span[:3]) for span in of_text])
        )
        for counts, spans in ((right, expected & received), (made, received), (true, expected)):
            counts.update(label for _, _, label in spans)
    scores = {
        label: _score(right[label], made[label], true[label]) for label in sorted(made | true)
    }
    return {**scores, ALL: _score(*(counts.total() for counts in (right, made, true)))}


def _comparable(
    text: TaggedText, spans: Sequence[Span], table: TagTable
) -> set[tuple[int, int, str]]:
    if text.words is None:
        return set(spans)
    starts, ends = np.array(text.words).T
    tags = tag_words(starts, ends, spans, table)
    firsts, lasts = _limits(find_spans(tags, np.arange(len(tags)) == 0, table))
    labels = [table.labels[index] for index in table.label_ids[tags[firsts]]]
    return set(zip(firsts.tolist(), lasts.tolist(), labels, strict=True))


def _limits(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the last word of each span, given the numbers of the words' spans."""
    (inside,) = np.nonzero(numbers >= 0)
    _, firsts, counts = np.unique(numbers[inside], return_index=True, return_counts=True)
    return inside[firsts], inside[firsts + counts - 1]


def _score(right: int, made: int, true: int) -> EntityScores:
    if not right:
        return EntityScores(0.0, 0.0, 0.0, true)
    precision, recall = right / made, right / true
    return EntityScores(precision, recall, 2 * precision * recall / (precision + recall), true)
