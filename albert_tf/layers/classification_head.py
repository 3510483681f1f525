"""The pooler, and the head that classifies a sequence by its pooled output, or each of its tokens."""

import keras
from keras import ops

from albert_tf.layers import primitives


@keras.saving.register_keras_serializable(package="albert_tf")
class Pooler(keras.layers.Layer):
    """The hidden state of [CLS] through a tanh dense layer, H -> H.

    Args:
        hidden_size: H.
        initializer_range: standard deviation of the initial kernel.
        seed: seed of the initialisation.
    """

    def __init__(
        self,
        hidden_size: int,
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.seed = seed
        self.dense = primitives.dense(
            hidden_size, initializer_range, primitives.SeedStream(seed), "dense", self
        )

    def build(self, sequence_output_shape):
        """Creates the variables; `sequence_output_shape` is (B, S, H)."""
        self.dense.build(sequence_output_shape)

    def call(self, sequence_output):
        """Maps `sequence_output` (B, S, H) to (B, H)."""
        return ops.tanh(self.dense(sequence_output[:, 0]))

    def compute_output_shape(self, sequence_output_shape):
        """Returns (B, H)."""
        return sequence_output_shape[0], self.hidden_size

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class ClassificationHead(keras.layers.Layer):
    """Dropout and a dense layer, H -> logits.

    Args:
        num_classes: number of logits.
        dropout: rate on the input.
        initializer_range: standard deviation of the initial kernel.
        seed: seed of the initialisation and the dropout.
    """

    def __init__(
        self,
        num_classes: int,
        dropout: float = 0.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        # Config
        self.num_classes = num_classes
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.seed = seed

        # Layers
        seeds = primitives.SeedStream(seed)
        self.input_dropout = primitives.dropout(dropout, seeds, "input_dropout", self)
        self.dense = primitives.dense(num_classes, initializer_range, seeds, "dense", self)

    def build(self, hidden_states_shape):
        """Creates the variables; `hidden_states_shape` is (..., H)."""
        self.dense.build(hidden_states_shape)

    def call(self, hidden_states, training=None):
        """Maps `hidden_states` (..., H) to float32 logits (..., num_classes)."""
        dropped = self.input_dropout(hidden_states, training=training)
        return ops.cast(self.dense(dropped), "float32")

    def compute_output_shape(self, hidden_states_shape):
        """Returns (..., num_classes)."""
        return *hidden_states_shape[:-1], self.num_classes

    # Traces `call`: from shapes alone Keras would give the outputs the dtype of the policy.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }
