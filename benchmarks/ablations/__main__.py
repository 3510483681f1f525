"""Repeats the paper's ablations at a scale that two cores can train, and writes docs/paper.md.

Usage:
    python -m benchmarks.ablations --text=books --glue_dir=glue --blimp_file=blimp.jsonl.gz \
        --work_dir=ablations
    python -m benchmarks.ablations --report

Each arm of a table (`arms.py`) is trained by `run_pretraining.py`, evaluated, and fine-tuned by
`run_classifier.py`, with several seeds. Every tenth book is held out. Each finished training adds a line
to `--results`. The same command skips finished trainings and resumes those that SIGTERM, Ctrl-C or a kill
stopped, so the hours can be spread over many calls. `--report` writes the tables from the lines alone.
"""

import dataclasses
import os
import pathlib

from albert_tf import command_line
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from benchmarks.ablations import report
from benchmarks.ablations.arms import TABLES, Recipe
from benchmarks.ablations.training import Study, make_jobs
from benchmarks.harness import ROOT, check_choices
from benchmarks.trainings import Results


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """The options of the study."""

    text: str | None = option("Folder with a text file for each book.", None)
    glue_dir: str | None = option("Folder with GLUE's SST-2, MRPC and STS-B.", None)
    blimp_file: str | None = option(
        "BLiMP's minimal pairs, compressed JSON lines. Default: BLiMP is not measured.", None
    )
    work_dir: str | None = option("Folder for records and models.", None)
    results: str = option(
        "JSON lines of the finished trainings.", str(ROOT / "benchmarks/ablations/results.jsonl")
    )
    tables: tuple[str, ...] = option(
        "Tables of the paper, the most important first.", ("4", "3", "5", "8", "11", "12", "6")
    )
    seeds: int = option("Trainings of each arm, with the seeds 1, 2, ...", 3, least=1)
    num_workers: int = option("Trainings at a time, on one core each.", os.cpu_count(), least=1)
    report: bool = option("Train nothing; write docs/paper.md.", False)

    def __post_init__(self):
        check_choices("tables", self.tables, list(map(str, TABLES)))
        check_ranges(self)
        for name in () if self.report else ("text", "glue_dir", "work_dir"):
            if getattr(self, name) is None:
                raise InputError(f"--{name}: expected a value, unless --report is given")


def _main(options: AblationOptions) -> None:
    results = Results(options.results)
    if options.report:
        report.write(results.lines, ROOT / "docs/paper.md")
        return
    jobs = make_jobs(map(int, options.tables), range(1, 1 + options.seeds))
    folder = pathlib.Path(options.work_dir).resolve()
    study = Study(options.text, options.glue_dir, options.blimp_file, folder, results, Recipe())
    study.run(jobs, options.num_workers)


if __name__ == "__main__":
    command_line.run(AblationOptions, _main)
