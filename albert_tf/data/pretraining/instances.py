"""Chunks of a corpus become instances, and instances become records: the work of each worker.

What becomes of a document depends on the seed, the copy, and the document's place in the corpus. With
the objective `nsp` it also depends on the other documents of its chunk. So workers can process chunks
in any order.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.data.pretraining.corpus import Chunk, CorpusConfig, CorpusReader
from albert_tf.data.pretraining.input_files import name_files
from albert_tf.data.pretraining.masking import (
    MaskedSequence,
    Masker,
    MaskingConfig,
    find_boundaries,
    mask_of,
    spread,
)
from albert_tf.data.pretraining.segments import (
    Document,
    SegmentConfig,
    SegmentMaker,
    make_document,
)
from albert_tf.data.records import pretraining_record, unmasked_record
from albert_tf.errors import InputError
from albert_tf.tokenization import Tokenizer

# A random key, which decides the record's place in the shuffle, and a record.
KEY_BITS = 64
KeyedRecord = tuple[int, bytes]

# SentencePiece takes 24 bytes of memory per byte of a text, so longer lines are split.
_MAX_CHARACTERS = 10_000
# Number of texts per call of the tokenizer. A call has a fixed cost, and the lists that it returns take
# nine times the memory of an array.
_TEXTS_PER_CALL = 1000
# Number of pieces, including padding, of the instances that are serialized together.
_PIECES_PER_BATCH = 1 << 17


@dataclasses.dataclass(frozen=True)
class PretrainingDataConfig:
    """Everything but the vocabulary that determines the instances of a corpus."""

    corpus: CorpusConfig
    segments: SegmentConfig
    masking: MaskingConfig | None  # None for unmasked records
    seed: int
    dupe_factor: int  # number of copies of each document, with other segments and masks

    def read(self, paths: Sequence[str]) -> CorpusReader:
        """Returns a reader of the corpus."""
        return CorpusReader(paths, self.corpus, self.segments.min_documents)


@dataclasses.dataclass
class PretrainingDataStats:
    """Counts of a corpus or of a part of it."""

    documents: int = 0  # without those skipped
    paragraphs: int = 0  # lines, if the input has one sentence per line
    sentences: int = 0
    pieces: int = 0  # without special ones
    unknown_pieces: int = 0
    skipped_documents: int = 0  # too short
    skipped_sentences: int = 0  # lines in which the tokenizer found nothing
    # Number of instances, in all copies, by their length in pieces.
    lengths: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    predictions: int = 0  # pieces to predict
    swapped: int = 0  # instances with label 1: the second segment does not follow the first
    # Number of records by the number of their shard, from 0.
    shard_records: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

    def add(self, other: "PretrainingDataStats") -> None:
        """Adds the counts of another part of the corpus."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    @property
    def instances(self) -> int:
        """Number of instances in all copies."""
        return self.lengths.total()

    def means(self) -> dict[str, float]:
        """Returns the share of unknown pieces in the corpus, and means of the instances.

        These are the length in pieces with [CLS] and [SEP], the share of pieces to predict, and the share
        of instances with label 1.
        """
        pieces = sum(length * count for length, count in self.lengths.items())
        return {
            "unknown_share": self.unknown_pieces / max(1, self.pieces),
            "mean_length": pieces / max(1, self.instances),
            "masked_share": self.predictions / max(1, pieces),
            "swapped_share": self.swapped / max(1, self.instances),
        }

    def check(self, config: SegmentConfig, paths: Sequence[str], num_shards: int) -> None:
        """Checks that no shard is empty."""
        if not self.instances:
            raise InputError(
                f"{name_files(paths)}: documents of at least {config.min_pieces} pieces: received "
                f"{self.documents}, expected {config.min_documents} or more for "
                f"{config.sentence_objective}"
            )
        if len(self.shard_records) < num_shards:
            raise InputError(
                f"num_shards={num_shards}: expected fewer for {self.instances} instances, as a shard "
                "would be empty"
            )

    def to_json_dict(self) -> dict[str, Any]:
        """Returns the counts as a dictionary that `json` can write."""
        return {
            name: {str(key): value[key] for key in sorted(value)}
            if isinstance(value, collections.Counter)
            else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json_dict(cls, values: dict[str, Any]) -> "PretrainingDataStats":
        """Returns the counts of a dictionary of `to_json_dict`."""
        counts: dict[str, Any] = {
            name: collections.Counter({int(key): count for key, count in value.items()})
            if isinstance(value, dict)
            else value
            for name, value in values.items()
        }
        return cls(**counts)


class Instance(NamedTuple):
    """One sequence, without padding."""

    input_ids: np.ndarray  # [CLS] A [SEP] B [SEP], or [CLS] A [SEP], before masking, int32 (n,)
    first_length: int  # number of pieces of [CLS] A [SEP]
    label: int  # 1 if B does not follow A, else 0
    masked: MaskedSequence | None  # None for unmasked records


class ChunkMaker:
    """Makes the records of chunks, each with a random key."""

    def __init__(self, tokenizer: Tokenizer, config: PretrainingDataConfig):
        self._config = config
        self._tokenizer = tokenizer
        self._length = config.segments.max_seq_length
        if config.masking is None:
            self._spec, self._masker = unmasked_record(self._length), None
        else:
            self._spec = pretraining_record(self._length, config.masking.max_predictions_per_seq)
            self._masker = Masker(tokenizer, config.masking)
        self._make_segments = SegmentMaker(config.segments, tokenizer.word_start)
        self._is_boundary = find_boundaries(tokenizer)
        self._cls = np.array([tokenizer.cls_id], np.int32)
        self._sep = np.array([tokenizer.sep_id], np.int32)

    def __call__(self, chunk: Chunk, stats: PretrainingDataStats) -> Iterator[KeyedRecord]:
        """Yields the records of all copies of a chunk, and counts them in `stats`."""
        documents = self._tokenize(chunk, stats)
        if len(documents) < self._config.segments.min_documents:
            return
        drawn = self._draw(documents)
        size = max(1, _PIECES_PER_BATCH // self._length)
        while batch := list(itertools.islice(drawn, size)):
            keys, instances = zip(*batch, strict=True)
            columns = self._pad(instances)
            stats.lengths.update(columns["input_mask"].sum(axis=1).tolist())
            stats.swapped += int(columns["next_sentence_labels"].sum())
            if self._masker is not None:
                stats.predictions += int(columns["masked_lm_weights"].sum())
            yield from zip(keys, self._spec.serialize_batch(columns), strict=True)

    def _tokenize(self, chunk: Chunk, stats: PretrainingDataStats) -> dict[int, Document]:
        """Returns the usable documents by their number in the corpus."""
        sentences = [self._config.corpus.split_sentences(document) for document in chunk.documents]
        encoded = self._encode(itertools.chain.from_iterable(sentences))
        tokenized = {}
        for number, its_sentences in enumerate(sentences, chunk.first_document):
            its_ids = list(itertools.islice(encoded, len(its_sentences)))
            found = [ids for ids in its_ids if len(ids)]
            stats.skipped_sentences += len(its_ids) - len(found)
            if sum(map(len, found)) < self._config.segments.min_pieces:
                stats.skipped_documents += 1
                continue
            document = make_document(found, self._config.segments.max_tokens)
            tokenized[number] = document
            stats.documents += 1
            stats.paragraphs += len(chunk.documents[number - chunk.first_document])
            stats.sentences += len(found)
            stats.pieces += len(document.pieces)
            stats.unknown_pieces += int(np.count_nonzero(document.pieces == self._tokenizer.unk_id))
        return tokenized

    def _encode(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
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

    def _draw(self, documents: Mapping[int, Document]) -> Iterator[tuple[int, Instance]]:
        """Yields the instances of all copies, each with its key."""
        in_chunk = list(documents.values())
        copies = range(self._config.dupe_factor)
        for copy, (index, number) in itertools.product(copies, enumerate(documents)):
            seed = np.random.SeedSequence(self._config.seed, spawn_key=(copy, number))
            rng = np.random.default_rng(seed)
            for instance in self._make_instances(in_chunk, index, rng):
                yield int(rng.integers(1 << KEY_BITS, dtype=np.uint64)), instance

    def _make_instances(
        self, documents: Sequence[Document], index: int, rng: np.random.Generator
    ) -> Iterator[Instance]:

        def other_document() -> Document:
            other = int(rng.integers(len(documents) - 1))
            return documents[other + (other >= index)]

        for a, b, label in self._make_segments(documents[index], rng, other_document):
            parts = [self._cls, a, self._sep] + ([] if b is None else [b, self._sep])
            input_ids = np.concatenate(parts)
            masked = None
            if self._masker is not None:
                masked = self._masker(input_ids, self._is_boundary[input_ids], rng)
            yield Instance(input_ids, first_length=len(a) + 2, label=label, masked=masked)

    def _pad(self, instances: Sequence[Instance]) -> dict[str, np.ndarray]:
        """Returns the features of N records, (N, ...) each; together is faster than one by one."""
        pad_id = self._tokenizer.pad_id
        input_ids = [instance.input_ids for instance in instances]
        first_lengths = np.array([instance.first_length for instance in instances])
        mask = mask_of(input_ids, self._length)
        columns = {
            "input_ids": spread(input_ids, mask, pad_id),
            "input_mask": mask,
            "segment_ids": mask & (np.arange(self._length) >= first_lengths[:, np.newaxis]),
            "token_boundary": spread([self._is_boundary[np.concatenate(input_ids)]], mask),
            "next_sentence_labels": np.array([[instance.label] for instance in instances]),
        }
        if self._masker is not None:
            masked = [each.masked for each in instances if each.masked is not None]
            columns["input_ids"] = spread([sequence.input_ids for sequence in masked], mask, pad_id)
            columns |= self._masker.pad(masked)
        return columns


def _split(text: str) -> list[str]:
    """Splits a text at spaces if possible, which does not change its pieces."""
    parts, start = [], 0
    while len(text) - start > _MAX_CHARACTERS:
        space = text.rfind(" ", start + 1, start + _MAX_CHARACTERS)
        end = space if space > 0 else start + _MAX_CHARACTERS
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]
