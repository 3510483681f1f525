import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf.errors import FlagError, InputError
from benchmarks.ablations import report, training
from benchmarks.ablations.__main__ import AblationOptions
from benchmarks.ablations.arms import ARMS, BASE, FULL, SMOKE, TABLES
from benchmarks.ablations.training import TASKS, Data, Job, Results, Study, make_jobs, needs

ROOT = pathlib.Path(__file__).parents[2]


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def line(arm, seed, recipe=FULL, dev=0.7, search=False, **changes):
    return {
        "arm": arm,
        "seed": seed,
        "search": search,
        "recipe": ARMS[arm].recipe_id(recipe, search),
        "learning_rate": 0.002,
        "num_train_steps": 3000,
        "diverged": False,
        "parameters": 400_000,
        "masked_lm_loss": 5.0 + 0.01 * seed,
        "masked_lm_accuracy": 0.2,
        "sop_accuracy": 0.6,
        "layer_distances": [3.0, 2.0, 2.5],
        "layer_degrees": [30.0, 20.0, 25.0],
        "dev": dict.fromkeys(TASKS, dev + 0.001 * seed),
        **changes,
    }


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


def test_report_from_given_lines(tmp_path):
    lines = [line("E64 unshared", seed, dev=0.8) for seed in (1, 2, 3)]
    lines += [line("E64 shared", seed) for seed in (1, 2, 3)]
    lines += [line(BASE, 1), line("E8 shared", 1, diverged=True)]
    lines += [line("NSP", 1, SMOKE)]
    page = tmp_path / "paper.md"
    page.write_text((ROOT / "docs" / "paper.md").read_text("utf-8"), "utf-8")
    results = Results(write_lines(tmp_path / "results.jsonl", lines), FULL)
    report.write(results, FULL, str(page))
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in page.read_text("utf-8").splitlines()
        if row.startswith("|")
    ]
    (unshared, *_) = [row for row in rows if row[0] == "E64 unshared"]
    assert unshared[1:5] == ["3", "400k", "5.020 ± 0.010", "20.0 ± 0.0"]
    assert "80.2 ± 0.1" in unshared
    assert unshared[-4:] == ["not shared, E = H", "108M", "92.8", "82.3"]
    assert ["E8 shared", "1, 1 diverged"] in [row[:2] for row in rows]
    assert ["NSP", "0", "", "not measured yet"] in [row[:4] for row in rows]
    claim = "E = H: sharing nothing beats sharing all"
    assert [claim, "+2.5", "dev mean", "+10.0", "yes"] in rows
    assert [claim, "+2.5", "MLM", "+0.0", "undecided"] in rows
    assert [row[3:] for row in rows if row[0] == "SOP beats NSP"] == [["not measured yet", ""]]
    assert "](images/ablations.png)" in page.read_text("utf-8")
    assert (tmp_path / "images" / "ablations.png").read_bytes().startswith(b"\x89PNG")
    # Filling in twice is filling in once.
    first = page.read_text("utf-8")
    report.write(results, FULL, str(page))
    assert page.read_text("utf-8") == first


def test_jobs_come_seed_by_seed_in_the_order_of_the_tables_and_after_what_they_need():
    jobs = make_jobs([4, 11, 6, 3], [1, 2], FULL)
    assert len(set(jobs)) == len(jobs)
    for number, job in enumerate(jobs):
        assert set(needs(job, FULL)) <= set(jobs[:number])
    trained = [job for job in jobs if job.learning_rate is None]
    assert [job.seed for job in trained] == sorted(job.seed for job in trained)
    assert {job.arm for job in trained[:8]} == set(TABLES[4].arms)
    assert trained[8:12] == [Job(arm, 1) for arm in TABLES[11].arms]


def test_every_arm_makes_a_model():
    for arm in ARMS.values():
        assert arm.config(FULL).hidden_size % arm.config(FULL).num_attention_heads == 0
    assert len({arm.recipe_id(FULL) for arm in ARMS.values()}) == len(ARMS)
    base, longer = ARMS[BASE], dataclasses.replace(FULL, num_train_steps=FULL.num_train_steps + 1)
    assert base.recipe_id(FULL) != base.recipe_id(longer)
    assert base.recipe_id(FULL, search=True) == base.recipe_id(longer, search=True)


def test_results_of_other_recipes_are_left_out_and_the_best_rate_is_found(tmp_path):
    lines = [
        line(BASE, 0, search=True, learning_rate=rate, masked_lm_loss=loss)
        for rate, loss in zip(FULL.learning_rates, (5.2, 5.1, 5.4), strict=True)
    ]
    path = write_lines(tmp_path / "results.jsonl", [*lines, line(BASE, 1, SMOKE)])
    results = Results(path, FULL)
    assert results.learning_rate("shared") == FULL.learning_rates[1]
    assert set(results.lines) == {Job(BASE, 0, rate) for rate in FULL.learning_rates}
    with pytest.raises(InputError, match="E16 unshared: diverged with every learning rate"):
        results.learning_rate("unshared")


def timed(arm, seed, seconds, processor):
    return line(arm, seed, num_train_steps=10, cpu_seconds=seconds, processor=processor)


