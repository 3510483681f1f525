"""Trains and measures the arms: jobs of child processes that a kill does not lose.

A job pre-trains an arm with one seed, evaluates and fine-tunes it, and adds one line to the results. Each
child process resumes where it was stopped, so a stopped study loses nothing. Each uses one core, and as
many jobs as there are cores run at a time.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError, StoppedError
from benchmarks.ablations.arms import ARMS, CROSS_EVALUATED, FAMILIES, PAIRS, TABLES, Recipe
from benchmarks.harness import processor
from benchmarks.pretraining_curves import find_books

_ROOT = pathlib.Path(__file__).parents[2]
_RESULTS = "eval_results.json"
_LOG = "pretraining.log"
_SECONDS = ".seconds"
_SEARCH_SEED = 0
_EVALUATIONS = 5
_WARMUP_SHARE = 0.05
_NOT_FINITE = "in a row is not finite"
# One core for a process; several processes share the machine better than their threads would.
_ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}

# Task -> folder in --glue_dir and metric.
TASKS = {
    "sst-2": ("SST-2", "accuracy"),
    "mrpc": ("MRPC", "accuracy"),
    "sts-b": ("STS-B", "pearson"),
}


@dataclasses.dataclass(frozen=True)
class Job:
    """A training to do.

    Attributes:
        arm: a key of `ARMS`.
        seed: its seed.
        learning_rate: of a search; None: the best that the search found, and the whole training.
    """

    arm: str
    seed: int
    learning_rate: float | None = None

    @property
    def name(self) -> str:
        """The name of the job's folder."""
        kind = f"seed-{self.seed}" if self.learning_rate is None else f"rate-{self.learning_rate:g}"
        return f"{self.arm.replace(' ', '-')}-{kind}"


@dataclasses.dataclass(frozen=True)
class Data:
    """What the arms are trained and evaluated on.

    Attributes:
        text: folder with a text file for each book.
        glue_dir: folder of GLUE's tasks in the original layout.
        blimp_file: BLiMP's minimal pairs; None to leave them out.
    """

    text: str
    glue_dir: str
    blimp_file: str | None

    def check(self) -> None:
        """Checks that all of it is there.

        Raises:
            InputError: a file or folder is missing.
        """
        find_books(self.text)
        paths = {
            "glue_dir": [
                os.path.join(self.glue_dir, folder, f"{split}.tsv")
                for folder, _ in TASKS.values()
                for split in ("train", "dev")
            ],
            "blimp_file": [self.blimp_file] if self.blimp_file else [],
        }
        for flag, expected in paths.items():
            for path in expected:
                if not os.path.isfile(path):
                    raise InputError(f"--{flag}: {path} is missing")


class Results:
    """The lines of a results file: one for each finished job.

    Args:
        path: the file.
        recipe: the recipe whose lines count.
    """

    def __init__(self, path: str, recipe: Recipe):
        self._path = path
        self._recipe = recipe
        self._lock = threading.Lock()
        self.lines = {}
        for line in files.read_json_lines(path):
            arm = ARMS.get(line["arm"])
            if arm is not None and line["recipe"] == arm.recipe_id(recipe, line["search"]):
                job = Job(
                    line["arm"], line["seed"], line["learning_rate"] if line["search"] else None
                )
                self.lines[job] = line

    def add(self, job: Job, line: Mapping[str, Any]) -> None:
        """Appends the line of a job."""
        search = job.learning_rate is not None
        start = {
            "arm": job.arm,
            "seed": job.seed,
            "search": search,
            "recipe": ARMS[job.arm].recipe_id(self._recipe, search),
        }
        with self._lock:
            self.lines[job] = {**start, **line}
            with open(self._path, "a") as file:
                file.write(json.dumps(self.lines[job]) + "\n")

    def learning_rate(self, family: str) -> float:
        """Returns the rate with which the search of a family ended with the least loss.

        Raises:
            InputError: the arm diverged with each of them.
        """
        losses = {
            job.learning_rate: line["masked_lm_loss"]
            for job, line in self.lines.items()
            if job.arm == FAMILIES[family] and line["search"] and not line["diverged"]
        }
        if not losses:
            raise InputError(f"{FAMILIES[family]}: diverged with every learning rate of the search")
        return min(losses, key=losses.get)

    def relative_cost(self, arm: str, other: str, seed: int) -> float:
        """Returns the CPU time of an arm's update, in updates of another arm.

        Only trainings on the same kind of processor are compared: those with `seed`, or else those with
        the first seed for which there are two.

        Raises:
            InputError: there is no such seed.
        """
        for each in (seed, *sorted(job.seed for job in self.lines if job.arm == arm)):
            lines = [self.lines.get(Job(name, each), {}) for name in (arm, other)]
            processors = {line.get("processor") for line in lines}
            # A training that diverged has none.
            if len(processors) == 1 and None not in processors:
                costs = [line["cpu_seconds"] / line["num_train_steps"] for line in lines]
                return costs[0] / costs[1]
        raise InputError(
            f"{arm}, {other}: no seed has been trained to the end with both on the same processor, so "
            "their times cannot be compared; delete their lines in --results to train them here"
        )


