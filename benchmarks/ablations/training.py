"""Trains and measures the arms in child processes that resume where they were stopped."""

import concurrent.futures
import dataclasses
import itertools
import math
import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from benchmarks.ablations.arms import ARMS, CROSS_EVALUATED, OBJECTIVES, TABLES, Recipe
from benchmarks.books import make_records
from benchmarks.harness import processor
from benchmarks.trainings import RESULTS_FILE, Children, Results, cpu_seconds

_EVALUATIONS = 5
_WARMUP_SHARE = 0.05
# Of the recipe, what decides the records.
_DATA_FIELDS = ("vocab_size", "max_seq_length", "max_predictions_per_seq")
_CONFIG = "config_to_train.json"
_LOG = "log.txt"
# Task -> metric.
TASKS = {"sst-2": "accuracy", "mrpc": "accuracy", "sts-b": "pearson"}


class Job(NamedTuple):
    """An arm, a key of `ARMS`, to train with a seed."""

    arm: str
    seed: int

    @property
    def needs(self) -> list["Job"]:
        """The jobs whose results it needs."""
        arm = ARMS[self.arm]
        others = [*([arm.start] if arm.start else []), *arm.as_long_as]
        return [Job(other, self.seed) for other in others]


def make_jobs(tables: Iterable[int], seeds: Iterable[int]) -> list[Job]:
    """Returns the jobs of some tables: seed by seed, table by table, each after those it needs."""
    jobs: dict[Job, None] = {}

    def add(job: Job) -> None:
        for need in job.needs:
            add(need)
        jobs[job] = None

    for seed, table in itertools.product(seeds, tables):
        for arm in TABLES[table]:
            add(Job(arm, seed))
    return list(jobs)


def relative_cost(results: Results, arm: str, other: str, seed: int) -> float:
    """Returns the CPU time of an arm's update, in updates of another arm with the same seed."""
    one, two = (results.find({"arm": name, "seed": seed}) for name in (arm, other))
    if one["processor"] != two["processor"]:
        raise InputError(f"--results: {arm} and {other}, seed {seed}, have different processors")
    costs = [line["cpu_seconds"] / line["num_train_steps"] for line in (one, two)]
    return costs[0] / costs[1]


