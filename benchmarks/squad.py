r"""Times the conversion of SQuAD into windows, and their prediction.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.squad --input_file=dev-v2.0.json --spm_model_file=30k-clean.model \
        --original_dir=../albert

The conversion takes turns with the original's. The file is repeated until there are as many questions as
SQuAD 2.0 has for training; each copy of a passage is tokenised again. Seconds are of the conversion, the
workers' start and writing included, imports and reading the file excluded, as in the original's figure.
CPU seconds are those of all processes, imports included.

Then ours and transformers predict the same windows with a model of the same shape, the longest first, in
batches padded to their longest window, each in a process of its own and in turns. `make test-parity`
compares their answers.

The command fails if the conversion is less than ten times as fast as the original's.
"""

import dataclasses
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import command_line, files
from albert_tf.errors import InputError
from albert_tf.options import option
from benchmarks.harness import (
    TORCH,
    Candidate,
    Round,
    Rounds,
    check_candidates,
    hugging_face_config,
    markdown_table,
    median,
    processor,
    take_turns,
    timed,
    timing_cells,
    torch_inputs,
    watch,
)
from benchmarks.original import check_original, run_original

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.features import Features
    from albert_tf.data.squad.questions import SquadExample

# Questions that the original converts, in one process.
_ORIGINAL_QUESTIONS = 1500
# How many times as fast as the original any number of workers has to be.
_GOAL = 10
_WORKERS = (1, 2)
_BATCH_SIZE = 32
_ROUNDS = 5
_CONVERSION_HEADER = (
    *("workers", "questions", "windows", "seconds", "windows/s", "x original", "CPU s"),
    *("peak MiB", "worker MiB"),
)
_CONVERSION_STYLES = (",.0f", ",.0f", ".1f", ",.0f", ".0f", ".1f", ",.0f", ",.0f")
_PREDICTION_HEADER = ("", "windows/s", "ms", "times ours", "CPU ms", "peak MiB")

# Predicts all windows once and waits until that is done.
Pass = Callable[[], object]


