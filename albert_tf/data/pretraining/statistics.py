"""Statistics of a corpus and of the records made from it."""

import collections
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.data.pretraining.input_files import name_files
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.errors import InputError

_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}$")


def stats_file_of(record_file: str) -> str:
    """Returns the path of the stats file next to a record file or its shards."""
    stem, _ = os.path.splitext(record_file)
    return _SHARD_NUMBER.sub("", stem) + ".stats.json"


@dataclasses.dataclass
class PretrainingDataStats:
    """Counts of a corpus or of a part of it.

    Attributes:
        documents: documents, without those skipped.
        paragraphs: their paragraphs; lines if the input has one sentence per line.
        sentences: their sentences.
        pieces: their pieces, without special ones.
        unknown_pieces: pieces that are the unknown piece.
        skipped_documents: documents that are too short.
        skipped_sentences: lines in which the tokenizer found nothing.
        lengths: number of instances, in all copies, by their length in pieces.
        predictions: pieces to predict.
        swapped: instances with label 1: the second segment does not follow the first.
    """

    documents: int = 0
    paragraphs: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    skipped_documents: int = 0
    skipped_sentences: int = 0
    lengths: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    predictions: int = 0
    swapped: int = 0

    def add(self, other: "PretrainingDataStats") -> None:
        """Adds the counts of another part of the corpus."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    @property
    def instances(self) -> int:
        """Number of instances in all copies."""
        return self.lengths.total()

    @property
    def instance_pieces(self) -> int:
        """Number of pieces of the instances, including [CLS] and [SEP]."""
        return sum(length * count for length, count in self.lengths.items())

    @property
    def unknown_share(self) -> float:
        """Share of the corpus' pieces that are unknown."""
        return self.unknown_pieces / max(1, self.pieces)

    @property
    def mean_length(self) -> float:
        """Mean number of pieces of an instance, including [CLS] and [SEP]."""
        return self.instance_pieces / max(1, self.instances)

    @property
    def masked_share(self) -> float:
        """Share of the instances' pieces to predict."""
        return self.predictions / max(1, self.instance_pieces)

    @property
    def swapped_share(self) -> float:
        """Share of instances with label 1."""
        return self.swapped / max(1, self.instances)

    def check(self, config: SegmentConfig, paths: Sequence[str], num_shards: int) -> None:
        """Checks that there is an instance for each shard."""
        if not self.instances:
            raise InputError(
                f"{name_files(paths)}: documents of at least {config.min_pieces} pieces: received "
                f"{self.documents}, expected {config.min_documents} or more for "
                f"{config.sentence_objective}"
            )
        if self.instances < num_shards:
            raise InputError(
                f"num_shards={num_shards}: expected at most the number of instances, "
                f"{self.instances}"
            )

    def to_json_dict(self) -> dict[str, Any]:
        """Returns the counts as a dictionary that `json` can write."""
        lengths = {str(length): self.lengths[length] for length in sorted(self.lengths)}
        return dataclasses.asdict(self) | {"lengths": lengths}

    @classmethod
    def from_json_dict(cls, values: dict[str, Any]) -> "PretrainingDataStats":
        """Returns the counts of a dictionary of `to_json_dict`."""
        lengths = {int(length): count for length, count in values["lengths"].items()}
        return cls(**values | {"lengths": collections.Counter(lengths)})


class MadeData(NamedTuple):
    """What was read and made.

    Attributes:
        stats: the counts.
        sha256: SHA-256 of each input file, by path, in hexadecimal.
        replaced_lines: number of lines in which bytes that are not UTF-8 were replaced.
    """

    stats: PretrainingDataStats
    sha256: Mapping[str, str]
    replaced_lines: int
