"""Files of records are counted and checked; bad records are named or left out."""

import gzip
import pathlib
import struct
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.record_batches import read_in_order
from albert_tf.data.pretraining.record_files import (
    check_records,
    explain_bad_records,
    load_scanned,
    read_file,
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
        scan(path, checks=False)
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


def test_counts_are_saved_and_checked_against_the_files(tmp_path, path, capsys):
    saved, paths = str(tmp_path / "records.json"), [path, str(tmp_path / "b")]
    write_records(paths[1], [serialize(1, 2, 3)])
    scanned = scan_files(paths, IDS, "counting", checks=True)
    assert load_scanned(saved, "train", paths, "all") is None
    save_scanned(saved, {"train": (scanned, "all")})
    assert load_scanned(saved, "train", paths, "all") == scanned
    assert load_scanned(saved, "dev", paths, "all") is None
    assert capsys.readouterr().err == ""

    assert load_scanned(saved, "train", paths[:1], "all") is None
    assert load_scanned(saved, "train", paths, "first") is None
    write_records(paths[1], [serialize(1, 2, 3)] * 2)
    assert load_scanned(saved, "train", paths, "all") is None
    for content in ('{"train": {"files": [{}]}}', "{"):
        (tmp_path / "records.json").write_text(content)
        assert load_scanned(saved, "train", paths, "all") is None
    other = "made of other files or flags"
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {saved}: {reason}; making it again"
        for reason in (other, other, f"{paths[1]} has changed", "damaged", "damaged")
    ]


# Records for pre-training

S, M = 11, 4
SPEC = pretraining_record(S, M, vocab_size=30000)
VALUES = [random_values(seed) for seed in range(3)]


def write(path, spec=SPEC, records=None):
    values = [random_values(seed, spec) for seed in range(3)]
    write_records(
        str(path), [spec.serialize(one) for one in values] if records is None else records
    )
    return str(path)


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
def test_a_first_record_of_another_form_is_named(tmp_path, features, fault):
    path = write(tmp_path / "a", RecordSpec(tuple(features)))
    with pytest.raises(InputError, match=f"^{path}, record 1: .*{fault}$"):
        scan_files([write(tmp_path / "good"), path], SPEC, "counting")


@pytest.mark.parametrize(
    "check",
    [check_records, lambda path, spec: scan(path, spec, checks=False)],
    ids=["all", "first"],
)
def test_files_without_records_are_named(tmp_path, check):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("This is a text and no TFRecord file.\n" * 5)
    for name, fault in {
        "empty": "holds no records",
        "text": "record 1: damaged",
        "missing": "cannot be read: No such file or directory",
        "": "a folder; expected a file",
    }.items():
        with pytest.raises(InputError, match=f"^{tmp_path / name}.* {fault}"):
            check(str(tmp_path / name), SPEC)


def bad_file(folder, fault):
    """Writes a file whose last record is bad; returns its path."""
    good = [SPEC.serialize(values) for values in VALUES[:2]]
    if isinstance(fault, int):
        bad = SPEC.serialize({**VALUES[2], "input_ids": np.full(S, fault)})
        return write(folder / "bad", records=[*good, bad])
    if fault == "length":
        longer = pretraining_record(S + 1, M)
        bad = longer.serialize(random_values(0, longer))
        return write(folder / "bad", records=[*good, bad])
    content = pathlib.Path(write(folder / "whole")).read_bytes()
    if fault == "cut gzip":
        content = gzip.compress(content)
    (folder / "bad").write_bytes(content[: len(content) * 5 // 6])
    return str(folder / "bad")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("length", "feature 'input_ids' has length 12"),
        (30000, "feature 'input_ids' has id 30000, expected ids from 0 to below vocab_size 30000"),
        (-1, "feature 'input_ids' has id -1, expected ids from 0 to below vocab_size 30000"),
        ("cut", "damaged or cut short; expected a complete TFRecord file"),
        ("cut gzip", "damaged or cut short; expected a complete TFRecord file"),
    ],
)
def test_a_pipeline_over_bad_records_says_where_they_are(tmp_path, fault, message):
    def read_all(paths):
        with explain_bad_records(paths, SPEC):
            for path in paths:
                list(read_file(path).batch(2).map(SPEC.parse))

    good = write(tmp_path / "good")
    read_all([good, good])
    with pytest.raises(InputError, match=f"^{tmp_path}/bad, record 3: {message}"):
        read_all([good, bad_file(tmp_path, fault)])


def test_other_errors_stay_what_they_are(tmp_path):
    path = write(tmp_path / "good")
    with pytest.raises(tf.errors.InvalidArgumentError), explain_bad_records([path], SPEC):
        tf.reshape(tf.zeros(3), (2, 2))


def test_the_first_record_shows_whether_there_are_masks(tmp_path):
    sizes = read_sizes(write(tmp_path / "masked"), SPEC)
    assert sizes == {feature.name: feature.size for feature in SPEC.features}
    unmasked = write(tmp_path / "unmasked", unmasked_record(S))
    assert "masked_lm_ids" not in read_sizes(unmasked, SPEC)
    assert read_sizes(write(tmp_path / "empty", records=[]), SPEC) == {}

    good = next(tf.data.TFRecordDataset(unmasked).as_numpy_iterator())
    records = [b"\xff\xff\xff", tf.train.Example().SerializeToString(), good]
    other = write(tmp_path / "other", records=records)
    assert read_sizes(other, SPEC) == {}
    assert "input_ids" in read_sizes(other, SPEC, limit=None)
