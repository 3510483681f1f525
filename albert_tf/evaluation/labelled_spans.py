"""Labelled spans: found in what a model returns for the tokens of texts, and scored."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tags import Span, TagTable, find_spans, make_tags, tag_words
from albert_tf.data.fine_tuning.windows import Words, find_words
from albert_tf.tokenization.in_graph import TokensWithOffsets
from albert_tf.tokenization.word_starts import WordTables


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

    @property
    def place(self) -> Span:
        """The span without its score."""
        return Span(self.start, self.end, self.label)


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


def find_labelled_spans(
    text: tf.Tensor,
    tokens: TokensWithOffsets,
    probabilities: tf.Tensor,
    tables: WordTables,
    table: TagTable,
) -> dict[str, tf.Tensor]:
    """Finds the labelled spans of texts, string (B,), of any length.

    `probabilities`, float32 (T, k), are those of the tags of the T tokens of all texts.

    Returns:
        `count`, int32 (B,), the number of spans of each text. The others are (B, N), where N is the
        greatest count, and 0 or empty after the spans of a text: `start` and `end`, int32, the first
        character of each span and the one after its last, in code points as Python counts them;
        `start_byte` and `end_byte`, int32, the same in bytes; `label`, string; `score`, float32, the
        mean probability of the tags of its words.
    """
    characters, byte_offsets = tf.strings.unicode_decode_with_offsets(text, "UTF-8")
    words = find_words(tokens, characters, tables)
    probabilities = tf.gather(probabilities, words.tokens)
    firsts, lasts, labels, scores = _find_scored(probabilities, words.texts, table)
    texts = tf.gather(words.texts, firsts)
    starts, ends = tf.gather(words.starts, firsts), tf.gather(words.ends, lasts)
    row_starts = tf.gather(characters.row_starts(), texts)
    first_bytes = tf.gather(byte_offsets.values, row_starts + starts)
    # The byte after the last character of a text is that of no character.
    is_end = ends == tf.gather(characters.row_lengths(), texts)
    lengths = tf.cast(tf.gather(tf.strings.length(text), texts), tf.int64)
    end_bytes = tf.gather(tf.pad(byte_offsets.values, [[0, 1]]), row_starts + ends)
    outputs = {
        "start": tf.cast(starts, tf.int32),
        "end": tf.cast(ends, tf.int32),
        "start_byte": tf.cast(first_bytes, tf.int32),
        "end_byte": tf.cast(tf.where(is_end, lengths, end_bytes), tf.int32),
        "label": tf.gather(tf.constant(table.labels), labels),
        "score": scores,
    }
    rows = {
        name: tf.RaggedTensor.from_value_rowids(
            values, texts, tf.size(text, tf.int64), validate=False
        )
        for name, values in outputs.items()
    }
    counts = tf.cast(rows["start"].row_lengths(), tf.int32)
    return {"count": counts, **{name: values.to_tensor() for name, values in rows.items()}}


def predict_spans(
    probabilities: np.ndarray, words: Words, num_texts: int, table: TagTable
) -> list[list[ScoredSpan]]:
    """Returns the spans of each text, in order.

    `probabilities`, float (w, k), are those of the tags of each of the words of all texts.
    """
    with tf.device("CPU"):
        *found, scores = _find_scored(probabilities.astype(np.float64), words.texts, table)
    in_order = iter(scores.numpy().tolist())
    return [
        [ScoredSpan(*span, next(in_order)) for span in spans]
        for spans in _place_spans(found, words, num_texts, table)
    ]


def find_tagged_spans(
    tags: np.ndarray, words: Words, num_texts: int, table: TagTable
) -> list[list[Span]]:
    """Returns the spans of each text, in order, that the tags of all words, int (w,), stand for."""
    with tf.device("CPU"):
        found = find_spans(tags, words.texts, table)
    return _place_spans(found, words, num_texts, table)


def _place_spans(
    found: Sequence[tf.Tensor], words: Words, num_texts: int, table: TagTable
) -> list[list[Span]]:
    """Returns the spans of each text, given what `find_spans` does for the words of all texts."""
    spans: list[list[Span]] = [[] for _ in range(num_texts)]
    for first, last, label in zip(*(values.numpy().tolist() for values in found), strict=True):
        spans[words.texts[first]].append(
            Span(int(words.starts[first]), int(words.ends[last]), table.labels[label])
        )
    return spans


def to_rows(spans: Sequence[Sequence[ScoredSpan]], labels: Sequence[str]) -> np.ndarray:
    """Returns the spans of n texts, int32 (spans, 4): text, start, end, and place of the label."""
    rows = [
        (number, span.start, span.end, labels.index(span.label))
        for number, of_text in enumerate(spans)
        for span in of_text
    ]
    return np.array(rows, np.int32).reshape(-1, 4)


def from_rows(rows: np.ndarray, num_texts: int, labels: Sequence[str]) -> list[list[Span]]:
    """Returns the spans of each text, given what `to_rows` returns."""
    spans: list[list[Span]] = [[] for _ in range(num_texts)]
    for number, start, end, label in rows.tolist():
        spans[number].append(Span(start, end, labels[label]))
    return spans


def predict_words(
    text: TaggedText, tags: Sequence[str], starts: np.ndarray, probabilities: np.ndarray
) -> list[ScoredWord]:
    """Returns the words that a text is given as, with their tags.

    The model's words, of which one of the text may have several or none, begin at the characters `starts`
    and have tags of the `probabilities`, (w,) each.
    """
    assert text.words is not None
    numbers = np.searchsorted([start for start, _ in text.words], starts, side="right") - 1
    totals, counts = (np.bincount(numbers, x, len(tags)) for x in (probabilities, None))
    # What the model does not see is in no span.
    means = np.where(counts > 0, totals / np.maximum(counts, 1), 1.0).tolist()
    words = (text.text_a[start:end] for start, end in text.words)
    return [ScoredWord(*row) for row in zip(words, tags, means, strict=True)]


def _find_scored(
    probabilities: tf.Tensor, texts: tf.Tensor, table: TagTable
) -> tuple[tf.Tensor, ...]:
    """Returns what `find_spans` does for the most probable tags, and the scores, float (spans,)."""
    tags = tf.argmax(probabilities, axis=-1)
    firsts, lasts, labels = find_spans(tags, texts, table)
    inside = tf.boolean_mask(
        tf.reduce_max(probabilities, axis=-1), tf.gather(table.label_ids, tags) >= 0
    )
    spans = tf.repeat(tf.range(tf.size(firsts)), lasts - firsts + 1)
    return firsts, lasts, labels, tf.math.segment_mean(inside, spans)


def score_entities(
    texts: Sequence[TaggedText], predicted: Sequence[Sequence[ScoredSpan]], labels: Sequence[str]
) -> dict[str, EntityScores]:
    """Returns the scores of each label that occurs, and those of all spans under the name `ALL`.

    A span is right if its limits and its label are, as in the CoNLL evaluation. Limits are words in texts
    that are given as words, and characters in others.
    """
    table = TagTable.from_tags(make_tags(labels))
    received = [[span.place for span in spans] for spans in predicted]
    made_at = _places(texts, received, table)
    true_at = _places(texts, [text.known_spans for text in texts], table)
    right, made, true = (
        collections.Counter(label for *_, label in places)
        for places in (true_at & made_at, made_at, true_at)
    )
    scores = {
        label: _score(right[label], made[label], true[label]) for label in sorted(made | true)
    }
    return {**scores, ALL: _score(*(counts.total() for counts in (right, made, true)))}


# Number of a text, limits and label of a span.
_Place = tuple[int, int, int, str]


def _places(
    texts: Sequence[TaggedText], spans: Sequence[Sequence[Span]], table: TagTable
) -> set[_Place]:
    """Returns where the spans of texts are."""
    numbered = list(enumerate(zip(texts, spans, strict=True)))
    in_characters = {
        (number, *span)
        for number, (text, text_spans) in numbered
        if text.words is None
        for span in text_spans
    }
    with_words = [
        (number, text, text_spans)
        for number, (text, text_spans) in numbered
        if text.words is not None
    ]
    return in_characters | _places_in_words(with_words, table)


def _places_in_words(
    texts: Sequence[tuple[int, TaggedText, Sequence[Span]]], table: TagTable
) -> set[_Place]:
    """Returns where the spans of texts that are given as words are, in words of all these texts."""
    if not texts:
        return set()
    tags = []
    for _, text, spans in texts:
        starts, ends = np.array(text.words).T
        tags.append(tag_words(starts, ends, spans, table))
    numbers = np.repeat([number for number, _, _ in texts], [len(part) for part in tags])
    found = find_spans(np.concatenate(tags), numbers, table)
    firsts, lasts, label_ids = (values.numpy().tolist() for values in found)
    return {
        (int(numbers[first]), first, last, table.labels[label_id])
        for first, last, label_id in zip(firsts, lasts, label_ids, strict=True)
    }


def _score(right: int, made: int, true: int) -> EntityScores:
    if not right:
        return EntityScores(precision=0.0, recall=0.0, f1=0.0, support=true)
    precision, recall = right / made, right / true
    return EntityScores(
        precision, recall, f1=2 * precision * recall / (precision + recall), support=true
    )
