"""Whether the GPU computes what the CPU and the original compute, and the same in each run."""

import concurrent.futures
import csv
import dataclasses
import filecmp
import functools
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.gpu.candidates import CPU, EXACT, GPU, SHARED
from benchmarks.harness import KERAS_POLICIES, ROOT, Worker
from benchmarks.pretraining.candidates import Workload

# Updates of the runs that are compared, and between their checkpoints, after the first of which one run
# is killed.
_STEPS, _SAVED = 60, 20
_ROWS, _ANSWERS = 2000, 200
LENGTH = 64  # no sentence of SST-2 is longer


def run_script(script: str, *flags: str, environment: Mapping[str, str] | None = None) -> str:
    """Runs a script or module to its end, and returns its output, standard error last."""
    command = _command(script, *flags)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | SHARED | (environment or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def _command(script: str, *flags: str) -> list[str]:
    program = [script] if script.endswith(".py") else ["-m", script]
    return [sys.executable, *program, *flags]


def write_records(workload: Workload, count: int, folder: str) -> list[str]:
    """Writes records of full sequences, and returns the flags of `run_pretraining.py` for them."""
    from albert_tf.data import records

    many = dataclasses.replace(workload, batch_size=count)
    spec = records.pretraining_record(many.length, many.predictions)
    boundaries = np.ones((count, many.length), np.int32)
    columns = many.batch() | {"token_boundary": boundaries}
    path, config_file = f"{folder}/{many.length}.tfrecord", f"{folder}/{many.length}.json"
    records.write_records(path, spec.serialize_batch(columns))
    many.albert_config.to_json_file(config_file)
    policy = KERAS_POLICIES[many.precision]
    return [
        *("--do_train", f"--input_file={path}", f"--albert_config_file={config_file}"),
        *(f"--train_batch_size={workload.batch_size}", f"--mixed_precision={policy}"),
        *("--warmup_steps=10", f"--shuffle_buffer={count}", "--log_steps=20"),
    ]


def _kill_and_resume(folder: str, flags: Sequence[str]) -> None:
    command = _command("run_pretraining.py", *flags, f"--output_dir={folder}")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | SHARED, **quiet) as process:
        while process.poll() is None and not list(pathlib.Path(folder).glob("state/step-*")):
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    run_script("run_pretraining.py", *flags, f"--output_dir={folder}")


def _check_repeats(workload: Workload, flags: Sequence[str], folder: str) -> str:
    """Compares two runs and a killed one, all with `--deterministic`."""
    flags = [
        *("--deterministic", f"--num_train_steps={_STEPS}", f"--save_checkpoints_steps={_SAVED}"),
        *write_records(workload, 256, folder),
        *flags,
    ]
    folders = [f"{folder}/{name}" for name in ("once", "again", "killed")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for run_dir in folders[:2]:
            pool.submit(run_script, "run_pretraining.py", *flags, f"--output_dir={run_dir}")
        pool.submit(_kill_and_resume, folders[2], flags)
    once = pathlib.Path(folders[0])
    names = ["metrics.jsonl", "best/model.safetensors"]
    differing = [
        f"{other}: {name}"
        for other in folders[1:]
        for name in names
        if not filecmp.cmp(once / name, pathlib.Path(other, name), shallow=False)
    ]
    return f"{differing}" if differing else f"{len(names)} files equal"


def _check_answers(data_dir: str, folder: str) -> str:
    """Fine-tunes `small_en`, and compares answers of the exported model on both devices."""
    with open(f"{data_dir}/SST-2/train.tsv") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    table = f"{folder}/train.csv"
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([row["sentence"], row["label"]] for row in rows[:_ROWS])
    run_dir = f"{folder}/classifier"
    run_script(
        "run_classifier.py",
        *(f"--train_file={table}", "--init_checkpoint=small_en", f"--output_dir={run_dir}"),
        *("--learning_rate=3e-4", "--num_train_steps=200", f"--max_seq_length={LENGTH}"),
    )
    texts, arrays = [row["sentence"] for row in rows[_ROWS : _ROWS + _ANSWERS]], []
    for device in (CPU, GPU):
        with Worker(
            "benchmarks.gpu.candidates", device, {"folder": f"{run_dir}/exported"}
        ) as worker:
            arrays.append(np.array(worker.ask(texts)))
    metrics = pathlib.Path(run_dir, "metrics.jsonl").read_text().splitlines()[-1]
    return f"{np.abs(arrays[0] - arrays[1]).max():.2g} of {arrays[0].shape}; {metrics}"


def check(data_dir: str, folder: str) -> None:
    """Prints what `right` compares; everything runs at once."""
    from albert_tf.models import AlbertEncoder

    config = dataclasses.replace(
        AlbertEncoder.from_preset("small_en").config, hidden_dropout_prob=0.1
    )
    workload = Workload(config.to_dict(), 32, 128, "bf16")
    checks = {"answers, CPU and GPU": functools.partial(_check_answers, data_dir)}
    for title, flags in (("XLA", ["--jit_compile"]), ("no XLA", ["--nojit_compile"])):
        checks[f"repeated, resumed, {title}"] = functools.partial(_check_repeats, workload, flags)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        parity = pool.submit(run_script, "tests.parity", environment=EXACT)
        results = {}
        for number, (title, compare) in enumerate(checks.items()):
            os.makedirs(f"{folder}/check-{number}")
            results[title] = pool.submit(compare, folder=f"{folder}/check-{number}")
        for title, result in results.items():
            error = result.exception()
            print(f"{title}: {result.result() if error is None else repr(error)}", flush=True)
        print(parity.result(), flush=True)
