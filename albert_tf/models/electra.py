"""Pre-training by replaced-token detection: ELECTRA, Clark et al. 2020, https://arxiv.org/abs/2003.10555.

A small masked LM, the generator, replaces the masked pieces by pieces that it draws, and the encoder
learns to tell which pieces of the text are not the original ones.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import primitives
from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.heads import ClassificationHead, ReplacedTokenHead
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import AlbertPretrainer, EncoderWithHeads
from albert_tf.models.inputs import Input

# In evaluations, so that the same model has the same metrics.
_EVALUATION_SEED = 0


class ElectraPretrainer(EncoderWithHeads):
    """Finds the pieces that a generator has replaced and, with a sentence head, the order of segments.

    The generator is an `AlbertPretrainer` of its own, smaller layers, whose embedding is the encoder's
    (section 3.2). The pieces that it draws have no gradient.

    Args:
        encoder: the encoder to pre-train; a sentence head needs its pooler.
        sentence_head: whether there is a head for the sentence objective (order or next sentence).
        generator_hidden_size: width, heads and intermediate width of the generator, as a share of the
            encoder's.
        generator_layers: number of layers of the generator, as a share of the encoder's.
        seed: seed of the initialisation of generator and heads, and of the pieces that are drawn.
    """

    NAME = "electra_pretrainer"
    INPUTS: ClassVar = {
        **AlbertPretrainer.INPUTS,
        "masked_lm_ids": Input("BM", required=True, exported=False),
        "masked_lm_weights": Input("BM", required=True, exported=False),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        sentence_head: bool = True,
        generator_hidden_size: float = 0.25,
        generator_layers: float = 1.0,
        seed: int | None = None,
        name: str = NAME,
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        self.sentence_head = sentence_head
        self.generator_hidden_size = generator_hidden_size
        self.generator_layers = generator_layers
        self.generator = self._make_generator()
        self.replaced_token_head = ReplacedTokenHead(**self._arguments_of("replaced_token_head"))
        self.sentence_order_head = None
        if sentence_head:
            self._need_pooler()
            self.sentence_order_head = ClassificationHead(
                num_classes=2, **self._arguments_of("sentence_order_head")
            )
        self.drawn_pieces = keras.random.SeedGenerator(self._seeds.getrandbits(31))
        self.build(self.input_shapes)

    def _make_generator(self) -> AlbertPretrainer:
        config = generator_config(self.config, self.generator_hidden_size, self.generator_layers)
        arguments = {"name": "generator", "dtype": self.dtype_policy}
        steps = {name: getattr(self.encoder, name) for name in ("remat", "flash_attention")}
        # As a part of this model, so that folders do not take its variables for those of an encoder.
        with keras.name_scope(self.name):
            seed = self._seeds.getrandbits(31)
            encoder = _GeneratorEncoder(
                config, self.encoder.embedding, seed=seed, **steps, **arguments
            )
            seed = self._seeds.getrandbits(31)
            return AlbertPretrainer(encoder, sentence_head=False, seed=seed, **arguments)

    def _build_layers(self) -> None:
        self.replaced_token_head.build((None, None, self.config.hidden_size))
        if self.sentence_order_head is not None:
            self.sentence_order_head.build((None, self.config.hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Replaces the masked pieces of a batch, and predicts which pieces are replaced.

        Args:
            inputs: those of `AlbertPretrainer.call`, and its labels `masked_lm_ids` (B, M) and
                `masked_lm_weights` (B, M), the mask of the predictions.
            training: whether dropout is active, and each call draws other pieces.

        Returns:
            A dictionary: `masked_lm_logits` float32 (B, M, V), the generator's;
            `replaced_token_logits` float32 (B, S), above 0 where a piece seems to be replaced;
            `is_replaced` bool (B, S), whether it is; with a sentence head, `sentence_order_logits`
            float32 (B, 2).
        """
        logits = self.generator(inputs, training=training)["masked_lm_logits"]
        drawn = keras.random.categorical(
            primitives.as_rows(logits),
            1,
            dtype="int32",
            seed=self.drawn_pieces if training else _EVALUATION_SEED,
        )
        ids = ops.cast(inputs["input_ids"], "int32")
        originals = ops.cast(inputs["masked_lm_ids"], "int32")
        # Of logits that are not finite TensorFlow draws V on CPUs; such an update is skipped.
        drawn = ops.minimum(drawn, self.config.vocab_size - 1)
        drawn = ops.reshape(drawn, ops.shape(originals))
        replaced_ids, original_ids = (_put(pieces, ids, inputs) for pieces in (drawn, originals))
        encoded = self.encoder(
            {
                **{name: inputs[name] for name in self.encoder.INPUTS if name in inputs},
                "input_ids": replaced_ids,
            },
            training=training,
        )
        outputs = {
            "masked_lm_logits": logits,
            "replaced_token_logits": self.replaced_token_head(
                encoded["sequence_output"], training=training
            ),
            # A piece that is drawn as it was is an original one.
            "is_replaced": ops.not_equal(replaced_ids, original_ids),
        }
        if self.sentence_order_head is not None:
            outputs["sentence_order_logits"] = self.sentence_order_head(
                encoded["pooled_output"], training=training
            )
        return outputs


