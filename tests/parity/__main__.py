"""Prints how far each part of ours is from the original, and fails where it is too far.

Usage:
    python -m tests.parity --golden_dir=../shared/golden
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from albert_tf import command_line
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.harness import markdown_table
from tests.parity import encoder, features, heads, optimizers, tokenization, windows
from tests.parity.difference import Difference, merge
from tests.parity.original import read_json

_VOCABULARY = "sentencepiece/30k-clean.model"
_HEADER = ("part", "quantity", "compared", "largest difference", "allowed")


@dataclasses.dataclass(frozen=True)
class ParityOptions:
    """The options of the command."""

    golden_dir: str = option("Folder of the arrays that the original computed.", "../shared/golden")
    data_dir: str = option(
        f"Folder of public data: the published vocabulary, its {_VOCABULARY}, and GLUE, its glue.",
        "../shared/data",
    )


def measure(golden_dir: pathlib.Path, data_dir: pathlib.Path) -> Iterator[Difference]:
    """Yields a row for each quantity."""
    encoders = [encoder.compare_encoder(golden_dir, name) for name in encoder.CONFIGS]
    yield from (with_text for with_text, _ in encoders)
    yield merge("rows of padding alone", [padding for _, padding in encoders])
    yield from heads.compare_pretraining(golden_dir)
    yield from heads.compare_classifier(golden_dir)
    yield from heads.compare_regressor(golden_dir)
    yield from heads.compare_multiple_choice(golden_dir)
    yield from heads.compare_span_labeler(golden_dir)
    yield from heads.compare_conditional_span_labeler(golden_dir)
    rates = [optimizers.compare_schedule(golden_dir, name)[0] for name in optimizers.SCHEDULES]
    yield merge(f"{len(rates)} schedules", rates)
    for name in optimizers.OPTIMIZERS:
        yield from optimizers.compare_updates(golden_dir, name)
        yield from optimizers.compare_training(golden_dir, name)
    yield from _measure_text(golden_dir, data_dir)


def _measure_text(golden_dir: pathlib.Path, data_dir: pathlib.Path) -> Iterator[Difference]:
    for key, lower_case in tokenization.CASES.items():
        tokenizer = AlbertTokenizer(str(data_dir / _VOCABULARY), lower_case)
        yield from tokenization.compare_normalization(golden_dir, key)
        yield from tokenization.compare_sentencepiece(golden_dir, tokenizer, key)
        yield from tokenization.compare_graph(golden_dir, tokenizer, key)
    yield from tokenization.compare_wordpiece(golden_dir)
    yield merge("4 kinds", tokenization.compare_characters(golden_dir))
    tokenizer = AlbertTokenizer(str(data_dir / _VOCABULARY), lower_case=True)
    jobs = [features.compare_job(golden_dir, tokenizer, name)[0] for name in features.JOBS]
    yield merge(f"{len(jobs)} files, {len(features.LENGTHS)} lengths", jobs)
    yield from features.compare_race(golden_dir, tokenizer)
    raw = [_compare_raw_file(golden_dir, data_dir, tokenizer, name) for name in features.FILE_JOBS]
    yield merge(f"ids of {len(raw)} raw files", raw)
    sets = [
        difference
        for golden_set in windows.GOLDEN_SETS.values()
        for difference in windows.compare_windows(
            golden_dir,
            AlbertTokenizer(str(data_dir / _VOCABULARY), golden_set.lower_case),
            golden_set,
        )
    ]
    yield merge(f"{len(windows.GOLDEN_SETS)} sets", sets)


def _compare_raw_file(
    golden_dir: pathlib.Path, data_dir: pathlib.Path, tokenizer: AlbertTokenizer, name: str
) -> Difference:
    job = read_json(golden_dir / "finetune_features" / "glue.json")[name]
    task, folder = find_task(job["task_name"]), (data_dir / job["file"]).parents[1]
    (source,) = task.sets[job["split"]].values()
    examples = source.read(str(folder), job["split"], task.labels)
    return features.compare_file(golden_dir, tokenizer, name, examples)[0]


def _main(options: ParityOptions) -> None:
    for flag, folder in dataclasses.asdict(options).items():
        if not pathlib.Path(folder).is_dir():
            raise InputError(f"--{flag}={folder}: no such folder")
    try:
        rows = list(measure(pathlib.Path(options.golden_dir), pathlib.Path(options.data_dir)))
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: not among the reference data") from error
    print(markdown_table(_HEADER, [_cells(row) for row in rows], text_columns=2))
    failed = [row for row in rows if not row.agrees]
    for row in failed:
        print(f"too far: {row.part}, {row.quantity}: {row.worst}")
    if failed:
        raise SystemExit(1)


def _cells(row: Difference) -> tuple[str, ...]:
    largest = f"{row.largest:.1e}" if isinstance(row.largest, float) else f"{row.largest}"
    return row.part, row.quantity, f"{row.compared:,}", largest, row.allowed


if __name__ == "__main__":
    command_line.run(ParityOptions, _main)
