"""Operations, parameters and bytes of a pre-training step, counted in the model itself."""

from typing import NamedTuple

from albert_tf import command_line
from albert_tf.config import AlbertConfig

with command_line.quiet_start():
    import keras
    import tensorflow as tf

from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from benchmarks.harness import KERAS_POLICIES
from benchmarks.parameters import count_parameters, without_values
from benchmarks.pretraining.candidates import Workload

# Variables are float32, and so are their gradients, also with mixed precision.
BYTES_OF_GRADIENT = 4


class Costs(NamedTuple):
    """What a step of a model costs.

    Attributes:
        flops: floating-point operations of a sequence's products, forward and backward.
        parameters: number of parameters, with the heads of pre-training.
        activation_bytes: bytes that the backward pass of a sequence needs; 0 if not counted.
    """

    flops: int
    parameters: int
    activation_bytes: int = 0

    @property
    def gradient_bytes(self) -> int:
        """Bytes that all-reduces add up."""
        return self.parameters * BYTES_OF_GRADIENT


def measure(preset: str, length: int, precision: str, *, memory: bool = True) -> Costs:
    """Counts the costs of a model without dropout.

    Args:
        preset: name of its sizes.
        length: S.
        precision: `fp32` or `bf16`.
        memory: whether to count `activation_bytes`, which takes seconds.
    """
    config = AlbertConfig.from_preset(
        preset, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    # The difference is without what does not depend on the batch, such as weights in 16 bits.
    one, two = (Workload(config.to_dict(), size, length, precision) for size in (1, 2))
    kept = trace(two).kept_bytes - trace(one).kept_bytes if memory else 0
    return Costs(one.flops, count_parameters(config).total, kept)


class Traced(NamedTuple):
    """A graph of the forward and the backward pass of a step.

    Attributes:
        graph: the graph.
        kept_bytes: size of the tensors that the backward pass takes from the forward pass.
    """

    graph: tf.Graph
    kept_bytes: int


def trace(workload: Workload) -> Traced:
    """Traces the passes of a step, without making any variable's value."""
    policy = KERAS_POLICIES[workload.precision]
    model = without_values(
        lambda: AlbertPretrainer(AlbertEncoder(workload.albert_config, dtype=policy), dtype=policy)
    )
    variables, loss = model.trainable_variables, PretrainingLoss()
    forward: set[str] = set()

    def differentiate(batch, weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            with keras.StatelessScope(list(zip(variables, weights, strict=True))):
                outputs = model(batch, training=True)
            total = loss.total(loss.metrics(batch, outputs), loss.weights(batch))
        operations = tf.compat.v1.get_default_graph().get_operations()
        forward.update(operation.name for operation in operations)
        return tape.gradient(total, weights)

    specs = tf.nest.map_structure(
        lambda rows: tf.TensorSpec(rows.shape, rows.dtype), workload.batch()
    )
    weights = [tf.TensorSpec(variable.shape, tf.float32) for variable in variables]
    traced = tf.function(differentiate, autograph=False).get_concrete_function(specs, weights)
    kept = {
        tensor.name: tensor.shape.num_elements() * tensor.dtype.size
        for operation in traced.graph.get_operations()
        if operation.name not in forward
        for tensor in operation.inputs
        if tensor.op.name in forward and tensor.op.type not in ("Const", "Placeholder")
    }
    return Traced(traced.graph, sum(kept.values()))
