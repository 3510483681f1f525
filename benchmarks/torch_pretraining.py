"""Pre-trains Hugging Face's `AlbertForPreTraining` in PyTorch as `run_pretraining.py` trains ours.

A program for `benchmarks.pretraining_curves`, which writes its batches: the batches, in their order, that
ours trains on. The optimizer is LAMB with our arithmetic, the learning rate our schedule. It writes a
`metrics.jsonl` of the same form.
"""

import argparse
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
import transformers

from benchmarks.harness import torch_inputs
from benchmarks.pretraining.candidates import NO_LABEL, gathered_loss

_CLIP_NORM = 1.0
# Variables without weight decay and trust ratio.
_EXCLUDED = re.compile(r"layer_?norm|bias", re.IGNORECASE)

Tensors = dict[str, torch.Tensor]


class Lamb:
    """LAMB of `albert_tf.optimization`, with the defaults of ours, on lists of tensors.

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
                torch._foreach_mul_(update, _trust_ratios(parameters, update))
            torch._foreach_add_(parameters, update, alpha=-learning_rate)

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


def read_batches(path: pathlib.Path) -> Iterator[Mapping[str, np.ndarray]]:
    """Yields the batches that `benchmarks.pretraining_curves` wrote into a file."""
    for batch in np.load(path, mmap_mode="r"):
        yield {name: np.array(batch[name]) for name in batch.dtype.names}


def _as_it_comes(batch: Mapping[str, np.ndarray]) -> Tensors:
    """Returns the arguments of `AlbertForPreTraining`."""
    labels = np.full_like(batch["input_ids"], NO_LABEL)
    rows, columns = np.nonzero(batch["masked_lm_weights"] > 0)
    positions = batch["masked_lm_positions"][rows, columns]
    labels[rows, positions] = batch["masked_lm_ids"][rows, columns]
    return torch_inputs(batch) | {
        "labels": torch.from_numpy(labels).long(),
        "sentence_order_label": torch.from_numpy(batch["next_sentence_labels"][:, 0]).long(),
    }


def _loss(model, batch: Mapping[str, np.ndarray], forward, gathered: bool) -> torch.Tensor:
    if not gathered:
        return forward(**_as_it_comes(batch)).loss
    return forward(
        model,
        torch_inputs(batch),
        torch.from_numpy(batch["masked_lm_positions"]).long(),
        torch.from_numpy(batch["masked_lm_ids"]).long(),
        torch.from_numpy(batch["next_sentence_labels"][:, 0]).long(),
        torch.from_numpy(batch["masked_lm_weights"]),
    )


@torch.no_grad()
def evaluate(model: torch.nn.Module, path: pathlib.Path) -> dict[str, float]:
    """Returns the means over all batches of a file, under the names that ours have."""
    names = (
        "masked_lm_loss",
        "masked_lm_accuracy",
        "sentence_order_loss",
        "sentence_order_accuracy",
    )
    sums, counts = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
    for batch in read_batches(path):
        inputs = _as_it_comes(batch)
        labels, order_labels = inputs.pop("labels"), inputs.pop("sentence_order_label")
        outputs, predicted = model(**inputs), labels != NO_LABEL
        for kind, logits, true in (
            ("masked_lm", outputs.prediction_logits[predicted], labels[predicted]),
            ("sentence_order", outputs.sop_logits, order_labels),
        ):
            loss = torch.nn.functional.cross_entropy(logits, true, reduction="sum")
            sums[f"{kind}_loss"] += loss.item()
            sums[f"{kind}_accuracy"] += (logits.argmax(-1) == true).sum().item()
            counts[f"{kind}_loss"] += len(true)
            counts[f"{kind}_accuracy"] += len(true)
    return {name: sums[name] / counts[name] for name in names}


def train(arguments: argparse.Namespace) -> None:
    """Trains from the first batch to the last step, and evaluates on the way."""
    model = transformers.AlbertForPreTraining.from_pretrained(
        arguments.init_checkpoint, classifier_dropout_prob=0.0
    ).train()
    forward = gathered_loss if arguments.gathered else model
    if arguments.compile:
        forward = torch.compile(forward)
    optimizer = Lamb(model.named_parameters())
    report(model, arguments, step=0)
    for step, batch in zip(
        range(1, arguments.num_train_steps + 1), read_batches(arguments.batches), strict=False
    ):
        model.zero_grad()
        _loss(model, batch, forward, arguments.gathered).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step(
            learning_rate(
                step - 1, arguments.learning_rate, arguments.num_train_steps, arguments.warmup_steps
            )
        )
        is_last = step == arguments.num_train_steps
        if is_last or step % arguments.save_checkpoints_steps == 0:
            report(model, arguments, step)


def report(model: torch.nn.Module, arguments: argparse.Namespace, step: int) -> None:
    """Evaluates and adds a line to `metrics.jsonl`."""
    model.eval()
    metrics = {"step": step, "split": "eval", **evaluate(model, arguments.eval_batches)}
    model.train()
    with (arguments.output_dir / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(metrics) + "\n")
    print(json.dumps(metrics), flush=True)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("batches", "eval_batches", "output_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    for name in ("num_train_steps", "warmup_steps", "save_checkpoints_steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--gathered", action="store_true", help="compute masked positions only")
    train(parser.parse_args())


if __name__ == "__main__":
    _main()
