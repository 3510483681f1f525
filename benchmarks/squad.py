r"""Times the conversion of SQuAD into windows, in turns with the original's.

Usage:
    python -m benchmarks.squad --input_file=dev-v2.0.json --spm_model_file=30k-clean.model \
        --original_dir=../albert

The file is repeated until there are as many questions as SQuAD 2.0 has for training; each copy of a
passage is tokenised again. Seconds are of the conversion, imports and reading the file excluded, as in
the original's figure. CPU seconds include the imports. The command fails if the conversion is less than
ten times as fast as the original's.
"""

import dataclasses
import functools
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert_tf import command_line, files
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from benchmarks import original
from benchmarks.harness import markdown_table, processor

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.squad_questions import SquadExample

# Questions that the original converts, in one process.
_ORIGINAL_QUESTIONS = 1500
# How many times as fast as the original ours has to be.
_GOAL = 10
_OURS = "albert_tf"


@dataclasses.dataclass(frozen=True)
class SquadOptions:
    """The options of this benchmark."""

    input_file: str = option("A file of SQuAD 1.1 or 2.0.")
    spm_model_file: str = option("SentencePiece model.")
    num_questions: int = option(
        "Questions to convert; as many as SQuAD 2.0 has for training.", 130_319, least=1
    )
    original_dir: str | None = option(
        "A clone of github.com/google-research/albert, which takes turns with ours.", None
    )
    rounds: int = option("Turns of each.", 3, least=1)

    def __post_init__(self):
        check_ranges(self)


def repeat(examples: "Sequence[SquadExample]", count: int) -> "list[SquadExample]":
    """Returns `count` examples: the given ones in their order, again and again."""
    copies = -(-count // len(examples))
    return (list(examples) * copies)[:count]


def convert(input_file: str, spm_model_file: str, num_questions: str) -> None:
    """Turns questions into windows once, and prints their number and seconds as JSON."""
    from albert_tf.data.fine_tuning.squad_questions import read_squad
    from albert_tf.kinds import QuestionAnswering
    from albert_tf.tokenization import AlbertTokenizer

    examples = repeat(read_squad(input_file), int(num_questions))
    tokenizer = AlbertTokenizer(spm_model_file)
    start = time.monotonic()
    windows = QuestionAnswering().encode(examples, tokenizer)
    print(json.dumps({"count": len(windows), "seconds": time.monotonic() - start}))


def _run(*arguments: str) -> original.Took:
    """Runs `convert` in a process of its own, so that its memory can be seen."""
    with tempfile.NamedTemporaryFile("r") as output:
        command = [sys.executable, "-m", "benchmarks.squad", "convert", *arguments]
        usage = original.watch(command, output.name)
        took = json.load(output)
    return original.Took(**took, cpu_seconds=usage.all_cpu_seconds, peak_mib=usage.peak_mib)


def _main(options: SquadOptions) -> None:
    paths = (options.input_file, options.spm_model_file)
    for path in paths:
        files.read_bytes(path)  # so that a mistake is one line, before any process is started
    print(processor(), flush=True)
    work = {}
    if options.original_dir:
        original.check(options.original_dir)
        arguments = (options.original_dir, "squad", *paths, str(_ORIGINAL_QUESTIONS))
        work[original.NAME] = functools.partial(original.run, *arguments)
    work[_OURS] = functools.partial(_run, *paths, str(options.num_questions))
    rows, times = original.compare(work, options.rounds)
    print(f"\n{markdown_table(original.header('windows'), rows)}")
    if times[_OURS] < _GOAL:
        raise InputError(f"the conversion is less than {_GOAL} times as fast")


if __name__ == "__main__":
    if sys.argv[1:2] == ["convert"]:
        convert(*sys.argv[2:])
    else:
        command_line.run(SquadOptions, _main)
