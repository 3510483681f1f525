"""The encoder with the heads of pre-training: masked LM and sentence order."""

from collections.abc import Mapping
from typing import ClassVar

import keras
from keras import ops

from albert_tf.layers import ClassificationHead, MaskedLMHead
from albert_tf.models.classifier import EncoderWithHeads
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import Input


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(EncoderWithHeads):
    """Predicts masked pieces and whether two segments were swapped.

    Args:
        encoder: the encoder to pre-train; both heads start from its config.
        sentence_head: whether there is a head for the sentence objective (order or next sentence).
        seed: seed of the heads' initialisation.
    """

    INPUTS: ClassVar = {
        **EncoderWithHeads.INPUTS,
        "masked_lm_positions": Input("BM", required=True),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        sentence_head: bool = True,
        seed: int | None = None,
        name: str = "albert_pretrainer",
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        # Config
        self.sentence_head = sentence_head

        # Layers
        config = encoder.config
        self.masked_lm_head = MaskedLMHead(
            vocab_size=config.vocab_size,
            embedding_size=config.embedding_size,
            activation=config.hidden_act,
            **self._head_arguments("masked_lm_head"),
        )
        self.sentence_order_head = None
        if sentence_head:
            self.sentence_order_head = ClassificationHead(
                num_classes=2, **self._head_arguments("sentence_order_head")
            )
        self.build(self.input_shapes)

    def _build_heads(self, hidden_size: int) -> None:
        self.masked_lm_head.build((None, None, hidden_size))
        if self.sentence_order_head is not None:
            self.sentence_order_head.build((None, hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Predicts for a batch.

        Args:
            inputs: those of `AlbertEncoder.call` but `output_positions`, and `masked_lm_positions`
                int (B, M).
            training: whether dropout is active.

        Returns:
            A dictionary: `masked_lm_logits` float32 (B, M, V) and, with a sentence head,
            `sentence_order_logits` float32 (B, 2).
        """
        positions = ops.cast(inputs["masked_lm_positions"], "int32")
        # The heads read [CLS] and the masked positions, so the last layer computes nothing else.
        output_positions = ops.concatenate([ops.zeros_like(positions[:, :1]), positions], axis=1)
        encoded = self.encoder({**inputs, "output_positions": output_positions}, training=training)
        outputs = {
            "masked_lm_logits": self.masked_lm_head(
                encoded["sequence_output"][:, 1:], self.encoder.embedding.word_embeddings
            )
        }
        if self.sentence_order_head is not None:
            outputs["sentence_order_logits"] = self.sentence_order_head(
                encoded["pooled_output"], training=training
            )
        return outputs
