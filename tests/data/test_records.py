"""Records are parsed as they were written, and errors are named."""

import hashlib
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.record_files import (
    check_records,
    explain_bad_records,
    is_unmasked,
    list_records,
)
from albert_tf.data.record_spec import (
    Feature,
    RecordSpec,
    pretraining_record,
    unmasked_record,
)
from albert_tf.data.record_writing import write_records
from albert_tf.errors import InputError, StoppedError

S, M = 11, 4
SPEC = pretraining_record(S, M)


def random_values(seed, spec=SPEC):
    rng = np.random.default_rng(seed)
    return {
        feature.name: rng.integers(0, 30000, feature.shape).astype(feature.dtype)
        for feature in spec.features
    }


def write(path, spec=SPEC, count=3):
    write_records(str(path), [spec.serialize(random_values(seed, spec)) for seed in range(count)])
    return str(path)


def fault_of(path, limit=None):
    with pytest.raises(InputError) as error:
        check_records(str(path), SPEC, limit)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("batch", [None, 3])
def test_parse_gives_back_what_was_serialized(batch):
    values = [random_values(seed) for seed in range(batch or 1)]
    serialized = [SPEC.serialize(one) for one in values]
    parsed = SPEC.parse(tf.constant(serialized if batch else serialized[0]))
    assert list(parsed) == [feature.name for feature in SPEC.features]
    for name, tensor in parsed.items():
        expected = np.stack([one[name] for one in values]) if batch else values[0][name]
        np.testing.assert_array_equal(tensor, expected)
        assert tensor.dtype == expected.dtype


def test_features_of_any_shape_are_parsed_in_that_shape():
    spec = RecordSpec((Feature("choices", (2, 3)), Feature("score", (), np.float32)))
    values = {"choices": np.arange(6).reshape(2, 3), "score": np.float32(2.5)}
    parsed = spec.parse(tf.constant(spec.serialize(values)))
    np.testing.assert_array_equal(parsed["choices"], values["choices"])
    assert parsed["score"].shape == ()
    assert parsed["score"] == 2.5


def test_parse_works_in_a_dataset_and_keeps_the_static_shapes(tmp_path):
    path = write(tmp_path / "a.tfrecord", count=5)
    dataset = tf.data.TFRecordDataset(path).batch(2, drop_remainder=True).map(SPEC.parse)
    assert dataset.element_spec["input_ids"] == tf.TensorSpec((2, S), tf.int32)
    assert len(list(dataset)) == 2