@dataclasses.dataclass
class Study:
    """Trains arms. `AblationOptions` describes the attributes; `work_dir` is absolute."""

    text: str
    glue_dir: str
    blimp_file: str | None
    work_dir: pathlib.Path
    results: Results
    recipe: Recipe
    children: Children = dataclasses.field(default_factory=Children)

    def run(self, jobs: Sequence[Job], num_workers: int) -> None:
        """Does the jobs that have no line, the first ones first, each after those it needs."""
        for objective in OBJECTIVES:
            make_records(
                *(self.text, self.work_dir, str(self._vocabulary), objective),
                self.recipe.dupe_factor,
                sentence_objective=objective,
                **{name: getattr(self.recipe, name) for name in _DATA_FIELDS},
            )
        futures: dict[Job, concurrent.futures.Future[None]] = {}
        with concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
            try:
                for job in jobs:
                    if not self.results.find(job._asdict()):
                        needed = [futures[need] for need in job.needs if need in futures]
                        futures[job] = pool.submit(self._do, job, needed)
                for future in concurrent.futures.as_completed(futures.values()):
                    future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                self.children.stop()

    @property
    def _vocabulary(self) -> pathlib.Path:
        return self.work_dir / "vocabulary.model"

    def _folder(self, job: Job) -> pathlib.Path:
        return self.work_dir / "runs" / f"{job.arm.replace(' ', '-')}-{job.seed}"

    def _do(self, job: Job, needed: Sequence[concurrent.futures.Future[None]]) -> None:
        for future in needed:
            future.result()
        line = {**job._asdict(), **self._pretrain(job), **self._evaluate(job)}
        line["dev"] = {task: self._fine_tune(task, job) for task in TASKS}
        self.results.add(line)
        print(f"{job}: done", flush=True)
        for task in TASKS:
            shutil.rmtree(self._folder(job) / task)

    def _pretrain(self, job: Job) -> dict[str, Any]:
        """Pre-trains an arm and returns how that went."""
        arm, recipe, folder = ARMS[job.arm], self.recipe, self._folder(job)
        cost = relative_cost(self.results, *arm.as_long_as, job.seed) if arm.as_long_as else 1
        steps = round(recipe.num_train_steps * cost)
        folder.mkdir(parents=True, exist_ok=True)
        arm.config(recipe).to_json_file(str(folder / _CONFIG))
        flags = {
            "input_file": self.work_dir / f"train-{arm.objective}.tfrecord",
            "eval_input_file": self.work_dir / f"held_out-{arm.objective}.tfrecord",
            "sentence_objective": arm.objective,
            "learning_rate": arm.learning_rate,
            "num_train_steps": steps,
            "warmup_steps": math.ceil(_WARMUP_SHARE * steps),
            "save_checkpoints_steps": math.ceil(steps / _EVALUATIONS),
            "keep_checkpoint_max": 1,
            "train_batch_size": recipe.train_batch_size,
            "eval_batch_size": recipe.train_batch_size,
            "max_eval_steps": math.ceil(recipe.eval_sequences / recipe.train_batch_size),
            "max_predictions_per_seq": recipe.max_predictions_per_seq,
        }
        if arm.start is not None:
            flags["init_checkpoint"] = self._folder(Job(arm.start, job.seed)) / "best"
        results = self._train(job, "run_pretraining.py", folder, flags)
        sentences = results.get("sentence_order_accuracy")  # none without a sentence objective
        return {
            **{name: flags[name] for name in ("learning_rate", "num_train_steps")},
            "processor": processor(),
            "cpu_seconds": round(cpu_seconds(folder / _LOG), 1),
            **{name: results[name] for name in ("masked_lm_loss", "masked_lm_accuracy")},
            **({f"{arm.objective}_accuracy": sentences} if sentences is not None else {}),
        }

    def _fine_tune(self, task: str, job: Job) -> float:
        """Returns the dev score after the last update."""
        folder = self._folder(job)
        flags = {
            "task_name": task,
            "data_dir": os.path.abspath(self.glue_dir),
            "spm_model_file": self._vocabulary,
            "init_checkpoint": folder / "best",
            "learning_rate": self.recipe.fine_tuning_learning_rate,
            "num_train_steps": self.recipe.fine_tuning_steps,
            "save_checkpoints_steps": self.recipe.fine_tuning_steps,
        }
        return self._train(job, "run_classifier.py", folder / task, flags)[TASKS[task]]

    def _train(
        self, job: Job, script: str, output_dir: pathlib.Path, flags: Mapping[str, Any]
    ) -> dict[str, float]:
        """Runs a training and returns its metrics."""
        output_dir.mkdir(parents=True, exist_ok=True)
        flags = {
            **dict.fromkeys(("do_train", "do_eval", "deterministic"), "true"),
            "albert_config_file": self._folder(job) / _CONFIG,
            "output_dir": output_dir,
            "random_seed": 1 + job.seed,
            "max_seq_length": self.recipe.max_seq_length,
            **flags,
        }
        command = [script, *(f"--{name}={value}" for name, value in flags.items())]
        self.children.run(command, output_dir / _LOG, output_dir / RESULTS_FILE)
        return files.read_json(str(output_dir / RESULTS_FILE))

    def _evaluate(self, job: Job) -> dict[str, Any]:
        folder = self._folder(job)
        given = {
            **dataclasses.asdict(self.recipe),
            "objective": ARMS[job.arm].objective,
            "has_probes": job.arm in CROSS_EVALUATED,
            "spm_model_file": str(self._vocabulary),
            "records_dir": str(self.work_dir),
            "blimp_file": self.blimp_file and os.path.abspath(self.blimp_file),
        }
        files.write_json(str(folder / "to_evaluate.json"), given)
        output = folder / "evaluation.json"
        command = ["-m", "benchmarks.ablations.evaluation", f"--model_dir={folder}"]
        self.children.run(command, folder / "evaluation.log", output)
        return files.read_json(str(output))