def test_times_are_compared_on_the_same_processor(tmp_path):
    lines = [
        timed("E16 shared", 1, 60.0, "fast"),
        timed("E16 unshared", 1, 30.0, "slow"),
        timed("E16 shared", 2, 60.0, "fast"),
        timed("E16 unshared", 2, 20.0, "fast"),
        timed("E16 shared", 3, 60.0, "slow"),
        timed("E16 unshared", 3, 40.0, "slow"),
        line("E16 shared", 4, diverged=True),
        timed("E16 unshared", 4, 20.0, "fast"),
    ]
    results = Results(write_lines(tmp_path / "results.jsonl", lines), FULL)
    costs = [results.relative_cost("E16 shared", "E16 unshared", seed) for seed in (1, 2, 3, 4)]
    assert costs == [3.0, 3.0, 1.5, 3.0]
    results = Results(write_lines(tmp_path / "results.jsonl", lines[:2]), FULL)
    with pytest.raises(InputError, match="E16 shared, E16 unshared: no seed"):
        results.relative_cost("E16 shared", "E16 unshared", 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tables": ("7",)}, "--tables: received '7'; expected 3 or 4 or 5"),
        ({"seeds": 0}, "--seeds=0"),
        ({"text": None}, "--text: expected a value, unless --report is given"),
    ],
)
def test_options_are_checked(values, message):
    with pytest.raises(FlagError, match=message):
        AblationOptions(**{"text": "a", "glue_dir": "b", "work_dir": "c", **values})


def write_data(folder):
    """Writes books and tasks of few words, and returns them as `Data`."""
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcdefghij"), 4)) for _ in range(150)]

    def sentence(length=8):
        return " ".join(rng.choice(words, length)).capitalize() + "."

    (folder / "books").mkdir(parents=True)
    for number in range(14):  # two are held out, as NSP needs
        text = "\n\n".join(sentence() for _ in range(80))
        (folder / "books" / f"book{number:02d}.txt").write_text(text)
    rows = {
        "SST-2": ["sentence\tlabel", *(f"{sentence()}\t{n % 2}" for n in range(64))],
        "MRPC": [
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            *(f"{n % 2}\t{n}\t{n}\t{sentence()}\t{sentence()}" for n in range(64)),
        ],
        "STS-B": [
            "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
            *(
                f"{n}\tg\tf\ty\t{n}\ta\tb\t{sentence()}\t{sentence()}\t{n % 5:.3f}"
                for n in range(64)
            ),
        ],
    }
    for task, lines in rows.items():
        (folder / "glue" / task).mkdir(parents=True)
        for split in ("train", "dev"):
            (folder / "glue" / task / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    pairs = [
        {"UID": uid, "field": "syntax", "sentence_good": sentence(n), "sentence_bad": sentence(3)}
        for uid, n in (("fits", 3), ("is longer than a sequence", 30))
    ]
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    (folder / "pairs.jsonl").write_text(lines)
    return Data(str(folder / "books"), str(folder / "glue"), str(folder / "pairs.jsonl"))


def test_missing_data_is_named_before_any_training(tmp_path):
    data = write_data(tmp_path)
    data.check()
    with pytest.raises(InputError, match="--blimp_file: absent is missing"):
        Data(data.text, data.glue_dir, "absent").check()
    (tmp_path / "glue" / "MRPC" / "dev.tsv").unlink()
    with pytest.raises(InputError, match=r"--glue_dir: .*/glue/MRPC/dev.tsv is missing"):
        data.check()


def run_study(folder, jobs, data, deadline=float("inf")):
    results = Results(str(folder / "results.jsonl"), SMOKE)
    study = Study(str(folder / "work"), results, SMOKE, data)
    study.run(jobs, num_workers=2, deadline=deadline)
    return results


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_smoke_of_one_arm(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "TASKS", {"sst-2": TASKS["sst-2"]})
    data, job = write_data(tmp_path), Job("1 layer", 1)
    searches = [
        line(BASE, 0, SMOKE, search=True, learning_rate=rate) for rate in SMOKE.learning_rates
    ]
    write_lines(tmp_path / "results.jsonl", searches)
    assert job not in run_study(tmp_path, [job], data, deadline=0.0).lines
    result = run_study(tmp_path, [job], data).lines[job]
    assert not result["diverged"]
    assert 4 < result["masked_lm_loss"] < 5.8
    assert result["learning_rate"] == SMOKE.learning_rates[0]
    assert set(result["dev"]) == {"sst-2"}
    assert len(result["layer_distances"]) == len(result["layer_degrees"]) == 1
    assert 0 <= result["sop_accuracy"] <= 1
    assert result["blimp_pairs"] == 1
    assert result["cpu_seconds"] > 1
    # Everything is done.
    before = (tmp_path / "results.jsonl").read_text()
    run_study(tmp_path, [job], data)
    assert (tmp_path / "results.jsonl").read_text() == before


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_smoke_of_all_arms(tmp_path):
    data = write_data(tmp_path)
    jobs = make_jobs(list(TABLES), [1], SMOKE)
    assert set(run_study(tmp_path, jobs, data).lines) == set(jobs)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_study_resumes(tmp_path):
    data = write_data(tmp_path)
    command = [
        *(sys.executable, "-m", "benchmarks.ablations", "--smoke", "--tables=8", "--seeds=1"),
        *(f"--text={data.text}", f"--glue_dir={data.glue_dir}", f"--work_dir={tmp_path / 'work'}"),
        *(f"--results={tmp_path / 'results.jsonl'}", f"--report_file={tmp_path / 'paper.md'}"),
    ]
    (tmp_path / "paper.md").write_text("<!-- table 8 -->\n<!-- end -->\n")
    study = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("work/runs/*/pretraining.log")):
        assert study.poll() is None
        time.sleep(0.1)
    study.send_signal(signal.SIGTERM)
    assert "stopped by SIGTERM; run the same command again" in study.communicate()[1]
    assert study.returncode == 0
    subprocess.run(command, cwd=ROOT, check=True)
    assert "dropout 0.1 |     1 |" in (tmp_path / "paper.md").read_text()
