"""Pre-training data: a tokenised document becomes instances, the values of records."""

from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.data.masking import Masker, MaskingRule, find_boundaries
from albert_tf.data.records import Feature, pretraining_record, unmasked_record
from albert_tf.data.sentence_order import Document, SegmentMaker, SegmentRule, Segments
from albert_tf.tokenization import Tokenizer


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
        padded = np.zeros(feature.shape, feature.dtype)
        padded[: len(values)] = values
        if feature.name == "input_ids":
            padded[len(values) :] = self._pad_id
        return padded
