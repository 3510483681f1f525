import dataclasses
import json
import pathlib
import shutil

import pytest

from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.pretraining_run import PretrainingOptions
from benchmarks.ablations import report, training
from benchmarks.ablations.arms import ARMS, CLAIMS, TABLES, Recipe
from benchmarks.ablations.training import TASKS, Job, Study, make_jobs
from benchmarks.trainings import Results
from tests.helpers import ROOT


@pytest.mark.filterwarnings("ignore:Precision loss")
@pytest.mark.parametrize(
    ("higher", "lower", "expected"),
    [
        ([3.0, 3.1, 2.9], [1.0, 1.2, 0.9], "yes"),
        ([1.0, 1.2, 0.9], [3.0, 3.1, 2.9], "no"),
        ([1.0, 3.0, 2.0], [1.1, 2.0, 1.4], "undecided"),
        ([3.0, 3.1], [1.0, 1.1, 0.9], "undecided"),  # too few seeds
        ([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], "yes"),
        ([2.0, 2.0, 2.0], [2.0, 2.0, 2.0], "undecided"),
    ],
)
def test_verdict_is_welchs(higher, lower, expected):
    assert report.verdict(higher, lower) == expected


PAGE = ROOT / "docs" / "paper.md"


def test_the_page_has_the_tables_of_the_results(tmp_path):
    (tmp_path / "images").mkdir()
    page = pathlib.Path(shutil.copy(PAGE, tmp_path))
    results = Results(str(ROOT / "benchmarks" / "ablations" / "results.jsonl"))
    report.write(results.lines, page)
    assert page.read_bytes() == PAGE.read_bytes()
    assert (tmp_path / "images" / "layer_similarity.png").read_bytes().startswith(b"\x89PNG")


def test_jobs_come_seed_by_seed_in_the_order_of_the_tables_and_after_what_they_need():
    jobs = make_jobs([4, 11, 6, 3], [1, 2])
    assert len(set(jobs)) == len(jobs)
    for number, job in enumerate(jobs):
        assert set(job.needs) <= set(jobs[:number])
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert {job.arm for job in jobs[:8]} == set(TABLES[4])
    assert jobs[8:12] == [Job(arm, 1) for arm in TABLES[11]]


def test_every_arm_makes_a_model_and_is_claimed_something_of():
    for arm in ARMS.values():
        assert arm.config(Recipe()).hidden_size % arm.config(Recipe()).num_attention_heads == 0
    assert {arm for table in TABLES.values() for arm in table} == set(ARMS)
    named = {arm for claims in CLAIMS.values() for claim in claims for arm in claim[1:3]}
    assert named <= set(ARMS)


OPTIONS = {"run_pretraining.py": PretrainingOptions, "run_classifier.py": FineTuningOptions}


class FakeChildren:
    """Checks the commands and writes what they write."""

    def __init__(self):
        self.commands = []

    def run(self, command, log, done):
        self.commands.append(command)
        flags = {flag.partition("=")[0].removeprefix("--") for flag in command[1:]}
        if options := OPTIONS.get(command[0]):
            assert flags <= {field.name for field in dataclasses.fields(options)}
        metrics = ("masked_lm_loss", "masked_lm_accuracy", "accuracy", "pearson")
        done.write_text(json.dumps(dict.fromkeys((*metrics, "sentence_order_accuracy"), 0.5)))
        log.with_suffix(".seconds").write_text("7.5\n")

    def stop(self):
        pass


def test_a_job_is_done_once_and_after_those_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "make_records", lambda *arguments, **options: None)
    results, children = Results(str(tmp_path / "results.jsonl")), FakeChildren()
    study = Study("books", "glue", None, tmp_path / "work", results, Recipe(), children)
    jobs = make_jobs([6], [1])
    study.run(jobs, num_workers=2)
    # Two workers finish in any order.
    arms = {line["arm"] for line in results.lines}
    assert arms == {"ALBERT H128", "E64 unshared", "BERT H64"}
    assert len(results.lines) == len(arms)
    assert {line["num_train_steps"] for line in results.lines} == {Recipe().num_train_steps}
    line = results.find({"arm": "BERT H64"})
    assert line["dev"] == dict.fromkeys(TASKS, 0.5)
    assert (line["cpu_seconds"], line["sop_accuracy"]) == (7.5, 0.5)
    assert len(children.commands) == 3 * (2 + len(TASKS))
    study.run(jobs, num_workers=2)
    assert len(children.commands) == 3 * (2 + len(TASKS))
