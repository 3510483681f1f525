import pathlib
import sys
import time

import keras
import numpy as np
import pytest

from albert_tf.data.input_pipeline import pretraining_batches
from albert_tf.data.record_files import RecordFiles
from albert_tf.data.record_order import RecordOrder
from albert_tf.data.record_spec import pretraining_record
from albert_tf.errors import InputError
from albert_tf.optimization import Lamb, PolynomialDecayWithWarmup
from benchmarks.pretraining_curves import curves, schedule, turns
from benchmarks.pretraining_curves.contest import OURS, THEIRS, Contest, Setting, read_curves
from benchmarks.pretraining_curves.data import find_books, make_records
from benchmarks.pretraining_curves.turns import Point, Program, Report
from tests.helpers import tiny_config

# Reports its number of steps every 20 ms, and ends after 30 of them.
_PROGRAM = """
import json, sys, time
for step in range(30):
    time.sleep(0.02)
    with open(sys.argv[1] + "/metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "split": "train", "loss": 0.5}) + "\\n")
"""


def _program(path: pathlib.Path, code: str = _PROGRAM) -> Program:
    return Program(path.name, [sys.executable, "-c", code, str(path)], path, path.parent)


def test_programs_run_in_turns_until_both_have_ended(tmp_path):
    programs = [_program(tmp_path / name) for name in "ab"]
    lead = []
    turns.alternate(
        programs, 0.15, lambda: lead.append(len(programs[0].reports) - len(programs[1].reports))
    )
    for program in programs:
        assert [report.step for report in program.reports] == list(range(30))
        clocks = [report.clock for report in program.reports]
        assert clocks == sorted(clocks)
    # In a turn one gets on and the other does not.
    assert max(lead) > 0
    assert len(lead) >= 4


def test_the_clock_stands_while_a_program_is_stopped(tmp_path):
    program = _program(tmp_path / "a")
    program.run(20, reports=3)
    seen = len(program.reports)
    before = time.monotonic()
    time.sleep(0.5)
    program.run(20, reports=seen + 1)
    stopped = time.monotonic() - before
    assert program.reports[seen].clock - program.reports[seen - 1].clock < stopped - 0.3
    program.end()


def test_a_program_that_fails_says_where_it_said_why(tmp_path):
    with pytest.raises(InputError, match=r"a ended with exit code 3; see .*output\.txt"):
        _program(tmp_path / "a", "import sys; sys.exit(3)").run(20)


def test_evaluations_and_what_comes_before_the_first_do_not_count():
    reports = [
        Report(7.0, 0, "eval", {"loss": 9.0}),
        Report(10.0, 5, "train", {}),
        Report(12.0, 10, "train", {}),
        Report(15.0, 10, "eval", {"loss": 8.0}),
        Report(19.0, 20, "train", {}),
        Report(29.0, 20, "eval", {"loss": 7.0}),
    ]
    assert turns.evaluations(reports) == [
        Point(0.0, 0, {"loss": 9.0}),
        Point(5.0, 10, {"loss": 8.0}),
        Point(9.0, 20, {"loss": 7.0}),
    ]


def test_the_first_updates_are_not_in_the_speed():
    reports = [Report(clock, step, "train", {}) for clock, step in [(30, 5), (31, 10), (35, 18)]]
    assert turns.steps_per_second(reports) == 2.0
    with pytest.raises(ValueError, match="received 2"):
        turns.steps_per_second(reports[1:])


def test_the_rate_is_that_of_our_schedule():
    ours = PolynomialDecayWithWarmup(0.3, num_train_steps=50, num_warmup_steps=7)
    theirs = [schedule.learning_rate(step, 0.3, 50, 7) for step in range(51)]
    np.testing.assert_allclose(theirs, [float(ours(step)) for step in range(51)], atol=1e-7)


def _points(losses, seconds):
    return [
        Point(
            second,
            10 * number,
            {
                "masked_lm_loss": loss,
                "masked_lm_accuracy": 0.125,
                "sentence_order_accuracy": 0.5,
            },
        )
        for number, (loss, second) in enumerate(zip(losses, seconds, strict=True))
    ]


def test_curves_are_compared_at_equal_seconds():
    of_programs = {"a": _points([9.0, 5.0], [0, 80]), "b": _points([9.0, 7.0, 6.0], [0, 60, 120])}
    assert curves.common_seconds(of_programs) == 80
    assert curves.at(of_programs["b"], 30.0)["masked_lm_loss"] == 8.0
    assert curves.at(of_programs["b"], 90.0)["step"] == 15
    lines = curves.table({"tiny": of_programs}).splitlines()
    assert len(lines) == 2 + 4 * 2
    assert [cell.strip() for cell in lines[-1].split("|")[1:-1]] == [
        *("tiny", "b", "1.3", "13", "6.667", "785.8", "12.5%", "50.0%")
    ]


