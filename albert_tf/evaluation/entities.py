"""Labelled spans: read from a model's outputs, and scored."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.fine_tuning.tagged_text import TaggedText, Words
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


class ScoredWord(NamedTuple):
    """The prediction for a word of a text that is given as words.

    Attributes:
        word: the word.
        tag: its tag, such as `B-PER`, or `O` for a word in no span.
        probability: mean probability of the tags of its parts; punctuation separates them.
    """

    word: str
    tag: str
    probability: float


class EntityScores(NamedTuple):
    """The scores of the spans of a label, or of all labels."""

    precision: float  # fraction of the predicted spans that are right
    recall: float  # fraction of the true spans that are predicted
    f1: float  # harmonic mean of both
    support: int  # number of true spans


# Name of the scores of all labels together.
ALL = "micro avg"


def predict_spans(
    probabilities: np.ndarray, words: Words, word_texts: np.ndarray, num_texts: int, table: TagTable
) -> list[list[ScoredSpan]]:
    """Returns the spans of each text, in order.

    `probabilities`, float (w, k), are those of the tags of each of the words of all texts, and
    `word_texts`, int (w,), ascending, the text of each.
    """
    tags = probabilities.argmax(axis=-1)
    numbers = find_spans(tags, np.diff(word_texts, prepend=-1) > 0, table)
    firsts, lasts = _limits(numbers)
    is_inside = numbers >= 0
    totals = np.bincount(numbers[is_inside], probabilities.max(axis=-1)[is_inside])
    spans = [[] for _ in range(num_texts)]
    for first, last, total in zip(firsts, lasts, totals, strict=True):
        span = int(words.starts[first]), int(words.ends[last])
        label = table.labels[table.label_ids[tags[first]]]
        score = float(total / (last - first + 1))
        spans[word_texts[first]].append(ScoredSpan(*span, label, score))
    return spans


def predict_words(
    text: TaggedText, tags: Sequence[str], starts: np.ndarray, probabilities: np.ndarray
) -> list[ScoredWord]:
    """Returns the words that a text is given as, with their tags.

    The model's words, of which one of the text may have several or none, begin at the characters `starts`
    and have tags of the `probabilities`, (w,) each.
    """
    numbers = np.searchsorted([start for start, _ in text.words], starts, side="right") - 1
    totals, counts = (np.bincount(numbers, x, len(tags)) for x in (probabilities, None))
    # What the model does not see is in no span.
    means = np.where(counts > 0, totals / np.maximum(counts, 1), 1.0).tolist()
    words = (text.text_a[start:end] for start, end in text.words)
    return [ScoredWord(*each) for each in zip(words, tags, means, strict=True)]


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
