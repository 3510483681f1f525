r"""Times what SQuAD needs, and fails where a goal is missed.

Usage:
    python -m benchmarks.squad --input_file=dev-v2.0.json --spm_model_file=30k-clean.model \
        --original_dir=../albert
"""

import dataclasses

import command_line
from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.options import option
from benchmarks.harness import check_candidates, markdown_table, processor
from benchmarks.original import check_original
from benchmarks.squad import features, prediction


@dataclasses.dataclass(frozen=True)
class SquadOptions:
    """What the command is told."""

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
    candidates: tuple[str, ...] = option("Who predicts beside us.", tuple(prediction.CANDIDATES))


def _main(options: SquadOptions) -> None:
    names = tuple(dict.fromkeys((prediction.OURS, *options.candidates)))
    check_candidates(prediction.CANDIDATES, names)
    for path in (options.input_file, options.spm_model_file):
        files.read_bytes(path)  # so that a mistake is one line, before any process is started
    if options.original_dir:
        check_original(options.original_dir)
    print(processor(), flush=True)
    table, fast_enough = features.measure(
        options.input_file,
        options.spm_model_file,
        options.num_questions,
        options.original_dir,
        options.rounds,
    )
    print(markdown_table(features.HEADER, table))
    results = prediction.measure(
        options.input_file, options.spm_model_file, options.num_windows, names
    )
    rows = prediction.rows(results, options.num_windows)
    print("\n" + markdown_table(prediction.HEADER, list(rows)))
    if not fast_enough:
        raise InputError(f"the conversion is less than {features.GOAL} times as fast")


if __name__ == "__main__":
    command_line.run(SquadOptions, _main)
