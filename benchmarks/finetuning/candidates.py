"""One pass over a sample of batches, as each implementation trains on them or predicts them.

All models start from their configs. In training all have AdamW and clip gradients to a global norm of 1.
"""

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.finetuning.samples import Activity, Batch, Batching
from benchmarks.harness import KERAS_POLICIES, Candidate, Round, Step, timed
from benchmarks.hugging_face import (
    TORCH,
    hugging_face_config,
    to_torch,
    torch_device,
    torch_inputs,
    torch_update,
)

_LEARNING_RATE = 2e-5
_NUM_CLASSES = 2


def albert_tf_pass(
    config: Any,
    activity: Activity,
    precision: str,
    batches: Sequence[Batch],
    jit_compile: bool = False,
) -> Step:
    """Makes the pass of `run_classifier.py`: its trainer or evaluator, and its batches."""
    from albert_tf.losses import ClassificationLoss
    from albert_tf.models import AlbertClassifier, AlbertEncoder
    from albert_tf.optimization import AdamWeightDecay
    from albert_tf.training import Evaluator, Trainer, make_strategy

    strategy, policy = make_strategy("one_device"), KERAS_POLICIES[precision]
    dataset = _as_dataset(batches)
    with strategy.scope():
        encoder = AlbertEncoder(config, seed=0, dtype=policy)
        model = AlbertClassifier(encoder, _NUM_CLASSES, seed=1, dtype=policy)
        if activity == "prediction":
            evaluator = Evaluator(model, ClassificationLoss(), strategy)
            return lambda: list(evaluator.predict_batches(dataset))
        optimizer = AdamWeightDecay(_LEARNING_RATE)
    loss = ClassificationLoss()
    trainer = Trainer(model, loss, optimizer, strategy, seed=0, jit_compile=jit_compile)
    iterator = trainer.distribute(dataset.repeat())
    step = functools.partial(trainer.train_steps, iterator, 1)
    return lambda: [step()["gradient_norm"][0] for _ in batches][-1].numpy()


def _as_dataset(batches: Sequence[Batch]) -> Any:
    """Returns a dataset with the static sizes that all batches share, as those of the pipeline have."""
    import tensorflow as tf

    from albert_tf.data.fine_tuning.batches import computed_batches

    signature = {}
    for name, array in batches[0].items():
        shapes = zip(*(batch[name].shape for batch in batches), strict=True)
        shape = [sizes[0] if len(set(sizes)) == 1 else None for sizes in shapes]
        # The pipeline knows a length beforehand where it pads to it, and where it is the only one.
        signature[name] = tf.TensorSpec(shape, array.dtype)
    numbers = tf.data.Dataset.range(len(batches))
    return computed_batches(numbers, lambda number: batches[int(number)], signature)


def transformers_pass(
    config: Any,
    activity: Activity,
    precision: str,
    batches: Sequence[Batch],
    compiled: bool = False,
) -> Step:
    """Makes the usual pass of Hugging Face's `AlbertForSequenceClassification` in PyTorch.

    In bf16, training is under torch's autocast, and prediction has the weights themselves in bf16,
    which is faster than autocast.
    """
    import torch
    from transformers import AlbertForSequenceClassification

    shape = hugging_face_config(config, classifier_dropout=0.1, num_labels=_NUM_CLASSES)
    model = AlbertForSequenceClassification(shape).to(torch_device())
    forward = torch.compile(model, dynamic=True) if compiled else model
    inputs = [torch_inputs(batch) | {"labels": to_torch(batch["label_ids"])} for batch in batches]

    def predict() -> list[np.ndarray]:
        with torch.inference_mode():
            outputs = [forward(**{**batch, "labels": None}) for batch in inputs]
        return [output.logits.float().cpu().numpy() for output in outputs]

    if activity == "prediction":
        model.eval()
        if precision == "bf16":
            model.bfloat16()
        return predict
    model.train()
    update = torch_update(model, lambda **batch: forward(**batch).loss, precision, _LEARNING_RATE)
    return lambda: [update(**batch) for batch in inputs][-1].item()


def start(
    make_pass: Callable[..., Step], config: Mapping[str, Any], path: str, **arguments: Any
) -> Callable[[int], Round]:
    """Returns a function that times a pass over the batches of a file, in seconds per sequence."""
    from albert_tf.config import AlbertConfig

    with open(path, "rb") as file:
        batches = pickle.load(file)
    run = make_pass(AlbertConfig.from_dict(config), batches=batches, **arguments)
    return timed((1 / sum(len(batch["input_ids"]) for batch in batches), run))


def _candidate(make_pass: Callable[..., Step], packages: Sequence[str] = (), **arguments):
    return Candidate(start, {"make_pass": make_pass, **arguments}, packages)


OURS, PADDED = "albert_tf", "albert_tf padded"
CANDIDATES = {
    OURS: _candidate(albert_tf_pass),
    PADDED: _candidate(albert_tf_pass),
    "transformers": _candidate(transformers_pass, TORCH),
    "transformers torch.compile": _candidate(transformers_pass, TORCH, compiled=True),
    "transformers group_by_length": _candidate(transformers_pass, TORCH),
}
# Candidate -> how its batches are made.
BATCHINGS: Mapping[str, Batching] = {
    OURS: "pipeline",
    PADDED: "fixed",
    "transformers": "trainer",
    "transformers torch.compile": "trainer",
    "transformers group_by_length": "grouped",
}
