"""Chunks of a corpus become instances, and instances become records: the work of each worker.

What becomes of a document depends on the seed, the copy, and the document's place in the corpus. With
the objective `nsp` it also depends on the other documents of its chunk. So workers can process chunks
in any order.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.pretraining.corpus import Chunk, CorpusConfig, CorpusReader
from albert_tf.data.pretraining.masking import (
    MaskedSequence,
    Masker,
    MaskingConfig,
    find_boundaries,
)
from albert_tf.data.pretraining.segments import (
    Document,
    SegmentConfig,
    SegmentMaker,
    Segments,
    make_document,
)
from albert_tf.data.pretraining.shuffling import KEY_BITS, KeyedRecord
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.data.records import pretraining_record, unmasked_record
from albert_tf.tokenization import Tokenizer

# SentencePiece takes 24 bytes of memory per byte of a text, so longer lines are split.
_MAX_CHARACTERS = 10_000
# Number of texts per call of the tokenizer. A call has a fixed cost, and the lists that it returns take
# nine times the memory of an array.
_TEXTS_PER_CALL = 1000
# Number of pieces, including padding, of the instances that are serialized together.
_PIECES_PER_BATCH = 1 << 17


@dataclasses.dataclass(frozen=True)
class PretrainingDataConfig:
    """Everything but the vocabulary that determines the instances of a corpus.

    Attributes:
        corpus: how files become documents.
        segments: how documents become segments.
        masking: how pieces are chosen for prediction; None for unmasked records.
        seed: random seed.
        dupe_factor: number of copies of each document, with other segments and masks.
    """

    corpus: CorpusConfig
    segments: SegmentConfig
    masking: MaskingConfig | None
    seed: int
    dupe_factor: int

    def read(self, paths: Sequence[str]) -> CorpusReader:
        """Returns a reader of the corpus."""
        return CorpusReader(paths, self.corpus, self.segments.min_documents)


class Instance(NamedTuple):
    """One sequence, without padding.

    Attributes:
        input_ids: [CLS] A [SEP] B [SEP], or [CLS] A [SEP], before masking, int32 (n,).
        first_length: number of pieces of [CLS] A [SEP].
        label: 1 if B does not follow A, else 0.
        masked: the masked sequence; None for unmasked records.
    """

    input_ids: np.ndarray
    first_length: int
    label: int
    masked: MaskedSequence | None


class InstanceMaker:
    """Makes instances, and the features of their records.

    Attributes:
        spec: record of an instance.
    """

    def __init__(self, tokenizer: Tokenizer, config: PretrainingDataConfig):
        self._length = config.segments.max_seq_length
        if config.masking is None:
            self.spec, self._masker = unmasked_record(self._length), None
        else:
            self.spec = pretraining_record(self._length, config.masking.max_predictions_per_seq)
            self._masker = Masker(tokenizer, config.masking)
        self._make_segments = SegmentMaker(config.segments, tokenizer.word_start)
        self._is_boundary = find_boundaries(tokenizer)
        self._pad_id = tokenizer.pad_id
        self._cls = np.array([tokenizer.cls_id], np.int32)
        self._sep = np.array([tokenizer.sep_id], np.int32)

    def __call__(
        self, documents: Sequence[Document], index: int, rng: np.random.Generator
    ) -> Iterator[Instance]:
        """Yields the instances of one document."""

        def other_document() -> Document:
            other = int(rng.integers(len(documents) - 1))
            return documents[other + (other >= index)]

        for segments in self._make_segments(documents[index], rng, other_document):
            yield self._make_instance(segments, rng)

    def _make_instance(self, segments: Segments, rng: np.random.Generator) -> Instance:
        parts = [self._cls, segments.a, self._sep]
        if segments.b is not None:
            parts += [segments.b, self._sep]
        input_ids = np.concatenate(parts)
        masked = None if self._masker is None else self._masker(input_ids, rng)
        return Instance(input_ids, len(segments.a) + 2, segments.label, masked)

    def pad(self, instances: Sequence[Instance]) -> dict[str, np.ndarray]:
        """Returns the features of N records, each (N, ...) as in `spec`.

        Padding many instances at once is faster, because starting an array operation takes longer than
        padding one sequence.
        """
        input_ids = [instance.input_ids for instance in instances]
        first_lengths = np.array([instance.first_length for instance in instances])
        mask = _mask(input_ids, self._length)
        columns = {
            "input_ids": _spread(input_ids, mask, self._pad_id),
            "input_mask": mask,
            "segment_ids": mask & (np.arange(self._length) >= first_lengths[:, np.newaxis]),
            "token_boundary": _spread([self._is_boundary[np.concatenate(input_ids)]], mask),
            "next_sentence_labels": np.array([[instance.label] for instance in instances]),
        }
        if self._masker is not None:
            masked = [instance.masked for instance in instances]
            ids = [sequence.ids for sequence in masked]
            weights = _mask(ids, self._masker.config.max_predictions_per_seq)
            columns |= {
                "input_ids": _spread([each.input_ids for each in masked], mask, self._pad_id),
                "masked_lm_positions": _spread([each.positions for each in masked], weights),
                "masked_lm_ids": _spread(ids, weights),
                "masked_lm_weights": weights,
            }
        return columns


def _mask(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Returns where N rows have values once they are padded to a length, bool (N, length)."""
    return np.arange(length) < np.array([len(row) for row in rows])[:, np.newaxis]


