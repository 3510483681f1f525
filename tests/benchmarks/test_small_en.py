import csv

from benchmarks import small_en
from benchmarks.small_en import SmallEnOptions, make_runs, table
from tests.benchmarks.samples import cells_of


def test_seeds_with_pretraining_come_first(tmp_path):
    runs = make_runs(SmallEnOptions(tasks=("mrpc", "cola"), seeds=2, glue_dir=str(tmp_path)))
    keys = [(run.key["task"], run.key["seed"], run.key["program"]) for run in runs]
    assert keys[:5] == [
        ("mrpc", 1, "pre-trained"),
        ("cola", 1, "pre-trained"),
        ("mrpc", 2, "pre-trained"),
        ("cola", 2, "pre-trained"),
        ("mrpc", 1, "random"),
    ]
    assert len({run.folder for run in runs}) == len(runs) == 8
    starts = [[flag for flag in run.command if "init_checkpoint" in flag] for run in runs[3:5]]
    assert [len(start) for start in starts] == [1, 0]


def test_table_has_medians_beside_what_words_alone_give(tmp_path):
    (tmp_path / "SST-2").mkdir()
    for split in ("train", "dev"):
        with open(tmp_path / "SST-2" / f"{split}.tsv", "w", newline="") as file:
            rows = [("a good film", 1), ("a bad film", 0)] * 2
            csv.writer(file, delimiter="\t").writerows([("sentence", "label"), *rows])
    options = SmallEnOptions(tasks=("sst-2",), glue_dir=str(tmp_path), seeds=3)
    runs = [run for run in make_runs(options) if run.key["program"] == "pre-trained"]
    lines = [
        {**run.key, "scores": {"accuracy": accuracy}}
        for run, accuracy in zip(runs, (0.9, 0.7, 0.8), strict=True)
    ]
    lines.append({**lines[0], "weights": "of another snapshot", "scores": {"accuracy": 0.1}})
    rows = cells_of(table(options, lines))
    assert rows[2] == ["sst-2", "accuracy", "80.0 (70.0 to 90.0)", "", "100.0"]
    assert small_en.TASKS["sst-2"].num_train_steps == lines[0]["num_train_steps"]
