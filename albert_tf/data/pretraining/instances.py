"""Pre-training data: a tokenised document becomes instances, and instances become records."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.pretraining.masking import MaskedSequence, Masker, MaskingRule, find_boundaries
from albert_tf.data.pretraining.segments import Document, SegmentMaker, SegmentRule, Segments
from albert_tf.data.record_spec import pretraining_record, unmasked_record
from albert_tf.tokenization import Tokenizer


class Instance(NamedTuple):
    """One sequence, without padding.

    Attributes:
        input_ids: [CLS] A [SEP] B [SEP], or [CLS] A [SEP], before masking, int32 (n,).
        first_length: pieces of [CLS] A [SEP].
        label: 1 where B does not follow A, else 0.
        masked: the sequence with its predictions; None where nothing is masked yet.
    """

    input_ids: np.ndarray
    first_length: int
    label: int
    masked: MaskedSequence | None


class InstanceMaker:
    """Makes instances, and the values of their records.

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
        self._length = segment_rule.max_seq_length
        if masking_rule is None:
            self.spec, self._masker = unmasked_record(self._length), None
        else:
            self.spec = pretraining_record(self._length, masking_rule.max_predictions_per_seq)
            self._masker = Masker(tokenizer, masking_rule)
        self._make_segments = SegmentMaker(segment_rule, tokenizer.word_start)
        self._is_boundary = find_boundaries(tokenizer)
        self._pad_id = tokenizer.pad_id
        self._cls = np.array([tokenizer.cls_id], np.int32)
        self._sep = np.array([tokenizer.sep_id], np.int32)

    def __call__(
        self, documents: Sequence[Document], index: int, rng: np.random.Generator
    ) -> Iterator[Instance]:
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

    def _make_instance(self, segments: Segments, rng: np.random.Generator) -> Instance:
        parts = [self._cls, segments.a, self._sep]
        if segments.b is not None:
            parts += [segments.b, self._sep]
        input_ids = np.concatenate(parts)
        masked = None if self._masker is None else self._masker(input_ids, rng)
        return Instance(input_ids, len(segments.a) + 2, segments.label, masked)

    def pad(self, instances: Sequence[Instance]) -> dict[str, np.ndarray]:
        """Returns the values of N records, each (N, ...) as `spec` has it.

        Many instances are padded at once, since starting an array operation takes longer than
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
            weights = _mask(ids, self._masker.rule.max_predictions_per_seq)
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
    """Returns the values of rows, one after the other, where a mask has room for them, int32."""
    padded = np.full(mask.shape, padding, np.int32)
    padded[mask] = np.concatenate(rows)
    return padded
