"""Fine-tunes a published ALBERT with the paper's recipes; prints its dev scores and the published ones.

Usage:
    python -m benchmarks.published_scores --checkpoint_dir=albert_base --glue_dir=glue --squad_dir=squad \
        --race_dir=RACE --work_dir=published_scores --results=published_scores.jsonl

`--checkpoint_dir` is the unpacked archive of a model (https://github.com/google-research/albert), with
`albert_config.json`, `30k-clean.model` and `model.ckpt-best`. Tasks without data are left out. Each
finished fine-tuning adds a line to `--results`; the same command resumes the one that was stopped and
does what is missing. `--more_flags` go to `run_classifier.py` and `run_squad.py`, for example
`mixed_precision=mixed_bfloat16,accumulate_steps=4`.
"""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import command_line
from albert_tf.config import CONFIG_FILE, PRESETS, AlbertConfig
from albert_tf.errors import FlagError, InputError
from albert_tf.options import check_ranges, option
from benchmarks.fine_tuning_runs import Line, Results, Run, finish
from benchmarks.harness import check_choices, markdown_table

_MODELS = tuple(name for name in PRESETS if not name.startswith("bert"))
_VOCABULARY, _CHECKPOINT = "30k-clean.model", "model.ckpt-best"
_ACCURACY, _SQUAD_V1, _SQUAD_V2 = ("accuracy",), ("f1", "exact_match"), ("f1", "exact")
_MNLI = "mnli"


class TaskToRun(NamedTuple):
    """A row of the tables.

    Attributes:
        metrics: of `eval_results.json`, in percent or as fractions.
        data: the flag that names its data, without `_dir`.
        version: of SQuAD, in the names of its files.
        from_mnli: whether it starts from the MNLI model.
    """

    metrics: tuple[str, ...]
    data: str = "glue"
    version: str | None = None
    from_mnli: bool = False


TASKS = {
    "squad-1.1": TaskToRun(_SQUAD_V1, "squad", "v1.1"),
    "squad-2.0": TaskToRun(_SQUAD_V2, "squad", "v2.0"),
    _MNLI: TaskToRun(("matched_accuracy",)),
    "sst-2": TaskToRun(_ACCURACY),
    "race": TaskToRun(_ACCURACY, "race"),
    "qnli": TaskToRun(_ACCURACY),
    "qqp": TaskToRun(_ACCURACY),
    "rte": TaskToRun(_ACCURACY, from_mnli=True),
    "mrpc": TaskToRun(_ACCURACY, from_mnli=True),
    "cola": TaskToRun(("matthews_corrcoef",)),
    "sts-b": TaskToRun(("pearson",), from_mnli=True),
}
_OF_TABLE_2 = ("squad-1.1", "squad-2.0", _MNLI, "sst-2", "race")
_OF_TABLE_9 = (_MNLI, "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b")


def _scores(tasks: Sequence[str], *values: str) -> Mapping[str, str]:
    return dict(zip(tasks, values, strict=True))


