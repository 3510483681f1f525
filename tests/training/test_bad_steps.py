import json

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.reports import BadSteps


def steps_of_lines(folder):
    lines = (folder / "bad_steps.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def add(bad_steps, last, flags):
    skipped = tf.constant(flags, tf.float32)
    bad_steps.add(last, (skipped, tf.ones_like(skipped)))
    bad_steps.check(is_chief=True)


def make(folder, most=5):
    return BadSteps(most, str(folder), lambda numbers: {n: {"file": [n + 1]} for n in numbers})


def test_resumed_run_repeats_no_line(tmp_path):
    bad_steps = make(tmp_path)
    add(bad_steps, 8, [0, 1, 0, 1, 0, 0, 1, 1])
    assert steps_of_lines(tmp_path) == [2, 4, 7, 8]
    assert bad_steps.in_a_row == 2
    add(make(tmp_path), 9, [0, 0, 1, 1, 1])
    assert steps_of_lines(tmp_path) == [2, 4, 7, 8, 9]


def test_too_many_consecutive_steps_are_recorded_too(tmp_path):
    with pytest.raises(
        InputError, match=r"^step 5: the loss or gradient of 3 consecutive steps is not"
    ):
        add(make(tmp_path, most=2), 6, [1, 0, 1, 1, 1, 0])
    assert steps_of_lines(tmp_path) == [1, 3, 4, 5]
