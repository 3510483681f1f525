"""Fine-tunes a model of Hugging Face in PyTorch as `run_classifier.py` and `run_squad.py` fine-tune ours.

A program for `benchmarks.real_scores`. Its flags mean what those of our programs mean. Model, tokenizer,
padding, windows and the search for answers are those of `transformers` and its recipes; the files, the
metrics, the optimizer's arithmetic and the schedule are ours. The order of the rows is its own.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers

from albert_tf import command_line, files
from albert_tf.data.fine_tuning.squad_questions import SquadExample, read_squad
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.evaluation.metrics import compute_metrics
from albert_tf.evaluation.squad_metrics import evaluate_v1
from albert_tf.kinds.question_answering import gold_answers
from albert_tf.options import option
from benchmarks.torch_pretraining import AdamWeightDecay, learning_rate

_CLIP_NORM = 1.0
_EVAL_BATCH_SIZE = 64
# Of `transformers`' recipe for question answering.
_OVERLAP = 128
_MAX_ANSWER_LENGTH = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class TorchFineTuningOptions:
    """The options of this program."""

    init_checkpoint: str = option("Hugging Face's folder with the weights to start from.")
    output_dir: str = option("Folder for eval_results.json.")
    task_name: str | None = option("A task of GLUE. Default: SQuAD 1.1.", None)
    data_dir: str | None = option("Folder of the GLUE tasks.", None)
    train_file: str | None = option("JSON file of SQuAD 1.1 to train on.", None)
    predict_file: str | None = option("JSON file of SQuAD 1.1 to evaluate on.", None)
    max_seq_length: int = option("Most tokens of a sequence.")
    train_batch_size: int = option("Sequences of an update.")
    learning_rate: float = option("The peak of the learning rate.")
    num_train_steps: int = option("Number of updates.")
    warmup_steps: int = option("Updates until the learning rate is at its peak.")
    random_seed: int = option("Decides the head's initial weights, dropout and the data order.")


class _Classification:
    """A task of GLUE."""

    def __init__(self, options: TorchFineTuningOptions):
        folder, self._max_length = options.init_checkpoint, options.max_seq_length
        self._task = find_task(options.task_name)
        self._is_regression = self._task.kind == "regression"
        self.train_rows, self._dev_rows = (
            self._task.sets[split][""].read(options.data_dir, split, self._task.labels)
            for split in ("train", "dev")
        )
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=1 if self._is_regression else len(self._task.labels),
            problem_type="regression" if self._is_regression else "single_label_classification",
        )

    def _inputs(self, examples: Sequence[Example]) -> Mapping[str, torch.Tensor]:
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

    def _targets(self, examples: Sequence[Example]) -> np.ndarray:
        """Returns the scores or class ids of some examples."""
        if self._is_regression:
            return np.array([float(example.label) for example in examples], np.float32)
        return np.array([self._task.labels.index(example.label) for example in examples])

    def loss(self, rows: Sequence[Example]) -> torch.Tensor:
        labels = torch.from_numpy(self._targets(rows))
        return self.model(**self._inputs(rows), labels=labels).loss

    def evaluate(self) -> dict[str, float]:
        logits = np.concatenate(
            [self.model(**self._inputs(rows)).logits.numpy() for rows in _slices(self._dev_rows)]
        )
        predictions = logits[:, 0] if self._is_regression else logits.argmax(axis=-1)
        return compute_metrics(self._task.metrics, self._targets(self._dev_rows), predictions)


@dataclasses.dataclass(frozen=True)
class _Window:
    """A question with a part of its passage."""

    inputs: Mapping[str, Sequence[int]]
    offsets: (
        np.ndarray
    )  # (S, 2), where each token begins and ends in the passage; -1 for all others
    example: SquadExample

    @property
    def targets(self) -> tuple[int, int]:
        """The first and last token of the answer; [CLS] twice if the window does not hold it."""
        answer = self.example.found_answer
        starts, ends = self.offsets.T
        end = answer.start + len(answer.text)
        first = np.flatnonzero((starts >= 0) & (starts <= answer.start) & (answer.start < ends))
        last = np.flatnonzero((starts >= 0) & (starts < end) & (end <= ends))
        return (int(first[0]), int(last[0])) if len(first) and len(last) else (0, 0)


class _QuestionAnswering:
    """SQuAD 1.1."""

    def __init__(self, options: TorchFineTuningOptions):
        folder, self._max_length = options.init_checkpoint, options.max_seq_length
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder)
        self.train_rows = self._make_windows(
            [example for example in read_squad(options.train_file) if example.found_answer]
        )
        self._dev_examples = read_squad(options.predict_file)

    def _make_windows(self, examples: Sequence[SquadExample]) -> list[_Window]:
        encoded = self._tokenizer(
            [example.question.lstrip() for example in examples],
            [example.context for example in examples],
            truncation="only_second",
            max_length=self._max_length,
            stride=_OVERLAP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        windows = []
        for number, row in enumerate(encoded["overflow_to_sample_mapping"]):
            in_passage = np.array([part == 1 for part in encoded.sequence_ids(number)])
            offsets = np.where(in_passage[:, None], encoded["offset_mapping"][number], -1)
            names = self._tokenizer.model_input_names
            inputs = {name: encoded[name][number] for name in names}
            windows.append(_Window(inputs, offsets, examples[row]))
        return windows

    def _inputs(self, windows: Sequence[_Window]) -> Mapping[str, torch.Tensor]:
        """Returns the inputs for some windows, padded to the longest."""
        rows = [window.inputs for window in windows]
        return self._tokenizer.pad(rows, return_tensors="pt")

    def loss(self, rows: Sequence[_Window]) -> torch.Tensor:
        starts, ends = torch.tensor([window.targets for window in rows]).T
        return self.model(**self._inputs(rows), start_positions=starts, end_positions=ends).loss

    def evaluate(self) -> dict[str, float]:
        best = {example.id: (-np.inf, "") for example in self._dev_examples}
        for windows in _slices(self._make_windows(self._dev_examples)):
            outputs = self.model(**self._inputs(windows))
            of_starts, of_ends = outputs.start_logits.numpy(), outputs.end_logits.numpy()
            for window, starts, ends in zip(windows, of_starts, of_ends, strict=True):
                found = _best_span(window, starts, ends)
                best[window.example.id] = max(best[window.example.id], found)
        predictions = {name: text for name, (_, text) in best.items()}
        return evaluate_v1(gold_answers(self._dev_examples), predictions)


def _best_span(window: _Window, starts: np.ndarray, ends: np.ndarray) -> tuple[float, str]:
    """Returns the score and the text of the best answer in a window, whose logits are padded."""
    length = len(window.offsets)
    in_passage = window.offsets[:, 0] >= 0
    scores = starts[:length, None] + ends[:length]
    lengths = np.arange(length) - np.arange(length)[:, None] + 1
    is_span = (lengths >= 1) & (lengths <= _MAX_ANSWER_LENGTH) & in_passage & in_passage[:, None]
    scores = np.where(is_span, scores, -np.inf)
    first, last = np.unravel_index(scores.argmax(), scores.shape)
    text = window.example.context[window.offsets[first, 0] : window.offsets[last, 1]]
    return float(scores[first, last]), text


def _slices(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), _EVAL_BATCH_SIZE):
        yield rows[start : start + _EVAL_BATCH_SIZE]


def _batches(rows: Sequence[Any], options: TorchFineTuningOptions) -> Iterator[list]:
    """Yields batches without end, each epoch in a new order."""
    rng = np.random.default_rng(options.random_seed)
    stream = (rows[number] for _ in itertools.count() for number in rng.permutation(len(rows)))
    while True:
        yield list(itertools.islice(stream, options.train_batch_size))


def train(options: TorchFineTuningOptions) -> None:
    """Trains, evaluates after the last update and writes the metrics."""
    torch.manual_seed(options.random_seed)
    task = (_Classification if options.task_name else _QuestionAnswering)(options)
    model = task.model.train()
    optimizer = AdamWeightDecay(model.named_parameters())
    batches = _batches(task.train_rows, options)
    for step in range(options.num_train_steps):
        model.zero_grad()
        task.loss(next(batches)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step(
            learning_rate(
                step, options.learning_rate, options.num_train_steps, options.warmup_steps
            )
        )
    model.eval()
    with torch.inference_mode():
        scores = task.evaluate()
    os.makedirs(options.output_dir, exist_ok=True)
    files.write_json(os.path.join(options.output_dir, "eval_results.json"), scores)


if __name__ == "__main__":
    command_line.run(TorchFineTuningOptions, train)
