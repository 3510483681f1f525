"""Times the input pipeline of pre-training, with masks from the records and made on the fly.

Usage:
    python -m benchmarks.input_pipeline --input_file='books/E*.txt' --spm_model_file=30k-clean.model

It makes records of both kinds from the text, reads them as `run_pretraining.py` does, and sets beside
that the training step of a model on this machine. It fails where masking on the fly would be what
training waits for.
"""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

import command_line
from albert_tf.config import AlbertConfig
from albert_tf.data.pipeline import pretraining_batches
from albert_tf.data.pretraining.graph_masking import DynamicMasker
from albert_tf.data.pretraining.masking import MaskingRule
from albert_tf.data.record_files import RecordFiles
from albert_tf.data.record_order import RecordOrder
from albert_tf.data.record_spec import pretraining_record, unmasked_record
from albert_tf.errors import InputError
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.optimization import Lamb
from albert_tf.options import option
from albert_tf.tasks import pretraining_data
from albert_tf.tokenization import load_tokenizer
from albert_tf.training import Trainer, make_strategy
from benchmarks.harness import markdown_table

_SHUFFLE_BUFFER = 1000
_SEED = 12345


@dataclasses.dataclass(frozen=True)
class InputPipelineOptions:
    """The options of this benchmark."""

    input_file: tuple[str, ...] = option("Text files or globs: a sentence a line.")
    spm_model_file: str = option("SentencePiece model.")
    preset: str = option("The model whose training step is timed.", "base_v2")
    max_seq_length: int = option("Pieces in a sequence.", 512)
    max_predictions_per_seq: int = option("Most pieces to predict in a sequence.", 77)
    batch_size: int = option("Sequences in a batch of the input pipeline.", 64)
    train_batch_size: int = option(
        "Sequences in a training step; as many as memory has room for.", 4
    )
    num_batches: int = option("Batches of the input pipeline to time.", 1000)
    num_train_steps: int = option("Training steps to time, after a first that is not.", 3)


class Speed(NamedTuple):
    """What something took.

    Attributes:
        sequences: how many went through.
        pieces: how many pieces these have, without padding.
        seconds: of the clock.
        cpu_seconds: of all cores together.
    """

    sequences: int
    pieces: int
    seconds: float
    cpu_seconds: float


def measure(batches: Iterator, count: int) -> Speed:
    """Times `count` batches, after a first that fills buffers and makes graphs.

    Args:
        batches: yields the `input_mask`, int32 (B, S), of each batch that is through.
        count: how many to time.
    """
    next(batches)
    start, cpu_start = time.perf_counter(), time.process_time()
    masks = [next(batches) for _ in range(count)]
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    pieces = sum(int(tf.reduce_sum(mask)) for mask in masks)
    return Speed(sum(len(mask) for mask in masks), pieces, seconds, cpu_seconds)


def _read_batches(
    options: InputPipelineOptions, folder: str, masking: str, batch_size: int
) -> tf.data.Dataset:
    tokenizer = load_tokenizer(options.spm_model_file, None, lower_case=True)
    length, predictions = options.max_seq_length, options.max_predictions_per_seq
    spec, mask = {
        "static": (pretraining_record(length, predictions), None),
        "dynamic": (unmasked_record(length), DynamicMasker(tokenizer, MaskingRule(predictions))),
    }[masking]
    path = os.path.join(folder, masking)
    order = RecordOrder(RecordFiles([path]), batch_size, _SHUFFLE_BUFFER, _SEED)
    return pretraining_batches(order, spec.parse, mask=mask)


def _write_records(options: InputPipelineOptions, folder: str, masking: str) -> None:
    pretraining_data.run(
        pretraining_data.PretrainingDataOptions(
            input_file=options.input_file,
            output_file=os.path.join(folder, masking),
            spm_model_file=options.spm_model_file,
            masking=masking,
            max_seq_length=options.max_seq_length,
            max_predictions_per_seq=options.max_predictions_per_seq,
            dupe_factor=1,
        )
    )


def _train(options: InputPipelineOptions, batches: tf.data.Dataset) -> Iterator[tf.Tensor]:
    strategy = make_strategy("one_device")
    with strategy.scope():
        config = AlbertConfig.from_preset(options.preset)
        model = AlbertPretrainer(AlbertEncoder(config, seed=0), True, seed=1)
        trainer = Trainer(model, PretrainingLoss(True), Lamb(1e-4), strategy, seed=0)
    # All batches are of one shape, so one of them times them all, without the input pipeline.
    batch = next(iter(batches))
    same = trainer.distribute(tf.data.Dataset.from_tensors(batch).repeat())
    while True:
        trainer.train_steps(same, 1)["gradient_norm"][0].numpy()  # waits for the device
        yield batch["input_mask"]


def _main(options: InputPipelineOptions) -> None:
    with tempfile.TemporaryDirectory() as folder:
        speeds = {}
        for masking in ("static", "dynamic"):
            _write_records(options, folder, masking)
            dataset = _read_batches(options, folder, masking, options.batch_size)
            batches = (batch["input_mask"] for batch in dataset)
            speeds[f"{masking} masks"] = measure(batches, options.num_batches)
        dataset = _read_batches(options, folder, "dynamic", options.train_batch_size)
        step = measure(_train(options, dataset), options.num_train_steps)
    speeds[f"training step, {options.preset}"] = step
    print(_table(speeds))
    if _rate(speeds["dynamic masks"]) < 2 * _rate(step):
        raise InputError("masking on the fly is less than twice as fast as the training step")


def _rate(speed: Speed) -> float:
    return speed.sequences / speed.seconds


def _table(speeds: dict[str, Speed]) -> str:
    rows = [
        [
            name,
            f"{_rate(speed):,.1f}",
            f"{speed.pieces / speed.seconds:,.0f}",
            f"{1000 * speed.cpu_seconds / speed.sequences:,.3f}",
        ]
        for name, speed in speeds.items()
    ]
    return markdown_table(["", "sequences/s", "tokens/s", "CPU ms a sequence"], rows)


if __name__ == "__main__":
    command_line.run(InputPipelineOptions, _main)
