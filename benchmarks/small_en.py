"""Fine-tunes the shipped model on GLUE tasks, next to the same model without pre-training.

Usage:
    python -m benchmarks.small_en --glue_dir=glue

Both get the same hyperparameters, one row of `TASKS` each, and the same seeds; the third candidate is
TF-IDF with logistic regression, or the cosine of TF-IDF vectors for STS-B's scores. The table has the
median and the range of the dev scores. Each finished training adds a line to `--results`, and the same
command runs the missing ones sequentially on one core.
"""

import dataclasses
import itertools
import os
import pathlib
import statistics

import numpy as np

from albert_tf import command_line
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.evaluation.metrics import METRICS
from albert_tf.options import option
from albert_tf.sources import find_model
from benchmarks.harness import check_choices, markdown_table
from benchmarks.trainings import (
    Line,
    Results,
    Run,
    TrainingsOptions,
    finish,
    weights_checksum,
)

_RESULTS = pathlib.Path(__file__).with_name("small_en.jsonl")
_PRETRAINED, _RANDOM = "pre-trained", "random"
_PROGRAMS = (_PRETRAINED, _RANDOM)


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of a task; flags of `run_classifier.py`."""

    num_train_steps: int
    warmup_steps: int
    learning_rate: float
    train_batch_size: int
    max_seq_length: int


# Small models take higher rates and more epochs than the paper's (Turc et al. 2019, Xia et al. 2023).
TASKS = {
    "sst-2": Hyperparameters(3150, 315, 3e-4, train_batch_size=64, max_seq_length=64),
    "mrpc": Hyperparameters(460, 46, 1e-4, train_batch_size=32, max_seq_length=128),
    "sts-b": Hyperparameters(900, 90, 1e-4, train_batch_size=32, max_seq_length=128),
    "cola": Hyperparameters(1300, 130, 1e-4, train_batch_size=32, max_seq_length=64),
}
# Takes 0.6 of the time, where processors have it.
_PRECISION = "mixed_bfloat16"
_METRICS = {
    "sst-2": ("accuracy",),
    "mrpc": ("f1", "accuracy"),
    "sts-b": ("spearman",),
    "cola": ("matthews_corrcoef",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmallEnOptions(TrainingsOptions):
    """The options of this benchmark."""

    glue_dir: str = option("Folder with the GLUE tasks.", "glue")
    tasks: tuple[str, ...] = option("Tasks.", tuple(TASKS))
    seeds: int = option("Number of trainings of each candidate and task.", 5, least=1)
    results: str = option("JSON lines of the finished trainings, which grow.", str(_RESULTS))

    def __post_init__(self):
        check_choices("tasks", self.tasks, TASKS)
        super().__post_init__()


def make_runs(options: SmallEnOptions) -> list[Run]:
    """Returns the trainings: those of the pre-trained model first, seed by seed."""
    folder = os.path.abspath(find_model(options.model))
    runs = []
    for program, seed, task in itertools.product(
        _PROGRAMS, range(1, 1 + options.seeds), options.tasks
    ):
        values = dataclasses.asdict(TASKS[task])
        flags = {
            **{"task_name": task, "data_dir": os.path.abspath(options.glue_dir)},
            **{"random_seed": seed, **values, "mixed_precision": _PRECISION},
            # One evaluation, after the last update, so that no checkpoint is chosen by the dev set.
            "save_checkpoints_steps": values["num_train_steps"],
        }
        command = ["run_classifier.py", "--do_train", "--do_eval"]
        if program == _PRETRAINED:
            flags["init_checkpoint"] = folder
        else:
            flags["albert_config_file"] = f"{folder}/config.json"
            flags["spm_model_file"] = f"{folder}/spiece.model"
        command += [f"--{name}={value}" for name, value in flags.items()]
        runs.append(Run({**_key(program, options.model, task), "seed": seed}, command))
    return runs


def score_tf_idf(task: str, glue_dir: str) -> dict[str, float]:
    """Returns the dev scores of TF-IDF with logistic regression; for scores, of its cosines."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    row = find_task(task)
    examples = {
        split: row.sets[split][""].read(glue_dir, split, row.labels) for split in ("train", "dev")
    }
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    joined = {
        split: [f"{each.text_a} {each.text_b or ''}" for each in examples[split]]
        for split in examples
    }
    features = vectorizer.fit_transform(joined["train"])
    if row.kind == "regression":
        first, second = (
            vectorizer.transform([getattr(each, name) for each in examples["dev"]])
            for name in ("text_a", "text_b")
        )
        predictions = np.asarray(first.multiply(second).sum(axis=1)).ravel()
        labels = np.array([float(each.label) for each in examples["dev"]])
    else:
        ids = {label: number for number, label in enumerate(row.labels)}
        model = LogisticRegression(max_iter=1000, C=10)
        model.fit(features, [ids[each.label] for each in examples["train"]])
        predictions = model.predict(vectorizer.transform(joined["dev"]))
        labels = np.array([ids[each.label] for each in examples["dev"]])
    return {metric: float(METRICS[metric](labels, predictions)) for metric in _METRICS[task]}


def table(options: SmallEnOptions, results: Results) -> str:
    """Returns the scores, in percent, of the lines that have the hyperparameters of `TASKS`."""
    rows = []
    for task in options.tasks:
        baselines = score_tf_idf(task, options.glue_dir)
        found = [results.find(_key(program, options.model, task)) for program in _PROGRAMS]
        for metric, baseline in baselines.items():
            scores = [[100 * line["scores"][metric] for line in lines] for lines in found]
            cells = [
                f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"
                if each
                else ""
                for each in scores
            ]
            rows.append([task, metric, *cells, f"{100 * baseline:.1f}"])
    header = ["task", "metric", "pre-trained", "without pre-training", "TF-IDF"]
    return markdown_table(header, rows, text_columns=2)


def _key(program: str, model: str, task: str) -> Line:
    """Returns what the lines of a candidate share."""
    hyperparameters = {**dataclasses.asdict(TASKS[task]), "mixed_precision": _PRECISION}
    key = {"program": program, "task": task, **hyperparameters}
    if program == _PRETRAINED:
        key["weights"] = weights_checksum(model)
    return key


def _main(options: SmallEnOptions) -> None:
    results = Results(options.results)
    if not options.report:
        finish(make_runs(options), results, options.work_dir)
    print(table(options, results))


if __name__ == "__main__":
    command_line.run(SmallEnOptions, _main)