def repeat(examples: "Sequence[SquadExample]", count: int) -> "list[SquadExample]":
    """Returns `count` examples: the given ones in their order, again and again."""
    copies = -(-count // len(examples))
    return (list(examples) * copies)[:count]


def convert(input_file: str, spm_model_file: str, num_questions: str, num_workers: str) -> None:
    """Turns questions into records of windows once, and prints windows and seconds as JSON.

    Runs in a process of its own, so that its memory and that of its workers can be seen.
    """
    from albert_tf.data.squad.conventions import WindowConfig
    from albert_tf.data.squad.questions import read_squad
    from albert_tf.data.squad.window_arrays import read_features
    from albert_tf.data.squad.window_records import name_shards, write_windows
    from albert_tf.tokenization import AlbertTokenizer

    examples = repeat(read_squad(input_file), int(num_questions))
    tokenizer, rule = AlbertTokenizer(spm_model_file), WindowConfig()
    with tempfile.TemporaryDirectory() as folder:
        shards = name_shards(f"{folder}/windows", len(examples))
        start = time.monotonic()
        write_windows(examples, tokenizer, rule, False, shards, int(num_workers))
        seconds = time.monotonic() - start
        windows = len(read_features(shards, rule.max_seq_length))
    print(json.dumps({"windows": windows, "seconds": seconds}))


def measure_conversion(options: "SquadOptions") -> dict[str, list[float]]:
    """Returns the medians of the conversion table's columns, by number of workers or `original`."""
    results: dict[str, list[tuple[float, ...]]] = {}
    paths = (options.input_file, options.spm_model_file)
    for _ in range(options.rounds):
        original_rate = math.nan
        if options.original_dir:
            count = _ORIGINAL_QUESTIONS
            took = run_original(options.original_dir, "squad", *paths, str(count))
            original_rate = took["windows"] / took["seconds"]
            results.setdefault("original", []).append(
                (
                    *(count, took["windows"], took["seconds"], original_rate, 1.0),
                    *(took["cpu_seconds"], took["peak_mib"], 0.0),
                )
            )
        for workers in _WORKERS:
            arguments = (*paths, str(options.num_questions), str(workers))
            with tempfile.NamedTemporaryFile("r") as output:
                command = [sys.executable, "-m", "benchmarks.squad", "convert", *arguments]
                usage = watch(command, output.name)
                took = json.load(output)
            rate = took["windows"] / took["seconds"]
            results.setdefault(str(workers), []).append(
                (
                    *(options.num_questions, took["windows"], took["seconds"], rate),
                    *(rate / original_rate, usage.all_cpu_seconds),
                    *(usage.peak_mib, usage.worker_mib),
                )
            )
    return {
        name: [statistics.median(column) for column in zip(*rounds, strict=True)]
        for name, rounds in results.items()
    }


def _our_pass(features: "Features") -> Pass:
    """Makes the prediction of `run_squad.py`."""
    import tensorflow as tf

    from albert_tf.config import AlbertConfig
    from albert_tf.data.pipeline import evaluation_batches
    from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
    from albert_tf.training import Evaluator, make_strategy

    tf.config.set_visible_devices([], "GPU")
    strategy = make_strategy("one_device")
    with strategy.scope():
        encoder = AlbertEncoder(AlbertConfig.from_preset("base_v2"), with_pooler=False, seed=1)
        evaluator = Evaluator(AlbertSpanLabeler(encoder, seed=2), None, strategy)
    batches, _ = evaluation_batches(features, _BATCH_SIZE)
    return lambda: list(evaluator.predict_batches(batches))


def _transformers_pass(features: "Features", compiled: bool = False) -> Pass:
    """Makes the usual prediction of Hugging Face's `AlbertForQuestionAnswering` in PyTorch."""
    import torch
    from transformers import AlbertForQuestionAnswering

    from albert_tf.config import AlbertConfig

    shape = hugging_face_config(AlbertConfig.from_preset("base_v2"), classifier_dropout=0.1)
    model = AlbertForQuestionAnswering(shape).eval()
    forward = torch.compile(model, dynamic=True) if compiled else model
    batches = [torch_inputs(batch) for batch in _exact_batches(features)]

    def predict() -> None:
        with torch.inference_mode():
            for batch in batches:
                outputs = forward(**batch)
                outputs.start_logits.numpy(), outputs.end_logits.numpy()

    return predict


def _exact_batches(features: "Features") -> Iterator[dict[str, np.ndarray]]:
    """Yields batches, the longest first, each as long as its longest window."""
    from albert_tf.data.pipeline import make_batch

    order = np.argsort(-features.lengths, kind="stable")
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        yield make_batch(features, rows, fixed_length=int(features.lengths[rows].max()))


def _draw_windows(input_file: str, spm_model_file: str, num_windows: int) -> "Features":
    """Returns windows drawn from the whole file, so that they are as long as its windows are."""
    from albert_tf.data.fine_tuning.features import Features
    from albert_tf.data.squad.conventions import WindowConfig
    from albert_tf.data.squad.questions import read_squad
    from albert_tf.data.squad.windows import WindowMaker
    from albert_tf.tokenization import AlbertTokenizer

    tokenizer = AlbertTokenizer(spm_model_file)
    windows = list(WindowMaker(tokenizer, WindowConfig())(read_squad(input_file)))
    drawn = np.random.default_rng(1).permutation(len(windows))[:num_windows]
    windows = [windows[index] for index in drawn]
    return Features(
        input_ids=np.concatenate([window.input_ids for window in windows]),
        lengths=np.array([len(window.input_ids) for window in windows], np.int32),
        first_lengths=np.array([window.question_length for window in windows], np.int32),
    )


def _start(
    make_pass: Callable[..., Pass],
    input_file: str,
    spm_model_file: str,
    num_windows: int,
    **arguments: Any,
) -> Callable[[int], Round]:
    """Returns a function that times a pass over some windows of a file in a candidate's process."""
    return timed(make_pass(_draw_windows(input_file, spm_model_file, num_windows), **arguments))


OURS = "albert_tf"
CANDIDATES = {
    OURS: Candidate(_start, {"make_pass": _our_pass}),
    "transformers": Candidate(_start, {"make_pass": _transformers_pass}, TORCH),
    "transformers torch.compile": Candidate(
        _start, {"make_pass": _transformers_pass, "compiled": True}, TORCH
    ),
}


@dataclasses.dataclass(frozen=True)
class SquadOptions:
    """The options of this benchmark."""

    input_file: str = option("A file of SQuAD 1.1 or 2.0.")
    spm_model_file: str = option("SentencePiece model.")
    num_questions: int = option(
        "Questions to convert; as many as SQuAD 2.0 has for training.", 130_319
    )
    original_dir: str | None = option(
        "A clone of github.com/google-research/albert, whose conversion is timed in turns with ours.",
        None,
    )
    rounds: int = option("Turns of each conversion.", 3)
    num_windows: int = option("Windows to predict.", 64)
    candidates: tuple[str, ...] = option("Candidates to predict next to ours.", tuple(CANDIDATES))


def prediction_table(results: Rounds, num_windows: int) -> str:
    """Returns the table of prediction."""
    rows = [
        [name, f"{num_windows / median(rounds):.1f}", *timing_cells(results, name, OURS)]
        for name, rounds in results.items()
    ]
    return markdown_table(_PREDICTION_HEADER, rows)


def _main(options: SquadOptions) -> None:
    names = tuple(dict.fromkeys((OURS, *options.candidates)))
    check_candidates(CANDIDATES, names)
    for path in (options.input_file, options.spm_model_file):
        files.read_bytes(path)  # so that a mistake is one line, before any process is started
    if options.original_dir:
        check_original(options.original_dir)
    print(processor(), flush=True)
    conversion = measure_conversion(options)
    rows = [
        [
            name,
            *(
                format(*cell).replace("nan", "")
                for cell in zip(row, _CONVERSION_STYLES, strict=True)
            ),
        ]
        for name, row in conversion.items()
    ]
    print(markdown_table(_CONVERSION_HEADER, rows), flush=True)
    given = {
        "input_file": options.input_file,
        "spm_model_file": options.spm_model_file,
        "num_windows": options.num_windows,
    }
    results = take_turns("benchmarks.squad", dict.fromkeys(names, given), _ROUNDS, steps=1)
    print("\n" + prediction_table(results, options.num_windows))
    faster = _CONVERSION_HEADER.index("x original") - 1
    if any(conversion[str(workers)][faster] < _GOAL for workers in _WORKERS):
        raise InputError(f"the conversion is less than {_GOAL} times as fast")


if __name__ == "__main__":
    if sys.argv[1:2] == ["convert"]:
        convert(*sys.argv[2:])
    else:
        command_line.run(SquadOptions, _main)
