"""Files of records are counted and checked; bad records are named or left out."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.record_batches import read_in_order
from albert_tf.data.pretraining.record_files import (
    check_first_record,
    check_records,
    explain_bad_records,
    load_scanned,
    read_sizes,
    save_scanned,
    scan_files,
)
from albert_tf.data.records import (
    Feature,
    RecordSpec,
    pretraining_record,
    unmasked_record,
    write_records,
)
from albert_tf.errors import InputError
from tests.data.test_records import random_values

IDS = RecordSpec((Feature("ids", (3,), vocab_size=10),))


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


def scan(path, spec=IDS, checks=True):
    (file,) = scan_files([str(path)], spec, "counting", checks)
    return file


def read(*files):
    return list(read_in_order(files).as_numpy_iterator())


def whole(path):
    return list(tf.data.TFRecordDataset(path).as_numpy_iterator())


def test_bad_records_are_found_and_left_out(path):
    file = scan(path)
    assert (file.count, file.good_count, file.faults, file.damage) == (600, 597, FAULTS, None)
    records = whole(path)
    assert read(file) == [
        record for number, record in enumerate(records, 1) if number not in FAULTS
    ]
    assert next(file.describe_bad()) == f"{path}, record 5: feature 'ids' has length 2, expected 3"
    # Without a check only damage is an error.
    file = scan(path, checks=False)
    assert (file.good_count, file.faults) == (600, {})
    assert read(file) == records


def size_of(records):
    return sum(len(record) + 16 for record in records)


@pytest.mark.parametrize("damage", ["cut", "content", "length"])
def test_nothing_after_the_damage_is_read(path, damage):
    start = size_of(whole(path)[:450])  # where record 451 begins
    with open(path, "r+b") as file:
        if damage == "cut":
            file.truncate(start + 20)
        else:
            file.seek(start + (0 if damage == "length" else 14))
            file.write(b"\x7f")
    file = scan(path)
    assert (file.count, file.faults) == (450, FAULTS)
    last = f"{path}, record 451: damaged or cut short"
    assert list(file.describe_bad())[-1] == f"{last}; this record and all after it"
    assert len(read(file)) == 447
    with pytest.raises(InputError, match=f"^{last}; expected a complete TFRecord file$"):
        scan(path, checks=False)


def write_header(path, length, compression=""):
    """Writes a good record, and the valid header of one of any length."""
    with tf.io.TFRecordWriter(f"{path}.good", compression) as writer:
        writer.write(serialize(1, 2, 3))
    open_ = gzip.open if compression else open
    with open_(f"{path}.good", "rb") as file:
        content = file.read()
    header = struct.pack("<Q", length)
    with open_(path, "wb") as file:
        file.write(content + header + struct.pack("<I", masked_crc32c(header)) + bytes(1 << 21))


def masked_crc32c(text):
    """Returns the checksum of the TFRecord format, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in text:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("length", [1 << 40, 1 << 31, IDS.max_bytes + 1])
def test_too_large_records_are_refused_before_they_are_read(tmp_path, compression, length):
    path = str(tmp_path / "large")
    write_header(path, length, compression)
    fault = (
        f"{path}, record 2: damaged or too large: {length} bytes, at most {IDS.max_bytes} expected"
    )
    for refused in (lambda: check_records(path, IDS), lambda: scan(path, checks=False)):
        with pytest.raises(InputError, match=f"^{fault}; expected a complete TFRecord file$"):
            refused()
    check_first_record(path, IDS)
    file = scan(path)
    assert file.good_count == len(read(file)) == 1
    assert list(file.describe_bad()) == [f"{fault}; this record and all after it"]


