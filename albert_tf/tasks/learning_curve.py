"""A picture of a run: loss and metric over the steps."""

import json
import os

from albert_tf import files

_METRICS_FILE = "metrics.jsonl"
_CURVE_FILE = "learning_curve.png"


def draw_learning_curve(output_dir: str, metric: str) -> str | None:
    """Draws `learning_curve.png` of what a run reported to `metrics.jsonl`.

    Args:
        output_dir: the run's folder.
        metric: what is drawn beside the losses, where it was evaluated.

    Returns:
        the file; None without matplotlib, which no other part of fine-tuning needs.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    lines = files.read_lines(os.path.join(output_dir, _METRICS_FILE))
    reports = [json.loads(line) for _, line in lines]
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    losses, values = figure.subplots(1, 2)
    for split in ("train", "eval"):
        of_split = [report for report in reports if report["split"] == split]
        for axes, suffix in ((losses, "loss"), (values, metric)):
            for name in sorted({name for report in of_split for name in report}):
                if name == suffix or name.endswith(f"_{suffix}"):
                    points = [
                        (report["step"], report[name]) for report in of_split if name in report
                    ]
                    axes.plot(*zip(*points, strict=True), ".-", label=f"{split} {name}")
    for axes in (losses, values):
        axes.set_xlabel("step")
        if axes.lines:
            axes.legend()
    path = os.path.join(output_dir, _CURVE_FILE)
    with files.write_atomically(path) as incomplete:
        figure.savefig(incomplete, format="png")
    return path
