"""Shows what ours and Hugging Face's `AlbertForPreTraining` learn from the same books in the same time.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    python -m benchmarks.pretraining_curves --text=books --output_dir=curves --minutes=20

All programs start from the same weights and get the same batches in the same order, with the same
optimizer and no dropout; tests compare the optimizer, the schedule and the loss. So they differ in how
many updates fit into the time. Each program's ways to run (XLA, torch.compile) are timed in turns;
the fastest makes as many updates as fit into `--minutes` at its speed, so that every learning rate rises
and falls over the same time. Minutes are updates at that speed: other load on the machine does not count.
"transformers gathered" is PyTorch's strongest form: its head computes the masked positions only.

The command fails if the loss of another program ends as low as ours.
"""

import dataclasses
import functools
import math
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import command_line, files
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, StoppedError
from albert_tf.options import option
from benchmarks.books import Records, make_records
from benchmarks.harness import (
    ROOT,
    check_candidates,
    check_choices,
    markdown_table,
    median,
    processor,
    take_turns,
)
from benchmarks.pretraining.candidates import CANDIDATES, OURS, Workload

# Program -> candidates of `benchmarks.pretraining` that run it -> flags that run it so.
PROGRAMS = {
    OURS: {"albert_tf": [], "albert_tf --jit_compile": ["--jit_compile"]},
    "transformers": {"transformers": [], "transformers torch.compile": ["--compile"]},
    "transformers gathered": {
        "transformers gathered": ["--gathered"],
        "transformers gathered torch.compile": ["--gathered", "--compile"],
    },
}

_SEED = 12345
_SHUFFLE_BUFFER = 10_000
_WARMUP_SHARE = 0.05
_EVALUATIONS = 12
_EVAL_BATCH_SIZE = 64
_MAX_EVAL_STEPS = 32
_VOCAB_SIZE = 8000

# Metric -> its column, format.
_COLUMNS = {
    "masked_lm_loss": ("MLM loss", "{:.3f}"),
    "masked_lm_perplexity": ("perplexity", "{:.1f}"),
    "masked_lm_accuracy": ("MLM accuracy", "{:.1%}"),
    "sentence_order_accuracy": ("SOP accuracy", "{:.1%}"),
}
_PANELS = ("masked_lm_loss", "masked_lm_accuracy", "sentence_order_accuracy")


class Setting(NamedTuple):
    """A model, the sequences of an update, and the peak of LAMB's learning rate."""

    config: AlbertConfig
    train_batch_size: int
    learning_rate: float


def _config(hidden_size: int, initializer_range: float) -> AlbertConfig:
    return AlbertConfig(
        vocab_size=_VOCAB_SIZE,
        hidden_size=hidden_size,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=4 * hidden_size,
        max_position_embeddings=128,
        initializer_range=initializer_range,
    )


