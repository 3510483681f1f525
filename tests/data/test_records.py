import hashlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.records import (
    Feature,
    RecordSpec,
    pretraining_record,
    write_records,
)
from albert_tf.errors import StoppedError

S, M = 11, 4
SPEC = pretraining_record(S, M)


def random_values(seed, spec=SPEC):
    rng = np.random.default_rng(seed)
    return {
        feature.name: np.asarray(
            rng.integers(0, feature.limit or 30000, feature.shape), feature.dtype
        )
        for feature in spec.features
    }


def random_records(count=3, spec=SPEC):
    """Returns serialized records, and their values: arrays (count, ...)."""
    values = [random_values(seed, spec) for seed in range(count)]
    batch = {name: np.stack([one[name] for one in values]) for name in values[0]}
    return spec.serialize_batch(batch), batch


@pytest.mark.parametrize(
    "spec", [SPEC, RecordSpec((Feature("choices", (2, 3)), Feature("score", (), np.float32)))]
)
def test_parse_gives_back_what_was_serialized(spec):
    serialized, batch = random_records(3, spec)
    first = {name: values[0] for name, values in batch.items()}
    for source, expected in ((serialized[0], first), (serialized, batch)):
        parsed = spec.parse(tf.constant(source))
        assert list(parsed) == [feature.name for feature in spec.features]
        for name, tensor in parsed.items():
            np.testing.assert_array_equal(tensor, expected[name], strict=True)


def test_records_are_readable_with_the_parsing_spec_of_the_original():
    (serialized,), values = random_records(1)
    integers = ["input_ids", "input_mask", "segment_ids", "token_boundary"]
    columns = {name: tf.io.FixedLenFeature([S], tf.int64) for name in integers}
    columns |= {
        "masked_lm_positions": tf.io.FixedLenFeature([M], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([M], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([M], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    assert set(tf.train.Example.FromString(serialized).features.feature) == set(columns)
    for name, tensor in tf.io.parse_single_example(serialized, columns).items():
        np.testing.assert_array_equal(tensor, values[name][0])


def test_bytes_of_a_record_and_of_a_file_never_change(tmp_path):
    records, values = random_records()
    assert SPEC.serialize_batch(dict(reversed(values.items()))) == records  # in any order
    write_records(str(tmp_path / "a"), records)
    contents = records[0], (tmp_path / "a").read_bytes()
    assert [hashlib.sha256(content).hexdigest() for content in contents] == [
        "122de0205029354401e246a33d74856ec273fdab9bf15e7d17ee8f0a627e29de",
        "9a70da377cda0de520eb5492a1244b761f82b35b8588a89c80b87af0c41288a9",
    ]


def test_a_file_appears_complete_or_not_at_all(tmp_path):
    def records():
        yield b"one"
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        write_records(str(tmp_path / "a"), records())
    with pytest.raises(StoppedError, match="nowhere/a: cannot be written"):
        write_records(str(tmp_path / "nowhere" / "a"), [b"one"])
    assert list(tmp_path.iterdir()) == []
