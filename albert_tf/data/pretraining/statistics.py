"""What was read from a corpus and what was made of it, in counts that can be added up."""

import collections
import dataclasses
import os
import re
from typing import Any

_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}$")


def stats_file_of(record_file: str) -> str:
    """Returns the name of the stats file that lies beside a record file or the shards of one."""
    stem, _ = os.path.splitext(record_file)
    return _SHARD_NUMBER.sub("", stem) + ".stats.json"


@dataclasses.dataclass
class PretrainingDataStats:
    """Counts of a corpus or of a part of it.

    Attributes:
        documents: documents read, without those skipped.
        paragraphs: paragraphs in them; lines where a sentence is a line.
        sentences: sentences in them.
        pieces: pieces in them, without special ones.
        unknown_pieces: how many of these are the unknown piece.
        skipped_documents: documents that are too short to be of use.
        skipped_sentences: lines in which the tokenizer found nothing.
        lengths: pieces in an instance, [CLS] and [SEP] included -> instances, in all copies.
        predictions: how many of their pieces are to be predicted.
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
        """Instances in all copies."""
        return self.lengths.total()

    @property
    def instance_pieces(self) -> int:
        """Pieces in the instances, [CLS] and [SEP] included."""
        return sum(length * count for length, count in self.lengths.items())

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

    def to_json_dict(self) -> dict[str, Any]:
        """Returns the counts as a dictionary that `json` writes."""
        lengths = {str(length): self.lengths[length] for length in sorted(self.lengths)}
        return dataclasses.asdict(self) | {"lengths": lengths}

    @classmethod
    def from_json_dict(cls, values: dict[str, Any]) -> "PretrainingDataStats":
        """Returns the counts of which `to_json_dict` made a dictionary."""
        lengths = {int(length): count for length, count in values["lengths"].items()}
        return cls(**values | {"lengths": collections.Counter(lengths)})
