"""Times the input pipeline of pre-training, with masks from the records and made on the fly.

Usage:
    python -m benchmarks.input_pipeline --input_file='books/E*.txt' --spm_model_file=30k-clean.model

Makes records of both kinds from the text and reads them as `run_pretraining.py` does.
"""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from albert_tf import command_line
from albert_tf.data.pretraining.batches import pretraining_batches
from albert_tf.data.pretraining.graph_masking import DynamicMasker
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.record_index import index_records
from albert_tf.data.pretraining.record_order import IndexedOrder
from albert_tf.data.record_spec import pretraining_record, unmasked_record
from albert_tf.options import option
from albert_tf.tasks import pretraining_data
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.harness import markdown_table, processor

_SHUFFLE_BUFFER = 1000
_SEED = 12345


@dataclasses.dataclass(frozen=True)
class InputPipelineOptions:
    """The options of this benchmark."""

    input_file: tuple[str, ...] = option("Text files or globs: a sentence a line.")
    spm_model_file: str = option("SentencePiece model.")
    max_seq_length: int = option("Pieces in a sequence.", 512)
    max_predictions_per_seq: int = option("Most pieces to predict in a sequence.", 77)
    batch_size: int = option("Sequences in a batch.", 64)
    num_batches: int = option("Batches to time.", 1000)


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


def _read_batches(options: InputPipelineOptions, folder: str, masking: str) -> tf.data.Dataset:
    tokenizer = AlbertTokenizer(options.spm_model_file, lower_case=True)
    length, predictions = options.max_seq_length, options.max_predictions_per_seq
    spec, mask = {
        "static": (pretraining_record(length, predictions), None),
        "dynamic": (unmasked_record(length), DynamicMasker(tokenizer, MaskingConfig(predictions))),
    }[masking]
    path = os.path.join(folder, masking)
    order = IndexedOrder(index_records([path]), options.batch_size, _SHUFFLE_BUFFER, _SEED)
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


def _main(options: InputPipelineOptions) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for masking in ("static", "dynamic"):
            _write_records(options, folder, masking)
            dataset = _read_batches(options, folder, masking)
            speed = measure((batch["input_mask"] for batch in dataset), options.num_batches)
            rows.append(
                [
                    f"{masking} masks",
                    f"{speed.sequences / speed.seconds:,.1f}",
                    f"{speed.pieces / speed.seconds:,.0f}",
                    f"{1000 * speed.cpu_seconds / speed.sequences:,.3f}",
                ]
            )
    print(f"{processor()}\n")
    print(markdown_table(["", "sequences/s", "tokens/s", "CPU ms per sequence"], rows))


if __name__ == "__main__":
    command_line.run(InputPipelineOptions, _main)
