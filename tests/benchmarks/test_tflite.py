import pytest

from benchmarks import tflite as benchmark
from benchmarks.tflite import CANDIDATES, SAVED_MODEL, find_misses, write_files
from tests.helpers import tiny_config

S = 13


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder of a tiny model's files, its config and parameters."""
    folder, config = str(tmp_path_factory.mktemp("files")), tiny_config(num_hidden_layers=1)
    return folder, config, write_files(config, S, folder)


def measure(files, candidates):
    folder, config, _ = files
    options = benchmark.TfliteBenchmarkOptions(
        max_seq_length=S, candidates=candidates, rounds=2, steps=3
    )
    return benchmark.measure(folder, config, threads=1, options=options)


@pytest.mark.slow
def test_litert_is_timed_without_tensorflow(files):
    names = ("int8", "int8, weight cache")
    results = measure(files, names)
    assert tuple(results) == names
    # TensorFlow alone takes more.
    assert all(one.seconds > 0 and one.peak_mib < 200 for name in names for one in results[name])
    lines = benchmark.table(files[0], results).split("\n")
    assert [line.split("|")[1].strip() for line in lines[2:]] == list(names)


@pytest.mark.slow
def test_all_are_timed(files):
    results = measure(files, tuple(CANDIDATES))
    assert set(results) == set(CANDIDATES)
    cells = benchmark.table(files[0], results).split("\n")[2].split("|")
    assert [cells[1].strip(), cells[4].strip()] == [SAVED_MODEL, "1.00"]


def test_files_that_are_too_large_are_named(tmp_path):
    for name, size in {"float32": 408, "float16": 250, "int8": 102}.items():
        (tmp_path / f"{name}.tflite").write_bytes(bytes(size))
    misses = list(find_misses(str(tmp_path), parameters=100))
    assert misses == ["float16.tflite is 1.250 times as large as its weights"]
