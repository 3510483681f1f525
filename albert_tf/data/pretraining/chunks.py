"""Blocks of a corpus become records: what each worker does, on any number of machines.

What becomes of a document depends on the seed, the copy, and the document's place in the corpus;
with the objective `nsp` also on the other documents of its block, which the input alone decides. So
blocks can be worked on in any order, by any number of workers.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.pretraining.corpus import Block, CorpusRule, name_files
from albert_tf.data.pretraining.instances import Instance, InstanceMaker
from albert_tf.data.pretraining.masking import MaskingRule
from albert_tf.data.pretraining.segments import Document, SegmentRule, make_document
from albert_tf.data.pretraining.shuffling import KeyedRecord
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.errors import InputError
from albert_tf.tokenization import Tokenizer

# SentencePiece takes 24 bytes of memory for each of a text, so a longer line comes in parts.
_MAX_CHARACTERS = 10_000
# Texts that share a call of the tokenizer. The call has a cost of its own, and its lists of numbers
# take nine times the memory of an array.
_TEXTS_PER_CALL = 1000
# Pieces, padding included, of the instances that become records together.
_PIECES_PER_BATCH = 1 << 17

_KEY_BITS = 64


@dataclasses.dataclass(frozen=True)
class PretrainingDataRule:
    """All that decides what is made of a corpus, but the vocabulary.

    Attributes:
        corpus: how files become documents.
        segments: how documents become segments.
        masking: how pieces are chosen for prediction; None where nothing is masked yet.
        seed: where every draw comes from.
        dupe_factor: how many times each document is used, with other segments and masks.
    """

    corpus: CorpusRule
    segments: SegmentRule
    masking: MaskingRule | None
    seed: int
    dupe_factor: int


class MadeData(NamedTuple):
    """What was read and made.

    Attributes:
        stats: the counts.
        sha256: path -> hash of the file's bytes, in hexadecimal.
        replaced_lines: lines in which bytes were not UTF-8 and were replaced.
    """

    stats: PretrainingDataStats
    sha256: Mapping[str, str]
    replaced_lines: int


def check_instances(
    stats: PretrainingDataStats, rule: SegmentRule, paths: Sequence[str], num_shards: int
) -> None:
    """Checks that a corpus made instances for each shard.

    Raises:
        InputError: it made none, or too few.
    """
    if not stats.instances:
        raise InputError(
            f"{name_files(paths)}: documents of at least {rule.min_pieces} pieces: received "
            f"{stats.documents}, expected {rule.min_documents} or more for {rule.objective}"
        )
    if stats.instances < num_shards:
        raise InputError(
            f"--num_shards: received {num_shards} for {stats.instances} instances, "
            "expected no more files than instances"
        )


class _TokenizedBlock(NamedTuple):
    """The documents of a block that are of use, and their numbers in the corpus."""

    documents: list[Document]
    numbers: list[int]


class BlockMaker:
    """Makes the records of blocks, each with a random key that says where the shuffle puts it.

    Args:
        tokenizer: makes the pieces.
        rule: says what is made.
    """

    def __init__(self, tokenizer: Tokenizer, rule: PretrainingDataRule):
        self.rule = rule
        self._tokenizer = tokenizer
        self._make_instances = InstanceMaker(tokenizer, rule.segments, rule.masking)

    def __call__(self, block: Block, stats: PretrainingDataStats) -> Iterator[KeyedRecord]:
        """Yields the records of all copies of a block, and adds what it makes to `stats`."""
        documents, numbers = self._tokenize(block, stats)
        if len(documents) < self.rule.segments.min_documents:
            return
        drawn = self._draw(documents, numbers)
        size = max(1, _PIECES_PER_BATCH // self.rule.segments.max_seq_length)
        while batch := list(itertools.islice(drawn, size)):
            keys, instances = zip(*batch, strict=True)
            columns = self._make_instances.pad(instances)
            stats.lengths.update(columns["input_mask"].sum(axis=1).tolist())
            stats.swapped += int(columns["next_sentence_labels"].sum())
            if self.rule.masking is not None:
                stats.predictions += int(columns["masked_lm_weights"].sum())
            yield from zip(keys, self._make_instances.spec.serialize_batch(columns), strict=True)

    def _draw(
        self, documents: Sequence[Document], numbers: Sequence[int]
    ) -> Iterator[tuple[int, Instance]]:
        """Yields the instances of all copies, each with its key."""
        for copy, index in itertools.product(range(self.rule.dupe_factor), range(len(documents))):
            sequence = np.random.SeedSequence(self.rule.seed, spawn_key=(copy, numbers[index]))
            rng = np.random.default_rng(sequence)
            for instance in self._make_instances(documents, index, rng):
                yield int(rng.integers(1 << _KEY_BITS, dtype=np.uint64)), instance

    def _tokenize(self, block: Block, stats: PretrainingDataStats) -> _TokenizedBlock:
        sentences = [self.rule.corpus.split_sentences(document) for document in block.documents]
        encoded = self._encode(itertools.chain.from_iterable(sentences))
        tokenized = _TokenizedBlock([], [])
        for number, its_sentences in enumerate(sentences, block.first_document):
            its_ids = list(itertools.islice(encoded, len(its_sentences)))
            found = [ids for ids in its_ids if len(ids)]
            stats.skipped_sentences += len(its_ids) - len(found)
            if sum(map(len, found)) < self.rule.segments.min_pieces:
                stats.skipped_documents += 1
                continue
            document = make_document(found, self.rule.segments.max_tokens)
            tokenized.documents.append(document)
            tokenized.numbers.append(number)
            stats.documents += 1
            stats.paragraphs += len(block.documents[number - block.first_document])
            stats.sentences += len(found)
            stats.pieces += len(document.pieces)
            stats.unknown_pieces += int(np.count_nonzero(document.pieces == self._tokenizer.unk_id))
        return tokenized

    def _encode(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Yields the ids of each text."""
        parts_of_texts = [_cut(text) for text in texts]
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


def _cut(text: str) -> list[str]:
    """Returns the parts of a text, cut at spaces where it has any: no piece goes over a space."""
    parts, start = [], 0
    while len(text) - start > _MAX_CHARACTERS:
        space = text.rfind(" ", start + 1, start + _MAX_CHARACTERS)
        end = space if space > 0 else start + _MAX_CHARACTERS
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]
