"""One training step on any number of replicas, evaluation and prediction.

`model.fit` does not carry this: under `MirroredStrategy` Keras clips each replica's gradients before
they are summed, so two replicas would learn something else than one. Here the gradients are summed
over the replicas once, then clipped, then given to an optimizer that does neither.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

Batch = Mapping[str, tf.Tensor]
# A mean in two parts: total and weight.
Means = dict[str, tuple[tf.Tensor, tf.Tensor]]


class Loss(Protocol):
    """What the trainer asks of a loss; `albert_tf.losses` has them."""

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """What this part of the batch adds to each denominator of the loss."""

    def metrics(self, batch: Batch, outputs) -> Means:
        """Means over this part of the batch, to report and to make the loss of."""

    def total(self, means: Means, weights: dict[str, tf.Tensor]) -> tf.Tensor:
        """This part's share of the loss, given the denominators of the whole batch."""


class Trainer:
    """Trains a model that was made under `strategy.scope()`.

    Args:
        model: maps a batch to what `loss` reads.
        loss: what to minimise.
        optimizer: neither clips nor accumulates; made under the scope too.
        strategy: where the replicas are.
        seed: of the dropout.
        clip_norm: the greatest global norm of the gradients, 1.0 in BERT and ALBERT.
    """

    def __init__(
        self,
        model: keras.Model,
        loss: Loss,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        seed: int,
        clip_norm: float = 1.0,
    ):
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy
        self._loss = loss
        self._seed = seed
        self._clip_norm = clip_norm
        self._variables = model.trainable_variables
        weights = {id(variable) for variable in model.weights}
        # The states of the dropout layers; Keras counts them as variables but not as weights.
        self._dropout_states = [v for v in model.variables if id(v) not in weights]
        self._graphs: dict[tuple, Callable] = {}
        with strategy.scope():
            optimizer.build(self._variables)

    @property
    def step(self) -> int:
        """Number of updates so far."""
        return int(self.optimizer.iterations.numpy())

    def train_steps(self, batches: tf.data.Dataset) -> Iterator[Means]:
        """Makes one update with each batch, for as long as there are batches.

        Args:
            batches: global batches; the strategy splits them over its replicas.

        Yields:
            For each update the means of `loss.metrics`, and `learning_rate` and `gradient_norm` (before
            clipping).
        """
        distributed = self.strategy.experimental_distribute_dataset(batches)
        step = self._compile(self._train_step, distributed)
        for batch in distributed:
            yield step(batch)

    def _train_step(self, batch: Batch) -> Means:
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        means = self._reduce(self.strategy.run(self._update, args=(batch,)))
        return means | {"learning_rate": (rate, tf.ones([]))}

    def _update(self, batch: Batch) -> Means:
        """One update, as each replica runs it on its part of the batch."""
        replica = tf.distribute.get_replica_context()
        self._seed_dropout(replica.replica_id_in_sync_group)
        weights = replica.all_reduce("sum", self._loss.weights(batch))
        with tf.GradientTape() as tape:
            means = self._loss.metrics(batch, self.model(batch, training=True))
            loss = self._loss.total(means, weights)
        gradients = tape.gradient(loss, self._variables)
        # A variable that the loss does not reach has no gradient and must not decay either.
        reached = [i for i, gradient in enumerate(gradients) if gradient is not None]
        # Dense, because the norm of the rows of an embedding gradient is not the gradient's norm.
        gradients = [tf.convert_to_tensor(gradients[i]) for i in reached]
        gradients = replica.all_reduce("sum", gradients)
        gradients, norm = tf.clip_by_global_norm(gradients, self._clip_norm)
        replica.merge_call(self._apply, args=(gradients, [self._variables[i] for i in reached]))
        # The norm is the same on every replica, so their mean is it.
        return means | {"gradient_norm": (norm, tf.ones([]))}

    def _apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: list[tf.Tensor],
        variables: list[keras.Variable],
    ) -> None:
        """Updates the variables; `optimizer.apply` would sum over the replicas once more."""
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        for gradient, variable in zip(gradients, variables, strict=True):
            strategy.extended.update(
                variable.value,
                lambda value, part: self.optimizer.update_step(part, value, rate),
                args=(gradient,),
            )
        self.optimizer.iterations.assign_add(1)

    def _seed_dropout(self, replica_id: tf.Tensor) -> None:
        """Makes dropout a function of seed, replica and step.

        Keras would drop the same units on every replica, and after a restart start over.
        """
        step = tf.cast(self.optimizer.iterations, tf.int32)
        for index, state in enumerate(self._dropout_states):
            seed = tf.random.experimental.stateless_fold_in([self._seed, index], replica_id)
            seed = tf.random.experimental.stateless_fold_in(seed, step)
            state.assign(tf.cast(seed, state.dtype))

    def evaluate(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Returns the means of `loss.metrics` over all batches."""
        distributed = self.strategy.experimental_distribute_dataset(batches)
        step = self._compile(self._evaluation_step, distributed)
        totals = MeanAccumulator()
        for batch in distributed:
            totals.add(step(batch))
        return totals.result()

    def _evaluation_step(self, batch: Batch) -> Means:
        def evaluate(part):
            return self._loss.metrics(part, self.model(part, training=False))

        return self._reduce(self.strategy.run(evaluate, args=(batch,)))

    def predict(self, batches: tf.data.Dataset) -> np.ndarray:
        """Returns the model's outputs of all batches, joined along the first axis.

        The model has to return one tensor.
        """
        distributed = self.strategy.experimental_distribute_dataset(batches)
        step = self._compile(self._prediction_step, distributed)
        return np.concatenate([step(batch).numpy() for batch in distributed])

    def _prediction_step(self, batch: Batch) -> tf.Tensor:
        outputs = self.strategy.run(lambda part: self.model(part, training=False), args=(batch,))
        return tf.concat(self.strategy.experimental_local_results(outputs), axis=0)

    def _compile(self, step: Callable, batches: tf.distribute.DistributedDataset) -> Callable:
        """Returns the graph of a step; the same one for data sets of the same shapes.

        The signature keeps unknown lengths unknown: one graph for batches of all lengths.
        """
        spec = batches.element_spec
        key = (step.__name__, *tf.nest.flatten(spec, expand_composites=True))
        if key not in self._graphs:
            # Nothing in a step branches on a tensor's value, so there is nothing to convert.
            self._graphs[key] = tf.function(step, input_signature=[spec], autograph=False)
        return self._graphs[key]

    def _reduce(self, means: Means) -> Means:
        return tf.nest.map_structure(lambda x: self.strategy.reduce("sum", x, axis=None), means)


class MeanAccumulator:
    """Adds up means of several steps; reads nothing from the device until it is asked."""

    def __init__(self):
        self._means: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}

    def add(self, means: Means) -> None:
        """Adds the means of one step."""
        for name, (total, weight) in means.items():
            old_total, old_weight = self._means.get(name, (0.0, 0.0))
            self._means[name] = (old_total + total, old_weight + weight)

    def result(self) -> dict[str, float]:
        """Returns each mean; 0 where nothing had weight."""
        return {
            name: float(tf.math.divide_no_nan(total, weight))
            for name, (total, weight) in self._means.items()
        }
