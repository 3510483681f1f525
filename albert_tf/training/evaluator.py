"""Evaluation and prediction on any number of replicas."""

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from albert_tf.backends import require_tensorflow
from albert_tf.losses.means import Batch, Mean

Batches: TypeAlias = tf.data.Dataset | tf.distribute.DistributedDataset
Means = dict[str, Mean]


class Loss(Protocol):
    """A loss as the trainer uses it; see `albert_tf.losses`."""

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns this micro-batch's share of each denominator of the loss."""

    def metrics(self, batch: Batch, outputs: Any) -> Means:
        """Returns the means over this micro-batch, for the loss and the reports."""

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns this micro-batch's share of the loss, given the denominators of the whole batch."""

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns the metrics that follow from the means; `loss` is one of these or of the means."""


class Evaluator:
    """Runs a model that was created under `strategy.scope()`.

    The model maps a batch to what `loss` reads, which may be None if there are only predictions.
    """

    def __init__(self, model: keras.Model, loss: Loss | None, strategy: tf.distribute.Strategy):
        require_tensorflow(type(self).__name__)
        self.model = model
        self.strategy = strategy
        self._given_loss = loss
        self._jit_compile = False
        self._graphs: dict[tuple, Callable] = {}

    @property
    def _loss(self) -> Loss:
        assert self._given_loss is not None, "an evaluator without a loss only predicts"
        return self._given_loss

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the files of all."""
        return self.strategy.extended.should_checkpoint

    @property
    def is_alone(self) -> bool:
        """Whether there is a single worker."""
        return not isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy)

    def any_worker(self, flag: bool) -> bool:
        """Returns whether the flag is set in any worker; waits for all workers."""
        if self.is_alone:
            return flag
        flags = self.strategy.experimental_distribute_values_from_function(
            lambda _: tf.constant(flag, tf.float32)
        )
        return bool(self.strategy.reduce("sum", flags, axis=None) > 0)

    def evaluate(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Returns the means of `loss.metrics` over all batches, and the metrics derived from them."""
        distributed = self._distribute(batches)
        step = self._compile(self._evaluation_step, distributed.element_spec)
        totals = MeanAccumulator()
        for batch in distributed:
            totals.add(step(batch))
        return self.derive(totals.result())

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns the metrics and those derived from them."""
        return {**metrics, **self._loss.derive(metrics)}

    def _evaluation_step(self, batch: Batch) -> "StepMeans":
        def evaluate(part):
            means = self._loss.metrics(part, self._call_model(part, training=False))
            packed = StepMeans.of_one(means)
            replica = tf.distribute.get_replica_context()
            return StepMeans(packed.names, replica.all_reduce("sum", packed.values)[None])

        return self._of_one_replica(self._run(evaluate, batch))

    def predict_batches(self, batches: tf.data.Dataset) -> Iterator[Any]:
        """Yields the model's outputs of each batch, as arrays in their structure."""
        distributed = self._distribute(batches)
        step = self._compile(self._prediction_step, distributed.element_spec)
        for batch in distributed:
            yield as_arrays(step(batch))

    def predict_batch(
        self, batch: Mapping[str, np.ndarray], signature: Mapping[str, tf.TensorSpec]
    ) -> Any:
        """Returns the model's outputs of one batch, on one replica, as arrays in their structure.

        Of a single text, the pipeline of `predict_batches` takes longer than a small model. `signature`
        is the specification of a dataset of such batches, which share the graph.
        """
        step = self._compile(self._prediction_step, signature)
        return as_arrays(step(tf.nest.map_structure(tf.constant, dict(batch))))

    def _prediction_step(self, batch: Batch) -> Any:
        predict = functools.partial(self._call_model, training=False)
        outputs = self._run(predict, batch)
        local_results = self.strategy.experimental_local_results
        return tf.nest.map_structure(lambda x: tf.concat(local_results(x), axis=0), outputs)

    def _call_model(self, batch: Batch, training: bool) -> Any:
        """Calls the model on the features of the batch that its `INPUTS` names, or on all without any.

        Models skip padding where that pays: where lengths vary, and XLA compiles nothing.
        """
        names = getattr(self.model, "INPUTS", batch)
        has_padding = "token_positions" in names and batch["input_mask"].shape[-1] is None
        if has_padding and not self._jit_compile:
            batch = self.model.without_padding(batch)
        inputs = {name: batch[name] for name in names if name in batch}
        return self.model(inputs, training=training)

    def _distribute(self, batches: tf.data.Dataset) -> Batches:
        """Splits each batch over the replicas, except on CPUs, where `_run` does.

        TensorFlow distributes with a generator dataset. On Python 3.11 the first one of a process makes
        every large tensor a new mapping (`ApplyPython311MemoryPatch` in generator_dataset_op.cc sets
        glibc's M_MMAP_THRESHOLD). With XLA, page faults took a quarter of a step of ALBERT-base's layers.
        """
        if self._is_on_cpu:
            return batches
        return self.strategy.experimental_distribute_dataset(batches)

    @property
    def _is_on_cpu(self) -> bool:
        try:
            names = self.strategy.extended.worker_devices
        except RuntimeError:  # TensorFlow's default strategy does not name its device
            return False
        return all(tf.DeviceSpec.from_string(name).device_type == "CPU" for name in names)

    def _run(self, compute: Callable[[Batch], Any], batch: Batch) -> Any:
        """Calls a function on each replica with its part of a batch of `_distribute`."""

        def compute_part(batch):
            replica = tf.distribute.get_replica_context()
            number, count = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
            return compute({name: _part(rows, number, count) for name, rows in batch.items()})

        splits = self._is_on_cpu and self.strategy.num_replicas_in_sync > 1
        return self.strategy.run(compute_part if splits else compute, args=(batch,))

    def _of_one_replica(self, values: Any) -> Any:
        """Returns the values of one replica, for those that are the same on all."""
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], values
        )

    def _compile(self, step: Callable, spec: Any) -> Callable:
        """Returns the graph of a step, the same one for batches of the same specification.

        The signature keeps free lengths free, so there is one graph for batches of all lengths.
        """
        key = (step.__name__, *tf.nest.flatten(spec, expand_composites=True))
        if key not in self._graphs:
            # No step branches on a tensor's value, so there is nothing for AutoGraph to convert.
            self._graphs[key] = tf.function(step, input_signature=[spec], autograph=False)
        return self._graphs[key]


