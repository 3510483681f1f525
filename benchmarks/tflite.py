"""Times one text on LiteRT, with weights in float32, float16 and int8, next to its SavedModel.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.tflite

All candidates take turns, each in a process of its own that imports its runtime alone; ratios are medians
of the ratios within a round. Peak memory is the resident set of the whole process, TensorFlow or LiteRT
included. Weights are random: neither size nor time depends on them.

The command fails if a .tflite file is larger than its weights by more than 2 %.
"""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.options import option
from benchmarks.harness import (
    Candidate,
    Round,
    Rounds,
    check_candidates,
    markdown_table,
    processor,
    take_turns,
    timed,
    timing_cells,
)

_LABELS = ("0", "1")
_BYTES = {"float32": 4, "float16": 2, "int8": 1}
# How many times as large as its weights a file may be.
_LARGEST_SIZE = 1.02
_THREADS = (1, 2)
_SIGNATURE = "serving_default"
_FIRST_ORDINARY_ID = 5
SAVED_MODEL = "SavedModel"
_HEADER = ("", "MB", "ms", f"times the {SAVED_MODEL}", "CPU ms", "peak MiB")

# Answers one text and waits until that is done.
Step = Callable[[], object]


def _tensorflow_step(path: str, inputs: Mapping[str, np.ndarray], threads: int) -> Step:
    """Makes the step of a program with TensorFlow."""
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
    """Makes the step of a program with LiteRT; with a weight cache, shared weights are in memory once."""
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


def _start(
    make_step: Callable[..., Step],
    file: str,
    folder: str,
    vocab_size: int,
    length: int,
    threads: int,
    **arguments: str,
) -> Callable[[int], Round]:
    """Returns a function that times one text of random ids without padding in a candidate's process."""
    ids = np.random.default_rng(0).integers(_FIRST_ORDINARY_ID, vocab_size, (1, length), np.int32)
    inputs = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    return timed(make_step(f"{folder}/{file}", inputs, threads, **arguments))


def _litert(weights: str, **arguments: str) -> Candidate:
    arguments |= {"make_step": _litert_step, "file": f"{weights}.tflite"}
    return Candidate(_start, arguments, ("ai_edge_litert",))


CANDIDATES = {
    SAVED_MODEL: Candidate(_start, {"make_step": _tensorflow_step, "file": SAVED_MODEL}),
    **{
        name: candidate
        for weights in _BYTES
        for name, candidate in (
            (weights, _litert(weights)),
            (f"{weights}, weight cache", _litert(weights, weight_cache=":memory:")),
        )
    },
}


@dataclasses.dataclass(frozen=True)
class TfliteBenchmarkOptions:
    """The options of this benchmark."""

    preset: str = option("Size of the model.", "base_v2")
    max_seq_length: int = option("Tokens of the text, none of them padding.", 128)
    candidates: tuple[str, ...] = option("Candidates to time.", tuple(CANDIDATES))
    rounds: int = option("Number of turns of each candidate.", 5)
    steps: int = option("Texts of a turn.", 20)


def write_files(config: AlbertConfig, max_seq_length: int, folder: str) -> int:
    """Writes a classifier in all its forms and returns its number of parameters."""
    import tensorflow as tf

    from albert_tf.export.runtimes.tflite import write_tflite
    from albert_tf.export.saved_models.ids_model import IdsModel, class_outputs
    from albert_tf.models import AlbertClassifier, AlbertEncoder

    model = AlbertClassifier(AlbertEncoder(config, seed=0), len(_LABELS), seed=1)
    outputs = class_outputs(_LABELS)
    ids_model = IdsModel(model, outputs)
    path = os.path.join(folder, SAVED_MODEL)
    tf.saved_model.save(ids_model, path, signatures=ids_model.signature)
    for weights in _BYTES:
        path = os.path.join(folder, f"{weights}.tflite")
        write_tflite(model, outputs, path, weights, max_seq_length)
    return model.count_params()


def _file_size(path: str) -> int:
    """Returns the bytes of a file, or of all files in a folder."""
    files = [pathlib.Path(path), *pathlib.Path(path).rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file())


def find_misses(folder: str, parameters: int) -> Iterator[str]:
    """Yields a sentence for each .tflite file that is too large."""
    for weights, size in _BYTES.items():
        times = _file_size(f"{folder}/{weights}.tflite") / (size * parameters)
        if times > _LARGEST_SIZE:
            yield f"{weights}.tflite is {times:.3f} times as large as its weights"


def measure(
    folder: str, config: AlbertConfig, threads: int, options: TfliteBenchmarkOptions
) -> dict[str, list[Round]]:
    """Runs the candidates in turn, with the files that `write_files` wrote."""
    arguments = {
        "folder": folder,
        "vocab_size": config.vocab_size,
        "length": options.max_seq_length,
        "threads": threads,
    }
    given = dict.fromkeys(options.candidates, arguments)
    return take_turns("benchmarks.tflite", given, options.rounds, options.steps)


def table(folder: str, results: Rounds) -> str:
    """Returns the table of a number of threads."""
    rows = []
    for name in results:
        size = _file_size(f"{folder}/{CANDIDATES[name].arguments['file']}") / 1e6
        rows.append([name, f"{size:.1f}", *timing_cells(results, name, SAVED_MODEL)])
    return markdown_table(_HEADER, rows)


def _main(options: TfliteBenchmarkOptions) -> None:
    check_candidates(CANDIDATES, options.candidates)
    config = AlbertConfig.from_preset(options.preset)
    print(f"{processor()}\n")
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_files(config, options.max_seq_length, folder)
        for threads in _THREADS:
            results = measure(folder, config, threads, options)
            title = f"{options.preset}, {options.max_seq_length} tokens, threads: {threads}"
            print(f"{title}\n\n{table(folder, results)}\n", flush=True)
        misses = list(find_misses(folder, parameters))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(TfliteBenchmarkOptions, _main)
