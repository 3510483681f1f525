"""Pre-trains Hugging Face's `AlbertForPreTraining` as `run_pretraining.py` does ours.

A program of its own: it reads batches that were made before, and neither TensorFlow nor ours is in its
process. It reports as ours does, so that whoever watches need not know which of the two it is.
"""

import argparse
import json
import pathlib
from collections.abc import Iterator

import numpy as np
import torch
import transformers

from benchmarks.pretraining_curves.schedule import learning_rate
from benchmarks.pretraining_curves.torch_lamb import Lamb

_IGNORED = -100  # their label of a position that is not predicted
_CLIP_NORM = 1.0

Tensors = dict[str, torch.Tensor]


def read_batches(path: pathlib.Path) -> Iterator[Tensors]:
    """Yields the batches of a file as their model takes them.

    Args:
        path: what `benchmarks.pretraining_curves.data.write_batches` wrote.
    """
    for batch in np.load(path, mmap_mode="r"):
        arrays = {
            name: torch.from_numpy(batch[name].astype(np.int64)) for name in batch.dtype.names
        }
        labels = torch.full_like(arrays["input_ids"], _IGNORED)
        is_real = arrays["masked_lm_weights"] > 0
        rows = torch.nonzero(is_real)[:, 0]
        labels[rows, arrays["masked_lm_positions"][is_real]] = arrays["masked_lm_ids"][is_real]
        yield {
            "input_ids": arrays["input_ids"],
            "attention_mask": arrays["input_mask"],
            "token_type_ids": arrays["segment_ids"],
            "labels": labels,
            "sentence_order_label": arrays["next_sentence_labels"][:, 0],
        }


@torch.no_grad()
def evaluate(model: torch.nn.Module, path: pathlib.Path) -> dict[str, float]:
    """Returns the means over all held-out batches, under the names that ours have."""
    sums = dict.fromkeys(
        ["lm_loss", "lm_hits", "lm_count", "order_loss", "order_hits", "count"], 0.0
    )
    for batch in read_batches(path):
        labels, order = batch.pop("labels"), batch.pop("sentence_order_label")
        outputs = model(**batch)
        predicted = labels != _IGNORED
        logits, labels = outputs.prediction_logits[predicted], labels[predicted]
        for kind, logits_of, true in (("lm", logits, labels), ("order", outputs.sop_logits, order)):
            loss = torch.nn.functional.cross_entropy(logits_of, true, reduction="sum")
            sums[f"{kind}_loss"] += loss.item()
            sums[f"{kind}_hits"] += (logits_of.argmax(-1) == true).sum().item()
        sums["lm_count"] += len(labels)
        sums["count"] += len(order)
    return {
        "masked_lm_loss": sums["lm_loss"] / sums["lm_count"],
        "masked_lm_accuracy": sums["lm_hits"] / sums["lm_count"],
        "sentence_order_loss": sums["order_loss"] / sums["count"],
        "sentence_order_accuracy": sums["order_hits"] / sums["count"],
    }


class _Reports:
    def __init__(self, directory: pathlib.Path):
        self._path = directory / "metrics.jsonl"

    def write(self, split: str, step: int, metrics: dict[str, float]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"step": step, "split": split, **metrics}) + "\n")


def train(arguments: argparse.Namespace) -> None:
    """Trains from the first batch to the last step, and evaluates on the way."""
    model = transformers.AlbertForPreTraining.from_pretrained(
        arguments.init_checkpoint, classifier_dropout_prob=0.0
    )
    model.train()
    forward = torch.compile(model) if arguments.compile else model
    reports = _Reports(arguments.output_dir)
    optimizer = Lamb(model.named_parameters())
    # What is compiled at the first call is compiled before the first evaluation, and is not timed.
    forward(**next(read_batches(arguments.batches))).loss.backward()
    _evaluate(model, arguments, reports, step=0)
    losses = []
    batches = read_batches(arguments.batches)
    for step in range(1, arguments.num_train_steps + 1):
        model.zero_grad()
        loss = forward(**next(batches)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        rate = learning_rate(
            step - 1, arguments.learning_rate, arguments.num_train_steps, arguments.warmup_steps
        )
        optimizer.step(rate)
        losses.append(loss.detach())
        saves = step % arguments.save_checkpoints_steps == 0 or step == arguments.num_train_steps
        if saves or step % arguments.log_steps == 0:
            reports.write("train", step, {"loss": torch.stack(losses).mean().item()})
            losses = []
        if saves:
            _evaluate(model, arguments, reports, step)


def _evaluate(
    model: torch.nn.Module, arguments: argparse.Namespace, reports: _Reports, step: int
) -> None:
    if arguments.eval_batches:
        model.eval()
        reports.write("eval", step, evaluate(model, arguments.eval_batches))
        model.train()


def main() -> None:
    """Parses the flags, most of which are those of `run_pretraining.py`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=pathlib.Path, required=True)
    parser.add_argument("--eval_batches", type=pathlib.Path)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    for name in ("num_train_steps", "warmup_steps", "save_checkpoints_steps", "log_steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
