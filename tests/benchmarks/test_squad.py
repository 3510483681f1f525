import os
import subprocess
import sys

from benchmarks.squad import repeat


def test_questions_are_repeated_in_order():
    examples = list("abcdefg")
    assert repeat(examples, 17) == examples + examples + examples[:3]
    assert repeat(examples, 3) == examples[:3]


def test_a_file_that_is_not_there_is_named_in_one_line(tmp_path):
    result = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.squad"),
            *(f"--input_file={tmp_path}/absent.json", "--spm_model_file=absent.model"),
        ],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 1
    assert f"squad.py: error: {tmp_path}/absent.json: cannot be read: " in result.stderr
    assert "Traceback" not in result.stderr
