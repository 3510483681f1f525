"""A classifier that stops at the layer where its answer no longer changes: PABEE.

Zhou et al. 2020, "BERT Loses Patience: Fast and Robust Inference with Early Exit"
(https://arxiv.org/abs/2006.04152).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import keras
from keras import ops

from albert_tf.backends import BACKEND, require_tensorflow
from albert_tf.errors import ArgumentError
from albert_tf.layers import ClassificationHead, EncoderLayer, Unpadding
from albert_tf.layers.primitives import as_rows
from albert_tf.models.base_model import Input
from albert_tf.models.classifier import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder, once_in_graph

if BACKEND == "tensorflow":
    import tensorflow as tf


class _Progress(NamedTuple):
    """How far a batch of B rows has come. R of its rows, with T tokens, have not exited.

    Attributes:
        rows: the remaining rows, int32 (R,), ascending.
        token_positions: positions of their tokens among R * S, int32 (T,).
        hidden_states: (T, H).
        attention_bias: (R, 1, 1, S).
        patience: number of agreements at which a remaining row exits, int32 (R,).
        agreements: number of the latest classifiers that agreed with the one before them, int32 (R,).
        logits: of each row's latest classifier, float32 (B, classes).
        exit_layer: number of layers that each row has passed, int32 (B,).
    """

    rows: "tf.Tensor"
    token_positions: "tf.Tensor"
    hidden_states: "tf.Tensor"
    attention_bias: "tf.Tensor"
    patience: "tf.Tensor"
    agreements: "tf.Tensor"
    logits: "tf.Tensor"
    exit_layer: "tf.Tensor"


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEarlyExitClassifier(AlbertClassifier):
    """An `AlbertClassifier` with a classifier after each layer.

    All of them read the encoder's pooler. That of layer j < L is `exit_heads[j - 1]`, that of layer L
    is `head`. A row exits after the first layer at which its prediction has stayed the same `patience`
    times in a row, so after layer `patience` + 1 at the earliest. Layers compute the remaining rows
    only.

    Args:
        encoder: the encoder.
        num_classes: number of classes; 1 for a regression.
        early_exit_patience: number of agreements at which a row exits, from 1 to L. With L no row exits
            before the last layer.
        early_exit_tolerance: of a regression, the difference below which the scores of two classifiers
            agree; None for classes, which agree if they are equal.
        dropout: rate on the pooled output; the original's 0.1 for all its classifiers.
        seed: seed of the heads' initialisation and dropout.

    Raises:
        ArgumentError: the patience is out of range, or the tolerance does not suit `num_classes`.
    """

    # The patience of each row, if not that of the constructor.
    INPUTS: ClassVar = {
        **AlbertClassifier.INPUTS,
        "early_exit_patience": Input("B", exported=False),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        num_classes: int,
        early_exit_patience: int,
        early_exit_tolerance: float | None = None,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str = "albert_classifier",
        **kwargs,
    ):
        layers = encoder.config.num_hidden_layers
        if not 1 <= early_exit_patience <= layers:
            raise ArgumentError(
                f"early_exit_patience={early_exit_patience}: expected 1 to {layers}, the number of layers"
            )
        if num_classes == 1 and early_exit_tolerance is None:
            raise ArgumentError(
                "early_exit_tolerance: expected a number for a regression; received none"
            )
        if num_classes > 1 and early_exit_tolerance is not None:
            raise ArgumentError(
                f"early_exit_tolerance={early_exit_tolerance}: expected a regression; received "
                f"{num_classes} classes"
            )
        super().__init__(encoder, num_classes, dropout, seed, name, **kwargs)
        self.early_exit_patience = early_exit_patience
        self.early_exit_tolerance = early_exit_tolerance

    def _build_heads(self, hidden_size: int) -> None:
        super()._build_heads(hidden_size)
        self.exit_heads = [
            ClassificationHead(
                num_classes=self.num_classes,
                dropout=self.dropout,
                **self._head_arguments(f"exit_head_{layer}"),
            )
            for layer in range(1, self.config.num_hidden_layers)
        ]
        for head in self.exit_heads:
            head.build((None, hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Classifies a batch.

        Args:
            inputs: those of `AlbertEncoder.call`, and optionally `early_exit_patience` int (B,), that
                of each row, at least 1.
            training: whether dropout is active and no row exits.

        Returns:
            Without `training`, the logits of `exit_early`, float32 (B, num_classes); otherwise the
            logits of all classifiers, float32 (B, L, num_classes).

        Raises:
            InputError: Keras has another backend than TensorFlow, and `training` is false.
        """
        if not training:
            return self.exit_early(inputs)["logits"]
        encoded = self.encoder(inputs, training=True)
        count = self.config.inner_group_num
        pooled = [
            *map(self.encoder.pooler, encoded["encoder_outputs"][count - 1 : -1 : count]),
            encoded["pooled_output"],
        ]
        heads = [*self.exit_heads, self.head]
        logits = [head(x, training=True) for head, x in zip(heads, pooled, strict=True)]
        return ops.stack(logits, axis=1)

    def exit_early(self, inputs: Mapping[str, keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        """Computes each row until it exits.

        Args:
            inputs: those of `call`.

        Returns:
            `logits`, float32 (B, num_classes), of the classifier at which a row exits; `exit_layer`,
            int32 (B,), from 1 to L.

        Raises:
            InputError: Keras has another backend than TensorFlow.
        """
        require_tensorflow("early exit")
        _, hidden_states, attention_bias = self.encoder.embed(inputs, training=False)
        batch_size, length = tf.unstack(tf.shape(inputs["input_ids"]))
        hidden_states = as_rows(hidden_states)  # (B * S, H)
        if "token_positions" in inputs:
            token_positions = tf.cast(inputs["token_positions"], tf.int32)
            hidden_states = tf.gather(hidden_states, token_positions)
        else:
            token_positions = tf.range(batch_size * length)
        patience = inputs.get("early_exit_patience")
        if patience is None:
            patience = tf.fill([batch_size], self.early_exit_patience)
        progress = _Progress(
            rows=tf.range(batch_size),
            token_positions=token_positions,
            hidden_states=hidden_states,
            attention_bias=attention_bias,
            patience=tf.cast(patience, tf.int32),
            agreements=tf.zeros([batch_size], tf.int32),
            logits=tf.zeros([batch_size, self.num_classes]),
            exit_layer=tf.zeros([batch_size], tf.int32),
        )
        # No condition skips the layers after the last exit. Without rows they take next to no time, and
        # TensorFlow 2.21 optimized a chain of `tf.cond` with known shapes into a graph without results.
        blocks = once_in_graph(
            [functools.partial(_apply, block) for block in self.encoder.blocks], inline=False
        )
        order, count = self.encoder.block_order, self.config.inner_group_num
        for layer in range(self.config.num_hidden_layers):
            of_layer = [blocks[index] for index in order[layer * count :][:count]]
            progress = self._pass_layer(layer, of_layer, progress)
        return {"logits": progress.logits, "exit_layer": progress.exit_layer}

    def _pass_layer(self, layer: int, blocks: Sequence[Callable], progress: _Progress) -> _Progress:
        """Computes a layer, counted from 0, and its classifier for the remaining rows."""
        rows, hidden_states = progress.rows, progress.hidden_states
        for block in blocks:
            hidden_states = block(hidden_states, progress.attention_bias, progress.token_positions)
        is_first = progress.token_positions % tf.shape(progress.attention_bias)[-1] == 0
        pooled = self.encoder.pooler(tf.boolean_mask(hidden_states, is_first)[:, None])  # (R, H)
        logits = [*self.exit_heads, self.head][layer](pooled, training=False)
        passed = progress._replace(
            hidden_states=hidden_states,
            logits=tf.tensor_scatter_nd_update(progress.logits, rows[:, None], logits),
            exit_layer=tf.tensor_scatter_nd_update(
                progress.exit_layer, rows[:, None], tf.fill([tf.size(rows)], layer + 1)
            ),
        )
        if layer == 0:
            return passed  # nothing to agree with
        agrees = self._agree(tf.gather(progress.logits, rows), logits)
        agreements = tf.where(agrees, progress.agreements + 1, 0)
        return _without_rows(passed._replace(agreements=agreements), agreements >= passed.patience)

    def _agree(self, before: "tf.Tensor", after: "tf.Tensor") -> "tf.Tensor":
        """Returns whether the predictions of two classifiers agree, bool (R,)."""
        if self.early_exit_tolerance is None:
            # Unlike `==`, it keeps the static shape.
            return tf.equal(tf.argmax(before, axis=-1), tf.argmax(after, axis=-1))
        return tf.abs(after - before)[:, 0] < self.early_exit_tolerance

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "early_exit_patience": self.early_exit_patience,
            "early_exit_tolerance": self.early_exit_tolerance,
        }


def _apply(
    block: EncoderLayer,
    hidden_states: "tf.Tensor",
    attention_bias: "tf.Tensor",
    token_positions: "tf.Tensor",
) -> "tf.Tensor":
    rows, _, _, length = tf.unstack(tf.shape(attention_bias))
    unpadding = Unpadding(token_positions, rows, length)
    return block(hidden_states, attention_bias, unpadding=unpadding, training=False)


def _without_rows(progress: _Progress, exits: "tf.Tensor") -> _Progress:
    """Returns what remains of a batch after some of its rows, bool (R,), exit."""
    length = tf.shape(progress.attention_bias)[-1]
    stays = ~exits
    kept = tf.where(stays)[:, 0]
    row = progress.token_positions // length  # (T,)
    is_kept = tf.gather(stays, row)
    row_after = tf.cumsum(tf.cast(stays, tf.int32)) - 1  # (R,)
    positions = tf.gather(row_after, row) * length + progress.token_positions % length
    return progress._replace(
        rows=tf.gather(progress.rows, kept),
        token_positions=tf.boolean_mask(positions, is_kept),
        hidden_states=tf.boolean_mask(progress.hidden_states, is_kept),
        attention_bias=tf.gather(progress.attention_bias, kept),
        patience=tf.gather(progress.patience, kept),
        agreements=tf.gather(progress.agreements, kept),
    )
