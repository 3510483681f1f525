"""Plots the losses and metrics of a run over the steps."""

import os

from albert_tf import files
from albert_tf.training.reports import read_reports

_CURVE_FILE = "learning_curve.png"


def draw_learning_curve(output_dir: str, *metrics: str) -> str | None:
    """Plots the losses and metrics of `metrics.jsonl` to `learning_curve.png`.

    Args:
        output_dir: folder of the run.
        *metrics: metrics to plot next to the losses: names, or suffixes of names.

    Returns:
        The file; None without matplotlib, which is optional.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    reports = read_reports(output_dir)
    panel_names = ("loss", *metrics)
    figure = Figure(figsize=(4 * len(panel_names), 3.5), layout="constrained")
    panels = figure.subplots(1, len(panel_names), squeeze=False)[0]
    for split in ("train", "eval"):
        of_split = [report for report in reports if report["split"] == split]
        for axes, suffix in zip(panels, panel_names, strict=True):
            for name in sorted({name for report in of_split for name in report}):
                if name == suffix or name.endswith(f"_{suffix}"):
                    points = [
                        (report["step"], report[name]) for report in of_split if name in report
                    ]
                    axes.plot(*zip(*points, strict=True), ".-", label=f"{split} {name}")
    for axes in panels:
        axes.set_xlabel("step")
        if axes.lines:
            axes.legend()
    path = os.path.join(output_dir, _CURVE_FILE)
    files.write_picture(path, figure)
    return path
