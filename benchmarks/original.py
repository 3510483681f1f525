"""Times what Google's original (github.com/google-research/albert) makes of text, under TensorFlow 2.

    python -m benchmarks.original ../albert pretraining_data --input_file=text.txt --output_file=out ...
    python -m benchmarks.original ../albert squad dev-v2.0.json 30k-clean.model 1000

The first argument is a clone. The flags of `pretraining_data` are the original's own; `squad` takes a
file, a vocabulary and how many of its questions to cut into windows. Prints a line of JSON; imports are
left out of the time.

The original was written for TensorFlow 1. Making data uses nothing that is gone, but its modules import
such things: they are replaced by objects that do nothing. It needs the package `six`.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

from albert_tf.errors import FlagError
from benchmarks.harness import watch

_GONE = (
    "tensorflow_hub",
    "tensorflow.contrib",
    "tensorflow.contrib.layers",
    "tensorflow.contrib.tpu",
)
_SCRIPT = "create_pretraining_data.py"

# Of `run_squad_v2.py`.
_MAX_SEQ_LENGTH, _DOC_STRIDE, _MAX_QUERY_LENGTH = 384, 128, 64


def check_original(original_dir: str) -> None:
    """Checks that the original can be run.

    Raises:
        FlagError: the folder is no clone, or `six` is not installed.
    """
    _find(original_dir)
    if importlib.util.find_spec("six") is None:
        raise FlagError("--original_dir: the original needs the package six: pip install six")


def run_original(original_dir: str, part: str, *arguments: str) -> dict[str, Any]:
    """Runs a part of the original in a process of its own.

    Returns:
        `seconds`, `cpu_seconds`, `peak_mib`, and `tokens` or `windows`.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/took.json"
        command = [sys.executable, "-m", __name__, original_dir, part, *arguments]
        usage = watch(command, output)
        *_, line = pathlib.Path(output).read_text().splitlines()
    return json.loads(line) | {"peak_mib": usage.peak_mib}


def _find(original_dir: str) -> pathlib.Path:
    """Returns the folder with the scripts: a clone, or `albert` in the folder that is given."""
    for folder in (pathlib.Path(original_dir), pathlib.Path(original_dir, "albert")):
        if (folder / _SCRIPT).exists():
            return folder.resolve()
    raise FlagError(
        f"--original_dir: '{original_dir}' has no {_SCRIPT}; expected a clone of "
        "https://github.com/google-research/albert"
    )


def _import(folder: pathlib.Path, name: str) -> types.ModuleType:
    """Imports a module of the original, which calls its package `albert` whatever the clone's name."""
    import tensorflow.compat.v1 as tf1

    sys.modules |= {gone: mock.MagicMock() for gone in _GONE}
    if not hasattr(tf1, "estimator"):
        tf1.estimator = mock.MagicMock()
    package = types.ModuleType("albert")
    package.__path__ = [str(folder)]
    sys.modules["albert"] = package
    return importlib.import_module(f"albert.{name}")


def _pretraining_data(folder: pathlib.Path, arguments: list[str]) -> dict[str, Any]:
    import tensorflow as tf
    from absl import flags

    script = _import(folder, "create_pretraining_data")
    flags.FLAGS([_SCRIPT, *arguments])
    took = _time(lambda: script.main(None))
    mask = {"input_mask": tf.io.FixedLenFeature((flags.FLAGS.max_seq_length,), tf.int64)}
    records = tf.data.TFRecordDataset(flags.FLAGS.output_file).batch(1024)
    tokens = sum(
        int(tf.reduce_sum(tf.io.parse_example(batch, mask)["input_mask"])) for batch in records
    )
    return took | {"tokens": tokens}


def _squad(folder: pathlib.Path, arguments: list[str]) -> dict[str, Any]:
    input_file, spm_model_file, num_questions = arguments
    script, tokenization = _import(folder, "squad_utils"), _import(folder, "tokenization")
    tokenizer = tokenization.FullTokenizer(None, True, spm_model_file)
    examples = script.read_squad_examples(input_file, is_training=False)
    step = max(1, len(examples) // int(num_questions))
    with tempfile.TemporaryDirectory() as written:
        writer = script.FeatureWriter(f"{written}/windows", is_training=False)
        took = _time(
            lambda: script.convert_examples_to_features(
                examples[::step][: int(num_questions)],
                tokenizer,
                _MAX_SEQ_LENGTH,
                _DOC_STRIDE,
                _MAX_QUERY_LENGTH,
                is_training=False,
                output_fn=writer.process_feature,
                do_lower_case=True,
            )
        )
        writer.close()
    return took | {"windows": writer.num_features}


def _time(work: Callable[[], Any]) -> dict[str, float]:
    start, cpu_start = time.monotonic(), time.process_time()
    work()
    return {
        "seconds": time.monotonic() - start,
        "cpu_seconds": time.process_time() - cpu_start,
    }


def main() -> None:
    """Runs one part."""
    original_dir, part, *arguments = sys.argv[1:]
    parts = {"pretraining_data": _pretraining_data, "squad": _squad}
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        took = parts[part](_find(original_dir), arguments)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
