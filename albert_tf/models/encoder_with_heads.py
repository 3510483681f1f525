"""The encoder with heads: of pre-training, and those that classify or embed texts."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import keras
from keras import ops

from albert_tf.checkpoints.heads import CLASSIFIER_BIAS, TOKEN_CLASSIFIER_BIAS
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.heads import ClassificationHead, MaskedLMHead
from albert_tf.layers.pooling import pool, pooled_width
from albert_tf.models.base_model import BaseModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import Input
from albert_tf.options.kinds import Pooling, pooling_names


class EncoderWithHeads(BaseModel):
    """An encoder with heads, which a subclass creates; `seed` is that of the heads."""

    # The heads decide which positions they read.
    INPUTS: ClassVar = {k: v for k, v in AlbertEncoder.INPUTS.items() if k != "output_positions"}

    def __init__(self, encoder: AlbertEncoder, seed: int | None, name: str, **kwargs):
        if not isinstance(encoder, AlbertEncoder):
            raise InputError(
                f"encoder: expected an AlbertEncoder, received {type(encoder).__name__}; "
                f"`{type(self).__name__}.from_encoder_config` takes a config"
            )
        super().__init__(seed, name=name, **kwargs)
        self.encoder = encoder
        self.config = encoder.config

    def _need_pooler(self) -> None:
        if not self.encoder.with_pooler:
            raise InputError(f"encoder: {type(self).__name__} needs one with a pooler")

    def _encode_first(self, inputs: Mapping[str, keras.KerasTensor], training: bool | None):
        """Returns the encoder's outputs if [CLS] alone is read: its last layer computes nothing else."""
        first = ops.zeros_like(inputs["input_ids"][:, :1])
        return self.encoder({**inputs, "output_positions": first}, training=training)

    @classmethod
    def from_encoder_config(cls, config: AlbertConfig, **kwargs) -> Self:
        """Makes the model with a new encoder, of the same seed and precision."""
        shared = {name: kwargs[name] for name in ("seed", "dtype") if name in kwargs}
        return cls(AlbertEncoder(config, **shared), **kwargs)

    def get_config(self):
        """Returns the arguments of the constructor."""
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config):
        """Creates the model and its encoder from `get_config`."""
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(EncoderWithHeads):
    """Predicts masked pieces and whether two segments were swapped.

    Args:
        encoder: the encoder to pre-train; a sentence head needs its pooler.
        sentence_head: whether there is a head for the sentence objective (order or next sentence).
        seed: seed of the heads' initialisation.
    """

    NAME = "albert_pretrainer"
    INPUTS: ClassVar = {
        **EncoderWithHeads.INPUTS,
        "masked_lm_positions": Input("BM", required=True),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        sentence_head: bool = True,
        seed: int | None = None,
        name: str = NAME,
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        self.sentence_head = sentence_head
        self.masked_lm_head = MaskedLMHead(**self._arguments_of("masked_lm_head"))
        self.sentence_order_head = None
        if sentence_head:
            self._need_pooler()
            self.sentence_order_head = ClassificationHead(
                num_classes=2, **self._arguments_of("sentence_order_head")
            )
        self.build(self.input_shapes)

    def _build_layers(self) -> None:
        self.masked_lm_head.build((None, None, self.config.hidden_size))
        if self.sentence_order_head is not None:
            self.sentence_order_head.build((None, self.config.hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Predicts for a batch.

        Args:
            inputs: those of `AlbertEncoder.call` but `output_positions`, and `masked_lm_positions`
                int (B, M).
            training: whether dropout is active.

        Returns:
            A dictionary: `masked_lm_logits` float32 (B, M, V) and, with a sentence head,
            `sentence_order_logits` float32 (B, 2). Logits of unused predictions mean nothing;
            `masked_lm_weights` of the records says which are used.
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


class _Classifier(EncoderWithHeads):
    """An encoder with a classification head; `name` is by default the class's own."""

    HEAD_NAME: ClassVar[str] = "head"
    READS: ClassVar[str] = "pooled_output"  # of the encoder's outputs

    def __init__(
        self,
        encoder: AlbertEncoder,
        num_classes: int,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str | None = None,
        **kwargs,
    ):
        super().__init__(encoder, seed, name or self.NAME, **kwargs)
        if self.READS == "pooled_output":
            self._need_pooler()
        self.num_classes = num_classes
        self.dropout = dropout
        self.head = ClassificationHead(
            num_classes=num_classes, dropout=dropout, **self._arguments_of(self.HEAD_NAME)
        )
        self.build(self.input_shapes)

    def _build_layers(self) -> None:
        self.head.build((None, self.config.hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Maps the inputs of `AlbertEncoder.call` to the logits that the class describes."""
        encode = self._encode_first if self.READS == "pooled_output" else self.encoder
        return self.head(encode(inputs, training=training)[self.READS], training=training)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(_Classifier):
    """Classifies a text, or a pair of texts, by its pooled output: logits, float32 (B, num_classes).

    Args:
        encoder: the encoder, with a pooler.
        num_classes: number of classes.
        dropout: rate on the pooled output; the original's 0.1 for all its classifiers.
        seed: seed of the head's initialisation and dropout.
    """

    NAME = "albert_classifier"
    HEAD_BIAS = CLASSIFIER_BIAS


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(_Classifier):
    """Classifies every token by its last hidden state: logits, float32 (B, S, num_classes).

    It finds named entities or parts of speech.

    Args:
        encoder: the encoder; it needs no pooler.
        num_classes: number of classes.
        dropout: rate on the hidden states; 0.1 as for the original's classifiers.
        seed: seed of the head's initialisation and dropout.
    """

    NAME = "albert_token_classifier"
    HEAD_NAME = "token_head"
    READS = "sequence_output"
    HEAD_BIAS = TOKEN_CLASSIFIER_BIAS


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(_Classifier):
    """Gives every choice a logit by its pooled output (RACE).

    Args:
        encoder: the encoder, with a pooler.
        dropout: rate on the pooled output; the original's 0.1 for RACE.
        seed: seed of the head's initialisation and dropout.
    """

    NAME = "albert_multiple_choice"
    INPUTS: ClassVar = {
        "input_ids": Input("BCS", required=True),
        "input_mask": Input("BCS"),
        "segment_ids": Input("BCS"),
        "token_positions": Input("T", exported=False),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str | None = None,
        **kwargs,
    ):
        super().__init__(encoder, 1, dropout, seed, name, **kwargs)

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Scores a batch.

        Args:
            inputs: those of `AlbertEncoder.call`, a text for every choice: int (B, C, S) where they are
                (B, S) there.
            training: whether dropout is active.

        Returns:
            logits, float32 (B, C).
        """
        _, choices, length = ops.shape(inputs["input_ids"])
        texts = {
            name: ops.reshape(inputs[name], (-1, length))  # (B * C, S)
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in inputs
        }
        if "token_positions" in inputs:
            texts["token_positions"] = inputs["token_positions"]
        return ops.reshape(super().call(texts, training), (-1, choices))  # (B, C)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEmbedder(EncoderWithHeads):
    """Embeds texts, for search, clustering or similarity.

    Args:
        encoder: the encoder; it needs no pooler.
        pooling: `mean` takes the mean of the last hidden states of all tokens, `cls` the last hidden
            state of [CLS]; for the others, and several, see `albert_tf.layers.pooling`.
        normalize: whether embeddings have the length 1, so that dot products are cosines.
        projection: layers from (B, H), or H for each of several poolings, to (B, any width), between
            pooling and normalisation.

    Raises:
        InputError: there is no such pooling.
    """

    def __init__(
        self,
        encoder: AlbertEncoder,
        pooling: Pooling = "mean",
        normalize: bool = False,
        seed: int | None = None,
        name: str = "albert_embedder",
        projection: Sequence[keras.layers.Layer] = (),
        **kwargs,
    ):
        pooling_names(pooling)  # checks it
        super().__init__(encoder, seed, name, **kwargs)
        self.pooling = pooling
        self.normalize = normalize
        self.projection = list(projection)
        self.build(self.input_shapes)

    @property
    def width(self) -> int:
        """Number of features of an embedding."""
        shape = (None, pooled_width(self.pooling, self.config.hidden_size))
        for layer in self.projection:
            shape = layer.compute_output_shape(shape)
        return shape[-1]

    def get_config(self):
        """Returns the arguments of the constructor."""
        layers = [keras.saving.serialize_keras_object(layer) for layer in self.projection]
        return {**super().get_config(), "projection": layers}

    @classmethod
    def from_config(cls, config):
        """Creates the model and its parts from `get_config`."""
        layers = [*map(keras.saving.deserialize_keras_object, config["projection"])]
        return super().from_config({**config, "projection": layers})

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Maps the inputs of `AlbertEncoder.call` to embeddings, float32 (B, width)."""
        encode = self._encode_first if self.pooling == "cls" else self.encoder
        return self.pool(encode(inputs, training=training)["sequence_output"], inputs)

    def pool(self, states: keras.KerasTensor, inputs: Mapping[str, keras.KerasTensor]):
        """Maps the encoder's last hidden states (B, S, H), and its inputs, to embeddings (B, width).

        With the pooling `cls` the states of [CLS], (B, 1, H), are enough.
        """
        input_mask = inputs.get("input_mask", ops.ones_like(inputs["input_ids"]))
        embeddings = pool(self.pooling, states, input_mask)
        for layer in self.projection:
            embeddings = layer(embeddings)
        return ops.normalize(embeddings) if self.normalize else embeddings
