from benchmarks.fine_tuning_runs import Results
from benchmarks.tagging import TaggingBenchmarkOptions, make_runs, table


def test_starts_take_turns_and_differ_in_one_flag(tmp_path):
    options = TaggingBenchmarkOptions(
        work_dir=str(tmp_path),
        init_checkpoint="best",
        albert_config_file="config.json",
        spm_model_file="words.model",
        learning_rates=("1e-3",),
    )
    runs = make_runs(options, {"train": "train.jsonl", "dev": "dev.jsonl"})
    assert [run.key["start"] for run in runs] == ["pre-trained", "from scratch"] * 3
    (flag,) = set(runs[0].command) - set(runs[1].command)
    assert flag.startswith("--init_checkpoint=")
    results = Results(str(tmp_path / "results.jsonl"))
    for run, score in zip(runs, (0.81, 0.5, 0.82, 0.5, 0.83), strict=False):
        results.add(run, {"scores": {"f1": score}, "cpu_minutes": 1.5, "processor": "x"})
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in table(runs, results).splitlines()[2:]
    ]
    assert rows == [
        ["pre-trained", "1e-3", "82.0 ± 1.0", "81.0, 82.0, 83.0", "1.5 ± 0.0"],
        ["from scratch", "1e-3", "50.0 ± 0.0", "50.0, 50.0", "1.5 ± 0.0"],
    ]
