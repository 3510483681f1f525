"""Times exported models, text in and label out, beside other runtimes with the same weights.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.serving --input_file=glue/SST-2/dev.tsv \
        --spm_model_file=30k-clean.model

A classifier of two classes with random weights answers the sentences of a file in their order, one by one
and in batches of 32, padded to the longest sentence of a batch; tokenization counts. All candidates work
in turn, round after round, each in a process of its own. A cold start ends with the first answer;
`load s` leaves out the start of Python and the imports. `MiB` are what is on disk, and what the process
holds after the last round. Answers are compared with ours in the first of the precisions.

Then all have 8 full sequences of 128 ids, beside what the matrix products take alone, each product timed
at its own shape and precision in TensorFlow.

The command fails where answers differ, and where ours is slower than docs/serving.md says.
"""

import dataclasses
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import command_line
from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.data.tsv import Columns, read_examples
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option
from benchmarks.candidates import KERAS_POLICIES, check_candidates, check_choices
from benchmarks.serving import contest, forward, layout, models
from benchmarks.serving.candidates import CANDIDATES, OURS
from benchmarks.tables import markdown_table
from benchmarks.workers import Round, ratio

# How many times as many answers a second ours has to give.
_GOALS = {
    "fp32": {"transformers": 1.0, "transformers torch.compile": 1.0, "ONNX Runtime": 1.0},
    "bf16": {"transformers": 1.5, "transformers torch.compile": 1.5},
}
# Times the products, at most.
_FORWARD_GOALS = {"fp32": 1.15, "bf16": 2.0}
# How far probabilities may be from ours.
_TOLERANCES = {"fp32": 1e-4, "bf16": 0.1}
# ALBERT's own starting values, 0.02, give about the same answer to all texts.
_INITIALIZER_RANGE = 0.07

_HEADER = (
    *("", "answers/s", "times ours", "CPU ms", "alone ms", "90 % ms", "start s", "load s"),
    *("MiB on disk", "in memory", "other labels", "difference"),
)
_FORWARD_HEADER = ("", "ms", "times the products", "CPU ms", "CPU times the products")

Results = Mapping[str, contest.Result]
Rounds = Mapping[str, Sequence[Round]]


@dataclasses.dataclass(frozen=True)
class ServingBenchmarkOptions:
    """The options of this benchmark."""

    input_file: str = option("A file of SST-2 in GLUE's layout.")
    spm_model_file: str = option("SentencePiece model.")
    preset: str = option("The model.", "base_v2")
    precisions: tuple[str, ...] = option("fp32, bf16 or both.", tuple(KERAS_POLICIES))
    candidates: tuple[str, ...] = option("What to time beside ours.", tuple(CANDIDATES))
    num_sentences: int | None = option("How many sentences of the file; default: all.", None)
    rounds: int = option("How often all candidates have their turn.", 3)
    steps: int = option("Forward passes of a turn.", 5)

    def __post_init__(self):
        check_choices("precisions", self.precisions, KERAS_POLICIES)
        if self.num_sentences is not None and self.num_sentences < 1:
            raise FlagError(f"--num_sentences: received {self.num_sentences}; expected 1 or more")


def write_folder(
    config: AlbertConfig, texts: Sequence[str], names: Sequence[str], folder: str, vocabulary: str
) -> None:
    """Writes what the candidates need.

    Args:
        config: of the encoder.
        texts: what they answer.
        names: of the candidates.
        folder: where to write.
        vocabulary: SentencePiece model.
    """
    files.write_json(os.path.join(folder, layout.CONFIG), config.to_dict())
    files.write_json(os.path.join(folder, layout.TEXTS), list(texts))
    models.write_saved_models(config, vocabulary, folder)
    needed = {path for name in names for path in CANDIDATES[name].files("fp32")}
    if needed & {layout.HUGGING_FACE, layout.ONNX}:
        models.write_hugging_face_model(config, folder)
    if layout.ONNX in needed:
        models.write_onnx_model(folder)


