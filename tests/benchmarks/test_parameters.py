import os
import subprocess
import sys

import pytest

from albert_tf.config import AlbertConfig
from benchmarks.parameters import count_parameters


@pytest.mark.slow
def test_every_figure_is_the_papers_or_explained():
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.parameters"],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    cells = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    assert "4,005,120" in cells["base_v2"]
    explained = [line.split(":")[0] for line in lines if "published weights" in line]
    assert explained == ["xlarge", "xxlarge"]
    assert sum("(!)" in line for line in lines) == 4


def test_encoders_of_the_published_sizes():
    sizes = {"base": 11_683_584, "large": 17_683_968, "xlarge": 58_724_864, "xxlarge": 222_595_584}
    for size, parameters in sizes.items():
        assert count_parameters(AlbertConfig.from_preset(f"{size}_v2")).in_paper == parameters
