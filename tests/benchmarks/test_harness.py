import pathlib
import sys

import pytest

from albert_tf.errors import StoppedError
from benchmarks.harness import Round, Worker, check_candidates, ratio, take_turns
from benchmarks.original import NAME, Took, compare, watch
from tests.benchmarks import candidates
from tests.helpers import refused

# A process and a child; the child uses memory and time.
BUSY = """
import os, time
if not os.fork():
    content = b"x" * 200_000_000
    while time.process_time() < 0.6:
        pass
    time.sleep(0.5)
    os._exit(0)
os.wait()
print("done")
"""


MODULE = candidates.__name__


def test_workers_answer_questions_with_their_own_arguments_and_environment():
    with Worker(MODULE, "polite", {"name": "Ada"}) as worker:
        assert [worker.ask("?"), worker.ask("!")] == ["Good day, Ada?", "Good day, Ada!"]
    with Worker(MODULE, "environment", {}) as worker:
        assert worker.ask("BENCHMARK_SETTING") == "7"


def test_error_of_an_ended_worker_has_its_last_line():
    with Worker(MODULE, "failing", {}) as worker, pytest.raises(StoppedError) as error:
        worker.run(1)
    assert str(error.value) == "failing ended: the model is too wide (exit code 3)"


def test_every_candidate_has_as_many_turns():
    results = take_turns(MODULE, {"step": {}}, rounds=2, steps=1)
    assert [len(rounds) for rounds in results.values()] == [2]
    assert all(one.seconds >= 0 and one.peak_mib > 5 for one in results["step"])


def test_ratios_are_within_rounds():
    # The machine was busy in the second round: the medians alone would say 2 and 5.
    seconds = {"a": (1.0, 10.0, 2.0), "b": (3.0, 30.0, 5.0)}
    results = {name: [Round(one, one, 100.0) for one in seconds[name]] for name in seconds}
    assert ratio(results, "b", "a") == 3.0


def test_missing_package_and_unknown_candidate_are_named():
    check_candidates(candidates.CANDIDATES, ["polite"])
    with refused(r"make \.venv-all/installed"):
        check_candidates(candidates.CANDIDATES, ["absent"])
    with refused("--candidates: received 'other'; expected polite or fail"):
        check_candidates(candidates.CANDIDATES, ["other"])


def test_usage_counts_children_and_keeps_the_output(tmp_path):
    output = tmp_path / "output"
    usage = watch([sys.executable, "-c", BUSY], str(output))
    assert pathlib.Path(output).read_text() == "done\n"
    assert len(usage.cpu_seconds) == 2
    assert 0.5 < usage.all_cpu_seconds < usage.seconds
    assert usage.peak_mib > 190
    assert 0 < usage.worker_mib < usage.peak_mib


def test_failed_command_is_named_with_its_last_line():
    command = [sys.executable, "-c", "raise SystemExit('no such file')"]
    with pytest.raises(StoppedError, match="ended: no such file"):
        watch(command)


def test_runs_are_compared_within_turns():
    took = {NAME: [1.0, 10.0, 2.0], "ours": [0.1, 1.0, 0.1]}
    work = {
        name: iter([Took(100, each, 3 * each, 50.0) for each in seconds]).__next__
        for name, seconds in took.items()
    }
    rows, times = compare(work, rounds=3)
    assert times == pytest.approx({NAME: 1.0, "ours": 10.0})
    assert rows[1] == ["ours", "100", "0.1", "1,000", "10.0", "0.3", "333", "50", "0"]
