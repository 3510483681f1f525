"""Times fine-tuning and prediction against all batches padded, and against Hugging Face's in PyTorch.

Usage:
    pip install -r requirements-benchmarks.txt
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
from collections.abc import Iterator, Mapping

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.glue import GLUE_TASKS
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.finetuning import samples
from benchmarks.finetuning.candidates import BATCHINGS, CANDIDATES, OURS, PADDED
from benchmarks.harness import (
    KERAS_POLICIES,
    Round,
    Rounds,
    check_candidates,
    check_choices,
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

Samples = Mapping[str, samples.Sample]


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
    chosen = {}
    for name in options.candidates:
        batching = BATCHINGS[name]
        if batching not in of_batching:
            batches = samples.epoch(
                features, activity, batching, sizes[activity], options.max_seq_length
            )
            of_batching[batching] = samples.sample(batches, options.num_batches)
        chosen[name] = of_batching[batching]
    return chosen


def measure(
    config: AlbertConfig,
    activity: samples.Activity,
    precision: str,
    sample_of: Samples,
    rounds: int,
) -> dict[str, list[Round]]:
    """Runs all candidates in turn and returns the rounds of each, in seconds of a sequence.

    Args:
        config: of the encoder.
        activity: what to time.
        precision: of the layers; in training, variables are fp32.
        sample_of: the batches of each candidate.
        rounds: number of turns of each.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = {}
        for number, (name, sample) in enumerate(sample_of.items()):
            path = f"{folder}/{number}.pickle"
            samples.save(path, sample.batches)
            arguments[name] = {
                "config": config.to_dict(),
                "activity": activity,
                "precision": precision,
                "path": path,
            }
        return take_turns("benchmarks.finetuning.candidates", arguments, rounds, 1)


def find_misses(what: str, task: str, results: Rounds) -> Iterator[str]:
    """Yields a sentence for each goal that is missed.

    Args:
        what: name of the measurement.
        task: its name.
        results: of each candidate.
    """
    for name in results:
        if goal := _goal(task, name):
            times = ratio(results, name, OURS)
            if times < goal:
                yield f"{what}: {OURS} is {times:.2f} times as fast as {name}; the goal is {goal}"


def _goal(task: str, name: str) -> float | None:
    """Returns how many times as fast as a candidate ours has to be."""
    if name == PADDED:
        return _GOALS_OVER_PADDED.get(task.lower())
    return _GOAL if BATCHINGS[name] == "trainer" else None


def table(sample_of: Samples, results: Rounds) -> str:
    """Returns the table of a workload."""
    return markdown_table(_HEADER, [_cells(name, sample_of[name], results) for name in results])


def _cells(name: str, sample: samples.Sample, results: Rounds) -> list[str]:
    of_ours = [
        f"{ratio(results, name, OURS, of):.2f}" if OURS in results else ""
        for of in ("seconds", "cpu_seconds")
    ]
    return [
        name,
        f"{1 / median(results[name]):,.1f}",
        *of_ours,
        f"{1000 * median(results[name], 'cpu_seconds'):,.1f}",
        f"{100 * sample.padding:.0f} %",
        str(len(sample.batches)),
        f"{results[name][-1].peak_mib:,.0f}",
    ]


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
                results = measure(config, activity, precision, sample_of, options.rounds)
                print(f"{options.preset}, {what}\n\n{table(sample_of, results)}\n", flush=True)
                if OURS in results:
                    misses.extend(find_misses(what, task, results))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(FinetuningBenchmarkOptions, _main)
