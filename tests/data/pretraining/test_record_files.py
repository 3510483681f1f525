"""Files of records are counted and checked; bad records are named."""

import os
import pathlib
import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from albert_tf.data.pretraining.record_files import count_records, first_record, scan
from albert_tf.data.records import (
    Feature,
    RecordSpec,
    feature_sizes,
    pretraining_record,
    unmasked_record,
    write_records,
)
from tests.data.test_records import random_records
from tests.helpers import refused

IDS = RecordSpec((Feature("ids", (3,), limit=10),))


def serialize(*ids):
    (record,) = RecordSpec((Feature("ids", (len(ids),)),)).serialize_batch({"ids": np.array([ids])})
    return record


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    write_records(path, [serialize(n % 10, 1, 2) for n in range(600)])
    return path


def whole(path):
    return list(tf.data.TFRecordDataset(path).as_numpy_iterator())


@pytest.mark.parametrize(
    ("number", "record", "fault"),
    [
        (5, serialize(1, 2), "feature 'ids' has length 2, expected 3"),
        (6, serialize(-1, 1, 2), "feature 'ids' has -1, expected 0 to 9"),
        (300, serialize(1, 2, 10), "feature 'ids' has 10, expected 0 to 9"),
        (301, b"\xff\xff", "is not a tf.train.Example"),
    ],
)
def test_a_bad_record_is_named(path, number, record, fault):
    records = whole(path)
    records[number - 1] = record
    records[400] = b"\xff"  # a later one
    write_records(path, records)
    assert scan(path, IDS) == 600
    with refused(f"^{path}, record {number}: {fault}$"):
        scan(path, IDS, checks=True)


def size_of(records):
    return sum(len(record) + 16 for record in records)


@pytest.mark.parametrize("damage", ["cut", "content", "length"])
def test_damage_is_named(path, damage):
    content = bytearray(pathlib.Path(path).read_bytes())
    start = size_of(whole(path)[:450])  # where record 451 begins
    if damage == "cut":
        del content[start + 20 :]
    else:
        content[start + (0 if damage == "length" else 14)] = 0x7F
    pathlib.Path(path).write_bytes(content)
    message = f"^{path}, record 451: damaged or cut short; expected a complete TFRecord file$"
    with refused(message):
        scan(path, IDS)


def write_header(path, length):
    """Writes a good record, and the valid header of one of any length."""
    with tf.io.TFRecordWriter(f"{path}.good") as writer:
        writer.write(serialize(1, 2, 3))
    content = pathlib.Path(f"{path}.good").read_bytes()
    header = struct.pack("<Q", length)
    header += struct.pack("<I", masked_crc32c(header))
    pathlib.Path(path).write_bytes(content + header + bytes(1 << 21))


@pytest.mark.parametrize("length", [1 << 40, 1 << 31, IDS.max_bytes + 1])
def test_too_large_records_are_refused_before_they_are_read(tmp_path, length):
    path = str(tmp_path / "large")
    write_header(path, length)
    fault = f"damaged or too large: {length} bytes, at most {IDS.max_bytes} expected"
    with refused(f"^{path}, record 2: {fault}; expected a complete TFRec"):
        scan(path, IDS)


def test_largest_record_is_read_with_a_feature_that_nobody_knows(tmp_path):
    example = tf.train.Example()
    example.features.feature["ids"].int64_list.value.extend([1, 2, 3])
    example.features.feature["other"].bytes_list.value.append(bytes((1 << 20) - 100))
    write_records(str(tmp_path / "large"), [example.SerializeToString()])
    (record,) = whole(str(tmp_path / "large"))
    assert scan(str(tmp_path / "large"), IDS) == 1
    assert IDS.parse(record)["ids"].numpy().tolist() == [1, 2, 3]


def test_files_of_a_known_size_are_not_read(tmp_path, path):
    other = str(tmp_path / "b")
    write_records(other, [serialize(1, 2, 3)] * 2)
    known = {
        path: {"bytes": os.path.getsize(path), "records": 7},
        other: {"bytes": 1, "records": 7},
    }
    assert [file.count for file in count_records([path, other], IDS, known)] == [7, 2]


S, M = 11, 4
SPEC = pretraining_record(S, M, vocab_size=30000)


def write(path, spec=SPEC, records=None):
    write_records(str(path), random_records(3, spec)[0] if records is None else records)
    return str(path)


@pytest.mark.parametrize(
    ("features", "fault"),
    [
        (pretraining_record(S - 2, M).features, "9, expected 11, as --max_seq_length or .* says"),
        (SPEC.features[:-1], "has no feature 'masked_lm_weights'"),
        (unmasked_record(S).features, "has no feature 'masked_lm_positions'"),
        ((Feature("input_ids", (S,), np.float32),), "is float_list, expected int64_list"),
    ],
)
def test_a_record_of_another_form_is_named(tmp_path, features, fault):
    path = write(tmp_path / "a", RecordSpec(tuple(features)))
    with refused(f"^{path}, record 1: .*{fault}$"):
        scan(path, SPEC, checks=True)


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [
        ("masked_lm_positions", S, S - 1),
        ("masked_lm_positions", -1, S - 1),
        ("segment_ids", 2, 1),
        ("input_mask", 7, 1),
        ("next_sentence_labels", 2, 1),
    ],
)
def test_a_record_with_a_number_out_of_range_is_named(tmp_path, name, value, most):
    columns = random_records(2, SPEC)[1]
    columns[name][1, 0] = value
    path = write(tmp_path / "a", records=SPEC.serialize_batch(columns))
    with refused(f"^{path}, record 2: feature '{name}' has {value}, expected 0 to {most}$"):
        scan(path, SPEC, checks=True)


def test_files_without_records_are_named(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("This is a text and no TFRecord file.\n" * 5)
    for name, fault in {
        "empty": "holds no records",
        "text": "record 1: damaged",
        "missing": "cannot be read: No such file or directory",
        "": "a folder; expected a file",
    }.items():
        with refused(f"^{tmp_path / name}.* {fault}"):
            count_records([str(tmp_path / name)], SPEC)


def test_the_first_record_shows_whether_there_are_masks(tmp_path):
    sizes = feature_sizes(first_record(write(tmp_path / "masked"), SPEC))
    integers = [feature for feature in SPEC.features if feature.kind == "int64_list"]
    assert sizes == {feature.name: feature.size for feature in integers}
    unmasked = write(tmp_path / "unmasked", unmasked_record(S))
    assert "masked_lm_ids" not in feature_sizes(first_record(unmasked, SPEC))
    assert first_record(write(tmp_path / "empty", records=[]), SPEC) == b""
    for record in (b"", b"\xff\xff\xff", tf.train.Example().SerializeToString()):
        assert feature_sizes(record) == {}
