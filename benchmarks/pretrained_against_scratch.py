"""Fine-tunes a pre-trained model and the same model from scratch, and sets the dev scores side by side.

Usage:
    python -m benchmarks.pretrained_against_scratch --pretrained_dir=pretrained \
        --spm_model_file=vocabulary.model --glue_dir=glue --output_dir=study

Both are trained by `run_classifier.py`'s task, with the same flags but for `--init_checkpoint` and the
learning rate. That is found for each start by a short training at each of `--learning_rates`: the rate
with the best score on dev, of equal ones that with the least loss. So it is chosen, for both starts
alike, on the set whose scores are reported. No checkpoint is: what the last step leaves is evaluated. A
command that was stopped goes on where it was.

The command fails where the pre-trained model is not better on every task.
"""

import dataclasses
import math
import os
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

import command_line
from albert_tf import files
from albert_tf.config import CONFIG_FILE
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.errors import FlagError, InputError
from albert_tf.evaluation.glue_metrics import compute_metrics
from albert_tf.options import option
from albert_tf.tasks import classification
from albert_tf.tasks.common import RESULTS_FILE
from albert_tf.tasks.trained_folder import OPTIONS_FILE
from albert_tf.tasks.training_options import check_range
from albert_tf.training import best_checkpoint
from benchmarks.glue_tasks import check_tasks
from benchmarks.harness import markdown_table

_STARTS = ("scratch", "pretrained")
_STUDY_FILE = "results.json"
_HEADER = ("task, metric", "start", "learning rate", "median", "all", "majority class")
_SEARCH_HEADER = ("task, metric", "start")


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """The options of the study."""

    pretrained_dir: str = option("Folder that run_pretraining.py trained.")
    spm_model_file: str = option("SentencePiece model of its vocabulary.")
    glue_dir: str = option("Folder of GLUE's tasks in the original layout.")
    output_dir: str = option("Folder for the trained models and results.json.")
    tasks: tuple[str, ...] = option("Which tasks.", ("sst-2", "cola"))
    learning_rates: tuple[str, ...] = option(
        "Peaks of the learning rate to choose from; one needs no search.",
        ("1e-4", "3e-4", "1e-3", "3e-3"),
    )
    num_search_steps: int = option("Updates of a training that is for the learning rate.", 400)
    num_train_steps: int = option("Updates of a training.", 2000)
    train_batch_size: int = option("Examples of an update.", 32)
    max_seq_length: int = option("Tokens of an example at most.", 64)
    num_trials: int = option("Trainings with different seeds.", 3)
    random_seed: int = option("The first seed of the trainings; the search has the one before.", 1)

    def __post_init__(self):
        check_tasks(self.tasks)
        for name in ("num_search_steps", "num_train_steps", "num_trials", "random_seed"):
            check_range(self, name, 1)
        for rate in self.learning_rates:
            _check_rate(rate)


def _check_rate(rate: str) -> None:
    try:
        value = float(rate)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise FlagError(f"--learning_rates: received '{rate}'; expected a number above 0")


class Result(NamedTuple):
    """What came of one start on one task.

    Attributes:
        task: name of the task.
        metric: what is compared.
        start: scratch or pretrained.
        search: learning rate -> metric of the short training; nothing where there is one rate.
        learning_rate: the best of these, or the only one.
        scores: metric of each seed.
        majority: metric where the most frequent class of the training set is predicted always.
    """

    task: str
    metric: str
    start: str
    search: Mapping[str, float]
    learning_rate: str
    scores: list[float]
    majority: float

    @property
    def median(self) -> float:
        """Of all seeds."""
        return statistics.median(self.scores)

    @property
    def is_at_edge(self) -> bool:
        """Whether no learning rate beyond the chosen one was tried, so that a better one may be there."""
        return float(self.learning_rate) in (
            min(map(float, self.search)),
            max(map(float, self.search)),
        )


def study(options: StudyOptions, task_name: str, start: str) -> Result:
    """Trains a task from one start: the search, and a training with each seed."""
    metric = find_task(task_name).metrics[0]
    folder = os.path.join(options.output_dir, task_name, start)
    rates = options.learning_rates if len(options.learning_rates) > 1 else ()
    search = {
        rate: _train(
            options,
            task_name,
            start,
            output_dir=os.path.join(folder, f"search-{rate}"),
            learning_rate=float(rate),
            num_train_steps=options.num_search_steps,
            save_checkpoints_steps=options.num_search_steps,
            random_seed=options.random_seed - 1,
        )
        for rate in rates
    }
    best = options.learning_rates[0]
    if search:
        # A few updates may leave a metric at 0 whatever the rate, as Matthews' of CoLA.
        best = max(search, key=lambda rate: (search[rate][metric], -search[rate]["loss"]))
    scores = [
        _train(
            options,
            task_name,
            start,
            output_dir=os.path.join(folder, f"{best}-seed-{seed}"),
            learning_rate=float(best),
            num_train_steps=options.num_train_steps,
            save_checkpoints_steps=options.num_train_steps,
            random_seed=seed,
        )[metric]
        for seed in range(options.random_seed, options.random_seed + options.num_trials)
    ]
    majority = majority_metrics(options.glue_dir, task_name)[metric]
    of_rates = {rate: results[metric] for rate, results in search.items()}
    return Result(task_name, metric, start, of_rates, best, scores, majority)


