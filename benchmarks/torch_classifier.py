"""Fine-tunes a classifier of Hugging Face in PyTorch as `run_classifier.py` fine-tunes ours.

A program for `benchmarks.real_scores`. Its flags mean what those of `run_classifier.py` mean. Model,
tokenizer and padding are those of `transformers`; the rows, the metrics, the optimizer's arithmetic and
the schedule are ours. The order of the rows is its own.
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import transformers

from albert_tf import command_line, files
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.evaluation.glue_metrics import compute_metrics
from albert_tf.options import option
from benchmarks.torch_pretraining import AdamWeightDecay, learning_rate

_CLIP_NORM = 1.0
_EVAL_BATCH_SIZE = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class TorchClassifierOptions:
    """The options of this program."""

    init_checkpoint: str = option("Hugging Face's folder with the weights to start from.")
    output_dir: str = option("Folder for eval_results.json.")
    task_name: str = option("A task of GLUE.")
    data_dir: str = option("Folder of the GLUE tasks.")
    max_seq_length: int = option("Most tokens of a sequence.")
    train_batch_size: int = option("Sequences of an update.")
    learning_rate: float = option("The peak of the learning rate.")
    num_train_steps: int = option("Number of updates.")
    warmup_steps: int = option("Updates until the learning rate is at its peak.")
    random_seed: int = option("Decides the head's initial weights, dropout and the data order.")


class _Classifier:
    """A model of `transformers` with its tokenizer."""

    def __init__(self, options: TorchClassifierOptions, task: Task):
        folder, self._max_length = options.init_checkpoint, options.max_seq_length
        self._is_regression = task.kind == "regression"
        self._labels = task.labels
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=1 if self._is_regression else len(self._labels),
            problem_type="regression" if self._is_regression else "single_label_classification",
        )

    def inputs(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        """Returns the inputs for some examples, padded to the longest."""
        texts = [[example.text_a for example in examples]]
        if examples[0].text_b is not None:
            texts.append([example.text_b for example in examples])
        return self._tokenizer(
            *texts,
            padding=True,
            truncation=True,
            max_length=self._max_length,
            return_tensors="pt",
        )

    def targets(self, examples: Sequence[Example]) -> np.ndarray:
        """Returns the scores or class ids of some examples."""
        if self._is_regression:
            return np.array([float(example.label) for example in examples], np.float32)
        return np.array([self._labels.index(example.label) for example in examples])

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Returns the mean loss of some examples."""
        labels = torch.from_numpy(self.targets(examples))
        return self.model(**self.inputs(examples), labels=labels).loss

    @torch.inference_mode()
    def predict(self, examples: Sequence[Example]) -> np.ndarray:
        """Returns the predicted scores or class ids of some examples."""
        logits = self.model(**self.inputs(examples)).logits.numpy()
        return logits[:, 0] if self._is_regression else logits.argmax(axis=-1)


def _batches(examples: Sequence[Example], options: TorchClassifierOptions) -> Iterator[list]:
    """Yields batches without end, each epoch in a new order."""
    rng = np.random.default_rng(options.random_seed)
    while True:
        order = rng.permutation(len(examples))
        for start in range(0, len(order) - options.train_batch_size + 1, options.train_batch_size):
            yield [examples[row] for row in order[start : start + options.train_batch_size]]


def train(options: TorchClassifierOptions) -> None:
    """Trains, evaluates after the last update and writes the metrics."""
    torch.manual_seed(options.random_seed)
    task = find_task(options.task_name)
    sets = {
        split: task.sets[split][""].read(options.data_dir, split, task.labels)
        for split in ("train", "dev")
    }
    classifier = _Classifier(options, task)
    model = classifier.model.train()
    optimizer = AdamWeightDecay(model.named_parameters())
    batches = _batches(sets["train"], options)
    for step in range(options.num_train_steps):
        model.zero_grad()
        classifier.loss(next(batches)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step(
            learning_rate(
                step, options.learning_rate, options.num_train_steps, options.warmup_steps
            )
        )
    model.eval()
    dev = sets["dev"]
    predictions = [
        classifier.predict(dev[start : start + _EVAL_BATCH_SIZE])
        for start in range(0, len(dev), _EVAL_BATCH_SIZE)
    ]
    scores = compute_metrics(task.metrics, classifier.targets(dev), np.concatenate(predictions))
    os.makedirs(options.output_dir, exist_ok=True)
    files.write_json(os.path.join(options.output_dir, "eval_results.json"), scores)


if __name__ == "__main__":
    command_line.run(TorchClassifierOptions, train)
