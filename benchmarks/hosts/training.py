"""The tiny models that the hosts train, the command that trains them, and its losses and checkpoints."""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.record_spec import pretraining_record
from albert_tf.data.record_writing import write_records

_LENGTH, _PREDICTIONS, _VOCAB_SIZE = 32, 5, 1000
_ALBERT = AlbertConfig(
    vocab_size=_VOCAB_SIZE,
    embedding_size=16,
    hidden_size=64,
    num_hidden_layers=6,
    num_attention_heads=2,
    intermediate_size=256,
)
MODELS = {
    "ALBERT": _ALBERT,
    "BERT": dataclasses.replace(_ALBERT, embedding_size=64, sharing="none"),
}
ENDLESS = 1_000_000


def write_inputs(folder: str) -> dict[str, Any]:
    """Writes random records and tiny models, and returns the flags of a training on them."""
    spec, rng = pretraining_record(_LENGTH, _PREDICTIONS), np.random.default_rng(1)
    most = {"input_ids": _VOCAB_SIZE, "masked_lm_positions": _LENGTH, "masked_lm_ids": _VOCAB_SIZE}
    columns = {
        feature.name: rng.integers(0, most.get(feature.name, 2), (1000, *feature.shape))
        for feature in spec.features
    }
    write_records(f"{folder}/train.tfrecord", spec.serialize_batch(columns))
    for name, config in MODELS.items():
        config.to_json_file(f"{folder}/{name}.json")
    return {
        "do_train": "true",
        "albert_config_file": f"{folder}/ALBERT.json",
        "input_file": f"{folder}/train.tfrecord",
        "max_seq_length": _LENGTH,
        "max_predictions_per_seq": _PREDICTIONS,
        "train_batch_size": 16,
        "learning_rate": 0.01,
        "warmup_steps": 5,
        "log_steps": 1,
    }


def training_command(flags: Mapping[str, Any], *, alone: bool = False) -> list[str]:
    """Returns the command of a training, on one device or as a worker."""
    strategy = "one_device" if alone else "multi_worker_mirrored"
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    command = [sys.executable, "run_pretraining.py", *arguments]
    return [*command, f"--distribution_strategy={strategy}"]


def endless(flags: Mapping[str, Any], folder: str, model: str, part: str) -> dict[str, Any]:
    """Returns the flags of a run that only measures."""
    return {
        **flags,
        "albert_config_file": f"{folder}/{model}.json",
        "output_dir": f"{folder}/{part} of {model}",
        "num_train_steps": ENDLESS,
        "save_checkpoints_steps": ENDLESS,
    }


def read_curve(output_dir: str) -> dict[int, float]:
    """Returns the loss of each step so far."""
    path = pathlib.Path(output_dir, "metrics.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["step"]: line["loss"] for line in map(json.loads, lines)}


def newest_checkpoint(output_dir: str) -> int:
    """Returns the step of the newest checkpoint."""
    paths = pathlib.Path(output_dir).glob("ckpt-*.index")
    return max((int(path.stem.rpartition("-")[2]) for path in paths), default=0)
