import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.record_files import BadRecords, RecordFiles, scan_files
from albert_tf.data.record_spec import Feature, RecordSpec
from albert_tf.data.record_writing import write_records
from albert_tf.errors import InputError

SPEC = RecordSpec((Feature("ids", (3,), vocab_size=10),))


def serialize(*ids):
    return RecordSpec((Feature("ids", (len(ids),)),)).serialize({"ids": np.array(ids)})


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    records = [serialize(n % 10, 1, 2) for n in range(600)]
    records[4] = serialize(1, 2)
    records[299] = serialize(1, 2, 10)
    records[300] = b"\xff\xff"
    write_records(path, records)
    return path


FAULTS = {
    5: "feature 'ids' has length 2, expected 3",
    300: "feature 'ids' has id 10, expected ids from 0 to below vocab_size 10",
    301: "is not a tf.train.Example",
}


def find_bad(path):
    return scan_files([path], SPEC, "looking for bad records")[0].bad


def read(files):
    return list(files.as_dataset().flat_map(files.read).as_numpy_iterator())


def test_bad_records_are_found_and_left_out(path):
    bad = find_bad(path)
    assert bad == BadRecords(600, FAULTS, is_damaged=False)
    assert bad
    assert bad.good_count == 597
    whole, good = read(RecordFiles([path])), read(RecordFiles([path], {path: bad}))
    assert good == [record for number, record in enumerate(whole, 1) if number not in FAULTS]
    assert next(bad.describe()) == "record 5: feature 'ids' has length 2, expected 3"


def size_of(records):
    return sum(len(record) + 16 for record in records)


@pytest.mark.parametrize("damage", ["cut", "content", "length"])
def test_nothing_after_the_damage_is_read(path, damage):
    whole = read(RecordFiles([path]))
    start = size_of(whole[:450])  # where record 451 begins
    with open(path, "r+b") as file:
        if damage == "cut":
            file.truncate(start + 20)
        else:
            file.seek(start + (0 if damage == "length" else 14))
            file.write(b"\x7f")
    bad = find_bad(path)
    assert bad == BadRecords(450, FAULTS, is_damaged=True)
    assert list(bad.describe())[-1].startswith("record 451: damaged or cut short; this record and")
    assert len(read(RecordFiles([path], {path: bad}))) == 447
    with pytest.raises(tf.errors.DataLossError):
        read(RecordFiles([path]))


def test_good_files_have_no_bad_records(tmp_path):
    path = str(tmp_path / "good")
    write_records(path, [serialize(n % 10, 1, 2) for n in range(512)])
    found = find_bad(path)
    assert not found
    assert found.good_count == 512
    write_records(path, [])
    assert not find_bad(path)


def test_file_that_cannot_be_read_is_a_mistake_and_no_damage(tmp_path):
    with pytest.raises(InputError, match="gone: cannot be read: No such file"):
        find_bad(str(tmp_path / "gone"))


def test_file_without_any_good_record(tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"no records, but text")
    bad = find_bad(str(path))
    assert bad == BadRecords(0, {}, is_damaged=True)
    assert read(RecordFiles([str(path)], {str(path): bad})) == []