# Dev scores of https://arxiv.org/abs/1909.11942, table 2: version 1, after 125,000 updates.
PAPER = {
    "base": _scores(_OF_TABLE_2, "89.3/82.3", "80.0/77.1", "81.6", "90.3", "64.0"),
    "large": _scores(_OF_TABLE_2, "90.6/83.9", "82.3/79.4", "83.5", "91.7", "68.5"),
    "xlarge": _scores(_OF_TABLE_2, "92.5/86.1", "86.1/83.1", "86.4", "92.4", "74.8"),
    "xxlarge": _scores(_OF_TABLE_2, "94.1/88.3", "88.1/85.1", "88.0", "95.2", "82.3"),
}
# Table 9: xxlarge after 1.5 million updates, medians of five runs.
TABLE_9 = _scores(_OF_TABLE_9, "90.8", "95.3", "92.2", "89.2", "96.9", "90.9", "71.4", "93.0")
# Version 2, in the README of https://github.com/google-research/albert.
README = {
    "base": _scores(_OF_TABLE_2, "90.2/83.2", "82.1/79.3", "84.6", "92.9", "66.8"),
    "large": _scores(_OF_TABLE_2, "91.8/85.2", "84.9/81.8", "86.5", "94.9", "75.2"),
    "xlarge": _scores(_OF_TABLE_2, "92.9/86.4", "87.9/84.1", "87.9", "95.4", "80.7"),
    "xxlarge": _scores(_OF_TABLE_2, "94.6/89.1", "89.8/86.9", "90.6", "96.8", "86.8"),
}
# Version 2's values in RACE, unlike version 1's in the recipe.
_RACE_V2 = {"learning_rate": 1e-5, "dropout": 0.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedScoresOptions:
    """The options of this benchmark."""

    checkpoint_dir: str = option("Folder of a published model, as unpacked.")
    model: str | None = option(
        f"Which one it is: {', '.join(_MODELS)}. Default: the one with its config; the two of xxlarge "
        "have the same.",
        None,
    )
    glue_dir: str | None = option("Folder with the GLUE tasks.", None)
    squad_dir: str | None = option("Folder with {train,dev}-{v1.1,v2.0}.json.", None)
    race_dir: str | None = option("Folder of RACE.", None)
    tasks: tuple[str, ...] = option("Tasks.", _OF_TABLE_2)
    seeds: int = option("Number of fine-tunings per task; the table has their medians.", 1, least=1)
    more_flags: tuple[str, ...] = option(
        "More flags of run_classifier.py and run_squad.py, as name=value.", ()
    )
    work_dir: str = option("Folder for checkpoints.")
    results: str = option("JSON lines of the finished fine-tunings, which grow.")

    def __post_init__(self):
        check_choices("tasks", self.tasks, TASKS)
        check_ranges(self)
        if self.model is not None:
            check_choices("model", [self.model], _MODELS)
        for flag in self.more_flags:
            if "=" not in flag:
                raise FlagError(f"--more_flags: received '{flag}'; expected name=value")

    def data_dir(self, task: str) -> str | None:
        """Returns the folder of a task's data; None if it is not given."""
        folder = getattr(self, f"{TASKS[task].data}_dir")
        return folder and os.path.abspath(folder)


def find_model(options: PublishedScoresOptions) -> str:
    """Returns which model the checkpoint is.

    Raises:
        InputError: a file is missing, or the config does not tell.
    """
    for name in (CONFIG_FILE, _VOCABULARY, f"{_CHECKPOINT}.index"):
        path = os.path.join(options.checkpoint_dir, name)
        if not os.path.exists(path):
            raise InputError(f"--checkpoint_dir: {path} is missing")
    if options.model is not None:
        return options.model
    config = AlbertConfig.from_json_file(os.path.join(options.checkpoint_dir, CONFIG_FILE))
    same = [name for name in _MODELS if AlbertConfig.from_preset(name) == config]
    if len(same) != 1:
        raise InputError(
            f"--model: expected the name of the model; the config is that of "
            f"{' and '.join(same) or 'none of them'}"
        )
    return same[0]


def make_runs(options: PublishedScoresOptions, model: str) -> list[Run]:
    """Returns the fine-tunings: task by task, seed by seed, each after the MNLI model it starts from."""
    tasks = [task for task in options.tasks if options.data_dir(task)]
    runs: dict[str, Run] = {}
    for task, seed in itertools.product(tasks, range(1, 1 + options.seeds)):
        needed = [_MNLI, task] if TASKS[task].from_mnli else [task]
        for name in needed:
            run = _make_run(options, model, name, seed)
            runs[run.folder] = run
    return list(runs.values())


def _make_run(options: PublishedScoresOptions, model: str, task: str, seed: int) -> Run:
    key = _key(options, model, task, seed)
    row, data_dir = TASKS[task], options.data_dir(task)
    flags: dict[str, Any] = {"recipe": "paper", "random_seed": seed}
    if row.version:
        flags |= {
            "train_file": f"{data_dir}/train-{row.version}.json",
            "predict_file": f"{data_dir}/dev-{row.version}.json",
        }
    else:
        flags |= {"task_name": task, "data_dir": data_dir}
    if row.from_mnli:
        mnli = Run(_key(options, model, _MNLI, seed), ()).folder
        flags["init_classifier"] = os.path.join(os.path.abspath(options.work_dir), mnli)
    else:
        folder = os.path.abspath(options.checkpoint_dir)
        flags |= {
            "albert_config_file": f"{folder}/{CONFIG_FILE}",
            "spm_model_file": f"{folder}/{_VOCABULARY}",
            "init_checkpoint": f"{folder}/{_CHECKPOINT}",
        }
    if task == "race" and model.endswith("v2"):
        flags |= _RACE_V2
    flags |= dict(flag.split("=", 1) for flag in options.more_flags)
    script = "run_squad.py" if row.version else "run_classifier.py"
    values = [f"--{name}={value}" for name, value in flags.items()]
    return Run(key, [script, "--do_train", "--do_eval", *values], keep=task == _MNLI)


def _key(options: PublishedScoresOptions, model: str, task: str, seed: int) -> Line:
    return {"model": model, "task": task, "seed": seed, "flags": " ".join(options.more_flags)}


def table(options: PublishedScoresOptions, model: str, results: Results) -> str:
    """Returns our scores next to the published ones."""
    size, _, version = model.partition("_")
    header = ["task", "runs", "ours", "paper, version 1", "README, version 2"]
    published = [PAPER[size], README[size]]
    if size == "xxlarge":
        header.append("paper, 1.5M updates")
        published.append(TABLE_9)
    rows = []
    for task in options.tasks:
        seeds = range(1, 1 + options.seeds)
        keys = [_key(options, model, task, seed) for seed in seeds]
        found = [line for line in results.lines if any(key.items() <= line.items() for key in keys)]
        ours = "/".join(_median(found, metric) for metric in TASKS[task].metrics) if found else ""
        rows.append([task, str(len(found)), ours, *(scores.get(task, "") for scores in published)])
    return f"{size}, version {version[1:]}\n\n{markdown_table(header, rows)}"


def _median(lines: Sequence[Line], metric: str) -> str:
    # SQuAD's metrics are in percent.
    factor = 1 if metric in (*_SQUAD_V1, *_SQUAD_V2) else 100
    return f"{factor * statistics.median(line['scores'][metric] for line in lines):.1f}"


def _main(options: PublishedScoresOptions) -> None:
    model = find_model(options)
    runs, results = make_runs(options, model), Results(options.results)
    if not runs:
        raise FlagError(
            "expected --glue_dir, --squad_dir or --race_dir; received none of the tasks'"
        )
    finish(runs, results, options.work_dir)
    print(table(options, model, results))


if __name__ == "__main__":
    command_line.run(PublishedScoresOptions, _main)