SETTINGS = {
    # 0.02 is for a width of 768; the scale that keeps sums alike grows with 1 / sqrt(width).
    "tiny": Setting(_config(128, initializer_range=0.06), 32, learning_rate=0.004),
    "small": Setting(_config(256, initializer_range=0.045), 32, learning_rate=0.003),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingCurvesOptions:
    """The options of this benchmark."""

    text: str = option("Folder with a text file for each book; every tenth is held out.")
    output_dir: str = option(
        "Folder for records, models, curves.png and each model's results.json; records are kept."
    )
    spm_model_file: str | None = option(
        f"SentencePiece model of {_VOCAB_SIZE} pieces; default: one trained on the books.", None
    )
    models: tuple[str, ...] = option("Models to train.", tuple(SETTINGS))
    programs: tuple[str, ...] = option("Programs to run.", tuple(PROGRAMS))
    minutes: float = option("Training time of each program and model.", 20.0)
    rounds: int = option("Number of turns in which the ways to run a program are timed.", 3)
    max_seq_length: int = option("Pieces in a sequence.", 64)
    max_predictions_per_seq: int = option("Most pieces to predict in a sequence.", 10)
    dupe_factor: int = option("Copies of the text, each with other segments and masks.", 5)

    def __post_init__(self):
        check_choices("models", self.models, SETTINGS)
        check_choices("programs", self.programs, PROGRAMS)
        if OURS not in self.programs:
            raise InputError(f"--programs: expected {OURS} among them")
        if self.minutes <= 0:
            raise InputError(f"--minutes={self.minutes}: expected more than 0")


def measure_speeds(setting: Setting, options: PretrainingCurvesOptions) -> dict[str, float]:
    """Returns the updates per second of every way to run the programs, timed in turns."""
    workload = Workload(
        setting.config.to_dict(), setting.train_batch_size, options.max_seq_length, "fp32"
    )
    given = {"workload": dataclasses.asdict(workload)}
    ways = [way for program in options.programs for way in PROGRAMS[program]]
    results = take_turns(
        "benchmarks.pretraining.candidates", dict.fromkeys(ways, given), options.rounds, steps=20
    )
    return {way: 1 / median(rounds) for way, rounds in results.items()}


def train(
    program: str, way: str, steps: int, flags: Mapping[str, Any], folder: pathlib.Path
) -> list[dict[str, float]]:
    """Trains with one program and returns its held-out evaluations, each with its `step`."""
    output_dir = folder / program.replace(" ", "_")
    output_dir.mkdir()
    flags = {
        **flags,
        "init_checkpoint": folder / "initial",
        "output_dir": output_dir,
        "num_train_steps": steps,
        "warmup_steps": round(_WARMUP_SHARE * steps),
        "save_checkpoints_steps": max(1, steps // _EVALUATIONS),
    }
    script = ["-m", "benchmarks.torch_pretraining"]
    if program == OURS:
        script = ["run_pretraining.py", "--do_train", "--optimizer=lamb", "--keep_checkpoint_max=1"]
        flags["albert_config_file"] = folder / "albert_config.json"
    command = [sys.executable, *script, *PROGRAMS[program][way]]
    command += [f"--{name}={value}" for name, value in flags.items()]
    if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise StoppedError(f"{program} ended with exit status {code}")
    lines = files.read_json_lines(str(output_dir / "metrics.jsonl"))
    return [line for line in lines if line.pop("split") == "eval"]


def run_contest(
    name: str, records: Records, folder: pathlib.Path, options: PretrainingCurvesOptions
) -> None:
    """Trains one model with all programs and writes `results.json`: speeds, ways and curves."""
    from albert_tf.conversion import save_model
    from albert_tf.models import AlbertEncoder, AlbertPretrainer

    setting = SETTINGS[name]
    speeds = measure_speeds(setting, options)
    print(f"{name}, updates per second: {speeds}", flush=True)
    folder.mkdir(parents=True)
    setting.config.to_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(setting.config, seed=_SEED), seed=_SEED + 1)
    save_model(model, str(folder / "initial"))
    flags = {
        "input_file": records.train,
        "eval_input_file": records.held_out,
        "max_seq_length": options.max_seq_length,
        "max_predictions_per_seq": options.max_predictions_per_seq,
        "train_batch_size": setting.train_batch_size,
        "eval_batch_size": _EVAL_BATCH_SIZE,
        "max_eval_steps": _MAX_EVAL_STEPS,
        "learning_rate": setting.learning_rate,
        "shuffle_buffer": _SHUFFLE_BUFFER,
        "random_seed": _SEED,
    }
    ways = {program: max(PROGRAMS[program], key=speeds.get) for program in options.programs}
    curves = {}
    for program, way in ways.items():
        steps = round(speeds[way] * 60 * options.minutes)
        print(f"{name}, {program}: {steps:,} updates", flush=True)
        curves[program] = train(program, way, steps, flags, folder)
        for point in curves[program]:
            point["minutes"] = point["step"] / speeds[way] / 60
    results = {"processor": processor(), "speeds": speeds, "ways": ways, "curves": curves}
    files.write_json(str(folder / "results.json"), results)


# Program -> its evaluations, in order.
Curves = Mapping[str, Sequence[Mapping[str, float]]]


def at(points: Sequence[Mapping[str, float]], minutes: float) -> dict[str, float]:
    """Returns the metrics at some minutes, on the line between two evaluations."""
    clocks = [point["minutes"] for point in points]
    interpolate = functools.partial(np.interp, minutes, clocks)
    names = ("step", *_PANELS)
    metrics = {name: float(interpolate([point[name] for point in points])) for name in names}
    return metrics | {"masked_lm_perplexity": math.exp(metrics["masked_lm_loss"])}


def table(results: Mapping[str, Curves]) -> str:
    """Returns the programs of each model next to each other at a quarter, half and all of the time."""
    rows = []
    for model, curves in results.items():
        whole = min(points[-1]["minutes"] for points in curves.values())
        for minutes in (whole / 4, whole / 2, whole):
            for program, points in curves.items():
                metrics = at(points, minutes)
                cells = [style.format(metrics[name]) for name, (_, style) in _COLUMNS.items()]
                rows.append([model, program, f"{minutes:.1f}", f"{metrics['step']:,.0f}", *cells])
    titles = [title for title, _ in _COLUMNS.values()]
    return markdown_table(["model", "program", "minutes", "updates", *titles], rows, 2)


def draw(results: Mapping[str, Curves], path: pathlib.Path) -> None:
    """Draws a row of panels for each model into a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3 * len(results)), layout="constrained")
    panels = figure.subplots(len(results), len(_PANELS), squeeze=False)
    for row, (model, curves) in zip(panels, results.items(), strict=True):
        for axes, metric in zip(row, _PANELS, strict=True):
            for program, points in curves.items():
                minutes = [point["minutes"] for point in points]
                axes.plot(minutes, [point[metric] for point in points], ".-", label=program)
            title = f"{model}: {_COLUMNS[metric][0]}, held-out books"
            axes.set(title=title, xlabel="minutes of training")
            axes.grid(alpha=0.3)
        row[0].legend()
    figure.savefig(path, format="png", dpi=80)


def find_misses(results: Mapping[str, Curves]) -> list[str]:
    """Returns a sentence for each missed goal."""
    return [
        f"{model}: {program} has a loss as low as ours"
        for model, curves in results.items()
        for program, points in curves.items()
        if program != OURS and points[-1]["masked_lm_loss"] <= curves[OURS][-1]["masked_lm_loss"]
    ]


def _main(options: PretrainingCurvesOptions) -> None:
    ways = [way for program in options.programs for way in PROGRAMS[program]]
    check_candidates(CANDIDATES, ways)
    output_dir = pathlib.Path(options.output_dir).resolve()
    folder = output_dir / "records"
    records = make_records(
        *(options.text, folder, options.spm_model_file or str(folder / "vocabulary.model")),
        *(str(options.max_seq_length), options.dupe_factor),
        vocab_size=_VOCAB_SIZE,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
    )
    for name in options.models:
        if (output_dir / name).exists():
            raise InputError(f"--output_dir: {output_dir / name} exists; remove it to train again")
        run_contest(name, records, output_dir / name, options)
    results = {
        name: files.read_json(str(path))["curves"]
        for name in SETTINGS
        if (path := output_dir / name / "results.json").exists()
    }
    draw(results, output_dir / "curves.png")
    print(f"{processor()}\n\n{table(results)}\n\ncurves in {output_dir / 'curves.png'}")
    if misses := find_misses(results):
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(PretrainingCurvesOptions, _main)
