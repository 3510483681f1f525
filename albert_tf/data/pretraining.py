"""Pre-training data: text files become documents, documents instances, instances records.

The tokenised corpus is held in memory, four bytes a piece, and so are the records until they are
shuffled. What becomes of a document depends on the seed, the copy and the document's place in the
corpus alone: documents could be worked on in any order, by any number of workers.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.data.masking import Masker, MaskingRule, find_boundaries
from albert_tf.data.records import Feature, pretraining_record, unmasked_record
from albert_tf.data.sentence_order import (
    Document,
    SegmentMaker,
    SegmentRule,
    Segments,
    make_document,
)
from albert_tf.errors import InputError
from albert_tf.progress import Progress
from albert_tf.tokenization import Tokenizer

# Documents that share a call of the tokenizer. The call has a cost of its own: documents of two
# sentences, one in a call, took five times as long.
_DOCUMENTS_PER_CALL = 100


@dataclasses.dataclass(frozen=True)
class PretrainingDataStats:
    """What was read and what was made of it.

    Attributes:
        documents: documents read, without those skipped.
        sentences: sentences in them.
        pieces: pieces in them, without special ones.
        unknown_pieces: how many of these are the unknown piece.
        skipped_documents: documents that are too short to be of use.
        skipped_sentences: lines in which the tokenizer found nothing.
        instances: sequences made, in all copies.
        instance_pieces: pieces in them, [CLS] and [SEP] included.
        predictions: how many of these are to be predicted.
        swapped: instances with label 1: the second segment does not follow the first.
    """

    documents: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    skipped_documents: int = 0
    skipped_sentences: int = 0
    instances: int = 0
    instance_pieces: int = 0
    predictions: int = 0
    swapped: int = 0

    @property
    def unknown_share(self) -> float:
        """The share of the corpus' pieces that the vocabulary does not know."""
        return self.unknown_pieces / max(1, self.pieces)

    @property
    def mean_length(self) -> float:
        """Pieces in an instance, [CLS] and [SEP] included."""
        return self.instance_pieces / max(1, self.instances)

    @property
    def masked_share(self) -> float:
        """The share of an instance's pieces that is to be predicted."""
        return self.predictions / max(1, self.instance_pieces)

    @property
    def swapped_share(self) -> float:
        """The share of instances with label 1."""
        return self.swapped / max(1, self.instances)


class Corpus(NamedTuple):
    """The tokenised text.

    Attributes:
        documents: the documents that are of use, in the order of the files.
        stats: what was read; nothing is made yet.
    """

    documents: list[Document]
    stats: PretrainingDataStats


