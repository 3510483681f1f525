import os
import pathlib
import signal
import sys
import time

import pytest

from albert_tf.errors import InputError, StoppedError
from benchmarks.harness import (
    Candidate,
    Round,
    Worker,
    check_candidates,
    processor,
    ratio,
    take_turns,
    timed,
)
from benchmarks.original import NAME, Took, check, compare, watch

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


def _start(greeting, name):
    return lambda question: f"{greeting}, {name}{question}"


def _fail():
    print("the model is too wide", file=sys.stderr)
    sys.exit(3)


def _start_a_process():
    # It inherits the pipe of the answers.
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    return lambda question: child


CANDIDATES = {
    "polite": Candidate(_start, {"greeting": "Good day"}),
    "failing": Candidate(_fail),
    "step": Candidate(lambda: timed(lambda: None, (3, lambda: None))),
    "absent": Candidate(_start, packages=("a_package_that_is_not_there",)),
    "environment": Candidate(lambda: os.environ.get, environment={"BENCHMARK_SETTING": "7"}),
    "with a process": Candidate(_start_a_process),
}


def test_workers_answer_questions_with_their_own_arguments_and_environment():
    with Worker(__name__, "polite", {"name": "Ada"}) as worker:
        assert [worker.ask("?"), worker.ask("!")] == ["Good day, Ada?", "Good day, Ada!"]
    with Worker(__name__, "environment", {}) as worker:
        assert worker.ask("BENCHMARK_SETTING") == "7"


def test_error_of_an_ended_worker_has_its_last_line():
    with Worker(__name__, "failing", {}) as worker, pytest.raises(StoppedError) as error:
        worker.run(1)
    assert str(error.value) == "failing ended: the model is too wide (exit code 3)"


@pytest.mark.timeout(120)
def test_a_process_that_outlives_the_worker_is_not_waited_for():
    with Worker(__name__, "with a process", {}) as worker:
        child = worker.ask(1)
    assert pathlib.Path(f"/proc/{child}").exists()
    os.kill(child, signal.SIGKILL)


def test_every_candidate_has_as_many_turns():
    results = take_turns(__name__, {"step": {}}, rounds=2, steps=1)
    assert [len(rounds) for rounds in results.values()] == [2]
    assert all(one.seconds >= 0 and one.peak_mib > 5 for one in results["step"])


def test_ratios_are_within_rounds():
    # The machine was busy in the second round: the medians alone would say 2 and 5.
    seconds = {"a": (1.0, 10.0, 2.0), "b": (3.0, 30.0, 5.0)}
    results = {name: [Round(one, one, 100.0) for one in seconds[name]] for name in seconds}
    assert ratio(results, "b", "a") == 3.0


def test_missing_package_and_unknown_candidate_are_named():
    check_candidates(CANDIDATES, ["polite"])
    with pytest.raises(InputError, match=r"make \.venv-all/installed"):
        check_candidates(CANDIDATES, ["absent"])
    with pytest.raises(InputError, match="--candidates: received 'other'; expected polite or fail"):
        check_candidates(CANDIDATES, ["other"])


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


def test_a_folder_without_the_original_is_named(tmp_path):
    with pytest.raises(InputError, match=f"--original_dir: '{tmp_path}' has no create_pretraining"):
        check(str(tmp_path))


def test_processor_has_name_extension_and_cores():
    assert f", {os.cpu_count()} cores" in processor()


def test_questions_of_squad_are_repeated_in_order():
    from benchmarks.squad import repeat  # not above, as the candidates' processes import this file

    examples = list("abcdefg")
    assert repeat(examples, 17) == examples + examples + examples[:3]
    assert repeat(examples, 3) == examples[:3]
