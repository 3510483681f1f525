"""Turns questions into records of windows once, and prints what that took as JSON.

A process of its own, so that `benchmarks.squad.features` can see its memory and that of its workers.
"""

import dataclasses
import json
import tempfile
import time
from collections.abc import Sequence

import command_line
from albert_tf.data.squad.conventions import WindowConfig
from albert_tf.data.squad.questions import SquadExample, read_squad
from albert_tf.data.squad.window_arrays import read_features
from albert_tf.data.squad.window_records import name_shards, write_windows
from albert_tf.options import option
from albert_tf.tokenization import AlbertTokenizer


@dataclasses.dataclass(frozen=True)
class ConversionOptions:
    """What to convert."""

    input_file: str = option("A file of SQuAD 1.1 or 2.0.")
    spm_model_file: str = option("SentencePiece model.")
    num_questions: int = option("How many questions; the file is repeated as often as it takes.")
    num_workers: int = option("Processes.")


def repeat(examples: Sequence[SquadExample], count: int) -> list[SquadExample]:
    """Returns `count` examples: the given ones in their order, again and again."""
    copies = -(-count // len(examples))
    return (list(examples) * copies)[:count]


def _main(options: ConversionOptions) -> None:
    examples = repeat(read_squad(options.input_file), options.num_questions)
    tokenizer = AlbertTokenizer(options.spm_model_file)
    rule = WindowConfig()
    with tempfile.TemporaryDirectory() as folder:
        shards = name_shards(f"{folder}/windows", len(examples))
        start = time.monotonic()
        write_windows(examples, tokenizer, rule, False, shards, options.num_workers)
        written = time.monotonic()
        windows = len(read_features(shards, rule.max_seq_length))
        read = time.monotonic()
    took = {"windows": windows, "writing": written - start, "reading": read - written}
    print(json.dumps(took))


if __name__ == "__main__":
    command_line.run(ConversionOptions, _main)
