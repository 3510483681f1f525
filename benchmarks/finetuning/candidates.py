"""One pass over a sample of batches, as each implementation trains on them and predicts them.

Each runs in a process of its own and imports there what it needs. All models start from their configs;
in training all have AdamW and clip gradients to a global norm of 1.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.input_pipeline import computed_batches
from benchmarks.candidates import KERAS_POLICIES, hugging_face_config
from benchmarks.finetuning.samples import Activity, Batch, Batching

# Runs all batches once and waits until they are done.
Pass = Callable[[], object]

_LEARNING_RATE = 2e-5
_NUM_CLASSES = 2
_CLIP_NORM = 1.0


def albert_tf_pass(
    config: AlbertConfig, activity: Activity, precision: str, batches: Sequence[Batch]
) -> Pass:
    """Returns what `run_classifier.py` does: its trainer, or its evaluator, and its batches."""
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
            return lambda: evaluator.predict(dataset)
        optimizer = AdamWeightDecay(_LEARNING_RATE)
    trainer = Trainer(
        model, ClassificationLoss(), optimizer, strategy, seed=0, clip_norm=_CLIP_NORM
    )
    iterator = trainer.distribute(dataset.repeat())
    return lambda: [trainer.train_steps(iterator, 1)["gradient_norm"][0].numpy() for _ in batches]


def _as_dataset(batches: Sequence[Batch]) -> tf.data.Dataset:
    """Returns a dataset with the static sizes that all batches share, as those of the pipeline have."""
    signature = {}
    for name, array in batches[0].items():
        shapes = zip(*(batch[name].shape for batch in batches), strict=True)
        shape = [sizes[0] if len(set(sizes)) == 1 else None for sizes in shapes]
        # The pipeline knows a length beforehand where it pads to it, and where it is the only one.
        signature[name] = tf.TensorSpec(shape, array.dtype)
    numbers = tf.data.Dataset.range(len(batches))
    return computed_batches(numbers, lambda number: batches[int(number)], signature)


def transformers_pass(
    config: AlbertConfig,
    activity: Activity,
    precision: str,
    batches: Sequence[Batch],
    compiled: bool = False,
) -> Pass:
    """Returns what users of Hugging Face's `AlbertForSequenceClassification` do in PyTorch.

    In bf16, training is under torch's autocast, and prediction has the weights themselves in bf16,
    which is faster than autocast.
    """
    import torch
    from transformers import AlbertForSequenceClassification

    shape = hugging_face_config(config, classifier_dropout=0.1, num_labels=_NUM_CLASSES)
    model = AlbertForSequenceClassification(shape)
    forward = torch.compile(model, dynamic=True) if compiled else model
    inputs = [_torch_batch(batch) for batch in batches]
    in_bf16 = precision == "bf16"
    if activity == "prediction":
        model.eval()
        if in_bf16:
            model.bfloat16()
        return lambda: _predict(forward, inputs)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), _LEARNING_RATE)

    def train() -> None:
        for batch in inputs:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
                loss = forward(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
            optimizer.step()
            loss.item()

    return train


def _predict(forward: Callable, inputs: Sequence[Mapping]) -> list[np.ndarray]:
    import torch

    with torch.inference_mode():
        outputs = [
            forward(**{name: value for name, value in batch.items() if name != "labels"})
            for batch in inputs
        ]
    return [output.logits.float().numpy() for output in outputs]


def _torch_batch(batch: Batch) -> dict:
    import torch

    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
        "labels": "label_ids",
    }
    return {theirs: torch.from_numpy(batch[ours]).long() for theirs, ours in names.items()}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An implementation, the batches that it is given and a way to run it.

    Attributes:
        make_pass: makes its pass.
        batching: how its batches are made.
        arguments: of `make_pass`.
        packages: what has to be installed beside our own requirements.
    """

    make_pass: Callable[..., Pass]
    batching: Batching
    arguments: dict = dataclasses.field(default_factory=dict)
    packages: tuple[str, ...] = ()

    def __call__(
        self, config: AlbertConfig, activity: Activity, precision: str, batches: Sequence[Batch]
    ) -> Pass:
        """Makes the pass."""
        return self.make_pass(config, activity, precision, batches, **self.arguments)


_TORCH = ("torch", "transformers")
_COMPILED = {"compiled": True}

OURS, PADDED = "albert_tf", "albert_tf padded"
CANDIDATES = {
    OURS: Candidate(albert_tf_pass, "pipeline"),
    PADDED: Candidate(albert_tf_pass, "fixed"),
    "transformers": Candidate(transformers_pass, "trainer", packages=_TORCH),
    "transformers torch.compile": Candidate(
        transformers_pass, "trainer", arguments=_COMPILED, packages=_TORCH
    ),
    "transformers group_by_length": Candidate(transformers_pass, "grouped", packages=_TORCH),
}
