"""One text through a file, in a process with its runtime alone, whose memory is reported."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.harness import Candidate, Round, timed

_SIGNATURE = "serving_default"
_FIRST_ORDINARY_ID = 5
SAVED_MODEL = "SavedModel"

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


def start(
    make_step: Callable[..., Step],
    file: str,
    folder: str,
    vocab_size: int,
    length: int,
    threads: int,
    **arguments: str,
) -> Callable[[int], Round]:
    """Returns what times one text of random ids in a candidate's process.

    Args:
        make_step: makes the step from path, inputs and threads.
        file: name of the model's file.
        folder: holds the files.
        vocab_size: V.
        length: S; no padding.
        threads: threads of one operator.
        **arguments: more of `make_step`.
    """
    ids = np.random.default_rng(0).integers(_FIRST_ORDINARY_ID, vocab_size, (1, length), np.int32)
    inputs = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    return timed(make_step(f"{folder}/{file}", inputs, threads, **arguments))


def _litert(file: str, **arguments: str) -> Candidate:
    arguments |= {"make_step": _litert_step, "file": f"{file}.tflite"}
    return Candidate(start, arguments, ("ai_edge_litert",))


CANDIDATES = {
    SAVED_MODEL: Candidate(start, {"make_step": _tensorflow_step, "file": SAVED_MODEL}),
    "float32": _litert("float32"),
    "float32, weight cache": _litert("float32", weight_cache=":memory:"),
    "float16": _litert("float16"),
    "float16, weight cache": _litert("float16", weight_cache=":memory:"),
    "int8": _litert("int8"),
    "int8, weight cache": _litert("int8", weight_cache=":memory:"),
}
