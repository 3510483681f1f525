"""The encoder with a head that finds the span of an answer."""

from collections.abc import Mapping
from typing import ClassVar

import keras
from keras import ops

from albert_tf.errors import InputError
from albert_tf.layers.span_heads import IMPOSSIBLE, ConditionalSpanHead, SpanHead, make_p_mask
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import EncoderWithHeads
from albert_tf.models.inputs import Input


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertSpanLabeler(EncoderWithHeads):
    """Scores each position as the first and as the last of an answer (SQuAD 1.1).

    Args:
        encoder: the encoder; it needs no pooler.
        seed: seed of the head's initialisation.
    """

    NAME = "albert_span_labeler"

    def __init__(
        self,
        encoder: AlbertEncoder,
        seed: int | None = None,
        name: str = NAME,
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        self.span_head = SpanHead(**self._arguments_of("span_head"))
        self.build(self.input_shapes)

    def _build_layers(self) -> None:
        self.span_head.build((None, None, self.config.hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Scores a batch.

        Args:
            inputs: those of `AlbertEncoder.call`.
            training: whether dropout is active.

        Returns:
            A dictionary: `start_logits` and `end_logits`, float32 (B, S) each; those of padding are -1e30
            with `token_positions`.
        """
        encoded = self.encoder(inputs, training=training)
        start_logits, end_logits = self.span_head(encoded["sequence_output"])
        if "token_positions" in inputs and "input_mask" in inputs:
            # Without hidden states of its own, padding has no part in the loss.
            is_padding = ops.equal(inputs["input_mask"], 0)
            start_logits, end_logits = (
                ops.where(is_padding, IMPOSSIBLE, logits) for logits in (start_logits, end_logits)
            )
        return {"start_logits": start_logits, "end_logits": end_logits}


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertConditionalSpanLabeler(EncoderWithHeads):
    """Finds the span of an answer, its end given its start, and whether there is one (SQuAD 2.0).

    Args:
        encoder: the encoder; it needs no pooler.
        start_n_top: I, how many starts are tried.
        end_n_top: J, how many ends of each start are given.
        dropout: rate before the logit of answerability; the original's 0.1.
        seed: seed of the head's initialisation and dropout.
    """

    NAME = "albert_conditional_span_labeler"
    INPUTS: ClassVar = {
        **EncoderWithHeads.INPUTS,
        "segment_ids": Input("BS", required=True),
        "start_positions": Input("B", exported=False),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str = NAME,
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.dropout = dropout
        self.conditional_span_head = ConditionalSpanHead(
            start_n_top=start_n_top,
            end_n_top=end_n_top,
            dropout=dropout,
            **self._arguments_of("conditional_span_head"),
        )
        self.build(self.input_shapes)

    def _build_layers(self) -> None:
        self.conditional_span_head.build((None, None, self.config.hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Scores a batch.

        Args:
            inputs: those of `AlbertEncoder.call`, with `segment_ids`; optionally `start_positions`,
                int (B,), the answers' starts, which training needs.
            training: whether dropout is active.

        Returns:
            A dictionary:
            `cls_logits`, float32 (B,), the logit of there being no answer;
            `start_log_probs` and `end_log_probs`, float32 (B, S), the latter for the given or else the
            best start;
            `start_top_log_probs` (B, I) and `end_top_log_probs` (B, I * J), float32, the ends of the
            first start first, and their positions `start_top_index` and `end_top_index`, int32.
        """
        if training and "start_positions" not in inputs:
            raise InputError("start_positions is missing; training needs it")
        encoded = self.encoder(inputs, training=training)
        return self.conditional_span_head(
            encoded["sequence_output"],
            make_p_mask(inputs["segment_ids"]),
            inputs.get("start_positions"),
            training=training,
        )