def test_records_are_readable_with_the_parsing_spec_of_the_original():
    values = random_values(0)
    integers = ["input_ids", "input_mask", "segment_ids", "token_boundary"]
    columns = {name: tf.io.FixedLenFeature([S], tf.int64) for name in integers}
    columns |= {
        "masked_lm_positions": tf.io.FixedLenFeature([M], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([M], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([M], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    serialized = SPEC.serialize(values)
    assert set(tf.train.Example.FromString(serialized).features.feature) == set(columns)
    for name, tensor in tf.io.parse_single_example(serialized, columns).items():
        np.testing.assert_array_equal(tensor, values[name])


def test_equal_values_give_equal_bytes_whatever_their_order():
    values = random_values(0)
    assert SPEC.serialize(values) == SPEC.serialize(dict(reversed(values.items())))


def test_bytes_of_a_record_and_of_a_file_never_change(tmp_path):
    contents = SPEC.serialize(random_values(0)), pathlib.Path(write(tmp_path / "a")).read_bytes()
    assert [hashlib.sha256(content).hexdigest() for content in contents] == [
        "fb28addcf2f8930589769b3a57cb7a5f7dc8a89a5991e0472fd3d37f97ab04e1",
        "df004b25d2e79096f04757d9ef23507b025f5fcdcd709267d89444899d4ca838",
    ]


def test_bytes_are_those_of_protobuf():
    spec = RecordSpec((Feature("b", (3, 2)), Feature("a", ()), Feature("c", (40,), np.float32)))
    rng = np.random.default_rng(0)
    columns = {
        "b": rng.integers(-(2**63), 2**63, (9, 3, 2)) >> rng.integers(0, 64, (9, 3, 2)),
        "a": np.array([0, 1, 127, 128, 2**14 - 1, 2**14, 2**31 - 1, -1, -(2**31)]),
        "c": rng.normal(size=(9, 40)).astype(np.float32),
    }
    for row, record in enumerate(spec.serialize_batch(columns)):
        example = tf.train.Example()
        for feature in spec.features:
            values = columns[feature.name][row].ravel().tolist()
            getattr(example.features.feature[feature.name], feature.kind).value.extend(values)
        assert record == example.SerializeToString(deterministic=True)


def test_files_are_those_of_tensorflow(tmp_path):
    rng = np.random.default_rng(0)
    records = [rng.bytes(length) for length in (0, 1, 3, 4, 5, 1000, 1_100_000, 7, 0, 2_000_003)]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    write_records(str(tmp_path / "ours"), records)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_serialize_refuses_another_shape():
    values = random_values(0) | {"input_mask": np.ones(S + 1)}
    with pytest.raises(ValueError, match=r"input_mask: received shape \(12,\), expected \(11,\)"):
        SPEC.serialize(values)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_records_come_back_whatever_the_compression(tmp_path, compression):
    paths = [write(tmp_path / "plain"), str(tmp_path / "other")]
    records = [SPEC.serialize(random_values(seed)) for seed in range(5)]
    write_records(paths[1], records, compression)
    assert (tmp_path / "other").read_bytes().startswith(b"\x1f\x8b") == (compression == "gzip")
    check_records(paths[1], SPEC, limit=None)
    read = list(list_records(paths).flat_map(tf.data.TFRecordDataset).as_numpy_iterator())
    assert read == records[:3] + records


def test_a_gzip_file_that_is_cut_short_is_named(tmp_path):
    path = tmp_path / "a"
    write_records(str(path), [SPEC.serialize(random_values(seed)) for seed in range(5)], "gzip")
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged or cut short" in fault_of(path)


def test_a_file_appears_complete_or_not_at_all(tmp_path):
    def records():
        yield b"one"
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        write_records(str(tmp_path / "a"), records())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoppedError, match="nowhere/a: cannot be written"):
        write_records(str(tmp_path / "nowhere" / "a"), [b"one"])


def test_good_records_pass(tmp_path):
    check_records(write(tmp_path / "a"), SPEC)
    check_records(write(tmp_path / "a"), SPEC, limit=None)


def test_a_wrong_length_is_named_with_both_lengths(tmp_path):
    path = write(tmp_path / "a", pretraining_record(S - 2, M))
    assert fault_of(path).endswith("record 1: feature 'input_ids' has length 9, expected 11")


def test_a_missing_feature_and_a_wrong_type_are_named(tmp_path):
    path = write(tmp_path / "a", RecordSpec(SPEC.features[:-1]))
    assert "record 1: has no feature 'masked_lm_weights'" in fault_of(path)
    path = write(tmp_path / "b", RecordSpec((Feature("input_ids", (S,), np.float32),)))
    assert "feature 'input_ids' is float_list, expected int64_list" in fault_of(path)


def test_only_the_first_records_are_looked_at_where_that_is_asked(tmp_path):
    good, bad = SPEC.serialize(random_values(0)), pretraining_record(S, M + 1)
    write_records(str(tmp_path / "a"), [good, good, bad.serialize(random_values(1, bad))])
    check_records(str(tmp_path / "a"), SPEC, limit=2)
    assert "record 3: feature 'masked_lm_positions' has length 5" in fault_of(tmp_path / "a")


def test_other_content_than_an_example_is_named(tmp_path):
    write_records(str(tmp_path / "a"), [b"\xff\xff\xff"])
    assert "record 1: is not a tf.train.Example" in fault_of(tmp_path / "a")


@pytest.mark.parametrize(("kept", "record"), [(0.5, 2), (0.99, 3), (0.1, 1)])
def test_a_cut_file_is_named_with_the_record(tmp_path, kept, record):
    content = (tmp_path / write(tmp_path / "a")).read_bytes()
    (tmp_path / "cut").write_bytes(content[: int(len(content) * kept)])
    assert f"record {record}: damaged or cut short" in fault_of(tmp_path / "cut")


def test_a_file_without_records_is_named(tmp_path):
    (tmp_path / "empty").touch()
    assert "holds no records" in fault_of(tmp_path / "empty")
    (tmp_path / "text").write_text("This is a text and no TFRecord file.\n" * 5)
    assert "record 1: damaged" in fault_of(tmp_path / "text")
    assert "no such file" in fault_of(tmp_path / "missing")
    assert "no such file" in fault_of(tmp_path)


@pytest.mark.parametrize("batch", [None, 2])
def test_a_pipeline_over_bad_records_says_where_they_are(tmp_path, batch):
    def read_all(paths):
        serialized = tf.data.TFRecordDataset(paths)
        iterator = iter((serialized.batch(batch) if batch else serialized).map(SPEC.parse))
        with explain_bad_records(paths, SPEC):
            while next(iterator, None) is not None:
                pass

    good = write(tmp_path / "good", count=4)
    wrong = write(tmp_path / "wrong", pretraining_record(S + 1, M))
    (tmp_path / "cut").write_bytes((tmp_path / "good").read_bytes()[:-1])
    read_all([good, good])
    with pytest.raises(InputError, match="wrong, record 1: feature 'input_ids' has length 12"):
        read_all([good, wrong])
    with pytest.raises(InputError, match="cut, record 4: damaged"):
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
    assert is_unmasked(write(tmp_path / "masked")) is False
    unmasked = write(tmp_path / "unmasked", unmasked_record(S))
    assert is_unmasked(unmasked)
    (tmp_path / "empty").touch()
    assert is_unmasked(str(tmp_path / "empty")) is None

    other = str(tmp_path / "other")
    good = next(tf.data.TFRecordDataset(unmasked).as_numpy_iterator())
    write_records(other, [b"\xff\xff\xff", tf.train.Example().SerializeToString(), good])
    assert is_unmasked(other) is None
    assert is_unmasked(other, limit=None)


def test_records_without_masks_are_none_with_masks(tmp_path):
    fault = fault_of(write(tmp_path / "unmasked", unmasked_record(S)))
    assert fault.endswith("record 1: has no feature 'masked_lm_positions'")
