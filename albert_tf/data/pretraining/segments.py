"""Segments for the sentence loss: a tokenized document becomes pairs of text.

Consecutive sentences form a group that fills a sequence, and a group becomes the segments of that
sequence:

* `sop`, sentence-order prediction (ALBERT): two consecutive segments, swapped half of the time. Both
  have the same topic, so only coherence tells the two orders apart.
* `nsp`, next-sentence prediction (BERT): half of the time the second segment is from another document.
* `none`: one segment, no sentence loss.
"""

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from albert_tf.options import option

# Share of pairs whose second text does not follow the first: that of the original, and of BERT.
_NEGATIVES = 0.5

# Sequences are padded, so a typing error would fill memory and disk. Published models have 512.
MAX_LENGTH = 65536


class Document(NamedTuple):
    """A tokenized document: its pieces in a row, and where its sentences begin.

    Sentence k is `pieces[offsets[k]:offsets[k + 1]]` and never empty.
    """

    pieces: np.ndarray  # int32 (P,)
    offsets: Sequence[int]  # of the K sentences, K + 1 numbers that increase from 0 to P

    @property
    def num_sentences(self) -> int:
        """Number of sentences, K."""
        return len(self.offsets) - 1

    def text(self, first: int, last: int) -> np.ndarray:
        """Returns the pieces of sentences `first` to `last - 1`."""
        return self.pieces[self.offsets[first] : self.offsets[last]]

    def num_pieces(self, first: int, last: int) -> int:
        """Returns the number of pieces of sentences `first` to `last - 1`."""
        return self.offsets[last] - self.offsets[first]

    def group_end(self, first: int, target: int) -> int:
        """Returns the sentence after the last one of a group.

        The group begins with sentence `first`, has at least one sentence, and grows until it has
        `target` pieces or the document ends.
        """
        end = bisect.bisect_left(self.offsets, self.offsets[first] + target)
        return min(max(end, first + 1), self.num_sentences)


class Segments(NamedTuple):
    """The text of one sequence."""

    a: np.ndarray  # int32 (A,)
    b: np.ndarray | None  # int32 (B,); None with the objective `none`
    label: int  # 1 if `b` does not follow `a`, else 0


@dataclasses.dataclass(frozen=True)
class SegmentConfig:
    """How documents become segments."""

    max_seq_length: int = option(
        "Sequence length in pieces, including [CLS] and [SEP].",
        512,
        least=5,  # [CLS] a [SEP] b [SEP]
        most=MAX_LENGTH,
    )
    sentence_objective: Literal["sop", "nsp", "none"] = option(
        "Sentence loss to prepare. sop: are two segments in order (ALBERT). nsp: does the second follow "
        "the first (BERT). none: a single segment.",
        "sop",
    )
    short_seq_prob: float = option(
        "Share of sequences with a shorter target length, drawn at random.", 0.1, least=0, most=1
    )

    @property
    def max_tokens(self) -> int:
        """Maximum number of pieces of text: S without [CLS] and one [SEP] per segment."""
        return self.max_seq_length - (2 if self.sentence_objective == "none" else 3)

    @property
    def min_pieces(self) -> int:
        """Least number of pieces of a usable document."""
        return 2 if self.sentence_objective == "sop" else 1

    @property
    def min_documents(self) -> int:
        """Least number of documents of a usable corpus."""
        return 2 if self.sentence_objective == "nsp" else 1

    def draw_target(self, rng: np.random.Generator) -> int:
        """Draws the target length of a group, in pieces of text."""
        if rng.random() < self.short_seq_prob:
            return int(rng.integers(2, self.max_tokens, endpoint=True))
        return self.max_tokens


def make_document(sentences: Sequence[np.ndarray], max_tokens: int) -> Document:
    """Makes a document of the ids of its sentences, int (P,) each, none empty.

    Sentences longer than `max_tokens` are split into parts of this length, so that no text is lost.
    """
    lengths = [
        min(max_tokens, len(sentence) - start)
        for sentence in sentences
        for start in range(0, len(sentence), max_tokens)
    ]
    pieces = np.concatenate([np.asarray(sentence, np.int32) for sentence in sentences])
    return Document(pieces, [0, *itertools.accumulate(lengths)])


