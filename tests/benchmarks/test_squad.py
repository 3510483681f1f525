import os
import subprocess
import sys

import pytest

from albert_tf.errors import FlagError
from benchmarks.harness import Round
from benchmarks.original import check_original
from benchmarks.squad import OURS, prediction_table, repeat
from tests.data.squad.test_window_records import make_examples


def test_questions_are_repeated_in_order():
    examples = make_examples(7)
    repeated = repeat(examples, 17)
    assert repeated == examples + examples + examples[:3]
    assert repeat(examples, 3) == examples[:3]


def test_a_file_that_is_not_there_is_named_in_one_line(tmp_path):
    result = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.squad"),
            *(f"--input_file={tmp_path}/absent.json", "--spm_model_file=absent.model"),
            "--candidates=albert_tf",
        ],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 1
    assert f"squad.py: error: {tmp_path}/absent.json: cannot be read: " in result.stderr
    assert "Traceback" not in result.stderr


def test_table_of_prediction_compares_within_rounds():
    results = {
        OURS: [Round(2.0, 4.0, 900.0), Round(20.0, 4.0, 901.0), Round(2.0, 4.0, 902.0)],
        "other": [Round(3.0, 5.0, 700.0), Round(30.0, 5.0, 701.0), Round(4.0, 5.0, 702.0)],
    }
    lines = prediction_table(results, num_windows=10).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0] == [OURS, "5.0", "2,000", "1.00", "4,000", "902"]
    assert cells[1] == ["other", "2.5", "4,000", "1.50", "5,000", "702"]


def test_a_folder_without_the_original_is_named(tmp_path):
    with pytest.raises(
        FlagError, match=f"--original_dir: '{tmp_path}' has no create_pretraining_d"
    ):
        check_original(str(tmp_path))
