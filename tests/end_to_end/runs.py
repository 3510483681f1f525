"""Runs of pre-training in processes of their own."""

import json
import time

from tests.helpers import tiny_config
from tests.tasks.language import LENGTH, PREDICTIONS, write_language, write_vocabulary


def write_flags(folder, train=300, dev=40, masked=True, dropout=0.0):
    """Writes records, their vocabulary and a config, and returns the flags of a run."""
    for name, count, seed in (("train", train, 1), ("dev", dev, 2)):
        write_language(folder / f"{name}.tfrecord", count, seed, masked)
    write_vocabulary(folder / "vocab.txt")
    config = folder / "albert_config.json"
    tiny_config(num_hidden_layers=2, hidden_dropout_prob=dropout).to_json_file(str(config))
    return {
        "albert_config_file": str(config),
        "vocab_file": str(folder / "vocab.txt"),
        "input_file": str(folder / "train.tfrecord"),
        "eval_input_file": str(folder / "dev.tfrecord"),
        "do_train": True,
        "do_eval": True,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "train_batch_size": 16,
        "learning_rate": 0.01,
        "warmup_steps": 10,
        "save_checkpoints_steps": 20,
    }


def as_arguments(flags):
    return [f"--{name}={value}" for name, value in flags.items()]


def wait_for(is_reached, *processes):
    """Waits until a condition holds, while the processes run."""
    deadline = time.monotonic() + 240
    while not is_reached():
        assert all(process.poll() is None for process in processes), processes[0].stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_reports(output_dir):
    return [json.loads(line) for line in (output_dir / "metrics.jsonl").read_text().splitlines()]
