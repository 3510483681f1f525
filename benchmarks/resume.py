"""Times how long a resumed pre-training takes to its first step, in both orders of the records.

Usage:
    python -m benchmarks.resume --gigabytes=2

Makes random records, and trains a tiny model for one step from different places of an epoch. Seconds are
those of the whole command: imports, compilation, the index or the records of all earlier batches, one
step, and a checkpoint. A new run makes the index. "streamed" is the order of compressed records, and of
runs that earlier versions started.
"""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf import command_line
from albert_tf.checkpoints.tensor_files import write_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.data.record_spec import pretraining_record
from albert_tf.data.record_writing import write_records
from albert_tf.options import check_ranges, option
from albert_tf.tasks.recipes import PAPER_PRETRAINING
from benchmarks.harness import Usage, markdown_table, processor, watch

_LENGTH, _VOCAB_SIZE, _BATCH_SIZE = 512, 30000, 64
_FILES, _RECORDS_AT_ONCE = 8, 1024
_PLACES = (1, 50, 99)  # percent of an epoch


@dataclasses.dataclass(frozen=True)
class ResumeOptions:
    """The options of this benchmark."""

    gigabytes: float = option("Size of the records in GB.", 2.0, least=0.001)

    def __post_init__(self):
        check_ranges(self)


def _make_records(folder: str, gigabytes: float) -> int:
    """Writes random records, and returns their number."""
    spec = pretraining_record(_LENGTH, PAPER_PRETRAINING.max_predictions_per_seq)
    rng = np.random.default_rng(1)
    most = {"input_ids": _VOCAB_SIZE, "masked_lm_positions": _LENGTH, "masked_lm_ids": _VOCAB_SIZE}

    def make(count: int) -> Iterator[bytes]:
        for _ in range(0, count, _RECORDS_AT_ONCE):
            yield from spec.serialize_batch(
                {
                    feature.name: rng.integers(
                        0, most.get(feature.name, 2), (_RECORDS_AT_ONCE, *feature.shape)
                    )
                    for feature in spec.features
                }
            )

    size = len(next(make(1)))
    groups = max(1, round(gigabytes * 1e9 / size / _FILES / _RECORDS_AT_ONCE))
    for number in range(_FILES):
        path = os.path.join(folder, f"train-{number}.tfrecord")
        write_records(path, make(groups * _RECORDS_AT_ONCE))
    os.sync()  # or the disk would be busy in the first run
    return _FILES * groups * _RECORDS_AT_ONCE


def _write_model(folder: str) -> None:
    config = AlbertConfig(
        vocab_size=_VOCAB_SIZE,
        embedding_size=8,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    config.to_json_file(os.path.join(folder, "albert_config.json"))


def _train_to(step: int, folder: str, name: str) -> Usage:
    flags = {
        "do_train": "true",
        "albert_config_file": f"{folder}/albert_config.json",
        "input_file": f"{folder}/train-*.tfrecord",
        "output_dir": f"{folder}/{name}",
        "max_seq_length": _LENGTH,
        "train_batch_size": _BATCH_SIZE,
        "num_train_steps": step,
        "warmup_steps": 0,
        "save_checkpoints_steps": 1_000_000,
    }
    arguments = [f"--{flag}={value}" for flag, value in flags.items()]
    return watch([sys.executable, "run_pretraining.py", *arguments])


def _set_step(output_dir: str, step: int) -> None:
    """Makes a run's only checkpoint that of another step."""
    reader = tf.train.load_checkpoint(output_dir)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    (name,) = (name for name in tensors if "iteration" in name)
    tensors[name] = np.array(step, tensors[name].dtype)
    for path in os.listdir(output_dir):
        if path.startswith(("ckpt-", "checkpoint")):
            os.remove(os.path.join(output_dir, path))
    write_checkpoint(os.path.join(output_dir, f"ckpt-{step}"), tensors)


def _measure(folder: str, order: str, step: int) -> Usage:
    """Resumes a copy of the new run at a step, for one more."""
    output_dir = f"{folder}/{order}"
    shutil.copytree(f"{folder}/new", output_dir)
    _set_step(output_dir, step)
    path = os.path.join(output_dir, "run_options.json")
    with open(path) as file:
        options = json.load(file)
    with open(path, "w") as file:
        json.dump({**options, "record_order": order}, file)
    usage = _train_to(step + 1, folder, order)
    shutil.rmtree(output_dir)
    return usage


def _cells(usage: Usage) -> list[str]:
    return [f"{usage.seconds:.1f}", f"{usage.all_cpu_seconds:.1f}", f"{usage.peak_mib:.0f}"]


def _main(options: ResumeOptions) -> None:
    with tempfile.TemporaryDirectory() as folder:
        count = _make_records(folder, options.gigabytes)
        _write_model(folder)
        rows = [["new run, makes the index", *_cells(_train_to(1, folder, "new"))]]
        for place in _PLACES:
            step = count // _BATCH_SIZE * place // 100
            for order in ("streamed", "indexed"):
                usage = _measure(folder, order, step)
                rows.append([f"resumed at {place} %, {order}", *_cells(usage)])
    print(f"{processor()}, {count:,} records of {_LENGTH} tokens\n")
    print(markdown_table(["", "seconds", "CPU seconds", "peak MiB"], rows))


if __name__ == "__main__":
    command_line.run(ResumeOptions, _main)
