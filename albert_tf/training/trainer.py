"""Training steps on any number of replicas.

`model.fit` is not used: under `MirroredStrategy` Keras clips each replica's gradients before the sum, so
the result would depend on the number of replicas. Here the gradients are summed over the replicas once,
then clipped, then passed to an optimizer that does neither.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from albert_tf.checkpoints.tensors import variables_by_path
from albert_tf.losses.means import Batch, Mean
from albert_tf.training.evaluator import Evaluator, Loss, Means, StepMeans
from albert_tf.training.refusals import check_optimizer, check_variables

# Maximum global norm of the gradients, as in BERT and ALBERT.
_CLIP_NORM = 1.0

# Updates of one compiled function, the most that a call makes: XLA compiles for one number of batches.
_COMPILED_STEPS = 16

# By the variable's index among the trainable ones.
Gradients = dict[int, tf.Tensor]

BatchIterator: TypeAlias = tf.data.Iterator | tf.distribute.DistributedIterator


class Trainer(Evaluator):
    """Trains a model that was created under `strategy.scope()`, as the optimizer.

    Of the optimizer it calls `update_step` alone, so one with settings that would have no effect is
    refused. The seed is that of the model's random numbers. A replica splits its share of a batch, a
    multiple of `accumulate_steps`, into as many micro-batches, to hold the activations of one at a time.
    With `jit_compile` XLA compiles all updates of a call as one function, or with several replicas each
    part of an update between two sums over them.

    Raises:
        InputError: the optimizer does something that is not in its `update_step`, or a variable has a
            regularizer or a constraint, of which only `model.fit` takes notice.
    """

    def __init__(
        self,
        model: keras.Model,
        loss: Loss,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        seed: int,
        accumulate_steps: int = 1,
        jit_compile: bool = False,
    ):
        super().__init__(model, loss, strategy)
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self._seed = seed
        self._accumulate_steps = accumulate_steps
        self._jit_compile = jit_compile
        self._part_gradients = tf.function(
            self._make_part_gradients, autograph=False, jit_compile=jit_compile
        )
        self._norm = tf.function(tf.linalg.global_norm, autograph=False, jit_compile=jit_compile)
        self._train_loop = tf.function(self._make_train_loop, autograph=False)
        self._compiles_loop = jit_compile and self.is_alone and strategy.num_replicas_in_sync == 1
        self._variables = model.trainable_variables
        check_variables(self._variables)
        weights = {id(variable) for variable in model.weights}
        # States of random generators, such as those of dropout layers, which Keras counts as variables
        # but not as weights.
        self._random_states = [v for v in model.variables if id(v) not in weights]
        with strategy.scope():
            optimizer.build(self._variables)

    @property
    def state(self) -> dict[str, keras.Variable]:
        """The variables that a resumed run needs, by path."""
        return variables_by_path([*self.model.weights, *self.optimizer.variables])

    @property
    def step(self) -> int:
        """Number of steps so far, including skipped ones."""
        return int(self.optimizer.iterations.numpy())

    def distribute(self, batches: tf.data.Dataset) -> BatchIterator:
        """Returns an iterator over global batches, each split over the replicas."""
        return iter(self._distribute(batches))

    @property
    def steps_per_call(self) -> int:
        """Number of updates in one call that suits the device."""
        return _COMPILED_STEPS if self._compiles_loop else 1

    def train_steps(self, batches: BatchIterator, count: int) -> StepMeans:
        """Makes `count` updates in one call to the device, with as many batches of `distribute`.

        Returns the means of `loss.metrics`, `learning_rate`, `gradient_norm` (before clipping), the
        loss's weights as `..._per_update`, and `skipped_updates`, which is 1 if the loss or a gradient is
        not finite; such a step changes no variable.
        """
        if tf.config.functions_run_eagerly():
            # As when a step is debugged: the loop would be traced to know what it returns.
            steps = [self._packed_step(next(batches)) for _ in range(count)]
            return StepMeans(steps[0].names, tf.stack([step.values for step in steps]))
        most = _COMPILED_STEPS if self._compiles_loop else count
        calls = [min(most, count - first) for first in range(0, count, most)]
        parts = [self._train_loop(batches, tf.constant(number)) for number in calls]
        return StepMeans(parts[0].names, tf.concat([part.values for part in parts], axis=0))

    def _make_train_loop(self, batches: BatchIterator, count: tf.Tensor) -> StepMeans:
        """Makes `count` updates with the next batches; XLA compiles them if all shapes are known."""
        spec = batches.element_spec
        step = tf.function(self._packed_step, input_signature=[spec], autograph=False)
        shapes = [values.shape for values in tf.nest.flatten(spec)]
        if not (self._compiles_loop and all(shape.is_fully_defined() for shape in shapes)):
            return _repeat(step, batch_of=lambda _: next(batches), count=count, most=count)
        # XLA cannot read batches, so the call takes them all.
        stacked = _stack(make=lambda _: next(batches), spec=spec, count=count, most=_COMPILED_STEPS)
        compiled = tf.function(_repeat_on_rows, autograph=False, jit_compile=True)
        means = compiled(step, stacked, count)
        return StepMeans(means.names, means.values[:count])

    def _packed_step(self, batch: Batch) -> StepMeans:
        return StepMeans.of_one(self.train_step(batch))

    def train_step(self, batch: Batch) -> Means:
        """Makes one update with a distributed batch; for use in a graph."""
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        means = self._of_one_replica(self._run(self._update, batch))
        return means | {"learning_rate": Mean(rate, tf.ones([]))}

    def _update(self, batch: Batch) -> Means:
        """Makes one update, on each replica with its part of the batch."""
        replica = tf.distribute.get_replica_context()
        weights = replica.all_reduce("sum", self._loss.weights(batch))
        gradients, means = self._accumulate(batch, weights, replica.replica_id_in_sync_group)
        loss = self._loss.total(means, weights)
        # Together, because each all-reduce costs the latency of all links between the replicas.
        gradients, loss, means = replica.all_reduce("sum", (gradients, loss, means))
        norm = self._norm(list(gradients.values()))
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        replica.merge_call(self._apply, args=(gradients, norm, is_finite))
        same = {f"{name}_per_update": weight for name, weight in weights.items()}
        same["gradient_norm"] = norm
        means |= {name: Mean(value, tf.ones_like(value)) for name, value in same.items()}
        # A skipped step does not count in the means.
        flat = tf.unstack(tf.where(is_finite, tf.stack(tf.nest.flatten(means)), 0.0))
        means = tf.nest.pack_sequence_as(means, flat)
        return means | {"skipped_updates": Mean(1.0 - tf.cast(is_finite, tf.float32), tf.ones([]))}

    def _accumulate(
        self, batch: Batch, weights: dict[str, tf.Tensor], replica_id: tf.Tensor
    ) -> tuple[Gradients, Means]:
        """Sums gradients and means over the micro-batches, one after the other."""
        count = self._accumulate_steps
        parts = tf.nest.map_structure(lambda value: _cut(value, count), batch)

        def add(index, sums):
            part = tf.nest.map_structure(lambda value: value[index], parts)
            more = self._part_gradients(part, weights, replica_id, index)
            return index + 1, tf.nest.map_structure(tf.add, sums, more)

        first = tf.nest.map_structure(lambda value: value[0], parts)
        sums = self._part_gradients(first, weights, replica_id, tf.constant(0))
        if count > 1:
            _, sums = tf.while_loop(lambda index, _: index < count, add, (tf.constant(1), sums))
        return sums

    def _make_part_gradients(
        self,
        part: Batch,
        weights: dict[str, tf.Tensor],
        replica_id: tf.Tensor,
        index: tf.Tensor,
    ) -> tuple[Gradients, Means]:
        """Returns the gradients and means of micro-batch number `index`."""
        self._seed_generators(replica_id, index)
        with tf.GradientTape() as tape:
            outputs = self._call_model(part, training=True)
            means = self._loss.metrics(part, outputs)
            loss = self._loss.total(means, weights)
        gradients = tape.gradient(loss, self._variables)
        # A variable without gradient must not decay either. Gradients of embeddings are made dense,
        # because the norm of their slices is not the gradient's norm.
        reached = {
            number: tf.convert_to_tensor(gradient)
            for number, gradient in enumerate(gradients)
            if gradient is not None
        }
        return reached, means

    def _apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Gradients,
        norm: tf.Tensor,
        is_finite: tf.Tensor,
    ) -> None:
        """Updates the variables if all is finite; `optimizer.apply` would sum over the replicas."""
        variables = [self._variables[number].value for number in gradients]
        arguments = list(gradients.values()), norm, is_finite
        # All variables in one function: XLA makes few operators of it, which on a GPU would be hundreds.
        strategy.extended.update(
            variables[0], lambda _, *each: self._update_all(*each), args=(variables, *arguments)
        )
        self.optimizer.iterations.assign_add(1)

    def _update_all(
        self,
        variables: list[tf.Variable],
        gradients: list[tf.Tensor],
        norm: tf.Tensor,
        is_finite: tf.Tensor,
    ) -> None:
        """Updates the variables of one device."""
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)

        def update(gradients, norm, rate):
            clipped, _ = tf.clip_by_global_norm(gradients, _CLIP_NORM, norm)
            for variable, gradient in zip(variables, clipped, strict=True):
                self.optimizer.update_step(gradient, variable, rate)
            return True

        def update_if_finite(gradients, norm, rate, is_finite):
            slots = (v for v in self.optimizer.variables if keras.backend.is_float_dtype(v.dtype))
            state = [*variables, *(slot.value for slot in slots)]
            before = [tf.identity(value) for value in state]
            update(gradients, norm, rate)
            for value, old in zip(state, before, strict=True):
                value.assign(tf.where(is_finite, value, old))

        if self._jit_compile:
            # Not a condition, for which a GPU would have to wait until the host has read its value.
            compiled = tf.function(update_if_finite, autograph=False, jit_compile=True)
            compiled(gradients, norm, rate, is_finite)
        else:
            # One condition for all variables: one for each takes a quarter of a small model's tracing.
            tf.cond(is_finite, lambda: update(gradients, norm, rate), lambda: False)

    def _seed_generators(self, replica_id: tf.Tensor, part: tf.Tensor) -> None:
        """Makes the model's random numbers a function of seed, replica, step and micro-batch.

        Keras would draw the same ones on every replica, and would repeat them after a restart: dropout
        would drop the same units.
        """
        step = tf.cast(self.optimizer.iterations, tf.int32)
        for index, state in enumerate(self._random_states):
            seed = tf.constant([self._seed, index])
            for number in (replica_id, step, part):
                seed = tf.random.experimental.stateless_fold_in(seed, number)
            state.assign(tf.cast(seed, state.dtype))


def _repeat_on_rows(
    step: tf.types.experimental.PolymorphicFunction, stacked: Batch, count: tf.Tensor
) -> StepMeans:
    """Calls a step on the first `count` of `_COMPILED_STEPS` batches that are stacked."""

    def batch_of(index):
        return tf.nest.map_structure(lambda values: values[index], stacked)

    return _repeat(step, batch_of, count, most=_COMPILED_STEPS)


def _repeat(
    step: tf.types.experimental.PolymorphicFunction,
    batch_of: Callable[[tf.Tensor], Batch],
    count: tf.Tensor,
    most: int | tf.Tensor,
) -> StepMeans:
    """Calls a step on the batches of the numbers from 0 to `count`; the means are zeros up to `most`."""
    returned = step.get_concrete_function().structured_outputs
    row = tf.TensorSpec(returned.values.shape, tf.float32)
    values = _stack(
        make=lambda index: step(batch_of(index)).values, spec=row, count=count, most=most
    )
    return StepMeans(returned.names, values)


def _stack(
    make: Callable[[tf.Tensor], Any], spec: Any, count: tf.Tensor, most: int | tf.Tensor
) -> Any:
    """Returns `make` of the numbers from 0 to `count`, stacked in its structure, and zeros to `most`."""
    specs = tf.nest.flatten(spec)
    arrays = [tf.TensorArray(x.dtype, most, element_shape=x.shape) for x in specs]

    def write(index, arrays):
        values = tf.nest.flatten(make(index))
        return index + 1, [x.write(index, value) for x, value in zip(arrays, values, strict=True)]

    _, arrays = tf.while_loop(lambda index, _: index < count, write, (tf.constant(0), arrays))
    return tf.nest.pack_sequence_as(spec, [x.stack() for x in arrays])


def _cut(value: tf.Tensor, count: int) -> tf.Tensor:
    """Splits (B, ...) into (count, B / count, ...), keeping the static shape."""
    sizes = tf.unstack(tf.shape(value))
    known = [
        size if fixed is None else fixed for size, fixed in zip(sizes, value.shape, strict=True)
    ]
    return tf.reshape(value, [count, known[0] // count, *known[1:]])
