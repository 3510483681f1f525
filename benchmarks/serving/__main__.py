"""Times exported models, text in and label out, next to other runtimes with the same weights.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    python -m benchmarks.serving --input_file=glue/SST-2/dev.tsv --spm_model_file=30k-clean.model

A classifier of two classes with random weights answers the sentences of a file in their order, one by one
and in batches of 32, padded to the longest sentence of a batch; tokenization is part of the time. All
candidates take turns, each in a process of its own, with equal numbers of threads. A cold start ends with
the first answer; `load s` leaves out the start of Python and the imports. `MiB` are the size on disk, and
the resident memory of the process after the last round. Answers are compared with ours in the first of
the precisions. Rounding random weights to int8 changes more answers than rounding trained ones.

The command fails if answers differ, or if ours is slower than `_GOALS` says.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf import command_line, files
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.examples import Columns, read_glue_table
from albert_tf.errors import InputError, name_place
from albert_tf.options import check_ranges, option
from benchmarks.harness import (
    KERAS_POLICIES,
    Round,
    Worker,
    check_candidates,
    check_choices,
    find_slow,
    markdown_table,
    median,
    processor,
    ratio,
)
from benchmarks.serving import candidates
from benchmarks.serving.candidates import (
    CANDIDATES,
    COMPILED,
    FILES,
    LABELS,
    LOADED,
    MAX_SEQ_LENGTH,
    ONNX_RUNTIME,
    OPENVINO,
    OURS,
    PRECISIONS,
    TRANSFORMERS,
    Answers,
)

BATCH_SIZE = 32
# How many times as many answers per second ours has to give.
_GOALS = {
    "fp32": {TRANSFORMERS: 1.0, COMPILED: 1.0, ONNX_RUNTIME: 1.0},
    "bf16": {TRANSFORMERS: 1.5, COMPILED: 1.5},
    "int8": {},
}
# Largest difference of a probability from ours.
_TOLERANCES = {"fp32": 1e-4, "bf16": 0.1, "int8": 1.0}
# Texts that OpenVINO estimates the ranges of activations from.
_CALIBRATION_TEXTS = 100
# With ALBERT's own 0.02 all texts get about the same answer.
_INITIALIZER_RANGE = 0.07
_HEADER = (
    *("", "answers/s", "times the first", "CPU ms", "alone ms", "90 % ms", "start s", "load s"),
    *("MiB on disk", "in memory", "other labels", "difference"),
)


@dataclasses.dataclass(frozen=True)
class ServingBenchmarkOptions:
    """The options of this benchmark."""

    input_file: str = option("A file of SST-2 in GLUE's layout.")
    spm_model_file: str = option("SentencePiece model.")
    preset: str = option("Size of the model.", "base_v2")
    precisions: tuple[str, ...] = option("fp32, bf16, int8 or several.", PRECISIONS[OPENVINO])
    num_sentences: int | None = option("Sentences. Default: all of the file.", None, least=1)
    candidates: tuple[str, ...] = option("Runtimes to time next to ours.", tuple(CANDIDATES))
    rounds: int = option("Number of turns of each candidate.", 3, least=1)
    num_threads: int = option("Threads of each candidate.", os.cpu_count(), least=1)

    def __post_init__(self):
        check_choices("precisions", self.precisions, PRECISIONS[OPENVINO])
        check_ranges(self)


def write_folder(
    config: AlbertConfig,
    texts: Sequence[str],
    names: Sequence[str],
    precisions: Sequence[str],
    folder: str,
    vocabulary: str,
) -> None:
    """Writes one classifier, with one set of weights, in the form that each candidate reads."""
    from albert_tf.conversion import save_model
    from albert_tf.export import export
    from albert_tf.kinds import Classification
    from albert_tf.models import AlbertClassifier, AlbertEncoder
    from albert_tf.tokenization import AlbertTokenizer
    from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files

    def make_model(precision: str) -> AlbertClassifier:
        policy = KERAS_POLICIES.get(precision)
        encoder = AlbertEncoder(config, seed=0, dtype=policy)
        return AlbertClassifier(encoder, len(LABELS), seed=1, dtype=policy)

    files.write_json(os.path.join(folder, candidates.TEXTS), list(texts))
    with name_place("--spm_model_file"):
        tokenizer = AlbertTokenizer(vocabulary)
    shutil.copyfile(vocabulary, os.path.join(folder, candidates.VOCABULARY))
    tokenize = candidates.albert_tf_tokenizer(folder)
    calibration = [tokenize([text]) for text in texts[:_CALIBRATION_TEXTS]]
    forms = {OURS: "saved_model", OPENVINO: "openvino", ONNX_RUNTIME: "onnx"}
    for name, form in forms.items():
        for precision in precisions:
            if name in names and precision in PRECISIONS[name]:
                weights = "int8" if precision == "int8" else None
                kind = Classification(labels=tuple(LABELS), max_seq_length=MAX_SEQ_LENGTH)
                where = tokenizer, f"{folder}/{precision}", form, weights
                export(make_model(precision), kind, *where, calibration=calibration)
    if {LOADED, TRANSFORMERS, COMPILED} & set(names):
        hugging_face = os.path.join(folder, candidates.HUGGING_FACE)
        more_files = hugging_face_files(tokenizer, config.max_position_embeddings)
        save_model(make_model("fp32"), hugging_face, contents=more_files)


@dataclasses.dataclass
class Result:
    """Measurements of one candidate."""

    # Seconds to the first answer, from the start of the process and from the end of the imports.
    start: tuple[float, float]
    answers: list[Answers]  # one by one and in batches
    latencies: list[float] = dataclasses.field(default_factory=list)  # seconds of each text alone
    rounds: list[Round] = dataclasses.field(default_factory=list)  # of all texts in batches


def measure(
    folder: str, names: Sequence[str], precision: str, rounds: int, num_threads: int
) -> dict[str, Result]:
    """Runs candidates, with models and texts of a folder, in turn."""
    given = {"folder": folder, "precision": precision, "num_threads": num_threads}
    with contextlib.ExitStack() as stack:
        workers, results = {}, {}
        for name in names:
            # One starts after another, so that none is timed during a start. Some compile each new
            # length, which these answers, which are not timed, do.
            worker = stack.enter_context(Worker("benchmarks.serving.candidates", name, given))
            answers = [_answer(worker, size) for size in (1, BATCH_SIZE)]
            workers[name], results[name] = worker, Result(tuple(worker.ask(["start"])), answers)
        for _ in range(rounds):
            for name, result in results.items():
                seconds, _, _ = workers[name].ask(["time", 1])
                result.latencies.extend(seconds)
                seconds, cpu_seconds, resident_mib = workers[name].ask(["time", BATCH_SIZE])
                result.rounds.append(Round(sum(seconds), cpu_seconds, resident_mib))
    return results


def _answer(worker: Worker, batch_size: int) -> Answers:
    labels, probabilities = worker.ask(["answer", batch_size])
    return Answers(labels, np.array(probabilities, np.float32))


class Difference(NamedTuple):
    """The number of different labels, and the largest difference of a probability."""

    labels: int
    probability: float


def compare(result: Result, reference: Answers) -> Difference:
    """Compares the answers of a candidate, one by one and in batches, with reference answers."""
    labels = sum(
        one != other
        for answers in result.answers
        for one, other in zip(answers.labels, reference.labels, strict=True)
    )
    distances = [
        np.abs(answers.probabilities - reference.probabilities).max() for answers in result.answers
    ]
    return Difference(labels, float(max(distances)))


def find_misses(
    precision: str, results: Mapping[str, Result], differences: Mapping[str, Difference]
) -> Iterator[str]:
    """Yields a sentence for each missed goal."""
    rounds = {name: result.rounds for name, result in results.items()}
    yield from find_slow(precision, rounds, OURS, _GOALS[precision])
    for name, difference in differences.items():
        if difference.probability > _TOLERANCES[precision]:
            yield f"{precision}: {name} is {difference.probability:.1g} from {OURS} in probability"
        if precision == "fp32" and difference.labels:
            yield f"{precision}: {name} gives {difference.labels} other labels than {OURS}"


def table(
    folder: str,
    precision: str,
    results: Mapping[str, Result],
    differences: Mapping[str, Difference],
) -> str:
    """Returns the table of a precision."""
    rounds = {name: result.rounds for name, result in results.items()}
    first = next(iter(results))
    rows = []
    for name, result in results.items():
        count = len(result.answers[0].labels)
        half, ninety_percent = np.percentile(result.latencies, [50, 90])
        rows.append(
            [
                name,
                f"{count / median(result.rounds):.1f}",
                f"{ratio(rounds, name, first):.2f}",
                f"{1000 * median(result.rounds, 'cpu_seconds') / count:.1f}",
                f"{1000 * half:.1f}",
                f"{1000 * ninety_percent:.1f}",
                f"{result.start[0]:.1f}",
                f"{result.start[1]:.1f}",
                f"{_size_mib(folder, name, precision):.1f}",
                f"{result.rounds[-1].peak_mib:,.0f}",
                str(differences[name].labels),
                f"{differences[name].probability:.0e}",
            ]
        )
    return markdown_table(_HEADER, rows)


def _size_mib(folder: str, name: str, precision: str) -> float:
    paths = [pathlib.Path(folder, path.format(precision=precision)) for path in FILES[name]]
    inner = (file for path in paths for file in (path, *path.rglob("*")) if file.is_file())
    return sum(file.stat().st_size for file in inner) / 2**20


def _main(options: ServingBenchmarkOptions) -> None:
    names = tuple(dict.fromkeys((OURS, *options.candidates)))
    check_candidates(CANDIDATES, names)
    sentences = read_glue_table(options.input_file, Columns(text_a="sentence"))
    place = sentences.columns.index("sentence")
    texts = [row[place] for row in sentences.rows[: options.num_sentences]]
    config = AlbertConfig.from_preset(options.preset, initializer_range=_INITIALIZER_RANGE)
    print(f"{processor()}, {options.num_threads} threads\n")
    misses, reference = [], None
    with tempfile.TemporaryDirectory() as folder:
        write_folder(config, texts, names, options.precisions, folder, options.spm_model_file)
        for precision in options.precisions:
            able = [name for name in names if precision in PRECISIONS[name]]
            results = measure(folder, able, precision, options.rounds, options.num_threads)
            reference = reference or results[OURS].answers[-1]
            differences = {name: compare(result, reference) for name, result in results.items()}
            print(f"{options.preset}, {precision}, {len(texts)} sentences\n")
            print(table(folder, precision, results, differences), end="\n\n")
            misses.extend(find_misses(precision, results, differences))
            sys.stdout.flush()
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(ServingBenchmarkOptions, _main)