def test_gzip_that_expands_to_gigabytes_is_refused_in_little_memory(tmp_path):
    path = str(tmp_path / "bomb")
    header = struct.pack("<Q", 1 << 31)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header + struct.pack("<I", masked_crc32c(header)))
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(InputError, match="record 1: damaged or too large: 2147483648 bytes"):
        check_first_record(path, IDS)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_largest_record_of_a_specification_is_read(tmp_path):
    example = tf.train.Example()
    example.features.feature["ids"].int64_list.value.extend([1, 2, 3])
    example.features.feature["other"].bytes_list.value.append(bytes((1 << 20) - 100))
    write_records(str(tmp_path / "large"), [example.SerializeToString()])
    check_records(str(tmp_path / "large"), IDS)
    assert scan(tmp_path / "large").good_count == 1


@pytest.mark.parametrize(
    ("content", "count"),
    [([serialize(n % 10, 1, 2) for n in range(512)], 512), ([], 0), (b"no records, but text", 0)],
)
def test_whole_files_are_good_or_empty(tmp_path, content, count):
    path = tmp_path / "file"
    path.write_bytes(content) if isinstance(content, bytes) else write_records(str(path), content)
    file = scan(path)
    assert file.good_count == file.count == len(read(file)) == count
    assert (list(file.describe_bad()) == []) == (not isinstance(content, bytes))


# Saved counts


def test_counts_are_saved_and_checked_against_the_files(tmp_path, path, capsys):
    saved, paths = str(tmp_path / "records.json"), [path, str(tmp_path / "b")]
    write_records(paths[1], [serialize(1, 2, 3)])
    scanned = scan_files(paths, IDS, "counting", checks=True)
    assert load_scanned(saved, "train", paths, IDS) is None
    save_scanned(saved, {"train": (scanned, IDS)})
    assert load_scanned(saved, "train", paths, IDS) == scanned
    assert load_scanned(saved, "dev", paths, IDS) is None
    assert capsys.readouterr().err == ""

    assert load_scanned(saved, "train", paths[:1], IDS) is None
    assert load_scanned(saved, "train", paths, None) is None
    write_records(paths[1], [serialize(1, 2, 3)] * 2)
    assert load_scanned(saved, "train", paths, IDS) is None
    (tmp_path / "records.json").write_text('{"train": {"files": [{}]}}')
    assert load_scanned(saved, "train", paths, IDS) is None
    (tmp_path / "records.json").write_text("{")
    assert load_scanned(saved, "train", paths, IDS) is None
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {saved}: {reason}; making it again"
        for reason in (
            "made of other files",
            "made with other flags",
            f"{paths[1]} has changed",
            "damaged",
            "damaged",
        )
    ]


# Checks

S, M = 11, 4
SPEC = pretraining_record(S, M)


def make_records(spec):
    return [spec.serialize(random_values(seed, spec)) for seed in range(3)]


GOOD = make_records(SPEC)


def write(path, records=GOOD, compression="none"):
    write_records(str(path), records, compression)
    return str(path)


def fault_of(path, check=check_records):
    with pytest.raises(InputError) as error:
        check(str(path), SPEC)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("features", "fault"),
    [
        (
            pretraining_record(S - 2, M).features,
            "'input_ids' has length 9, expected 11, as --max_seq_length says",
        ),
        (SPEC.features[:-1], "has no feature 'masked_lm_weights'"),
        (unmasked_record(S).features, "has no feature 'masked_lm_positions'"),
        (
            (Feature("input_ids", (S,), np.float32),),
            "feature 'input_ids' is float_list, expected int64_list",
        ),
    ],
)
def test_records_of_another_form_are_named(tmp_path, features, fault):
    path = write(tmp_path / "a", make_records(RecordSpec(tuple(features))))
    assert fault_of(path).endswith(fault)
    assert "record 1: " in fault_of(path, check_first_record)


