"""Segments for the sentence-level loss: a tokenised document becomes pairs of text.

Consecutive sentences are gathered into a chunk that fills a sequence, and a chunk becomes the
segments of one sequence:

* `sop`, sentence-order prediction (ALBERT): two consecutive segments, swapped half of the time. The
  negative example has the topic of the positive one, so only coherence tells them apart.
* `nsp`, next-sentence prediction (BERT): half of the time the second is of another document.
* `none`: one segment, no second loss.
"""

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

SentenceObjective = Literal["sop", "nsp", "none"]


class Document(NamedTuple):
    """A tokenised document: its pieces in a row, and where its sentences begin.

    Attributes:
        pieces: int32 (P,).
        offsets: of K sentences, increasing from 0 to P, K + 1 numbers. Sentence k is
            `pieces[offsets[k]:offsets[k + 1]]` and never empty.
    """

    pieces: np.ndarray
    offsets: Sequence[int]

    @property
    def num_sentences(self) -> int:
        """K."""
        return len(self.offsets) - 1

    def text(self, first: int, last: int) -> np.ndarray:
        """Returns the pieces of sentences `first` to `last - 1`."""
        return self.pieces[self.offsets[first] : self.offsets[last]]

    def num_pieces(self, first: int, last: int) -> int:
        """Returns how many pieces sentences `first` to `last - 1` have."""
        return self.offsets[last] - self.offsets[first]

    def chunk_end(self, first: int, target: int) -> int:
        """Returns the sentence before which a chunk ends.

        The chunk begins with sentence `first`, has at least one sentence, and grows until it has
        `target` pieces or the document ends.
        """
        end = bisect.bisect_left(self.offsets, self.offsets[first] + target)
        return min(max(end, first + 1), self.num_sentences)


class Segments(NamedTuple):
    """The text of one sequence.

    Attributes:
        a: the first segment, int32 (A,).
        b: the second, int32 (B,); None with the objective `none`.
        label: 1 where the second does not follow the first, else 0.
    """

    a: np.ndarray
    b: np.ndarray | None
    label: int

    def swapped(self) -> "Segments":
        """Returns the two segments in the other order, with the other label."""
        return Segments(self.b, self.a, 1 - self.label)


@dataclasses.dataclass(frozen=True)
class SegmentRule:
    """How documents become segments.

    Attributes:
        max_seq_length: the longest sequence in pieces, [CLS] and [SEP] included; S.
        objective: what the second segment is.
        short_seq_prob: the share of sequences that aim at a length drawn from 2 to the full one, so
            that pre-training sees short sequences too.
    """

    max_seq_length: int
    objective: SentenceObjective = "sop"
    short_seq_prob: float = 0.1

    @property
    def max_tokens(self) -> int:
        """How many pieces of text fit: S without [CLS] and a [SEP] for each segment."""
        return self.max_seq_length - (2 if self.objective == "none" else 3)

    @property
    def min_pieces(self) -> int:
        """The fewest pieces a document needs to be of use."""
        return 2 if self.objective == "sop" else 1

    @property
    def min_documents(self) -> int:
        """The fewest documents a corpus needs."""
        return 2 if self.objective == "nsp" else 1

    def draw_target(self, rng: np.random.Generator) -> int:
        """Returns the length that a chunk aims at, in pieces of text."""
        if rng.random() < self.short_seq_prob:
            return int(rng.integers(2, self.max_tokens, endpoint=True))
        return self.max_tokens


def make_document(sentences: Sequence[Sequence[int]], max_tokens: int) -> Document:
    """Packs the sentences of a document.

    Args:
        sentences: the ids of each sentence, none empty.
        max_tokens: a longer sentence is cut into parts of this length, so that none of it is lost.
    """
    lengths = [
        min(max_tokens, len(sentence) - start)
        for sentence in sentences
        for start in range(0, len(sentence), max_tokens)
    ]
    pieces = np.concatenate([np.asarray(sentence, np.int32) for sentence in sentences])
    return Document(pieces, [0, *itertools.accumulate(lengths)])