def test_the_picture_is_small(tmp_path):
    of_programs = {name: _points(np.linspace(9, 5, 17), range(17)) for name in "ab"}
    curves.draw({"tiny": of_programs, "small": of_programs}, tmp_path / "curves.png")
    assert 1_000 < (tmp_path / "curves.png").stat().st_size < 100_000


def test_every_tenth_book_is_held_out_and_what_is_no_book_left_out(tmp_path):
    for number in range(14):
        (tmp_path / f"book{number:02d}.txt").write_text("text")
    for name in ("PROVENANCE.txt", "notes.md"):
        (tmp_path / name).write_text("text")
    train, held_out = find_books(str(tmp_path))
    assert [pathlib.Path(book).stem for book in held_out] == ["book03", "book13"]
    assert len(train) == 12
    assert not set(train) & set(held_out)


def test_a_folder_without_books_is_named(tmp_path):
    with pytest.raises(InputError, match=f"--text={tmp_path}/absent: 0 files"):
        find_books(f"{tmp_path}/absent")


def test_lamb_for_pytorch_is_ours():
    torch = pytest.importorskip("torch")
    from benchmarks.pretraining_curves.torch_lamb import Lamb as TorchLamb

    rng = np.random.default_rng(3)
    # A matrix, one that starts at 0, and two that neither decay nor have a trust ratio.
    start = {
        "kernel": rng.normal(size=(5, 7)),
        "zero": np.zeros(6),
        "LayerNorm.weight": rng.normal(size=7),
        "bias": rng.normal(size=5),
    }
    paths = {"LayerNorm.weight": "layer_norm_gamma"}
    ours = [
        keras.Variable(value, name=paths.get(name, name), dtype="float32")
        for name, value in start.items()
    ]
    theirs = {
        name: torch.nn.Parameter(torch.tensor(value, dtype=torch.float32))
        for name, value in start.items()
    }
    our_lamb, their_lamb = Lamb(0.01), TorchLamb(theirs.items())
    for _ in range(4):
        gradients = [rng.normal(size=value.shape).astype(np.float32) for value in start.values()]
        our_lamb.apply(gradients, ours)
        for parameter, gradient in zip(theirs.values(), gradients, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        their_lamb.step(0.01)
    for variable, parameter in zip(ours, theirs.values(), strict=True):
        np.testing.assert_allclose(
            variable.numpy(), parameter.detach().numpy(), rtol=1e-5, atol=1e-6
        )


def _write_books(folder, count):
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcdefghij"), 4)) for _ in range(150)]
    for number in range(count):
        sentences = [" ".join(rng.choice(words, 8)).capitalize() + "." for _ in range(400)]
        (folder / f"book{number}.txt").write_text("\n\n".join(sentences))


def test_batches_for_the_other_program_are_those_that_ours_trains_on(tmp_path):
    (tmp_path / "books").mkdir()
    _write_books(tmp_path / "books", 5)
    records = make_records(str(tmp_path / "books"), tmp_path / "records", None, 120, 32, 5, 1)
    records.write_batches(tmp_path / "batches.npy", 3, 8, 100, seed=7)
    records.write_evaluation_batches(tmp_path / "held_out.npy", 2, 8)
    batches = np.load(tmp_path / "batches.npy")
    assert batches.shape == (3,)
    assert batches["input_ids"].shape == (3, 8, 32)
    spec = pretraining_record(32, 5)
    order = RecordOrder(RecordFiles([str(records.train)]), 8, 100, 7)
    for row, batch in zip(batches, pretraining_batches(order, spec.parse).take(3), strict=True):
        for name, values in batch.items():
            np.testing.assert_array_equal(row[name], values, err_msg=name)
    assert np.load(tmp_path / "held_out.npy")["masked_lm_ids"].shape == (2, 8, 5)


@pytest.mark.slow
def test_both_programs_learn_the_same_from_the_same_updates(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    books = tmp_path / "books"
    books.mkdir()
    _write_books(books, 5)
    records = make_records(str(books), tmp_path / "records", None, 97, 16, 3, dupe_factor=1)
    config = tiny_config(vocab_size=97, num_hidden_layers=3)
    contest = Contest(Setting(config, 8, 0.01), records, tmp_path / "contest", turn_seconds=60)
    contest.prepare()
    results_file = tmp_path / "results.json"
    contest.train({OURS: {"default": 600.0}, THEIRS: {"eager": 600.0}}, 0.001, results_file)
    ours, theirs = (read_curves(results_file)[name] for name in (OURS, THEIRS))
    assert [point.step for point in ours] == [point.step for point in theirs] == [*range(0, 37, 3)]
    for our_point, their_point in zip(ours, theirs, strict=True):
        for name in ("masked_lm_loss", "sentence_order_loss"):
            assert our_point.metrics[name] == pytest.approx(their_point.metrics[name], abs=1e-3)
    assert ours[-1].metrics["masked_lm_loss"] < ours[0].metrics["masked_lm_loss"] - 0.1