def test_only_the_first_record_is_looked_at_where_that_is_asked(tmp_path):
    path = write(tmp_path / "a", [*GOOD[:2], *make_records(pretraining_record(S, M + 1))])
    check_first_record(path, SPEC)
    assert "record 3: feature 'masked_lm_positions' has length 5" in fault_of(tmp_path / "a")


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(("kept", "record"), [(0.5, 2), (0.99, 3), (0.1, 1)])
def test_a_cut_file_is_named(tmp_path, compression, kept, record):
    content = (tmp_path / write(tmp_path / "a", GOOD, compression)).read_bytes()
    (tmp_path / "cut").write_bytes(content[: int(len(content) * kept)])
    fault = fault_of(tmp_path / "cut")
    assert "damaged or cut short" in fault
    assert compression == "gzip" or f"record {record}: " in fault


def test_a_file_without_records_is_named(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("This is a text and no TFRecord file.\n" * 5)
    for check in (check_records, check_first_record):
        assert "holds no records" in fault_of(tmp_path / "empty", check)
        assert "record 1: damaged" in fault_of(tmp_path / "text", check)
        assert "cannot be read: No such file or directory" in fault_of(tmp_path / "missing", check)
        assert "a folder; expected a file" in fault_of(tmp_path, check_records)


@pytest.mark.parametrize("batch", [None, 2])
def test_a_pipeline_over_bad_records_says_where_they_are(tmp_path, batch):
    def read_all(paths):
        serialized = tf.data.TFRecordDataset(paths)
        iterator = iter((serialized.batch(batch) if batch else serialized).map(SPEC.parse))
        with explain_bad_records(paths, SPEC):
            while next(iterator, None) is not None:
                pass

    good = write(tmp_path / "good")
    wrong = write(tmp_path / "wrong", make_records(pretraining_record(S + 1, M)))
    (tmp_path / "cut").write_bytes((tmp_path / "good").read_bytes()[:-1])
    read_all([good, good])
    with pytest.raises(InputError, match="wrong, record 1: feature 'input_ids' has length 12"):
        read_all([good, wrong])
    with pytest.raises(InputError, match="cut, record 3: damaged"):
        read_all([good, str(tmp_path / "cut")])


def test_other_errors_stay_what_they_are(tmp_path):
    path = write(tmp_path / "good")
    with pytest.raises(tf.errors.InvalidArgumentError), explain_bad_records([path], SPEC):
        tf.reshape(tf.zeros(3), (2, 2))


@pytest.mark.parametrize("id_", [17, -1])
def test_id_outside_the_vocabulary(tmp_path, id_):
    spec = pretraining_record(S, M, vocab_size=17)
    good = {name: values % 17 for name, values in random_values(0).items()}
    bad = {**good, "input_ids": np.full(S, id_)}
    path = str(tmp_path / "ids.tfrecord")
    write_records(path, [spec.serialize(good), spec.serialize(bad)])
    rows = iter(tf.data.TFRecordDataset(path).map(spec.parse))
    assert next(rows)["input_ids"].numpy().max() < 17
    message = (
        f"record 2: feature 'input_ids' has id {id_}, expected ids from 0 to below vocab_size 17"
    )
    with pytest.raises(InputError, match=message), explain_bad_records([path], spec):
        next(rows)


def test_the_first_record_shows_whether_there_are_masks(tmp_path):
    sizes = read_sizes(write(tmp_path / "masked"), SPEC)
    assert sizes == {feature.name: feature.size for feature in SPEC.features}
    unmasked = write(tmp_path / "unmasked", make_records(unmasked_record(S)))
    assert "masked_lm_ids" not in read_sizes(unmasked, SPEC)
    (tmp_path / "empty").touch()
    assert read_sizes(str(tmp_path / "empty"), SPEC) == {}

    other = str(tmp_path / "other")
    good = next(tf.data.TFRecordDataset(unmasked).as_numpy_iterator())
    write_records(other, [b"\xff\xff\xff", tf.train.Example().SerializeToString(), good])
    assert read_sizes(other, SPEC) == {}
    assert "input_ids" in read_sizes(other, SPEC, limit=None)
