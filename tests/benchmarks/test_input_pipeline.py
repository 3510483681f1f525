import os
import subprocess
import sys
import time

import numpy as np

from benchmarks.input_pipeline import measure


def test_the_first_batch_is_not_timed_and_padding_is_not_counted():
    def batches():
        time.sleep(1.0)
        yield np.ones((9, 9), np.int32)
        for _ in range(10):
            time.sleep(0.01)
            yield np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], np.int32)

    speed = measure(batches(), 7)
    assert (speed.sequences, speed.pieces) == (21, 42)
    assert 0.06 < speed.seconds < 1.0
    assert speed.cpu_seconds < speed.seconds


def test_a_text_that_is_not_there_is_named_in_one_line(tmp_path):
    result = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.input_pipeline"),
            *(f"--input_file={tmp_path}/*.txt", "--spm_model_file=absent.model"),
        ],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith(
        "input_pipeline.py: error: --input_file: no file matches"
    )
    assert "Traceback" not in result.stderr