def read_documents(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yields the sentences of each document.

    A line is a sentence; a blank line or the end of a file ends a document.

    Raises:
        InputError: a file cannot be read, a line is not UTF-8, or no file has any text.
    """
    is_empty = True
    for path in paths:
        lines = (line for _, line in files.read_lines(path))
        for is_blank, group in itertools.groupby(lines, lambda line: not line.strip()):
            if not is_blank:
                is_empty = False
                yield list(group)
    if is_empty:
        raise InputError(f"{_name_files(paths)}: no text, expected one sentence a line")


def read_corpus(
    paths: Sequence[str], tokenizer: Tokenizer, rule: SegmentRule, progress: Progress
) -> Corpus:
    """Reads and tokenises text files.

    Args:
        paths: the files, in the order that the corpus gets.
        tokenizer: makes the pieces.
        rule: says how long a sentence and how short a document may be.
        progress: is told about each document.

    Raises:
        InputError: as `read_documents`, or too few documents are of use.
    """
    documents = []
    counts = collections.Counter()
    for encoded_lines in _encode_documents(read_documents(paths), tokenizer):
        progress.update()
        sentences = [ids for ids in encoded_lines if ids]
        counts["skipped_sentences"] += len(encoded_lines) - len(sentences)
        if sum(map(len, sentences)) < rule.min_pieces:
            counts["skipped_documents"] += 1
            continue
        document = make_document(sentences, rule.max_tokens)
        documents.append(document)
        counts["documents"] += 1
        counts["sentences"] += len(sentences)
        counts["pieces"] += len(document.pieces)
        counts["unknown_pieces"] += int(np.count_nonzero(document.pieces == tokenizer.unk_id))
    if len(documents) < rule.min_documents:
        raise InputError(
            f"{_name_files(paths)}: documents of at least {rule.min_pieces} pieces: received "
            f"{len(documents)}, expected {rule.min_documents} or more for {rule.objective}"
        )
    return Corpus(documents, PretrainingDataStats(**counts))


def _encode_documents(
    documents: Iterator[list[str]], tokenizer: Tokenizer
) -> Iterator[list[list[int]]]:
    """Yields the ids of each line of each document."""
    while batch := list(itertools.islice(documents, _DOCUMENTS_PER_CALL)):
        encoded = iter(tokenizer.encode_batch(list(itertools.chain.from_iterable(batch))))
        for lines in batch:
            yield list(itertools.islice(encoded, len(lines)))


def _name_files(paths: Sequence[str]) -> str:
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


class InstanceMaker:
    """Makes instances, each the values of one record.

    Args:
        tokenizer: gives the special ids, and what masking has to know about pieces.
        segment_rule: how documents become segments.
        masking_rule: how pieces are chosen for prediction; None to choose none.

    Attributes:
        spec: the record that an instance fits.
    """

    def __init__(
        self, tokenizer: Tokenizer, segment_rule: SegmentRule, masking_rule: MaskingRule | None
    ):
        length = segment_rule.max_seq_length
        if masking_rule is None:
            self.spec, self._masker = unmasked_record(length), None
        else:
            self.spec = pretraining_record(length, masking_rule.max_predictions_per_seq)
            self._masker = Masker(tokenizer, masking_rule)
        self._make_segments = SegmentMaker(segment_rule, tokenizer.word_start)
        self._is_boundary = find_boundaries(tokenizer)
        self._pad_id = tokenizer.pad_id
        self._cls = np.array([tokenizer.cls_id], np.int32)
        self._sep = np.array([tokenizer.sep_id], np.int32)

    def __call__(
        self, documents: Sequence[Document], index: int, rng: np.random.Generator
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the instances of one document.

        Args:
            documents: the corpus.
            index: which of its documents.
            rng: where every draw comes from.
        """

        def other_document() -> Document:
            other = int(rng.integers(len(documents) - 1))
            return documents[other + (other >= index)]

        for segments in self._make_segments(documents[index], rng, other_document):
            yield self._make_instance(segments, rng)

    def _make_instance(self, segments: Segments, rng: np.random.Generator) -> dict[str, np.ndarray]:
        parts = [self._cls, segments.a, self._sep]
        if segments.b is not None:
            parts += [segments.b, self._sep]
        input_ids = np.concatenate(parts)
        values = {
            "input_ids": input_ids,
            "input_mask": np.ones(len(input_ids)),
            "segment_ids": np.arange(len(input_ids)) >= len(segments.a) + 2,
            "token_boundary": self._is_boundary[input_ids],
            "next_sentence_labels": np.array([segments.label]),
        }
        if self._masker is not None:
            masked = self._masker(input_ids, rng)
            values |= {
                "input_ids": masked.input_ids,
                "masked_lm_positions": masked.positions,
                "masked_lm_ids": masked.ids,
                "masked_lm_weights": np.ones(len(masked.ids)),
            }
        return {
            feature.name: self._pad(values[feature.name], feature) for feature in self.spec.features
        }

    def _pad(self, values: np.ndarray, feature: Feature) -> np.ndarray:
        fill = self._pad_id if feature.name == "input_ids" else 0
        padded = np.full(feature.shape, fill, feature.dtype)
        padded[: len(values)] = values
        return padded


def make_records(
    corpus: Corpus, maker: InstanceMaker, seed: int, dupe_factor: int, progress: Progress
) -> tuple[list[bytes], PretrainingDataStats]:
    """Makes the records of a corpus, shuffled.

    Args:
        corpus: the text.
        maker: makes the instances.
        seed: where every draw comes from.
        dupe_factor: how many times each document is used, with other segments and masks.
        progress: is told about each document of each copy.

    Returns:
        the records, and the corpus' stats with what was made.
    """
    records = []
    counts = collections.Counter()
    for copy, index in itertools.product(range(dupe_factor), range(len(corpus.documents))):
        # A stream of its own for each document and copy; the shuffle's has no spawn key.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(copy, index)))
        for instance in maker(corpus.documents, index, rng):
            records.append(maker.spec.serialize(instance))
            counts["instance_pieces"] += int(instance["input_mask"].sum())
            if "masked_lm_weights" in instance:
                counts["predictions"] += int(instance["masked_lm_weights"].sum())
            counts["swapped"] += int(instance["next_sentence_labels"][0])
        progress.update()
    order = np.random.default_rng(seed).permutation(len(records))
    stats = dataclasses.replace(corpus.stats, instances=len(records), **counts)
    return [records[index] for index in order], stats