class SegmentMaker:
    """Makes the segments of documents; `word_start` says which pieces begin a word, bool (V,)."""

    def __init__(self, config: SegmentConfig, word_start: np.ndarray):
        self.config = config
        self._word_start = word_start

    def __call__(
        self,
        document: Document,
        rng: np.random.Generator,
        other_document: Callable[[], Document] | None = None,
    ) -> Iterator[Segments]:
        """Yields the cut segments of a document; `nsp` needs `other_document`, which draws another."""
        makers: dict[str, Callable[..., tuple[Segments, int]]] = {
            "sop": self._next_sop,
            "nsp": functools.partial(self._next_nsp, other_document=other_document),
            "none": self._next_single,
        }
        make_next = makers[self.config.sentence_objective]
        sentence = 0
        while sentence < document.num_sentences:
            segments, sentence = make_next(document, sentence, rng)
            yield truncate(segments, self.config.max_tokens, rng)

    def _next_sop(
        self, document: Document, first: int, rng: np.random.Generator
    ) -> tuple[Segments, int]:
        """Returns two consecutive segments, perhaps swapped, and the next sentence."""
        end = self._sop_group_end(document, first, self.config.draw_target(rng))
        text = document.text(first, end)
        if end - first > 1:
            cut = document.offsets[int(rng.integers(first + 1, end))] - document.offsets[first]
        else:
            cut = self._draw_cut(text, rng)
        a, b = text[:cut], text[cut:]
        return (Segments(b, a, 1) if rng.random() < _NEGATIVES else Segments(a, b, 0)), end

    def _sop_group_end(self, document: Document, first: int, target: int) -> int:
        """Returns the end of a group with two sentences, or at least two pieces, if possible."""
        end = document.group_end(first, target)
        if (
            end - first == 1
            and end < document.num_sentences
            and document.num_pieces(first, end + 1) <= self.config.max_tokens
        ):
            end += 1
        if document.num_pieces(end, document.num_sentences) == 1:
            end += 1
        return end

    def _draw_cut(self, sentence: np.ndarray, rng: np.random.Generator) -> int:
        """Draws a place to cut a sentence in two: at a word's beginning, or else anywhere."""
        places = np.flatnonzero(self._word_start[sentence[1:]]) + 1
        return int(rng.choice(places) if len(places) else rng.integers(1, len(sentence)))

    def _next_nsp(
        self,
        document: Document,
        first: int,
        rng: np.random.Generator,
        other_document: Callable[[], Document] | None,
    ) -> tuple[Segments, int]:
        """Returns a segment and the text after it or, half of the time, of another document.

        In a group of one sentence nothing follows, so the other text is always of another document.
        Sentences that another document replaced go to the next group.
        """
        assert other_document is not None
        target = self.config.draw_target(rng)
        end = document.group_end(first, target)
        a_end = int(rng.integers(first + 1, end)) if end - first > 1 else end
        a = document.text(first, a_end)
        if a_end < end and rng.random() < 1 - _NEGATIVES:
            return Segments(a, document.text(a_end, end), 0), end
        other = other_document()
        start = int(rng.integers(other.num_sentences))
        b = other.text(start, other.group_end(start, target - len(a)))
        return Segments(a, b, 1), a_end

    def _next_single(
        self, document: Document, first: int, rng: np.random.Generator
    ) -> tuple[Segments, int]:
        end = document.group_end(first, self.config.draw_target(rng))
        return Segments(document.text(first, end), None, 0), end


def truncate(segments: Segments, max_tokens: int, rng: np.random.Generator) -> Segments:
    """Truncates segments to `max_tokens` pieces in total.

    The result is distributed as in the original, which removes one piece at a time from the longer
    segment (the second on a tie), from its front or its end with equal probability.
    """
    a, b, label = segments
    if b is None:
        return Segments(_cut(a, max_tokens, rng), None, label)
    if len(a) + len(b) <= max_tokens:
        return segments
    a_length = min(len(a), max((max_tokens + 1) // 2, max_tokens - len(b)))
    return Segments(_cut(a, a_length, rng), _cut(b, max_tokens - a_length, rng), label)


def _cut(pieces: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
    """Returns `length` pieces, after removing a binomial share of the others from the front."""
    excess = max(0, len(pieces) - length)
    front = int(rng.binomial(excess, 0.5))
    return pieces[front : len(pieces) - (excess - front)]
