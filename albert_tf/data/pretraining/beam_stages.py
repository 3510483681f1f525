"""The stages of the Beam pipeline: functions from an element, or from all elements of a key, to elements.

A chunk begins where the one before ends, so the files are read twice, in parallel: first to measure their
documents, then to send the documents of each chunk to one worker. No stage imports Apache Beam.
"""

import collections
import itertools
import operator
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk, count_characters, group_documents, no_text
from albert_tf.data.pretraining.instances import ChunkMaker, PretrainingDataConfig
from albert_tf.data.pretraining.shuffling import KeyedRecord, RunWriter, read_sorted
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.data.records import Compression, write_records
from albert_tf.tokenization import Tokenizer

_KEY_BITS = 64
# The key of the counts, among the numbers of the shards.
_COUNTS = -1

# A key with an element, and a key with all of its elements.
Element = tuple[int, Any]
Group = tuple[int, Iterable[Any]]


class _MeasuredFile(NamedTuple):
    """A file of the corpus.

    Attributes:
        number: its number, from 0.
        characters: number of characters of each document, int64 (n,).
        sha256: SHA-256 of the file, in hexadecimal.
        replaced_lines: number of lines in which bytes that are not UTF-8 were replaced.
    """

    number: int
    characters: np.ndarray
    sha256: str
    replaced_lines: int


class Measurer:
    """Measures a file, given its number. Files that don't exist yield nothing."""

    def __init__(self, paths: Sequence[str], config: PretrainingDataConfig):
        self._paths = paths
        self._config = config

    def __call__(self, number: int) -> Iterator[Element]:
        """Yields the measured file with the key 0."""
        for path in self._paths[number : number + 1]:
            reader = self._config.read([path])
            characters = np.fromiter(map(count_characters, reader.documents()), np.int64)
            yield 0, _MeasuredFile(number, characters, reader.sha256[path], reader.replaced_lines)


class _PlannedFile(NamedTuple):
    """What to read from a file.

    Attributes:
        first_document: the corpus' number of its first document.
        chunks: chunk and number of documents, in the order of the file.
    """

    first_document: int
    chunks: list[tuple[int, int]]


class Planner:
    """Assigns the documents of all measured files to chunks, and writes the hashes of the files."""

    def __init__(self, paths: Sequence[str], config: PretrainingDataConfig, reading: str):
        self._paths = paths
        self._config = config
        self._reading = reading

    def __call__(self, group: Group) -> Iterator[Element]:
        """Yields what to read from each file, with the file's number."""
        measured = sorted(group[1], key=operator.attrgetter("number"))
        firsts = itertools.accumulate((len(file.characters) for file in measured), initial=0)
        planned = [_PlannedFile(next(firsts), []) for _ in measured]
        documents = (
            (file.number, characters)
            for file in measured
            for characters in file.characters.tolist()
        )
        characters_of = operator.itemgetter(1)
        min_documents = self._config.segments.min_documents
        for chunk, members in enumerate(group_documents(documents, characters_of, min_documents)):
            for number, size in collections.Counter(number for number, _ in members).items():
                planned[number].chunks.append((chunk, size))
        if not any(file.chunks for file in planned):
            raise no_text(self._paths, self._config.corpus)
        reading = {
            "sha256": {self._paths[file.number]: file.sha256 for file in measured},
            "replaced_lines": sum(file.replaced_lines for file in measured),
        }
        write_once(self._reading, files.write_json, reading)
        yield from enumerate(planned)


class Reader:
    """Reads the documents of a planned file."""

    def __init__(self, paths: Sequence[str], config: PretrainingDataConfig):
        self._paths = paths
        self._config = config

    def __call__(self, group: Group) -> Iterator[Element]:
        """Yields what the file has of each chunk, with the chunk's number."""
        number, (planned,) = group
        documents = self._config.read([self._paths[number]]).documents()
        first_document = planned.first_document
        for chunk, size in planned.chunks:
            members = list(itertools.islice(documents, size))
            yield chunk, Chunk(chunk, first_document, members, 0)
            first_document += size


class Maker:
    """Makes the records of a chunk, given its parts.

    A random key of 64 bits, times the number of shards, is the number of the shard and the place there.
    """

    def __init__(self, tokenizer: Tokenizer, config: PretrainingDataConfig, num_shards: int):
        self._make_records = ChunkMaker(tokenizer, config)
        self._num_shards = num_shards

    def __call__(self, group: Group) -> Iterator[Element]:
        """Yields places and records with the numbers of the shards, then counts with their own key."""
        number, parts = group
        parts = sorted(parts, key=operator.attrgetter("first_document"))
        documents = list(itertools.chain.from_iterable(part.documents for part in parts))
        chunk = Chunk(number, parts[0].first_document, documents, 0)
        stats = PretrainingDataStats()
        for key, record in self._make_records(chunk, stats):
            shard, place = divmod(key * self._num_shards, 1 << _KEY_BITS)
            yield shard, (place, record)
        yield _COUNTS, stats.to_json_dict()


class Writer:
    """Writes a shard, or adds up the counts."""

    def __init__(self, shards: Sequence[str], compression: Compression):
        self._shards = shards
        self._compression = compression

    def __call__(self, group: Group) -> Iterator[Element]:
        """Yields the total of the counts with the key 0, and nothing for a shard."""
        number, values = group
        if number == _COUNTS:
            total = PretrainingDataStats()
            for counts in values:
                total.add(PretrainingDataStats.from_json_dict(counts))
            yield 0, total.to_json_dict()
        else:
            with tempfile.TemporaryDirectory() as local:
                records = _sort(values, os.path.join(local, "sorted"))
                write_once(self._shards[number], write_records, records, self._compression)


class Finisher:
    """Writes the counts. As the groups of a stage need all of the one before, all shards are complete."""

    def __init__(self, counts: str):
        self._counts = counts

    def __call__(self, group: Group) -> Iterator[Element]:
        """Yields nothing."""
        (counts,) = group[1]
        write_once(self._counts, files.write_json, counts)
        yield from ()


def _sort(records: Iterable[KeyedRecord], prefix: str) -> Iterator[bytes]:
    """Sorts records that need not fit in memory."""
    writer = RunWriter(prefix)
    for key, record in records:
        writer.add(key, record)
    writer.flush()
    return read_sorted(writer.paths, writer.sizes, 0, int(writer.sizes.records.sum()))


def write_once(path: str, write: Callable[..., None], *content: Any) -> None:
    """Writes a file that another worker, taken for dead, may be writing, too."""
    own = f"{path}-{uuid.uuid4().hex}"
    write(own, *content)
    with files.explain_refusal(path):
        tf.io.gfile.rename(own, path, overwrite=True)
