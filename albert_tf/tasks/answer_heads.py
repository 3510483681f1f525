"""The two heads that answer questions: all in which they differ."""

from collections.abc import Mapping
from typing import Protocol

import keras
import numpy as np

from albert_tf.data.squad.conventions import PADDING_LOGIT
from albert_tf.evaluation.squad_spans import (
    PassageWindows,
    ScoredSpans,
    conditional_spans,
    simple_spans,
)
from albert_tf.losses import ConditionalSpanLoss, SpanLoss
from albert_tf.models import AlbertConditionalSpanLabeler, AlbertEncoder, AlbertSpanLabeler
from albert_tf.tasks.question_answering_options import QuestionAnsweringOptions
from albert_tf.training.evaluator import Loss


class AnswerHead(Protocol):
    """What a head decides."""

    loss: Loss

    def make_model(
        self, options: QuestionAnsweringOptions, encoder: AlbertEncoder, seed: int
    ) -> keras.Model:
        """Makes the model, with a head that starts anew."""

    def bias(self, model: keras.Model) -> keras.Variable:
        """Returns a variable that only models with this head have."""

    def spans(
        self,
        options: QuestionAnsweringOptions,
        windows: PassageWindows,
        lengths: np.ndarray,
        outputs: Mapping[str, np.ndarray],
    ) -> ScoredSpans:
        """Reads spans from the outputs for W windows of `lengths` (W,), padded to S or more."""


class _Simple:
    loss = SpanLoss()

    def make_model(self, options, encoder, seed) -> AlbertSpanLabeler:
        return AlbertSpanLabeler(encoder, seed, dtype=options.mixed_precision)

    def bias(self, model) -> keras.Variable:
        return model.span_head.dense.bias

    def spans(self, options, windows, lengths, outputs) -> ScoredSpans:
        mask = np.arange(lengths.max()) < lengths[:, None]
        logits = {
            name: np.where(mask, values[:, : lengths.max()], np.float32(PADDING_LOGIT))
            for name, values in outputs.items()
        }
        return simple_spans(windows, logits, options.n_best_size, options.max_answer_length)


class _Conditional:
    loss = ConditionalSpanLoss()

    def make_model(self, options, encoder, seed) -> AlbertConditionalSpanLabeler:
        return AlbertConditionalSpanLabeler(
            encoder,
            options.start_n_top,
            options.end_n_top,
            options.classifier_dropout,
            seed,
            dtype=options.mixed_precision,
        )

    def bias(self, model) -> keras.Variable:
        return model.conditional_span_head.start_logits.bias

    def spans(self, options, windows, lengths, outputs) -> ScoredSpans:
        return conditional_spans(windows, outputs, options.max_answer_length)


ANSWER_HEADS: Mapping[str, AnswerHead] = {"simple": _Simple(), "conditional": _Conditional()}
