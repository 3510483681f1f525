"""Pre-trains Hugging Face's `AlbertForPreTraining` in PyTorch as `run_pretraining.py` trains ours.

A program for `benchmarks.pretraining_curves`. Its flags mean what those of `run_pretraining.py` mean,
the batches come from the same pipeline in the same order, the optimizer is LAMB with our arithmetic, the
learning rate our schedule, and `metrics.jsonl` has the same form.
"""

import dataclasses
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
import transformers

from albert_tf import command_line
from albert_tf.data.pretraining.record_batches import (
    Records,
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.pretraining.record_files import count_records
from albert_tf.data.records import pretraining_record
from albert_tf.options import option
from benchmarks.harness import torch_device
from benchmarks.pretraining.candidates import NO_LABEL, inputs_as_it_comes, torch_forms

_CLIP_NORM = 1.0
# Variables without weight decay and trust ratio.
_EXCLUDED = re.compile(r"layer_?norm|bias", re.IGNORECASE)

Batch = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TorchPretrainingOptions:
    """The options of this program."""

    init_checkpoint: str = option("Hugging Face's folder with the weights to start from.")
    output_dir: str = option("Folder for metrics.jsonl.")
    input_file: str = option("TFRecord file to train on.")
    eval_input_file: str = option("TFRecord file to evaluate on.")
    max_seq_length: int = option("Tokens of a sequence.")
    max_predictions_per_seq: int = option("Most pieces to predict in a sequence.")
    train_batch_size: int = option("Sequences of an update.")
    eval_batch_size: int = option("Sequences of an evaluation step.")
    max_eval_steps: int = option("Evaluation steps.")
    learning_rate: float = option("The peak of the learning rate.")
    num_train_steps: int = option("Number of updates.")
    warmup_steps: int = option("Updates until the learning rate is at its peak.")
    save_checkpoints_steps: int = option("Updates between evaluations.")
    shuffle_buffer: int = option("Records held to draw the next one from.")
    random_seed: int = option("Decides the order of the data.")
    compile: bool = option("Whether to use torch.compile.", False)
    gathered: bool = option("Whether the head computes the masked positions only.", False)

    def train_batches(self) -> Iterator[Batch]:
        """Yields the batches to train on."""
        records = self._open(self.input_file)
        order = (self.train_batch_size, self.shuffle_buffer, self.random_seed)
        batches = pretraining_batches(records, *order)
        return batches.take(self.num_train_steps).as_numpy_iterator()

    def eval_batches(self) -> Iterator[Batch]:
        """Yields the batches to evaluate on."""
        records = self._open(self.eval_input_file)
        batches = pretraining_evaluation_batches(records, self.eval_batch_size)
        return batches.take(self.max_eval_steps).as_numpy_iterator()

    def _open(self, path: str) -> Records:
        spec = pretraining_record(self.max_seq_length, self.max_predictions_per_seq)
        return Records(count_records([path], spec), spec)


class AdamWeightDecay:
    """The class of this name in `albert_tf.optimization`, with its defaults, on lists of tensors.

    Args:
        named_parameters: the model's; parameters without a gradient are left alone.
    """

    weight_decay_rate, beta_1, beta_2, epsilon = 0.01, 0.9, 0.999, 1e-6

    def __init__(self, named_parameters: Iterable[tuple[str, torch.nn.Parameter]]):
        self._named_parameters = list(named_parameters)
        self._moments = {
            name: (torch.zeros_like(parameter), torch.zeros_like(parameter))
            for name, parameter in self._named_parameters
        }

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Makes one update."""
        for is_excluded in (False, True):
            named = [
                (name, parameter)
                for name, parameter in self._named_parameters
                if parameter.grad is not None and bool(_EXCLUDED.search(name)) == is_excluded
            ]
            parameters = [parameter for _, parameter in named]
            update = self._adam_update([name for name, _ in named], parameters)
            if not is_excluded:
                torch._foreach_add_(update, parameters, alpha=self.weight_decay_rate)
                self.scale(update, parameters)
            torch._foreach_add_(parameters, update, alpha=-learning_rate)

    def scale(self, update: list[torch.Tensor], parameters: list[torch.nn.Parameter]) -> None:
        """Scales the update of parameters with weight decay in place; here by 1."""

    def _adam_update(
        self, names: list[str], parameters: list[torch.nn.Parameter]
    ) -> list[torch.Tensor]:
        gradients = [parameter.grad for parameter in parameters]
        m, v = (list(moments) for moments in zip(*map(self._moments.get, names), strict=True))
        torch._foreach_lerp_(m, gradients, 1 - self.beta_1)
        torch._foreach_mul_(v, self.beta_2)
        torch._foreach_addcmul_(v, gradients, gradients, 1 - self.beta_2)
        root = torch._foreach_sqrt(v)
        torch._foreach_add_(root, self.epsilon)
        return list(torch._foreach_div(m, root))


class Lamb(AdamWeightDecay):
    """LAMB of `albert_tf.optimization`, with its defaults."""

    def scale(self, update: list[torch.Tensor], parameters: list[torch.nn.Parameter]) -> None:
        """Scales the update by the trust ratios."""
        torch._foreach_mul_(update, _trust_ratios(parameters, update))


def _trust_ratios(
    parameters: list[torch.nn.Parameter], update: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Returns |w| / |update| of each, or 1 where a norm is 0."""
    norms = zip(torch._foreach_norm(parameters), torch._foreach_norm(update), strict=True)
    return [
        torch.where((weight > 0) & (change > 0), weight / change, 1.0) for weight, change in norms
    ]


def learning_rate(step: int, peak: float, num_train_steps: int, num_warmup_steps: int) -> float:
    """Returns the rate after `step` updates, as `albert_tf.optimization` schedules it."""
    if step < num_warmup_steps:
        return peak * step / num_warmup_steps
    return peak * (1 - step / num_train_steps)


@torch.no_grad()
def evaluate(model: torch.nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    """Returns the means over all batches, under the names that ours have."""
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for batch in batches:
        inputs = inputs_as_it_comes(model, batch)
        labels, order_labels = inputs.pop("labels"), inputs.pop("sentence_order_label")
        outputs, predicted = model(**inputs), labels != NO_LABEL
        for kind, logits, true in (
            ("masked_lm", outputs.prediction_logits[predicted], labels[predicted]),
            ("sentence_order", outputs.sop_logits, order_labels),
        ):
            losses = torch.nn.functional.cross_entropy(logits, true, reduction="none")
            for metric, values in (("loss", losses), ("accuracy", logits.argmax(-1) == true)):
                name = f"{kind}_{metric}"
                sums[name] = sums.get(name, 0.0) + values.sum().item()
                counts[name] = counts.get(name, 0) + len(true)
    return {name: sums[name] / counts[name] for name in sums}


def train(options: TorchPretrainingOptions) -> None:
    """Trains from the first batch to the last step, and evaluates on the way."""
    model = transformers.AlbertForPreTraining.from_pretrained(
        options.init_checkpoint, classifier_dropout_prob=0.0
    )
    model = model.train().to(torch_device())
    make_inputs, forward = torch_forms(options.compile, options.gathered)
    optimizer = Lamb(model.named_parameters())
    schedule = (options.learning_rate, options.num_train_steps, options.warmup_steps)
    report(model, options, step=0)
    for step, batch in zip(itertools.count(1), options.train_batches(), strict=False):
        model.zero_grad()
        forward(model, **make_inputs(model, batch)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step(learning_rate(step - 1, *schedule))
        if step == options.num_train_steps or step % options.save_checkpoints_steps == 0:
            report(model, options, step)


def report(model: torch.nn.Module, options: TorchPretrainingOptions, step: int) -> None:
    """Evaluates and adds a line to `metrics.jsonl`."""
    model.eval()
    metrics = {"step": step, "split": "eval", **evaluate(model, options.eval_batches())}
    model.train()
    with open(os.path.join(options.output_dir, "metrics.jsonl"), "a") as file:
        file.write(json.dumps(metrics) + "\n")
    print(json.dumps(metrics), flush=True)


if __name__ == "__main__":
    command_line.run(TorchPretrainingOptions, train)
