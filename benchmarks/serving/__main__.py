"""Times exported models, text in and label out, next to other runtimes with the same weights.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.serving --input_file=glue/SST-2/dev.tsv --spm_model_file=30k-clean.model

A classifier of two classes with random weights answers the sentences of a file in their order, one by one
and in batches of 32, padded to the longest sentence of a batch; tokenization is part of the time. All
candidates take turns, each in a process of its own, with equal numbers of threads. A cold start ends with
the first answer; `load s` leaves out the start of Python and the imports. `MiB` are the size on disk, and
the resident memory of the process after the last round. Answers are compared with ours in the first of
the precisions. Rounding random weights to int8 changes more answers than rounding trained ones.

In fp32 and bf16 all then compute 8 full sequences of 128 ids, next to the matrix products alone, each
product timed at its own shape and precision in TensorFlow.

The command fails if answers differ, or if ours is slower than docs/serving.md says.
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
from albert_tf.data.fine_tuning.tsv import Columns, read_examples
from albert_tf.errors import InputError, name_place
from albert_tf.options import check_ranges, option
from albert_tf.progress import Progress
from benchmarks.harness import (
    KERAS_POLICIES,
    Round,
    Rounds,
    Worker,
    check_candidates,
    check_choices,
    markdown_table,
    median,
    processor,
    ratio,
)
from benchmarks.serving import candidates
from benchmarks.serving.candidates import (
    CANDIDATES,
    COMPILED,
    LABELS,
    MAX_SEQ_LENGTH,
    ONNX_RUNTIME,
    OPENVINO,
    OURS,
    PRECISIONS,
    PRODUCTS,
    RUNTIMES,
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
# How many times as long as the products our forward pass may take.
_FORWARD_GOALS = {"fp32": 1.15, "bf16": 2.0}
# Largest difference of a probability from ours.
_TOLERANCES = {"fp32": 1e-4, "bf16": 0.1, "int8": 1.0}
# Texts that OpenVINO estimates the ranges of activations from.
_CALIBRATION_TEXTS = 100
# With ALBERT's own 0.02 all texts get about the same answer.
_INITIALIZER_RANGE = 0.07

_HEADER = (
    *("", "answers/s", "times ours", "CPU ms", "alone ms", "90 % ms", "start s", "load s"),
    *("MiB on disk", "in memory", "other labels", "difference"),
)
_FORWARD_HEADER = ("", "ms", "times the products", "CPU ms", "CPU times the products")


@dataclasses.dataclass(frozen=True)
class ServedModelOptions:
    """The options of benchmarks of a served model: its size, and the sentences that it answers."""

    input_file: str = option("A file of SST-2 in GLUE's layout.")
    spm_model_file: str = option("SentencePiece model.")
    preset: str = option("Size of the model.", "base_v2")
    precisions: tuple[str, ...] = option("fp32, bf16, int8 or several.", PRECISIONS[OURS])
    num_sentences: int | None = option(
        "Number of sentences. Default: all of the file.", None, least=1
    )

    def __post_init__(self):
        check_choices("precisions", self.precisions, PRECISIONS[OURS])
        check_ranges(self)

    def read_texts(self) -> list[str]:
        """Reads the sentences."""
        examples = read_examples(self.input_file, Columns(text_a="sentence"), "dev")
        return [example.text_a for example in examples[: self.num_sentences]]

    def config(self) -> AlbertConfig:
        """Returns the config of the model."""
        return AlbertConfig.from_preset(self.preset, initializer_range=_INITIALIZER_RANGE)


@dataclasses.dataclass(frozen=True)
class ServingBenchmarkOptions(ServedModelOptions):
    """The options of this benchmark."""

    candidates: tuple[str, ...] = option("Runtimes to time next to ours.", tuple(RUNTIMES))
    rounds: int = option("Number of turns of each candidate.", 3, least=1)
    steps: int = option("Forward passes of a turn.", 5, least=1)
    num_threads: int = option(
        "Number of threads of each candidate. Default: number of cores.", os.cpu_count(), least=1
    )

    def __post_init__(self):
        super().__post_init__()
        check_choices("candidates", self.candidates, RUNTIMES)


def write_folder(
    config: AlbertConfig,
    texts: Sequence[str],
    names: Sequence[str],
    precisions: Sequence[str],
    folder: str,
    vocabulary: str,
) -> None:
    """Writes one classifier, with one set of weights, in the form that each candidate reads.

    Args:
        config: of the encoder.
        texts: the texts to answer.
        names: the candidates.
        precisions: those to time.
        folder: output folder.
        vocabulary: SentencePiece model.
    """
    from albert_tf.conversion import save_hugging_face
    from albert_tf.export import ExportDetails, export_classifier
    from albert_tf.models import AlbertClassifier, AlbertEncoder
    from albert_tf.tokenization import AlbertTokenizer
    from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files

    def make_model(precision: str) -> AlbertClassifier:
        policy = KERAS_POLICIES.get(precision)
        encoder = AlbertEncoder(config, seed=0, dtype=policy)
        return AlbertClassifier(encoder, len(LABELS), seed=1, dtype=policy)

    files.write_json(os.path.join(folder, candidates.CONFIG), config.to_dict())
    files.write_json(os.path.join(folder, candidates.TEXTS), list(texts))
    with name_place("--spm_model_file"):
        tokenizer = AlbertTokenizer(vocabulary)
    shutil.copyfile(vocabulary, os.path.join(folder, candidates.VOCABULARY))
    tokenize = candidates.albert_tf_tokenizer(folder)
    calibration = [tokenize([text]) for text in texts[:_CALIBRATION_TEXTS]]
    forms = {OURS: "saved_model", OPENVINO: "openvino", ONNX_RUNTIME: "onnx"}
    for name, form in forms.items():
        # OpenVINO's and the products' forward passes read the SavedModel in fp32.
        for precision in dict.fromkeys(["fp32", *precisions] if name == OURS else precisions):
            if name in names and precision in PRECISIONS[name]:
                weights = "int8" if precision == "int8" else None
                details = ExportDetails(form, weights, calibration=calibration)
                export_classifier(
                    make_model(precision),
                    LABELS,
                    tokenizer,
                    os.path.join(folder, precision),
                    MAX_SEQ_LENGTH,
                    pairs=False,
                    details=details,
                )
    if {TRANSFORMERS, COMPILED} & set(names):
        hugging_face = os.path.join(folder, candidates.HUGGING_FACE)
        more_files = hugging_face_files(tokenizer, config.max_position_embeddings)
        save_hugging_face(make_model("fp32"), hugging_face, more_files=more_files)


@dataclasses.dataclass
class Result:
    """Measurements of one candidate.

    Attributes:
        start: seconds to the first answer, from the start of the process and from the end of the imports.
        answers: to all texts, one by one and in batches.
        latencies: seconds of each text that came alone, over all rounds.
        rounds: of all texts in batches.
    """

    start: tuple[float, float]
    answers: list[Answers]
    latencies: list[float] = dataclasses.field(default_factory=list)
    rounds: list[Round] = dataclasses.field(default_factory=list)


class Difference(NamedTuple):
    """Difference between answers and reference answers.

    Attributes:
        labels: number of different labels.
        probability: the largest difference of a probability.
    """

    labels: int
    probability: float


def measure(
    folder: str,
    names: Sequence[str],
    precision: str,
    rounds: int,
    steps: int,
    num_threads: int,
) -> tuple[dict[str, Result], dict[str, list[Round]]]:
    """Runs candidates in turn.

    Args:
        folder: holds the models and the texts.
        names: the candidates.
        precision: `fp32`, `bf16` or `int8`.
        rounds: number of turns of each.
        steps: forward passes of a turn.
        num_threads: number of threads of each.

    Returns:
        The results of each candidate, and the rounds of the forward pass of each and of the products;
        none of these in int8.
    """
    given = {"folder": folder, "precision": precision, "num_threads": num_threads}
    of_forward = [*names, PRODUCTS] if precision in _FORWARD_GOALS else []
    turns = len(names) * (1 + rounds) + len(of_forward) * rounds
    progress = Progress(f"answering in {precision}", "turns", turns)
    with contextlib.ExitStack() as stack, progress:
        workers, results = {}, {}
        for name in dict.fromkeys([*names, *of_forward]):
            # One starts after another, so that none is timed during a start. Some compile each new
            # length, which these answers, which are not timed, do.
            worker = Worker("benchmarks.serving.candidates", name, given)
            workers[name] = stack.enter_context(worker)
            if name != PRODUCTS:
                answers = [_answer(worker, size) for size in (1, BATCH_SIZE)]
                results[name] = Result(tuple(worker.ask(["start"])), answers)
                progress.update()
        for _ in range(rounds):
            for name, result in results.items():
                seconds, _, _ = workers[name].ask(["time", 1])
                result.latencies.extend(seconds)
                seconds, cpu_seconds, resident_mib = workers[name].ask(["time", BATCH_SIZE])
                result.rounds.append(Round(sum(seconds), cpu_seconds, resident_mib))
                progress.update()
        forward = {name: [] for name in of_forward}
        for _ in range(rounds):
            for name, turn in forward.items():
                turn.append(Round(*workers[name].ask(["forward", steps])))
                progress.update()
    return results, forward


def _answer(worker: Worker, batch_size: int) -> Answers:
    labels, probabilities = worker.ask(["answer", batch_size])
    return Answers(labels, np.array(probabilities, np.float32))


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
    for name, goal in _GOALS[precision].items():
        if name in rounds and (times := ratio(rounds, name, OURS)) < goal:
            yield f"{precision}: {OURS} is {times:.2f} times as fast as {name}; the goal is {goal}"
    for name, difference in differences.items():
        if difference.probability > _TOLERANCES[precision]:
            yield f"{precision}: {name} is {difference.probability:.1g} from {OURS} in probability"
        if precision == "fp32" and difference.labels:
            yield f"{precision}: {name} gives {difference.labels} other labels than {OURS}"


def find_forward_misses(precision: str, forward: Rounds) -> Iterator[str]:
    """Yields a sentence if the goal of the forward pass is missed."""
    times, goal = ratio(forward, OURS, PRODUCTS), _FORWARD_GOALS[precision]
    if times > goal:
        yield f"{precision}: a forward pass takes {times:.2f} times the products; the goal is {goal}"


def table(
    folder: str,
    precision: str,
    results: Mapping[str, Result],
    differences: Mapping[str, Difference],
) -> str:
    """Returns the table of a precision."""
    rounds = {name: result.rounds for name, result in results.items()}
    rows = []
    for name, result in results.items():
        count = len(result.answers[0].labels)
        half, ninety_percent = np.percentile(result.latencies, [50, 90])
        rows.append(
            [
                name,
                f"{count / median(result.rounds):.1f}",
                f"{ratio(rounds, name, OURS):.2f}",
                f"{1000 * median(result.rounds, 'cpu_seconds') / count:.1f}",
                f"{1000 * half:.1f}",
                f"{1000 * ninety_percent:.1f}",
                f"{result.start[0]:.1f}",
                f"{result.start[1]:.1f}",
                f"{_size_mib(folder, candidates.files(name, precision)):.1f}",
                f"{result.rounds[-1].peak_mib:,.0f}",
                str(differences[name].labels),
                f"{differences[name].probability:.0e}",
            ]
        )
    return markdown_table(_HEADER, rows)


def _size_mib(folder: str, paths: Sequence[str]) -> float:
    found = [pathlib.Path(folder, path) for path in paths]
    inner = (file for path in found for file in (path, *path.rglob("*")) if file.is_file())
    return sum(file.stat().st_size for file in inner) / 2**20


def forward_table(forward: Rounds) -> str:
    """Returns the table of the forward pass in a precision."""
    rows = []
    for name, rounds in forward.items():
        cells = [name]
        for what in ("seconds", "cpu_seconds"):
            cells.append(f"{1000 * median(rounds, what):,.0f}")
            cells.append(f"{ratio(forward, name, PRODUCTS, what):.2f}")
        rows.append(cells)
    return markdown_table(_FORWARD_HEADER, rows)


def _main(options: ServingBenchmarkOptions) -> None:
    names = tuple(dict.fromkeys((OURS, *options.candidates)))
    check_candidates(CANDIDATES, names)
    texts, config = options.read_texts(), options.config()
    print(f"{processor()}, {options.num_threads} threads\n")
    misses = []
    with tempfile.TemporaryDirectory() as folder:
        write_folder(config, texts, names, options.precisions, folder, options.spm_model_file)
        reference = None
        for precision in options.precisions:
            able = [name for name in names if precision in PRECISIONS[name]]
            results, forward = measure(
                folder, able, precision, options.rounds, options.steps, options.num_threads
            )
            reference = reference or results[OURS].answers[-1]
            differences = {name: compare(result, reference) for name, result in results.items()}
            print(f"{options.preset}, {precision}, {len(texts)} sentences\n")
            print(table(folder, precision, results, differences), end="\n\n")
            misses.extend(find_misses(precision, results, differences))
            if forward:
                print(forward_table(forward), end="\n\n")
                misses.extend(find_forward_misses(precision, forward))
            sys.stdout.flush()
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(ServingBenchmarkOptions, _main)