class Children:
    """Runs commands; all of them can be ended at once.

    Args:
        one_core: whether each of them may use one core only.
    """

    def __init__(self, one_core: bool = True):
        self._environment = _ONE_CORE if one_core else {}
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def stop(self) -> None:
        """Sends SIGTERM to all children, which save and end, and starts no more."""
        with self._lock:
            self._stopping = True
            for child in self._running:
                # Not `terminate`, which might reap the child while `run` waits for it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)

    def run(self, command: Sequence[str], log: pathlib.Path, done: pathlib.Path) -> None:
        """Runs a Python command that writes a file when it is finished.

        Args:
            command: arguments of Python.
            log: file for its output; `cpu_seconds` reads the CPU time from a file next to it.
            done: the file that it writes; nothing is run if it exists.

        Raises:
            StoppedError: it failed.
            CancelledError: `stop` was called.
        """
        if done.exists():
            return
        environment = {**os.environ, **self._environment}
        with open(log, "a") as file:
            with self._lock:
                if self._stopping:
                    raise concurrent.futures.CancelledError
                child = subprocess.Popen(
                    [sys.executable, *command],
                    cwd=_ROOT,
                    env=environment,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
                self._running.add(child)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            with self._lock:
                self._running.remove(child)
        with open(log.with_suffix(_SECONDS), "a") as file:
            file.write(f"{usage.ru_utime + usage.ru_stime}\n")
        if not done.exists():
            if self._stopping:
                raise concurrent.futures.CancelledError
            lines = log.read_text(errors="replace").strip().splitlines()
            raise StoppedError(f"{command[0]} failed: {lines[-1] if lines else ''} (see {log})")


def cpu_seconds(log: pathlib.Path) -> float:
    """Returns the CPU seconds of all commands that had this log."""
    return sum(map(float, log.with_suffix(_SECONDS).read_text().split()))


class Study:
    """Trains the arms of some tables.

    Args:
        work_dir: folder for records, vocabularies and models.
        results: the lines that there are.
        recipe: of all arms.
        data: what to train on.
    """

    def __init__(self, work_dir: str, results: Results, recipe: Recipe, data: Data):
        self._work_dir = pathlib.Path(work_dir).resolve()
        self._records_dir = self._work_dir / f"records-{recipe.vocab_size}-{recipe.max_seq_length}"
        self._vocabulary = self._records_dir / "vocabulary.model"
        self._results = results
        self._recipe = recipe
        self._data = data
        self._glue_dir = self._work_dir / f"glue-{recipe.fine_tuning_rows}"
        self._making_data = threading.Lock()
        self._children = Children()

    def run(self, jobs: Sequence[Job], num_workers: int, deadline: float) -> None:
        """Does the jobs, the first ones first, until a time.

        Args:
            jobs: what to do; finished ones are skipped.
            num_workers: jobs at a time.
            deadline: in `time.monotonic`; then the running ones are stopped, to be resumed later.

        Raises:
            StoppedError: a child process failed.
        """
        pending = [job for job in jobs if job not in self._results.lines]
        running: dict[concurrent.futures.Future[None], Job] = {}
        with concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
            try:
                while pending or running:
                    ready = (job for job in pending if self._is_ready(job))
                    for job in list(itertools.islice(ready, num_workers - len(running))):
                        pending.remove(job)
                        running[pool.submit(self._do, job)] = job
                    seconds = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
                    finished, _ = concurrent.futures.wait(
                        running, seconds, concurrent.futures.FIRST_COMPLETED
                    )
                    if not finished:
                        print(f"time is up; {len(pending) + len(running)} trainings are left")
                        return
                    for future in finished:
                        print(f"{running.pop(future).name}: done; {len(pending)} wait", flush=True)
                        future.result()
            finally:
                self._children.stop()

    def _is_ready(self, job: Job) -> bool:
        return all(need in self._results.lines for need in needs(job, self._recipe))

    def _make_data(self, job: Job) -> None:
        """Makes what a job needs and earlier ones did not: vocabulary, records, capped tasks."""
        arm = ARMS[job.arm]
        objectives = {arm.objective}
        if job.learning_rate is None:
            for folder, _ in TASKS.values():
                self._copy_task(folder)
            if job.arm in CROSS_EVALUATED:
                objectives |= set(PAIRS)
        self._records_dir.mkdir(parents=True, exist_ok=True)
        books = dict(zip(("train", "held_out"), find_books(self._data.text), strict=True))
        for part, objective in itertools.product(books, sorted(objectives)):
            self._make_records(part, objective, books[part])

    def _make_records(self, part: str, objective: str, books: Sequence[str]) -> None:
        recipe = self._recipe
        output = self._records_dir / f"{part}-{objective}.tfrecord"
        command = [
            "create_pretraining_data.py",
            f"--input_file={','.join(map(os.path.abspath, books))}",
            "--input_format=text",
            "--encoding_errors=replace",
            f"--output_file={output}",
            f"--spm_model_file={self._vocabulary}",
            f"--sentence_objective={objective}",
            f"--max_seq_length={recipe.max_seq_length}",
            f"--max_predictions_per_seq={recipe.max_predictions_per_seq}",
            f"--dupe_factor={recipe.dupe_factor if part == 'train' else 1}",
        ]
        if not self._vocabulary.exists():
            command += ["--train_vocab", f"--vocab_size={recipe.vocab_size}"]
        self._children.run(
            command, self._records_dir / "log.txt", output.with_suffix(".stats.json")
        )

    def _copy_task(self, folder: str) -> None:
        """Copies a task with the first rows of its training set."""
        target = self._glue_dir / folder
        target.mkdir(parents=True, exist_ok=True)
        for split in ("train", "dev"):
            limit = 1 + self._recipe.fine_tuning_rows if split == "train" else None
            with open(os.path.join(self._data.glue_dir, folder, f"{split}.tsv")) as file:
                lines = list(itertools.islice(file, limit))
            files.write_text(str(target / f"{split}.tsv"), "".join(lines))

    def _do(self, job: Job) -> None:
        # The time is up or another job failed: this one is not done, and has not failed.
        with contextlib.suppress(concurrent.futures.CancelledError):
            folder = self._folder(job)
            with self._making_data:
                self._make_data(job)
            line = self._pretrain(job)
            if not line["diverged"] and job.learning_rate is None:
                line["processor"] = processor()
                line["cpu_seconds"] = round(cpu_seconds(folder / _LOG), 1)
                line |= self._evaluate(job)
                line["dev"] = {task: self._fine_tune(task, job) for task in TASKS}
            self._results.add(job, line)
            for task in TASKS:
                shutil.rmtree(folder / task, ignore_errors=True)

    def _folder(self, job: Job) -> pathlib.Path:
        recipe_id = ARMS[job.arm].recipe_id(self._recipe, search=job.learning_rate is not None)
        return self._work_dir / "runs" / f"{job.name}-{recipe_id}"

    def _num_train_steps(self, job: Job) -> int:
        arm, recipe = ARMS[job.arm], self._recipe
        if job.learning_rate is not None:
            return recipe.search_steps
        if arm.as_long_as is None:
            return recipe.num_train_steps
        cost = self._results.relative_cost(arm.as_long_as, arm.twin, job.seed)
        return round(recipe.num_train_steps * cost)

    def _pretrain(self, job: Job) -> dict[str, Any]:
        """Pre-trains an arm and returns how that went."""
        arm, recipe = ARMS[job.arm], self._recipe
        rate = job.learning_rate or self._results.learning_rate(arm.family)
        steps = self._num_train_steps(job)
        folder = self._folder(job)
        folder.mkdir(parents=True, exist_ok=True)
        config_file = folder / "config_to_train.json"
        arm.config(recipe).to_json_file(str(config_file))
        command = [
            "run_pretraining.py",
            *("--do_train", "--do_eval", "--deterministic"),
            f"--albert_config_file={config_file}",
            f"--input_file={self._records_dir}/train-{arm.objective}.tfrecord",
            f"--eval_input_file={self._records_dir}/held_out-{arm.objective}.tfrecord",
            f"--sentence_objective={arm.objective}",
            f"--output_dir={folder}",
            f"--random_seed={1 + job.seed}",
            f"--learning_rate={rate}",
            f"--num_train_steps={steps}",
            f"--warmup_steps={math.ceil(_WARMUP_SHARE * steps)}",
            f"--save_checkpoints_steps={math.ceil(steps / _EVALUATIONS)}",
            "--keep_checkpoint_max=1",
            f"--train_batch_size={recipe.train_batch_size}",
            f"--eval_batch_size={recipe.train_batch_size}",
            f"--max_eval_steps={math.ceil(recipe.eval_sequences / recipe.train_batch_size / 4)}",
            f"--max_seq_length={recipe.max_seq_length}",
            f"--max_predictions_per_seq={recipe.max_predictions_per_seq}",
        ]
        line: dict[str, Any] = {"learning_rate": rate, "num_train_steps": steps, "diverged": True}
        if arm.start is not None:
            start = Job(arm.start, job.seed)
            if self._results.lines[start]["diverged"]:
                return line
            self._pretrain(start)  # does nothing, unless the work folder of the results was lost
            command.append(f"--init_checkpoint={self._folder(start)}/best")
        if self._train(command, folder / _LOG, folder / _RESULTS):
            loss = files.read_json(str(folder / _RESULTS))["masked_lm_loss"]
            # A guess that is the same for all pieces has a loss of log V.
            diverged = not loss < math.log(recipe.vocab_size) + 1
            line |= {"masked_lm_loss": loss, "diverged": diverged}
        return line

    def _train(self, command: Sequence[str], log: pathlib.Path, done: pathlib.Path) -> bool:
        """Runs a training and returns whether its loss stayed finite."""
        try:
            self._children.run(command, log, done)
        except StoppedError as error:
            if _NOT_FINITE in str(error):
                return False
            raise
        return True

    def _evaluate(self, job: Job) -> dict[str, Any]:
        recipe, folder = self._recipe, self._folder(job)
        output = folder / "evaluation.json"
        command = [
            "-m",
            "benchmarks.ablations.evaluation",
            f"--model_dir={folder}",
            f"--spm_model_file={self._vocabulary}",
            f"--records_dir={self._records_dir}",
            f"--objective={ARMS[job.arm].objective}",
            f"--output_file={output}",
            f"--max_seq_length={recipe.max_seq_length}",
            f"--max_predictions_per_seq={recipe.max_predictions_per_seq}",
            f"--eval_sequences={recipe.eval_sequences}",
            f"--blimp_pairs={recipe.blimp_pairs}",
        ]
        if job.arm in CROSS_EVALUATED:
            command.append(f"--probe_sequences={recipe.probe_sequences}")
        if self._data.blimp_file:
            command.append(f"--blimp_file={os.path.abspath(self._data.blimp_file)}")
        self._children.run(command, folder / "evaluation.log", output)
        return files.read_json(str(output))

    def _fine_tune(self, task: str, job: Job) -> float | None:
        """Returns the dev score after the last update; None where the loss was not finite."""
        recipe, folder = self._recipe, self._folder(job)
        command = [
            "run_classifier.py",
            *("--do_train", "--do_eval", "--deterministic"),
            f"--task_name={task}",
            f"--data_dir={self._glue_dir}",
            f"--albert_config_file={folder}/config_to_train.json",
            f"--spm_model_file={self._vocabulary}",
            f"--init_checkpoint={folder}/best",
            f"--output_dir={folder / task}",
            f"--random_seed={1 + job.seed}",
            f"--learning_rate={recipe.fine_tuning_learning_rate}",
            f"--num_train_steps={recipe.fine_tuning_steps}",
            f"--save_checkpoints_steps={recipe.fine_tuning_steps}",
            f"--max_seq_length={recipe.max_seq_length}",
        ]
        results_file = folder / task / _RESULTS
        if not self._train(command, folder / f"{task}.log", results_file):
            return None
        return files.read_json(str(results_file))[TASKS[task][1]]


def needs(job: Job, recipe: Recipe) -> list[Job]:
    """Returns the jobs whose results a job needs."""
    if job.learning_rate is not None:
        return []
    arm = ARMS[job.arm]
    searches = [Job(FAMILIES[arm.family], _SEARCH_SEED, rate) for rate in recipe.learning_rates]
    others = (arm.start, arm.as_long_as, arm.twin)
    return [*searches, *(Job(other, job.seed) for other in others if other is not None)]


def make_jobs(tables: Sequence[int], seeds: Sequence[int], recipe: Recipe) -> list[Job]:
    """Returns the jobs of some tables: seed by seed, table by table, each after those it needs."""
    jobs: dict[Job, None] = {}

    def add(job: Job) -> None:
        for need in needs(job, recipe):
            add(need)
        jobs[job] = None

    for seed, table in itertools.product(seeds, tables):
        for arm in TABLES[table].arms:
            add(Job(arm, seed))
    return list(jobs)
