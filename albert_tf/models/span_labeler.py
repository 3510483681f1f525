"""The encoder with a head that labels the span of an answer."""

from collections.abc import Mapping

import keras

from albert_tf.layers import SpanHead
from albert_tf.layers.common import SeedStream
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import EncoderWithHeads


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertSpanLabeler(EncoderWithHeads):
    """Scores each position as the first and as the last of an answer (SQuAD 1.1).

    Args:
        encoder: the encoder; it needs no pooler.
        seed: of the head's starting values.
    """

    def __init__(
        self,
        encoder: AlbertEncoder,
        seed: int | None = None,
        name: str = "albert_span_labeler",
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        self.span_head = SpanHead(
            initializer_range=encoder.config.initializer_range,
            seed=SeedStream(seed).next(),
            name="span_head",
            dtype=self.dtype_policy,
        )
        self.build(self.input_shapes)

    def _build_heads(self, hidden_size: int) -> None:
        self.span_head.build((None, None, hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Scores a batch.

        Args:
            inputs: those of `AlbertEncoder.call`.
            training: whether dropout is active.

        Returns:
            A dictionary: `start_logits` and `end_logits`, float32 (B, S) each, of padding too.
        """
        encoded = self.encoder(inputs, training=training)
        start_logits, end_logits = self.span_head(encoded["sequence_output"])
        return {"start_logits": start_logits, "end_logits": end_logits}
