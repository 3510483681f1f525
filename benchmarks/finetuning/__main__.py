"""Times fine-tuning and prediction against all batches padded, and against Hugging Face's in PyTorch.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    python -m benchmarks.finetuning --data_dir=glue --spm_model_file=30k-clean.model

The rows are real: training and dev set of GLUE tasks. Each candidate makes its own batches
(`samples.Batching`); a few batches of an epoch are timed, chosen so that their lengths are spread like
those of all. All candidates take turns, each in a process of its own; ratios are medians of the ratios
within a round. CPU seconds are those of all threads. `group_by_length` is an option of transformers'
Trainer, with which its batches have little padding. In training, ours skip most of the padding shown.

The command fails if a goal, one of the constants below, is missed.
"""

import dataclasses
import tempfile
from collections.abc import Mapping

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.task_table import GLUE_TASKS
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.finetuning import samples
from benchmarks.finetuning.candidates import BATCHINGS, CANDIDATES, OURS, PADDED
from benchmarks.harness import (
    KERAS_POLICIES,
    Rounds,
    check_candidates,
    check_choices,
    find_slow,
    markdown_table,
    median,
    processor,
    ratio,
    take_turns,
)

# How many times as fast ours has to be as the same model with all batches padded, by task; and as each of
# the others whose Trainer has its default batches.
_GOALS_OVER_PADDED = {"sst-2": 3.0}
_GOAL = 1.3
_HEADER = (
    *("", "sequences/s", "ours x", "ours x, CPU", "CPU ms a sequence"),
    *("padding", "batches", "peak MiB"),
)
_ACTIVITIES = ("training", "prediction")
# The tasks with classes and one dev set.
_TASKS = tuple(
    task.name
    for task in GLUE_TASKS
    if task.kind == "classification" and list(task.sets.get("dev", ())) == [""]
)


@dataclasses.dataclass(frozen=True)
class FinetuningBenchmarkOptions:
    """The options of this benchmark."""

    data_dir: str = option("Folder of GLUE's tasks in the original layout.")
    spm_model_file: str = option("SentencePiece model.")
    tasks: tuple[str, ...] = option("Which tasks.", ("sst-2", "mrpc"))
    activities: tuple[str, ...] = option("training, prediction or both.", _ACTIVITIES)
    precisions: tuple[str, ...] = option("fp32, bf16 or both.", tuple(KERAS_POLICIES))
    candidates: tuple[str, ...] = option("What to time.", tuple(CANDIDATES))
    preset: str = option("The model.", "base_v2")
    max_seq_length: int = option("Most tokens of an example; `albert_tf padded` pads to it.", 128)
    train_batch_size: int = option("Examples of an update.", 32, least=1)
    eval_batch_size: int = option("Examples of an evaluation step.", 64, least=1)
    num_batches: int = option(
        "Batches to time; all batches if there are at most twice as many.", 8, least=1
    )
    rounds: int = option("Number of turns of each candidate.", 3, least=1)

    def __post_init__(self):
        check_choices("tasks", map(str.lower, self.tasks), _TASKS)
        check_ranges(self)
        check_choices("activities", self.activities, _ACTIVITIES)
        check_choices("precisions", self.precisions, KERAS_POLICIES)


def make_samples(
    features: Features, activity: samples.Activity, options: FinetuningBenchmarkOptions
) -> dict[str, samples.Sample]:
    """Returns the batches that each candidate is timed with."""
    sizes = {"training": options.train_batch_size, "prediction": options.eval_batch_size}
    of_batching = {}
    for batching in {BATCHINGS[name] for name in options.candidates}:
        sizing = (sizes[activity], options.max_seq_length)
        batches = samples.epoch(features, activity, batching, *sizing)
        of_batching[batching] = samples.sample(batches, options.num_batches)
    return {name: of_batching[BATCHINGS[name]] for name in options.candidates}


def goals(task: str) -> dict[str, float]:
    """Returns how many times as fast as the others ours has to be."""
    over_others = {name: _GOAL for name in BATCHINGS if BATCHINGS[name] == "trainer"}
    goal = _GOALS_OVER_PADDED.get(task.lower())
    return over_others | ({PADDED: goal} if goal else {})


def table(sample_of: Mapping[str, samples.Sample], results: Rounds) -> str:
    """Returns the table of a workload."""
    rows = []
    for name, rounds in results.items():
        kinds = ("seconds", "cpu_seconds") if OURS in results else ()
        of_ours = [f"{ratio(results, name, OURS, kind):.2f}" for kind in kinds] or ["", ""]
        sample = sample_of[name]
        rows.append(
            [
                *(name, f"{1 / median(rounds):,.1f}", *of_ours),
                f"{1000 * median(rounds, 'cpu_seconds'):,.1f}",
                *(f"{100 * sample.padding:.0f} %", str(len(sample.batches))),
                f"{rounds[-1].peak_mib:,.0f}",
            ]
        )
    return markdown_table(_HEADER, rows)


def _main(options: FinetuningBenchmarkOptions) -> None:
    check_candidates(CANDIDATES, options.candidates)
    print(f"{processor()}\n")
    config = AlbertConfig.from_preset(options.preset)
    tokenizer = AlbertTokenizer(options.spm_model_file)
    misses = []
    for task in options.tasks:
        for activity in options.activities:
            features = samples.read_features(
                options.data_dir, task, activity, tokenizer, options.max_seq_length
            )
            sample_of = make_samples(features, activity, options)
            for precision in options.precisions:
                what = f"{task}, {activity}, {precision}"
                given = {"config": config.to_dict(), "activity": activity, "precision": precision}
                with tempfile.TemporaryDirectory() as folder:
                    arguments = {
                        name: given | {"path": samples.save(folder, name, sample.batches)}
                        for name, sample in sample_of.items()
                    }
                    module = "benchmarks.finetuning.candidates"
                    results = take_turns(module, arguments, options.rounds, steps=1)
                print(f"{options.preset}, {what}\n\n{table(sample_of, results)}\n", flush=True)
                if OURS in results:
                    misses.extend(find_slow(what, results, OURS, goals(task)))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(FinetuningBenchmarkOptions, _main)
