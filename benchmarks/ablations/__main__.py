"""Repeats the paper's ablations at a scale that two cores can train, and writes docs/paper.md.

Usage:
    python -m benchmarks.ablations --text=books --glue_dir=glue --blimp_file=blimp.jsonl.gz \
        --work_dir=ablations
    python -m benchmarks.ablations --report

Each arm of a table is trained by `run_pretraining.py`, evaluated, and fine-tuned by `run_classifier.py`,
with several seeds; `arms.py` lists the arms and their recipe. Every tenth book is held out. A short
search finds the learning rate of each family of arms.

Each finished training adds a line to `--results`. The same command skips finished trainings, so the hours
can be spread over many calls. A call that is stopped by SIGTERM, Ctrl-C or `--time_limit_minutes` saves
the running trainings, and the next call resumes them. `--report` writes the tables from the lines alone.
"""

import dataclasses
import os
import pathlib
import time

from albert_tf import command_line
from albert_tf.errors import FlagError
from albert_tf.options import check_ranges, option
from benchmarks.ablations import report
from benchmarks.ablations.arms import FULL, SMOKE, TABLES
from benchmarks.ablations.training import Data, Results, Study, make_jobs
from benchmarks.harness import check_choices

_ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """The options of the study."""

    text: str | None = option(
        "Folder with a text file for each book; every tenth is held out.", None
    )
    glue_dir: str | None = option("Folder with GLUE's SST-2, MRPC and STS-B.", None)
    blimp_file: str | None = option(
        "BLiMP's minimal pairs as compressed JSON lines. Default: BLiMP is not measured.", None
    )
    work_dir: str | None = option("Folder for records and models.", None)
    results: str = option(
        "JSON lines of the finished trainings, which grow.",
        str(_ROOT / "benchmarks/ablations/results.jsonl"),
    )
    tables: tuple[str, ...] = option(
        "Tables of the paper, the most important first.", ("4", "3", "5", "8", "11", "12", "6")
    )
    seeds: int = option("Number of trainings of each arm, with the seeds 1, 2, ...", 3, least=1)
    num_workers: int = option("Trainings at a time, each on one core.", os.cpu_count(), least=1)
    time_limit_minutes: float | None = option(
        "Stop and save after this many minutes. Default: when all is done.", None
    )
    smoke: bool = option("Train each arm for a few updates, to try the command.", False)
    report: bool = option("Train nothing; write --report_file.", False)
    report_file: str = option("Markdown file with the tables.", str(_ROOT / "docs/paper.md"))

    def __post_init__(self):
        check_choices("tables", self.tables, list(map(str, TABLES)))
        check_ranges(self)
        for name in () if self.report else ("text", "glue_dir", "work_dir"):
            if getattr(self, name) is None:
                raise FlagError(f"--{name}: expected a value, unless --report is given")


def _main(options: AblationOptions) -> None:
    recipe = SMOKE if options.smoke else FULL
    tables = [int(table) for table in options.tables]
    if not options.report:
        data = Data(options.text, options.glue_dir, options.blimp_file)
        data.check()
        deadline = time.monotonic() + 60 * (options.time_limit_minutes or float("inf"))
        jobs = make_jobs(tables, range(1, 1 + options.seeds), recipe)
        study = Study(options.work_dir, Results(options.results, recipe), recipe, data)
        study.run(jobs, options.num_workers, deadline)
    report.write(Results(options.results, recipe), recipe, options.report_file)


if __name__ == "__main__":
    command_line.run(AblationOptions, _main)
