"""One training step on any number of replicas.

`model.fit` does not carry this: under `MirroredStrategy` Keras clips each replica's gradients before
they are summed, so two replicas would learn something else than one. Here the gradients are summed
over the replicas once, then clipped, then given to an optimizer that does neither.
"""

from collections.abc import Iterator

import keras
import tensorflow as tf

from albert_tf.training.evaluator import Batch, Evaluator, Loss, Means


class Trainer(Evaluator):
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
        super().__init__(model, loss, strategy)
        self.optimizer = optimizer
        self._seed = seed
        self._clip_norm = clip_norm
        self._variables = model.trainable_variables
        weights = {id(variable) for variable in model.weights}
        # The states of the dropout layers; Keras counts them as variables but not as weights.
        self._dropout_states = [v for v in model.variables if id(v) not in weights]
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
