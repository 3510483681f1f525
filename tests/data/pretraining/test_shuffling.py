"""Whatever runs records are divided into, any stretch of the sorted whole is read back."""

import numpy as np
import pytest

from albert_tf.data.pretraining import shuffling
from albert_tf.data.pretraining.shuffling import BinSizes, RunWriter, read_sorted


def keyed_records(count, seed=0, high=2**64):
    rng = np.random.default_rng(seed)
    keys = rng.integers(high, size=count, dtype=np.uint64)
    return [(int(key), rng.bytes(rng.integers(0, 40))) for key in keys]


def write_runs(folder, records, writers=3):
    """Deals records to writers; returns the paths and sizes of all runs."""
    paths, sizes = [], BinSizes.zeros()
    for number in range(writers):
        writer = RunWriter(str(folder / f"{writers}-{number}"))
        for key, record in records[number::writers]:
            writer.add(key, record)
        writer.flush()
        paths += writer.paths
        sizes += writer.sizes
    return paths, sizes


@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("max_bytes", [100, 1000, 1 << 25])
def test_the_whole_is_sorted(tmp_path, monkeypatch, writers, max_bytes):
    monkeypatch.setattr(shuffling, "_MAX_BYTES", max_bytes)
    records = keyed_records(300)
    paths, sizes = write_runs(tmp_path, records, writers)
    assert (len(paths) > writers) == (max_bytes < 2000)
    assert sizes.records.sum() == 300
    assert list(read_sorted(paths, sizes, 0, 300)) == [record for _, record in sorted(records)]


@pytest.mark.parametrize("max_bytes", [100, 1 << 25])
def test_ranges_are_parts_of_the_whole(tmp_path, monkeypatch, max_bytes):
    monkeypatch.setattr(shuffling, "_MAX_BYTES", max_bytes)
    records = keyed_records(200)
    paths, sizes = write_runs(tmp_path, records)
    whole = [record for _, record in sorted(records)]
    for first, last in [(0, 1), (0, 67), (67, 133), (133, 200), (199, 200), (50, 50)]:
        assert list(read_sorted(paths, sizes, first, last)) == whole[first:last]


def test_a_bin_larger_than_memory_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffling, "_MAX_BYTES", 500)
    records = keyed_records(300, high=2**51)  # all in the first bin
    paths, sizes = write_runs(tmp_path, records)
    assert np.count_nonzero(sizes.records) == 1
    assert list(read_sorted(paths, sizes, 0, 300)) == [record for _, record in sorted(records)]


def test_equal_keys_are_ordered_by_their_records(tmp_path):
    records = [(7, bytes([number % 50])) for number in range(100)]
    paths, sizes = write_runs(tmp_path, records)
    assert list(read_sorted(paths, sizes, 0, 100)) == sorted(record for _, record in records)


def test_empty_writer_writes_no_run(tmp_path):
    paths, sizes = write_runs(tmp_path, [])
    assert paths == []
    assert list(read_sorted(paths, sizes, 0, 0)) == []