class SegmentMaker:
    """Makes the segments of documents by one rule.

    Args:
        rule: how it is done.
        word_start: which pieces begin a word, bool (V,).
    """

    def __init__(self, rule: SegmentRule, word_start: np.ndarray):
        self.rule = rule
        self._word_start = word_start

    def __call__(
        self,
        document: Document,
        rng: np.random.Generator,
        other_document: Callable[[], Document] | None = None,
    ) -> Iterator[Segments]:
        """Yields the segments of a document, cut to the length of a sequence.

        Args:
            document: the document, of at least `rule.min_pieces` pieces.
            rng: where every draw comes from.
            other_document: draws another document; the objective `nsp` needs it.
        """
        make_next = {
            "sop": self._next_sop,
            "nsp": functools.partial(self._next_nsp, other_document=other_document),
            "none": self._next_single,
        }[self.rule.objective]
        sentence = 0
        while sentence < document.num_sentences:
            segments, sentence = make_next(document, sentence, rng)
            yield truncate(segments, self.rule.max_tokens, rng)

    def _next_sop(
        self, document: Document, first: int, rng: np.random.Generator
    ) -> tuple[Segments, int]:
        """Returns two consecutive segments, perhaps swapped, and the sentence to go on with."""
        end = self._sop_chunk_end(document, first, self.rule.draw_target(rng))
        text = document.text(first, end)
        if end - first > 1:
            cut = document.offsets[rng.integers(first + 1, end)] - document.offsets[first]
        else:
            cut = self._draw_cut(text, rng)
        segments = Segments(text[:cut], text[cut:], 0)
        return (segments.swapped() if rng.random() < 0.5 else segments), end

    def _sop_chunk_end(self, document: Document, first: int, target: int) -> int:
        """Returns the end of a chunk that has two sentences, or two pieces, wherever it can."""
        end = document.chunk_end(first, target)
        if (
            end - first == 1
            and end < document.num_sentences
            and document.num_pieces(first, end + 1) <= self.rule.max_tokens
        ):
            end += 1
        if document.num_pieces(end, document.num_sentences) == 1:
            end += 1
        return end

    def _draw_cut(self, sentence: np.ndarray, rng: np.random.Generator) -> int:
        """Returns where to cut a sentence in two: where a word begins, else anywhere."""
        places = np.flatnonzero(self._word_start[sentence[1:]]) + 1
        return int(rng.choice(places) if len(places) else rng.integers(1, len(sentence)))

    def _next_nsp(
        self,
        document: Document,
        first: int,
        rng: np.random.Generator,
        other_document: Callable[[], Document],
    ) -> tuple[Segments, int]:
        """Returns a segment and what follows it or, half of the time, text of another document.

        A chunk of one sentence has nothing that follows it. Sentences that give way to another
        document's are left for the next chunk.
        """
        target = self.rule.draw_target(rng)
        end = document.chunk_end(first, target)
        a_end = int(rng.integers(first + 1, end)) if end - first > 1 else end
        a = document.text(first, a_end)
        if a_end < end and rng.random() < 0.5:
            return Segments(a, document.text(a_end, end), 0), end
        other = other_document()
        start = int(rng.integers(other.num_sentences))
        b = other.text(start, other.chunk_end(start, target - len(a)))
        return Segments(a, b, 1), a_end

    def _next_single(
        self, document: Document, first: int, rng: np.random.Generator
    ) -> tuple[Segments, int]:
        """Returns a whole chunk as one segment."""
        end = document.chunk_end(first, self.rule.draw_target(rng))
        return Segments(document.text(first, end), None, 0), end


def truncate(segments: Segments, max_tokens: int, rng: np.random.Generator) -> Segments:
    """Cuts segments to `max_tokens` pieces together.

    As in the original, piece after piece goes from the longer segment, the second one on a tie,
    each from the front or the end with equal probability; here all pieces of a segment at once.
    """
    a, b, label = segments
    if b is None:
        return Segments(_cut(a, max_tokens, rng), None, label)
    if len(a) + len(b) <= max_tokens:
        return segments
    a_length = min(len(a), max((max_tokens + 1) // 2, max_tokens - len(b)))
    return Segments(_cut(a, a_length, rng), _cut(b, max_tokens - a_length, rng), label)


def _cut(pieces: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
    """Returns `length` pieces; a binomial share of the others goes from the front."""
    excess = max(0, len(pieces) - length)
    front = int(rng.binomial(excess, 0.5))
    return pieces[front : len(pieces) - (excess - front)]