def find_misses(precision: str, results: Results, differences: Mapping) -> Iterator[str]:
    """Yields a sentence for each goal that is missed.

    Args:
        precision: what was computed in.
        results: of each candidate.
        differences: of each candidate's answers.
    """
    rounds = {name: result.rounds for name, result in results.items()}
    for name, goal in _GOALS[precision].items():
        if name in rounds and (times := ratio(rounds, name, OURS)) < goal:
            yield f"{precision}: {OURS} is {times:.2f} times as fast as {name}; the goal is {goal}"
    for name, difference in differences.items():
        if difference.probability > _TOLERANCES[precision]:
            yield f"{precision}: {name} is {difference.probability:.1g} from {OURS} in probability"
        if precision == "fp32" and difference.labels:
            yield f"{precision}: {name} gives {difference.labels} other labels than {OURS}"


def find_forward_misses(precision: str, rounds: Rounds) -> Iterator[str]:
    """Yields a sentence if the goal of the forward pass is missed."""
    times, goal = ratio(rounds, OURS, forward.PRODUCTS), _FORWARD_GOALS[precision]
    if times > goal:
        yield f"{precision}: a forward pass takes {times:.2f} times the products; the goal is {goal}"


def table(folder: str, precision: str, results: Results, differences: Mapping) -> str:
    """Returns the table of a precision."""
    rounds = {name: result.rounds for name, result in results.items()}
    rows = []
    for name, result in results.items():
        count = len(result.answers[0].labels)
        median, tenth_slowest = np.percentile(result.latencies, [50, 90])
        seconds = statistics.median(one.seconds for one in rounds[name])
        cpu_seconds = statistics.median(one.cpu_seconds for one in rounds[name])
        rows.append(
            [
                name,
                f"{count / seconds:.1f}",
                f"{ratio(rounds, name, OURS):.2f}",
                f"{1000 * cpu_seconds / count:.1f}",
                f"{1000 * median:.1f}",
                f"{1000 * tenth_slowest:.1f}",
                f"{result.start.seconds:.1f}",
                f"{result.start.load_seconds:.1f}",
                f"{layout.size_mib(folder, CANDIDATES[name].files(precision)):.1f}",
                f"{rounds[name][-1].peak_mib:,.0f}",
                str(differences[name].labels),
                f"{differences[name].probability:.0e}",
            ]
        )
    return markdown_table(_HEADER, rows)


def forward_table(rounds: Rounds) -> str:
    """Returns the table of the forward pass in a precision."""
    rows = []
    for name, of_one in rounds.items():
        cells = [name]
        for what in ("seconds", "cpu_seconds"):
            cells.append(f"{1000 * statistics.median(getattr(one, what) for one in of_one):,.0f}")
            cells.append(f"{ratio(rounds, name, forward.PRODUCTS, what):.2f}")
        rows.append(cells)
    return markdown_table(_FORWARD_HEADER, rows)


def _main(options: ServingBenchmarkOptions) -> None:
    names = tuple(dict.fromkeys((OURS, *options.candidates)))
    check_candidates(CANDIDATES, names)
    examples = read_examples(options.input_file, Columns(text_a="sentence"), "dev")
    texts = [example.text_a for example in examples[: options.num_sentences]]
    config = AlbertConfig.from_preset(options.preset, initializer_range=_INITIALIZER_RANGE)
    misses = []
    with tempfile.TemporaryDirectory() as folder:
        write_folder(config, texts, names, folder, options.spm_model_file)
        reference = None
        for precision in options.precisions:
            able = [name for name in names if precision in CANDIDATES[name].precisions]
            results = contest.measure(folder, able, precision, options.rounds)
            reference = reference or results[OURS].answers[-1]
            differences = {
                name: contest.compare(result, reference) for name, result in results.items()
            }
            print(f"{options.preset}, {precision}, {len(texts)} sentences\n")
            print(table(folder, precision, results, differences), end="\n\n", flush=True)
            misses.extend(find_misses(precision, results, differences))
            rounds = forward.measure(folder, able, precision, options.rounds, options.steps)
            print(forward_table(rounds), end="\n\n", flush=True)
            misses.extend(find_forward_misses(precision, rounds))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(ServingBenchmarkOptions, _main)