def _spread(rows: Sequence[np.ndarray], mask: np.ndarray, padding: int = 0) -> np.ndarray:
    """Puts the values of the rows, one after the other, where the mask is True, int32."""
    padded = np.full(mask.shape, padding, np.int32)
    padded[mask] = np.concatenate(rows)
    return padded


class _TokenizedChunk(NamedTuple):
    """The usable documents of a chunk, and their numbers in the corpus."""

    documents: list[Document]
    numbers: list[int]


class ChunkMaker:
    """Makes the records of chunks, each with a random key that decides its place in the shuffle."""

    def __init__(self, tokenizer: Tokenizer, config: PretrainingDataConfig):
        self._config = config
        self._tokenizer = tokenizer
        self._make_instances = InstanceMaker(tokenizer, config)

    def __call__(self, chunk: Chunk, stats: PretrainingDataStats) -> Iterator[KeyedRecord]:
        """Yields the records of all copies of a chunk, and counts them in `stats`."""
        documents, numbers = self._tokenize(chunk, stats)
        if len(documents) < self._config.segments.min_documents:
            return
        drawn = self._draw(documents, numbers)
        size = max(1, _PIECES_PER_BATCH // self._config.segments.max_seq_length)
        while batch := list(itertools.islice(drawn, size)):
            keys, instances = zip(*batch, strict=True)
            columns = self._make_instances.pad(instances)
            stats.lengths.update(columns["input_mask"].sum(axis=1).tolist())
            stats.swapped += int(columns["next_sentence_labels"].sum())
            if self._config.masking is not None:
                stats.predictions += int(columns["masked_lm_weights"].sum())
            yield from zip(keys, self._make_instances.spec.serialize_batch(columns), strict=True)

    def _draw(
        self, documents: Sequence[Document], numbers: Sequence[int]
    ) -> Iterator[tuple[int, Instance]]:
        """Yields the instances of all copies, each with its key."""
        copies = range(self._config.dupe_factor)
        for copy, index in itertools.product(copies, range(len(documents))):
            spawn_key = (copy, numbers[index])
            rng = np.random.default_rng(
                np.random.SeedSequence(self._config.seed, spawn_key=spawn_key)
            )
            for instance in self._make_instances(documents, index, rng):
                yield int(rng.integers(1 << KEY_BITS, dtype=np.uint64)), instance

    def _tokenize(self, chunk: Chunk, stats: PretrainingDataStats) -> _TokenizedChunk:
        sentences = [self._config.corpus.split_sentences(document) for document in chunk.documents]
        encoded = self._encode(itertools.chain.from_iterable(sentences))
        tokenized = _TokenizedChunk([], [])
        for number, its_sentences in enumerate(sentences, chunk.first_document):
            its_ids = list(itertools.islice(encoded, len(its_sentences)))
            found = [ids for ids in its_ids if len(ids)]
            stats.skipped_sentences += len(its_ids) - len(found)
            if sum(map(len, found)) < self._config.segments.min_pieces:
                stats.skipped_documents += 1
                continue
            document = make_document(found, self._config.segments.max_tokens)
            tokenized.documents.append(document)
            tokenized.numbers.append(number)
            stats.documents += 1
            stats.paragraphs += len(chunk.documents[number - chunk.first_document])
            stats.sentences += len(found)
            stats.pieces += len(document.pieces)
            stats.unknown_pieces += int(np.count_nonzero(document.pieces == self._tokenizer.unk_id))
        return tokenized

    def _encode(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Yields the ids of each text."""
        parts_of_texts = [_split(text) for text in texts]
        encoded = self._encode_parts(itertools.chain.from_iterable(parts_of_texts))
        for parts in parts_of_texts:
            arrays = list(itertools.islice(encoded, len(parts)))
            yield arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def _encode_parts(self, parts: Iterator[str]) -> Iterator[np.ndarray]:
        while batch := list(itertools.islice(parts, _TEXTS_PER_CALL)):
            ids = self._tokenizer.encode_batch(batch, num_threads=1)
            ends = list(itertools.accumulate(map(len, ids)))
            joined = np.fromiter(itertools.chain.from_iterable(ids), np.int32, ends[-1])
            for start, end in itertools.pairwise([0, *ends]):
                yield joined[start:end]


def _split(text: str) -> list[str]:
    """Splits a text at spaces if possible, which does not change its pieces."""
    parts, start = [], 0
    while len(text) - start > _MAX_CHARACTERS:
        space = text.rfind(" ", start + 1, start + _MAX_CHARACTERS)
        end = space if space > 0 else start + _MAX_CHARACTERS
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]
