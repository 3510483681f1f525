"""Trains taggers of the names in docstrings, from a pre-trained model and from scratch.

Usage:
    make quickstart
    python -m benchmarks.tagging --work_dir=tagging --init_checkpoint=quickstart_output/pretrained/best \
        --albert_config_file=quickstart_output/albert_config.json \
        --spm_model_file=quickstart_output/vocabulary.model

`benchmarks.docstring_names` makes the data: parameters, functions, classes and libraries. The model, the
data and the flags are the same but for `--init_checkpoint`. F1 is that of the dev set after the last
update.

Each finished training adds a line to `results.jsonl` in `--work_dir`, and the same command runs the
missing ones. The trainings run sequentially. The minutes are CPU time, with start-up and evaluation.
"""

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence

from albert_tf import command_line
from albert_tf.options import check_ranges, option
from benchmarks.docstring_names import write_rows
from benchmarks.fine_tuning_runs import Line, Results, Run, finish, mean_and_spread
from benchmarks.harness import markdown_table, processor

STARTS = ("pre-trained", "from scratch")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingBenchmarkOptions:
    """The options of this benchmark."""

    work_dir: str = option("Folder for data, results and, while a run lasts, checkpoints.")
    init_checkpoint: str = option("Pre-trained checkpoint, or a folder with one.")
    albert_config_file: str = option("JSON file with its config.")
    spm_model_file: str = option("SentencePiece model of its vocabulary.")
    learning_rates: tuple[str, ...] = option("Peak learning rates.", ("3e-4", "1e-3"))
    num_train_steps: int = option("Updates of each training.", 400, least=1)
    train_batch_size: int = option("Windows per update.", 32, least=1)
    max_seq_length: int = option("Most tokens of a window.", 64, least=5)
    seeds: int = option("Number of trainings of each kind.", 3, least=1)

    def __post_init__(self):
        check_ranges(self)


def make_runs(options: TaggingBenchmarkOptions, paths: Mapping[str, str]) -> list[Run]:
    """Returns the trainings, those with a pre-trained model and from scratch in turns."""
    runs = []
    for rate, seed, start in itertools.product(
        options.learning_rates, range(1, 1 + options.seeds), STARTS
    ):
        values = {
            "learning_rate": rate,
            "num_train_steps": options.num_train_steps,
            "train_batch_size": options.train_batch_size,
            "max_seq_length": options.max_seq_length,
        }
        flags = {
            "task_name": "token_classification",
            "train_file": paths["train"],
            "dev_file": paths["dev"],
            "albert_config_file": os.path.abspath(options.albert_config_file),
            "spm_model_file": os.path.abspath(options.spm_model_file),
            "random_seed": seed,
            "save_checkpoints_steps": options.num_train_steps,
            **values,
        }
        if start == STARTS[0]:
            flags["init_checkpoint"] = os.path.abspath(options.init_checkpoint)
        command = ["run_classifier.py", "--do_train", "--do_eval"]
        command += [f"--{name}={value}" for name, value in flags.items()]
        runs.append(Run({"start": start, "seed": seed, **values}, command))
    return runs


def table(runs: Sequence[Run], results: Results) -> str:
    """Returns F1 times 100 of each start and learning rate."""
    found: dict[tuple[str, str], list[Line]] = {}
    for run in runs:
        lines = found.setdefault((run.key["start"], run.key["learning_rate"]), [])
        if line := results.find(run):
            lines.append(line)
    rows = []
    for (start, rate), lines in found.items():
        scores = [100 * line["scores"]["f1"] for line in lines]
        minutes = [line["cpu_minutes"] for line in lines]
        each = ", ".join(f"{score:.1f}" for score in scores)
        cells = (mean_and_spread(scores), each, mean_and_spread(minutes)) if lines else ("",) * 3
        rows.append([start, rate, *cells])
    return markdown_table(["", "learning rate", "F1", "each", "CPU minutes"], rows)


def _main(options: TaggingBenchmarkOptions) -> None:
    runs = make_runs(options, write_rows(options.work_dir))
    results = Results(os.path.join(options.work_dir, "results.jsonl"))
    finish(runs, results, options.work_dir)
    print(f"{processor()}\n\n{table(runs, results)}")


if __name__ == "__main__":
    command_line.run(TaggingBenchmarkOptions, _main)
