"""Checks training and serving on a GPU, and times them next to PyTorch and to KerasHub on JAX.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    pip install 'tensorflow[and-cuda]' 'jax[cuda13]'
    python -m benchmarks.gpu --data_dir=glue

Its parts:

    right       the arrays of the original (`tests.parity`), float32 without TF32; two runs with
                `--deterministic` and one that is killed and resumed, which end with the same bytes; a
                fine-tuned model whose exported form answers as on the CPU
    steps       a pre-training step, of 20 that do not wait for each other, and a large product; all
                candidates compute float32 products in TF32
    command     tokens per second that `run_pretraining.py` reports
    finetuning  SST-2 in batches of 32, padded as each implementation pads
    serving     an exported model of token ids

Candidates of a workload start together and then take turns. Where the CUDA libraries of TensorFlow and
of the others exclude each other, use `--candidates` in an environment for each. Without a GPU all runs on
the CPU, where smaller `--preset`, `--shapes` and `--peak_size` make sense.
"""

import dataclasses
import re
import shutil
import subprocess
import tempfile
import time

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.export import export
from albert_tf.kinds import Classification
from albert_tf.models import AlbertClassifier
from albert_tf.options import option
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.finetuning import samples
from benchmarks.gpu.candidates import BATCH_SIZES, BATCHINGS, OURS, PEAK, STEPS, UPDATES
from benchmarks.gpu.checks import LENGTH, check, run_script, write_records
from benchmarks.harness import (
    KERAS_POLICIES,
    check_choices,
    markdown_table,
    median,
    processor,
    ratio,
    take_turns,
)
from benchmarks.pretraining.__main__ import StepOptions

_MODULE = "benchmarks.gpu.candidates"
# Updates of a command.
_COMMAND_STEPS = 400
_PARTS = ("right", "steps", "command", "finetuning", "serving")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuOptions(StepOptions):
    """The options of this benchmark."""

    data_dir: str = option("Folder of GLUE's tasks in the original layout.")
    parts: tuple[str, ...] = option("What to check and to time.", _PARTS)
    shapes: tuple[str, ...] = option("Batch sizes and lengths.", ("64x128", "32x512"))
    candidates: tuple[str, ...] = option("What `steps` times.", tuple(STEPS))
    peak_size: int = option("Rows of the large product's matrices.", 8192, least=1)
    serving_length: int = option("Tokens of a text to serve.", 128, least=1)
    steps: int = option("Least number of steps of a turn, each of 20 updates.", 1, least=1)

    def __post_init__(self):
        super().__post_init__()
        check_choices("parts", self.parts, _PARTS)
        check_choices("candidates", self.candidates, STEPS)


def _config(options: GpuOptions) -> AlbertConfig:
    """Returns the config of the model, without dropout."""
    return next(options.workloads()).albert_config


def time_steps(options: GpuOptions) -> None:
    """Prints a table for each precision and shape."""
    for workload in options.workloads():
        given = {"workload": dataclasses.asdict(workload)}
        arguments = {name: dict(given) for name in options.candidates}
        if PEAK in arguments:
            arguments[PEAK]["size"] = options.peak_size
        results = take_turns(_MODULE, arguments, options.rounds, options.steps, start_together=True)
        rows = []
        for name, rounds in results.items():
            seconds, tokens = median(rounds), workload.batch_size * workload.length
            rate = (2 * options.peak_size**3 if name == PEAK else workload.flops) / seconds
            rows.append(
                [
                    *(name, f"{1000 * seconds:,.2f}"),
                    f"{ratio(results, name, OURS):.2f}" if OURS in results else "",
                    "" if name == PEAK else f"{tokens / seconds:,.0f}",
                    f"{rate / 1e12:,.1f}",
                ]
            )
        print(f"\n{options.preset}, {workload}\n")
        header = ("", "ms", "times ours", "tokens/s", "TFLOP/s")
        print(markdown_table(header, rows), flush=True)


def time_command(options: GpuOptions, folder: str) -> None:
    """Prints the rates that `run_pretraining.py` reports, in bfloat16."""
    options = dataclasses.replace(options, precisions=("bf16",))
    for workload in options.workloads():
        flags = write_records(workload, 8 * workload.batch_size, folder)
        printed = run_script(
            "run_pretraining.py",
            *(*flags, "--log_steps=100"),
            f"--num_train_steps={_COMMAND_STEPS}",
            f"--output_dir={folder}/command-{workload.length}",
        )
        rates = re.findall(r"tokens_per_second[ =:]*([\d.,]+)", printed)
        print(f"run_pretraining.py, {workload}: {rates} tokens/s", flush=True)


def time_finetuning(options: GpuOptions, folder: str) -> None:
    """Prints a table of fine-tuning on SST-2."""
    # The vocabulary decides the lengths only.
    tokenizer = AlbertTokenizer.from_preset("small_en")
    features = samples.read_features(options.data_dir, "sst-2", "training", tokenizer, LENGTH)
    config, arguments = _config(options).to_dict(), {}
    for number, (name, batching) in enumerate(BATCHINGS.items()):
        batches = samples.epoch(features, "training", batching, 32, LENGTH)
        chosen = samples.sample(batches, 8).batches
        arguments[name] = {
            "config": config,
            "activity": "training",
            "precision": "bf16",
            "path": samples.save(folder, str(number), chosen * -(-UPDATES // len(chosen))),
        }
    results = take_turns(_MODULE, arguments, options.rounds, 1, start_together=True)
    rows = [[name, f"{1 / median(rounds):,.0f}"] for name, rounds in results.items()]
    print(f"\n{options.preset}, SST-2, bf16, batches of 32\n")
    print(markdown_table(("", "examples/s"), rows), flush=True)


def time_serving(options: GpuOptions, folder: str) -> None:
    """Prints the latency of an exported classifier of token ids."""
    tokenizer = AlbertTokenizer.from_preset("small_en")
    config = dataclasses.replace(_config(options), vocab_size=tokenizer.vocab_size)
    kind = Classification(labels=("negative", "positive"), max_seq_length=128)
    for policy in KERAS_POLICIES.values():
        model = AlbertClassifier.from_encoder_config(config, num_classes=2, seed=0, dtype=policy)
        export_dir = f"{folder}/{policy}"
        export(model, kind, tokenizer, export_dir)
        arguments = {
            str(size): {"folder": export_dir, "length": options.serving_length}
            for size in BATCH_SIZES
        }
        results = take_turns(_MODULE, arguments, options.rounds, 5, start_together=True)
        for size, rounds in results.items():
            seconds = median(rounds)
            print(
                f"SavedModel, {options.preset}, {policy}, {size} x {options.serving_length}: "
                f"{1000 * seconds:.2f} ms, {int(size) / seconds:,.0f} texts/s",
                flush=True,
            )
        shutil.rmtree(export_dir)


def _device() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def _main(options: GpuOptions) -> None:
    print(f"{_device()}; {processor()}", flush=True)
    parts = {
        "right": lambda folder: check(options.data_dir, folder),
        "steps": lambda _: time_steps(options),
        "command": lambda folder: time_command(options, folder),
        "finetuning": lambda folder: time_finetuning(options, folder),
        "serving": lambda folder: time_serving(options, folder),
    }
    for name in options.parts:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            parts[name](folder)
        print(f"{name}: {time.monotonic() - begin:.0f} s\n", flush=True)


if __name__ == "__main__":
    command_line.run(GpuOptions, _main)