def _put(pieces, ids, inputs: Mapping[str, keras.KerasTensor]):
    """Returns ids (B, S) with pieces (B, M) at the positions of the predictions."""
    positions = ops.cast(inputs["masked_lm_positions"], "int32")
    is_used = ops.cast(inputs["masked_lm_weights"], "float32") > 0
    places = ops.arange(ops.shape(ids)[1], dtype="int32")
    is_there = (positions[:, :, None] == places) & is_used[:, :, None]  # (B, M, S)
    found = ops.max(ops.where(is_there, pieces[:, :, None], -1), axis=1)
    return ops.where(found < 0, ids, found)


def generator_config(config: AlbertConfig, hidden_size: float, layers: float) -> AlbertConfig:
    """Returns the config of a generator, whose sizes are shares of an encoder's (appendix A)."""
    heads = max(1, round(config.num_attention_heads * hidden_size))
    num_hidden_layers = max(1, round(config.num_hidden_layers * layers))
    return dataclasses.replace(
        config,
        hidden_size=heads * max(1, round(config.hidden_size * hidden_size / heads)),
        num_attention_heads=heads,
        intermediate_size=max(1, round(config.intermediate_size * hidden_size)),
        num_hidden_layers=num_hidden_layers,
        num_hidden_groups=min(config.num_hidden_groups, num_hidden_layers),
    )


class _ProjectedEmbedding(primitives.BaseLayer):
    """Another encoder's embedding, with a projection to the width of this one."""

    def __init__(self, config: AlbertConfig, embedding: FactorizedEmbedding, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = embedding
        self.projection = self._dense("projection", config.embedding_size, config.hidden_size)

    @property
    def word_embeddings(self):
        """The table (V, E), which both have."""
        return self.embedding.word_embeddings

    def call(self, input_ids, segment_ids, training=None):
        """Returns what `FactorizedEmbedding.call` does, with hidden states of this encoder's width."""
        embeddings, _ = self.embedding(input_ids, segment_ids, training=training)
        return embeddings, self.projection(embeddings)


class _GeneratorEncoder(AlbertEncoder):
    """An encoder with the embedding of another one, and without a pooler."""

    def __init__(self, config: AlbertConfig, embedding: FactorizedEmbedding, **kwargs):
        # Not the layer, which PyTorch takes as an attribute only afterwards.
        self._make_projected = functools.partial(_ProjectedEmbedding, embedding=embedding)
        super().__init__(config, with_pooler=False, **kwargs)

    def _make_embedding(self) -> _ProjectedEmbedding:
        return self._make_projected(**self._arguments_of("embedding"))
