"""Scores the minimal pairs of BLiMP with a pre-trained model.

Usage:
    git clone https://github.com/alexwarstadt/blimp
    python -m benchmarks.blimp --init_checkpoint=small_en

A pair is right where its good sentence has the higher pseudo-log-likelihood (Salazar et al. 2020); ties
count as wrong. The table ends with the baselines of BabyLM 2023 that learned from 10M words
(strict-small), for orientation: corpus and model size are others.
"""

import collections
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from albert_tf import command_line

with command_line.quiet_start():
    import keras
    import numpy as np

    import albert_tf
    from albert_tf import files
    from albert_tf.checkpoints.stored_model import StoredModel
    from albert_tf.conversion import read_model
    from albert_tf.data.pretraining.input_files import find_files
    from albert_tf.errors import InputError, name_place
    from albert_tf.options import check_ranges, option
    from albert_tf.tasks.companions import find_companions
    from albert_tf.tasks.conversion_options import CheckpointOptions
    from albert_tf.tokenization import Tokenizer
    from benchmarks.harness import markdown_table, processor

# Zero-shot BLiMP accuracies of https://aclanthology.org/2023.conll-babylm.1
_BASELINES = {"RoBERTa-base": 69.5, "OPT-125M": 62.6, "T5-base": 58.8}


class Pair(NamedTuple):
    """A minimal pair: a field of linguistics, the acceptable sentence, and the other one."""

    field: str
    good: str
    bad: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlimpOptions(CheckpointOptions):
    """The options of this benchmark."""

    blimp_file: tuple[str, ...] = option(
        "BLiMP's JSON lines, also compressed. Default: in a clone.", ("blimp/data/*.jsonl",)
    )
    pairs_per_paradigm: int | None = option(
        "Score only the first pairs of each paradigm. Default: all, mostly 1,000.", None, least=1
    )
    batch_size: int = option("Masked copies of sentences in a batch.", 64, least=1)

    def __post_init__(self):
        check_ranges(self)


def load_pretrained(options: CheckpointOptions) -> tuple[keras.Model, Tokenizer]:
    """Loads a model as `albert_tf.load` names it, with the heads that it has, and its tokenizer."""
    with name_place("--init_checkpoint"):
        stored = StoredModel.find(options.init_checkpoint)
    described = stored.described_by(options.albert_config_file)
    config, tokenizer = find_companions(
        described, options.num_hidden_layers, given_vocabulary=options.given_vocabulary
    )
    if tokenizer is None:
        raise InputError(
            "expected --spm_model_file or --vocab_file; there is no vocabulary next to "
            f"--init_checkpoint={options.init_checkpoint}"
        )
    with name_place("--init_checkpoint"):
        model, _ = read_model(config, stored)
    return model, tokenizer


def _read_lines(patterns: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yields the lines of UTF-8 files, also compressed, with their file and number."""
    for path in (file.path for file in find_files(patterns)):
        for number, line in files.decode_lines(
            files.read_content(path), path, files.decode_strictly
        ):
            yield path, number, line


def read_pairs(patterns: Sequence[str], per_paradigm: int | None) -> list[Pair]:
    """Returns the first pairs of each paradigm, or all, from files, glob patterns or folders.

    Raises:
        InputError: there is no such file, or a line is not as in BLiMP.
    """
    seen = collections.Counter()
    pairs = []
    for path, number, line in _read_lines(patterns):
        values = files.parse_json(line, path, number)
        try:
            paradigm = values["UID"]
            # BLiMP writes one of the fields in two ways.
            field = str(values["field"]).replace("_", "/")
            pair = Pair(field, values["sentence_good"], values["sentence_bad"])
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {number}: expected an object with UID, field, sentence_good and "
                "sentence_bad, as in BLiMP"
            ) from error
        seen[paradigm] += 1
        if per_paradigm is None or seen[paradigm] <= per_paradigm:
            pairs.append(pair)
    if not pairs:
        raise InputError(f"{', '.join(patterns)}: holds no pair")
    return pairs


def judge_pairs(
    model: keras.Model, tokenizer: Tokenizer, pairs: Sequence[Pair], batch_size: int = 64
) -> np.ndarray:
    """Returns for each pair whether its good sentence has the higher score, bool (n,)."""
    sentences = [sentence for pair in pairs for sentence in (pair.good, pair.bad)]
    scores = albert_tf.score_sentences(model, tokenizer, sentences, batch_size).reshape(-1, 2)
    return scores[:, 0] > scores[:, 1]


def table(pairs: Sequence[Pair], right: np.ndarray) -> str:
    """Returns the accuracy of each field and of all pairs, and the baselines."""
    of_field: Mapping[str, list[bool]] = collections.defaultdict(list)
    for pair, is_right in zip(pairs, right, strict=True):
        of_field[pair.field].append(is_right)
    of_field["all"] = list(right)
    rows = [
        [name, f"{len(values):,}", f"{100 * np.mean(values):.1f}"]
        for name, values in of_field.items()
    ]
    baselines = [[f"{name}, BabyLM 2023", "", f"{value}"] for name, value in _BASELINES.items()]
    return markdown_table(["", "pairs", "accuracy, %"], [*rows, *baselines])


def _main(options: BlimpOptions) -> None:
    with name_place("--blimp_file"):
        pairs = read_pairs(options.blimp_file, options.pairs_per_paradigm)
    model, tokenizer = load_pretrained(options)
    start = time.monotonic()
    with name_place(f"--init_checkpoint={options.init_checkpoint}"):
        right = judge_pairs(model, tokenizer, pairs, options.batch_size)
    seconds = time.monotonic() - start
    print(f"{processor()}\n\n{table(pairs, right)}\n")
    print(
        f"{2 * len(pairs):,} sentences in {seconds:.0f} s, {2 * len(pairs) / seconds:.1f} a second"
    )


if __name__ == "__main__":
    command_line.run(BlimpOptions, _main)
