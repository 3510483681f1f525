import numpy as np
import pytest

from benchmarks.finetuning import __main__ as benchmark
from benchmarks.finetuning import samples
from benchmarks.finetuning.candidates import OURS
from tests.benchmarks.samples import cells_of, rounds_of
from tests.data.fine_tuning.test_batches import make_features

B, COUNT, LONGEST = 3, 50, 17


def make_epoch(activity, batching):
    return samples.epoch(make_features(COUNT, LONGEST), activity, batching, B, fixed_length=LONGEST)


def tokens(batches):
    rows = [
        tuple(row[mask > 0])
        for batch in batches
        for row, mask in zip(batch["input_ids"], batch["input_mask"], strict=True)
    ]
    return sorted(rows)


@pytest.mark.parametrize("batching", ["pipeline", "trainer", "grouped"])
def test_prediction_has_each_row_once(batching):
    features = make_features(COUNT, LONGEST)
    rows = sorted(map(tuple, np.split(features.input_ids, features.starts[1:])))
    assert tokens(make_epoch("prediction", batching)) == rows


def test_what_groups_by_length_pads_less_and_what_is_fixed_most():
    training, prediction = (
        {
            batching: samples.sample(make_epoch(activity, batching), 4).padding
            for batching in ("pipeline", "grouped", "trainer", "fixed")
        }
        for activity in ("training", "prediction")
    )
    assert training["grouped"] < training["trainer"] <= training["pipeline"] < training["fixed"]
    assert max(prediction["pipeline"], prediction["grouped"]) < prediction["trainer"]
    assert prediction["trainer"] < prediction["fixed"]


def test_table_of_given_rounds():
    sample_of = {OURS: samples.Sample([{}, {}], 0.25)}
    table = benchmark.table(sample_of, {OURS: rounds_of(0.5, 0.25, 0.125)})
    assert cells_of(table)[2] == [OURS, "4.0", "1.00", "1.00", "250.0", "25 %", "2", "100"]
