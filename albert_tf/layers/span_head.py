"""Where an answer begins and ends in a sequence."""

import keras
from keras import ops

from albert_tf.layers import common


@keras.saving.register_keras_serializable(package="albert_tf")
class SpanHead(keras.layers.Layer):
    """A dense layer on every position, H -> 2: a logit for the start and one for the end.

    That is the original's head for SQuAD 1.1 (its `run_squad_v1.py`); it has no dropout.

    Args:
        initializer_range: standard deviation of the kernel's starting values.
        seed: of the starting values.
    """

    def __init__(self, initializer_range: float = 0.02, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.seed = seed
        self.dense = common.dense(2, initializer_range, common.SeedStream(seed), "dense", self)

    def build(self, sequence_output_shape):
        """Makes the variables; `sequence_output_shape` is (B, S, H)."""
        self.dense.build(sequence_output_shape)

    def call(self, sequence_output):
        """Maps `sequence_output` (B, S, H) to float32 logits of starts and of ends, (B, S) each."""
        logits = ops.cast(self.dense(sequence_output), "float32")  # (B, S, 2)
        return logits[..., 0], logits[..., 1]

    def compute_output_shape(self, sequence_output_shape):
        """Returns (B, S) twice."""
        return sequence_output_shape[:2], sequence_output_shape[:2]

    # By tracing `call`: from shapes alone Keras would give the outputs the dtype of the policy.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }
