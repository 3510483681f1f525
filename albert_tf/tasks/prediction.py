"""The predictions of a model for examples, in fine-tuning and from loaded models."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import (
    batch_signature,
    evaluation_batches,
    evaluation_order,
    make_batch,
)
from albert_tf.data.fine_tuning.features import Features
from albert_tf.kinds import Kind
from albert_tf.training import Evaluator
from albert_tf.training.evaluator import as_arrays


def predict(
    kind: Kind,
    evaluator: Evaluator,
    examples: Sequence[Any],
    features: Features,
    batch_size: int,
    fixed_length: int | None = None,
    report: Callable[[int], Any] = lambda count: None,
) -> Any:
    """Returns the predictions of a model for n examples.

    All batches have the length `fixed_length`; None if lengths may differ. `report` receives the number
    of sequences of each batch that is done.
    """
    if not examples:
        # No row of it counts, but the shapes of the outputs do.
        shape = (*features.batch_shape(1), kind.max_seq_length)
        batch = {name: tf.ones(shape, tf.int32) for name in ("input_ids", "input_mask")}
        outputs = evaluator.model(
            {**batch, "segment_ids": tf.zeros(shape, tf.int32)}, training=False
        )
        return kind.decode(examples, features, [(np.arange(0), as_arrays(outputs))])
    if not len(features):
        return kind.decode(examples, features, ())
    # With labels, some heads would also compute what only the loss reads.
    unlabelled = dataclasses.replace(features, labels={}, token_labels={})
    has_one_replica = evaluator.strategy.num_replicas_in_sync == 1
    if len(features) <= batch_size and fixed_length is None and has_one_replica:
        rows = evaluation_order(unlabelled)
        outputs = evaluator.predict_batch(make_batch(unlabelled, rows), batch_signature(unlabelled))
        report(len(rows))
        return kind.decode(examples, features, [(rows, outputs)])
    batches, order = evaluation_batches(unlabelled, batch_size, fixed_length)
    batch_rows = (order[first : first + batch_size] for first in range(0, len(order), batch_size))

    def outputs_of_rows() -> Iterator[tuple[np.ndarray, Any]]:
        parts = evaluator.predict_batches(batches)
        for rows, part in zip(batch_rows, parts, strict=True):
            report(len(rows))
            yield rows, part

    return kind.decode(examples, features, outputs_of_rows())
