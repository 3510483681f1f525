"""Trains embedders on STS-B's texts, and prints how well their cosines agree with people's scores.

Usage:
    make quickstart
    python -m benchmarks.contrastive --glue_dir=glue --work_dir=contrastive --learning_rate=3e-4 \
        --init_checkpoint=quickstart_output/pretrained/best --seeds=3 \
        --albert_config_file=quickstart_output/albert_config.json \
        --spm_model_file=quickstart_output/vocabulary.model

For each pooling the table has Spearman's correlation on STS-B's dev set before training, after
unsupervised training on all texts of the training set, and after training on its pairs with a score of at
least 4. Training leaves out the texts of the dev set. It evaluates once, after the last update, so that
the dev set chooses nothing.

Each finished training adds a line to `results.jsonl` in `--work_dir`, and the same command runs the
missing ones. The trainings run sequentially. The minutes are CPU time, with start-up and evaluation.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import get_args

from albert_tf import command_line, files
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.errors import FlagError, name_place
from albert_tf.layers import Pooling
from albert_tf.options import check_ranges, option
from benchmarks.fine_tuning_runs import Line, Results, Run, finish, mean_and_spread
from benchmarks.harness import markdown_table, processor

# Of 5; these pairs are "roughly equivalent" or better.
_LEAST_SCORE = 4.0

_BEFORE, _UNSUPERVISED, _PAIRS = "before", "unsupervised", "pairs"
TRAININGS = (_BEFORE, _UNSUPERVISED, _PAIRS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveBenchmarkOptions:
    """The options of this benchmark."""

    glue_dir: str = option("Folder with the GLUE tasks.")
    work_dir: str = option("Folder for data, results and, while a run lasts, checkpoints.")
    init_checkpoint: str = option("Checkpoint of the encoder, or its folder.")
    albert_config_file: str = option("JSON file with its config.")
    spm_model_file: str | None = option("SentencePiece model of its vocabulary.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    # The other values are those of Gao et al. 2021 for unsupervised training of BERT-base, but for the
    # length and the number of updates: one pass over the texts.
    learning_rate: float = option("Peak learning rate.", 3e-5, least=0)
    train_batch_size: int = option("Texts or pairs per update.", 64, least=2)
    num_train_steps: int = option("Updates of each training.", 160, least=1)
    max_seq_length: int = option("Most tokens of a text.", 64, least=5)
    dropout: float = option("Dropout rate of hidden states and attention.", 0.1, least=0, most=1)
    seeds: int = option("Number of trainings of each kind.", 1, least=1)

    def __post_init__(self):
        check_ranges(self)
        if not (self.spm_model_file or self.vocab_file):
            raise FlagError("expected --spm_model_file or --vocab_file; received neither")

    def model_flags(self) -> dict[str, str]:
        """Returns the flags that name the encoder."""
        names = ("init_checkpoint", "albert_config_file", "spm_model_file", "vocab_file")
        paths = {name: getattr(self, name) for name in names}
        return {name: os.path.abspath(path) for name, path in paths.items() if path}


def write_data(options: ContrastiveBenchmarkOptions) -> dict[str, str]:
    """Writes the training sets and the dev set, and returns their files by training and as `dev`."""
    task = find_task("sts-b")
    with name_place("--glue_dir"):
        train, dev = (
            task.sets[split][""].read(options.glue_dir, split, task.labels)
            for split in ("train", "dev")
        )
    of_dev = {text for pair in dev for text in (pair.text_a, pair.text_b)}
    pairs = [pair for pair in train if not of_dev & {pair.text_a, pair.text_b}]
    texts = dict.fromkeys(text for pair in pairs for text in (pair.text_a, pair.text_b))
    alike = [pair for pair in pairs if float(pair.label) >= _LEAST_SCORE]
    tables = {
        _UNSUPERVISED: [("text_a",), *((text,) for text in texts)],
        _PAIRS: [("text_a", "text_b"), *((pair.text_a, pair.text_b) for pair in alike)],
        "dev": [
            ("text_a", "text_b", "label"),
            *((pair.text_a, pair.text_b, pair.label) for pair in dev),
        ],
    }
    return {name: _write_table(options.work_dir, name, rows) for name, rows in tables.items()}


def _write_table(folder: str, name: str, rows: Iterable[Sequence[str]]) -> str:
    files.make_directory(folder)
    path = os.path.join(os.path.abspath(folder), f"{name}.tsv")
    files.write_text(path, "".join("\t".join(row) + "\n" for row in rows))
    return path


def make_runs(options: ContrastiveBenchmarkOptions, paths: dict[str, str]) -> list[Run]:
    """Returns the trainings; the one before training makes an update with the learning rate 0."""
    runs = []
    for seed, training, pooling in itertools.product(
        range(1, 1 + options.seeds), TRAININGS, get_args(Pooling)
    ):
        is_before = training == _BEFORE
        if is_before and seed > 1:
            continue
        steps = 1 if is_before else options.num_train_steps
        values = {
            "learning_rate": 0.0 if is_before else options.learning_rate,
            "num_train_steps": steps,
            "train_batch_size": options.train_batch_size,
            "max_seq_length": options.max_seq_length,
            "dropout": options.dropout,
        }
        flags = {
            "task_name": "embedding",
            "train_file": paths[_UNSUPERVISED if is_before else training],
            "dev_file": paths["dev"],
            **options.model_flags(),
            "pooling": pooling,
            "random_seed": seed,
            "save_checkpoints_steps": steps,
            **values,
        }
        command = ["run_classifier.py", "--do_train", "--do_eval"]
        command += [f"--{name}={value}" for name, value in flags.items()]
        key = {"training": training, "pooling": pooling, "seed": seed, **values}
        runs.append(Run(key, command))
    return runs


def table(runs: Sequence[Run], results: Results) -> str:
    """Returns the correlations times 100 and the CPU minutes of a training."""
    found: dict[tuple[str, str], list[Line]] = {}
    for run in runs:
        if line := results.find(run):
            found.setdefault((run.key["pooling"], run.key["training"]), []).append(line)
    rows = []
    for pooling in get_args(Pooling):
        lines = [found.get((pooling, training), []) for training in TRAININGS]
        scores = [[100 * line["scores"]["spearman"] for line in of_cell] for of_cell in lines]
        minutes = [line["cpu_minutes"] for of_cell in lines[1:] for line in of_cell]
        rows.append(
            [
                pooling,
                *(mean_and_spread(of_cell, digits=2) if of_cell else "" for of_cell in scores),
                f"{sum(minutes) / len(minutes):.1f}" if minutes else "",
            ]
        )
    return markdown_table(["pooling", *TRAININGS, "CPU minutes"], rows)


def _main(options: ContrastiveBenchmarkOptions) -> None:
    runs = make_runs(options, write_data(options))
    results = Results(os.path.join(options.work_dir, "results.jsonl"))
    finish(runs, results, options.work_dir)
    print(f"{processor()}\n\n{table(runs, results)}")


if __name__ == "__main__":
    command_line.run(ContrastiveBenchmarkOptions, _main)
