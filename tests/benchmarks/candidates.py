"""Candidates of a benchmark, in a module that imports little: each has a process that imports it."""

import os
import sys

from benchmarks.harness import Candidate, timed


def _start(greeting, name):
    return lambda question: f"{greeting}, {name}{question}"


def _fail():
    print("the model is too wide", file=sys.stderr)
    sys.exit(3)


CANDIDATES = {
    "polite": Candidate(_start, {"greeting": "Good day"}),
    "failing": Candidate(_fail),
    "step": Candidate(lambda: timed(lambda: None, (3, lambda: None))),
    "absent": Candidate(_start, packages=("a_package_that_is_not_there",)),
    "environment": Candidate(lambda: os.environ.get, environment={"BENCHMARK_SETTING": "7"}),
}