def as_arrays(outputs: Any) -> Any:
    """Returns a model's outputs as NumPy arrays, in their structure."""
    return tf.nest.map_structure(lambda output: output.numpy(), outputs)


def _part(rows: tf.Tensor, number: tf.Tensor, count: int) -> tf.Tensor:
    """Returns one of `count` parts of a batch whose sizes differ by at most one."""
    size = tf.shape(rows)[0]
    return rows[number * size // count : (number + 1) * size // count]


class StepMeans(tf.experimental.ExtensionType):
    """Means of a step, or of several, as pairs of total and weight by name.

    They are one tensor, so that a device handles them all with one operator. A graph returns them with
    their names.

    Attributes:
        names: names of the means.
        values: totals and weights in turn, float32 (2 * names,), of several steps (count, 2 * names).
    """

    names: tuple[str, ...]
    values: tf.Tensor

    @classmethod
    def of_one(cls, means: Means) -> "StepMeans":
        """Packs the means of one step."""
        flat = [value for pair in means.values() for value in pair]
        return cls(tuple(means), tf.stack(flat))

    def __getitem__(self, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the totals and the weights of a mean, float32 (count,) each, of one step ()."""
        column = 2 * self.names.index(name)
        return self.values[..., column], self.values[..., column + 1]

    def items(self) -> Iterator[tuple[str, tuple[tf.Tensor, tf.Tensor]]]:
        """Yields each name with its totals and weights."""
        for name in self.names:
            yield name, self[name]


_NO_MEAN = np.zeros(2, np.float32)


class MeanAccumulator:
    """Adds up means. `totals` and `result` alone read from the device.

    `earlier` are the `totals` of another accumulator, with which it goes on.
    """

    def __init__(self, earlier: Mapping[str, np.ndarray] = types.MappingProxyType({})):
        self._earlier = earlier
        self._names: tuple[str, ...] = ()
        self._values: tf.Tensor | None = None

    def add(self, means: StepMeans) -> None:
        """Adds the means of some steps."""
        more = tf.reduce_sum(means.values, axis=0)
        if self._values is None and self._earlier:
            pairs = (self._earlier.get(name, _NO_MEAN) for name in means.names)
            self._values = tf.constant(np.concatenate([*pairs]))
        self._names = means.names
        self._values = more if self._values is None else self._values + more

    def totals(self) -> dict[str, np.ndarray]:
        """Returns the total and the weight of each mean, float32 (2,), by name."""
        if self._values is None:
            return dict(self._earlier)
        return dict(zip(self._names, self._values.numpy().reshape(-1, 2), strict=True))

    @property
    def empty(self) -> set[str]:
        """Names of the means of nothing, whose weight is 0."""
        return {name for name, (_, weight) in self.totals().items() if not weight}

    def result(self) -> dict[str, float]:
        """Returns each mean; 0 if the weight is 0."""
        return {
            name: float(total / weight) if weight else 0.0
            for name, (total, weight) in self.totals().items()
        }
