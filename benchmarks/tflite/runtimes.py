"""One text through a file, in a process with its runtime alone, whose memory is reported."""

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.workers import Worker, serve

_SIGNATURE = "serving_default"
_FIRST_ORDINARY_ID = 5

# Answers one text and waits until that is done.
Step = Callable[[], object]


def _tensorflow_step(path: str, inputs: Mapping[str, np.ndarray], threads: int) -> Step:
    """Returns what a program with TensorFlow does."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = tf.saved_model.load(path)
    tensors = {name: tf.constant(ids) for name, ids in inputs.items()}
    return lambda: model.signatures[_SIGNATURE](**tensors)["logits"].numpy()


def _litert_step(
    path: str, inputs: Mapping[str, np.ndarray], threads: int, weight_cache: str = ""
) -> Step:
    """Returns what a program with LiteRT does; with a weight cache, shared weights are in memory once."""
    from ai_edge_litert.compiled_model import (
        CompiledModel,
        CpuOptions,
        HardwareAccelerator,
        Options,
    )

    cpu = CpuOptions(num_threads=threads, xnnpack_weight_cache_path=weight_cache)
    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=cpu)
    model = CompiledModel.from_file(path, options=options)
    signature = model.get_signature_list()[_SIGNATURE]
    given = {name: model.create_input_buffer_by_name(_SIGNATURE, name) for name in inputs}
    received = {
        name: model.create_output_buffer_by_name(_SIGNATURE, name) for name in signature["outputs"]
    }

    def step() -> np.ndarray:
        for name, ids in inputs.items():
            given[name].write(ids)
        model.run_by_name(_SIGNATURE, given, received)
        return received["logits"].read(1, np.float32)

    return step


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A file and what runs it.

    Attributes:
        file: its name.
        make_step: (its path, inputs, threads) -> the step.
        packages: what has to be installed beside our own requirements.
    """

    file: str
    make_step: Callable[[str, Mapping[str, np.ndarray], int], Step]
    packages: tuple[str, ...] = ("ai_edge_litert",)


SAVED_MODEL = "SavedModel"
_cached_litert_step = functools.partial(_litert_step, weight_cache=":memory:")

CANDIDATES: Mapping[str, Candidate] = {
    SAVED_MODEL: Candidate(SAVED_MODEL, _tensorflow_step, ()),
    "float32": Candidate("float32.tflite", _litert_step),
    "float32, weight cache": Candidate("float32.tflite", _cached_litert_step),
    "float16": Candidate("float16.tflite", _litert_step),
    "float16, weight cache": Candidate("float16.tflite", _cached_litert_step),
    "int8": Candidate("int8.tflite", _litert_step),
    "int8, weight cache": Candidate("int8.tflite", _cached_litert_step),
}


def start(name: str, folder: str, vocab_size: int, length: int, threads: int) -> Worker:
    """Starts the process of a candidate.

    Args:
        name: of one of `CANDIDATES`.
        folder: where the files are.
        vocab_size: V; the text has random ids.
        length: S.
        threads: that one operator may use.
    """
    arguments = {
        "name": name,
        "folder": folder,
        "vocab_size": vocab_size,
        "length": length,
        "threads": threads,
    }
    return Worker(name, "benchmarks.tflite.runtimes", arguments)


def _make_step(name: str, folder: str, vocab_size: int, length: int, threads: int) -> Step:
    ids = np.random.default_rng(0).integers(_FIRST_ORDINARY_ID, vocab_size, (1, length), np.int32)
    inputs = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    candidate = CANDIDATES[name]
    return candidate.make_step(f"{folder}/{candidate.file}", inputs, threads)


if __name__ == "__main__":
    serve(lambda: [(1, _make_step(**json.loads(sys.argv[1])))])
