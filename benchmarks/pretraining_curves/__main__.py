"""What ours and Hugging Face's `AlbertForPreTraining` learn from the same books in the same time.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.pretraining_curves --text=books --output_dir=curves --minutes=20

Both programs start from the same weights and get the same batches in the same order, with the same
optimizer and no dropout. A trial finds the faster way to run each. From its speed follows how many
updates fill the minutes, so the learning rate of both rises and falls over the same time. They take
turns on the machine, and only the time of a program's own training counts, neither start nor evaluation.

It fails where ours has not the lower loss at the end, or its sentence-order accuracy is not over 60 %.
"""

import dataclasses
import importlib.util
import pathlib
import signal
import sys

import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option
from benchmarks.pretraining_curves.contest import OURS, THEIRS, Contest, Setting, read_curves
from benchmarks.pretraining_curves.data import Records, make_records
from benchmarks.tables import markdown_table

_VOCAB_SIZE = 8000


def _setting(hidden_size: int, initializer_range: float, learning_rate: float) -> Setting:
    config = AlbertConfig(
        vocab_size=_VOCAB_SIZE,
        embedding_size=128,
        hidden_size=hidden_size,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=4 * hidden_size,
        max_position_embeddings=128,
        initializer_range=initializer_range,
    )
    return Setting(config, train_batch_size=32, learning_rate=learning_rate)


_SETTINGS = {
    # 0.02 is for a width of 768; the scale that keeps sums alike grows with 1 / sqrt(width).
    "tiny": _setting(128, initializer_range=0.06, learning_rate=0.004),
    "small": _setting(256, initializer_range=0.045, learning_rate=0.003),
}
_LEAST_SENTENCE_ORDER_ACCURACY = 0.6
_LIBRARIES = ("matplotlib", "torch", "transformers")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingCurvesOptions:
    """The options of this benchmark."""

    text: str = option("Folder with a text file for each book; every tenth is held out.")
    output_dir: str = option(
        "Folder for records, models, curves.png and each configuration's results.json; records are kept."
    )
    spm_model_file: str | None = option(
        f"SentencePiece model of {_VOCAB_SIZE} pieces; without one it is trained on the books.",
        None,
    )
    models: tuple[str, ...] = option(
        f"Configurations to train, of {', '.join(_SETTINGS)}; without the flag all.", ()
    )
    minutes: float = option("Training time of each program and configuration.", 20.0)
    trial_seconds: float = option("Trial of each way to run a program.", 30.0)
    turn_seconds: float = option("How long a program runs before the other one does.", 30.0)
    max_seq_length: int = option("Pieces in a sequence.", 64)
    max_predictions_per_seq: int = option("Most pieces to predict in a sequence.", 10)
    dupe_factor: int = option("Copies of the text, each with other segments and masks.", 5)

    def __post_init__(self):
        for name in self.models:
            if name not in _SETTINGS:
                raise FlagError(f"--models={name}: expected some of {', '.join(_SETTINGS)}")
        for name in ("minutes", "trial_seconds", "turn_seconds"):
            if getattr(self, name) <= 0:
                raise FlagError(f"--{name}={getattr(self, name)}: expected more than 0")


def _main(options: PretrainingCurvesOptions) -> None:
    # An exit ends the programs that stand still; a death would leave them behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _check_libraries()
    output_dir = pathlib.Path(options.output_dir).resolve()
    records = make_records(
        options.text,
        output_dir / "records",
        options.spm_model_file,
        _VOCAB_SIZE,
        options.max_seq_length,
        options.max_predictions_per_seq,
        options.dupe_factor,
    )
    for name in options.models or _SETTINGS:
        _run_contest(name, records, output_dir, options)
    _report(output_dir)


def _check_libraries() -> None:
    missing = [name for name in _LIBRARIES if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(
            f"{', '.join(missing)} not found; expected `pip install -r requirements-benchmarks.txt`"
        )


def _run_contest(
    name: str, records: Records, output_dir: pathlib.Path, options: PretrainingCurvesOptions
) -> None:
    contest = Contest(_SETTINGS[name], records, output_dir / name, options.turn_seconds)
    contest.prepare()
    speeds = contest.measure_speeds(options.trial_seconds)
    rows = [
        [name, program, way, f"{speed:.2f}"]
        for program, ways in speeds.items()
        for way, speed in ways.items()
    ]
    print(markdown_table(["model", "program", "way", "updates/s"], rows, 3), flush=True)
    contest.train(speeds, options.minutes, _results_file(output_dir, name))


def _results_file(output_dir: pathlib.Path, name: str) -> pathlib.Path:
    return output_dir / name / "results.json"


def _report(output_dir: pathlib.Path) -> None:
    """Prints and draws all results that are in the folder, and checks them."""
    # Here, as matplotlib is one of the libraries that may be missing.
    from benchmarks.pretraining_curves import curves

    results = {
        name: read_curves(path)
        for name in _SETTINGS
        if (path := _results_file(output_dir, name)).exists()
    }
    curves.draw(results, output_dir / "curves.png")
    print(curves.table(results))
    print(f"{output_dir / 'curves.png'}")
    for name, of_programs in results.items():
        seconds = curves.common_seconds(of_programs)
        ours, theirs = (curves.at(of_programs[program], seconds) for program in (OURS, THEIRS))
        if ours["masked_lm_loss"] >= theirs["masked_lm_loss"]:
            raise InputError(f"{name}: our loss is not the lower one")
        if ours["sentence_order_accuracy"] <= _LEAST_SENTENCE_ORDER_ACCURACY:
            raise InputError(f"{name}: our sentence-order accuracy is not over 60 %")


if __name__ == "__main__":
    command_line.run(PretrainingCurvesOptions, _main)