def _train(
    options: StudyOptions, task_name: str, start: str, output_dir: str, **others: Any
) -> Mapping[str, float]:
    """Returns the metrics on dev after the last step of one training; trains where that is not done."""
    checkpoint = best_checkpoint(options.pretrained_dir) if start == "pretrained" else None
    values = {
        "task_name": task_name,
        "data_dir": options.glue_dir,
        "albert_config_file": os.path.join(options.pretrained_dir, CONFIG_FILE),
        "spm_model_file": options.spm_model_file,
        "init_checkpoint": checkpoint,
        "max_seq_length": options.max_seq_length,
        "train_batch_size": options.train_batch_size,
        **others,
    }
    _check_same(output_dir, values)
    results_file = os.path.join(output_dir, RESULTS_FILE)
    if os.path.exists(results_file):
        return files.read_json(results_file)
    results = classification.run(
        classification.ClassificationOptions(
            output_dir=output_dir, do_train=True, do_eval=True, **values
        )
    )
    keras.backend.clear_session()
    return results


def _check_same(folder: str, values: Mapping[str, Any]) -> None:
    """Checks that a training that is there, done or not, has the same options.

    Raises:
        InputError: it has others.
    """
    path = os.path.join(folder, OPTIONS_FILE)
    if not os.path.exists(path):
        return
    there = files.read_json(path)
    for name, value in values.items():
        if there[name] != value:
            raise InputError(
                f"--output_dir: {folder} was trained with {name} {there[name]}; this command has "
                f"{value}; expected another --output_dir"
            )


def majority_metrics(glue_dir: str, task_name: str) -> dict[str, float]:
    """Returns the metrics on dev of a guess that is always the most frequent class of training."""
    task = find_task(task_name)
    train, dev = (
        np.array(
            [
                task.labels.index(example.label)
                for example in task.sets[split][""].read(glue_dir, split, task.labels)
            ]
        )
        for split in ("train", "dev")
    )
    predictions = np.full_like(dev, np.bincount(train).argmax())
    return compute_metrics((*task.metrics, *task.more_metrics), dev, predictions)


def table(results: list[Result]) -> str:
    """Returns the table of scores."""
    rows = [
        [
            f"{result.task}, {result.metric}",
            result.start,
            result.learning_rate,
            f"{100 * result.median:.1f}",
            ", ".join(f"{100 * score:.1f}" for score in result.scores),
            f"{100 * result.majority:.1f}",
        ]
        for result in results
    ]
    return markdown_table(_HEADER, rows, text_columns=2)


def search_table(results: list[Result]) -> str:
    """Returns the table of the short trainings: a column for each learning rate, and the chosen one."""
    rates = list(results[0].search)
    rows = [
        [
            f"{result.task}, {result.metric}",
            result.start,
            *(f"{100 * result.search[rate]:.1f}" for rate in rates),
            f"{result.learning_rate}, at the edge" if result.is_at_edge else result.learning_rate,
        ]
        for result in results
    ]
    return markdown_table((*_SEARCH_HEADER, *rates, "chosen"), rows, text_columns=2)


def find_misses(results: list[Result]) -> list[str]:
    """Returns a sentence for each task on which the pre-trained model is not better."""
    medians = {(result.task, result.start): result.median for result in results}
    return [
        f"{task}: the pre-trained model has {medians[task, 'pretrained']:.3f}, from scratch it has "
        f"{medians[task, 'scratch']:.3f}"
        for task in dict.fromkeys(result.task for result in results)
        if medians[task, "pretrained"] <= medians[task, "scratch"]
    ]


def _main(options: StudyOptions) -> None:
    files.make_directory(options.output_dir, "output_dir")
    results = [study(options, task, start) for start in _STARTS for task in options.tasks]
    results.sort(key=lambda result: options.tasks.index(result.task))
    path = os.path.join(options.output_dir, _STUDY_FILE)
    files.write_json(path, [result._asdict() for result in results])
    if results[0].search:
        steps = f"{options.num_search_steps} updates"
        print(f"Search for the learning rate, {steps}, one seed:\n\n{search_table(results)}\n")
    print(f"{options.num_train_steps} updates:\n\n{table(results)}\n\nresults in {path}")
    if misses := find_misses(results):
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(StudyOptions, _main)
