"""Learning curves over training time: at equal seconds, as a table and as a picture."""

import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from benchmarks.pretraining_curves.turns import Point
from benchmarks.tables import markdown_table

# Name of a program -> its curve.
Curves = Mapping[str, Sequence[Point]]

_SHARES = (0.25, 0.5, 0.75, 1.0)
# Metric -> its column, how it is shown.
_COLUMNS = {
    "masked_lm_loss": ("MLM loss", "{:.3f}"),
    "masked_lm_perplexity": ("perplexity", "{:.1f}"),
    "masked_lm_accuracy": ("MLM accuracy", "{:.1%}"),
    "sentence_order_accuracy": ("SOP accuracy", "{:.1%}"),
}
_PANELS = ("masked_lm_loss", "masked_lm_accuracy", "sentence_order_accuracy")


def common_seconds(curves: Curves) -> float:
    """Returns the training time that all programs reached."""
    return min(points[-1].seconds for points in curves.values())


def at(points: Sequence[Point], seconds: float) -> dict[str, float]:
    """Returns the metrics after some training time, on the line between two evaluations.

    Args:
        points: of one program, in order.
        seconds: at most those of the last point.

    Returns:
        The metrics; `step`; and `masked_lm_perplexity`, e to the loss, of the masked pieces.
    """
    clocks = [point.seconds for point in points]
    metrics = {
        name: float(np.interp(seconds, clocks, [point.metrics[name] for point in points]))
        for name in points[0].metrics
    }
    return metrics | {
        "step": float(np.interp(seconds, clocks, [point.step for point in points])),
        "masked_lm_perplexity": math.exp(metrics["masked_lm_loss"]),
    }


def table(results: Mapping[str, Curves]) -> str:
    """Returns the programs beside each other at equal training seconds.

    Args:
        results: name of a configuration -> its curves.
    """
    rows = []
    for configuration, curves in results.items():
        for share in _SHARES:
            seconds = share * common_seconds(curves)
            for program, points in curves.items():
                metrics = at(points, seconds)
                rows.append(
                    [
                        *(configuration, program, f"{seconds / 60:.1f}", f"{metrics['step']:,.0f}"),
                        *(style.format(metrics[name]) for name, (_, style) in _COLUMNS.items()),
                    ]
                )
    titles = [title for title, _ in _COLUMNS.values()]
    return markdown_table(["model", "program", "minutes", "updates", *titles], rows, 2)


def draw(results: Mapping[str, Curves], path: pathlib.Path) -> None:
    """Draws a row of panels for each configuration.

    Args:
        results: name of a configuration -> its curves.
        path: the picture, a PNG.
    """
    figure = Figure(figsize=(10.5, 3 * len(results)), layout="constrained")
    panels = figure.subplots(len(results), len(_PANELS), squeeze=False)
    for row, (configuration, curves) in zip(panels, results.items(), strict=True):
        for axes, metric in zip(row, _PANELS, strict=True):
            for program, points in curves.items():
                axes.plot(
                    [point.seconds / 60 for point in points],
                    [point.metrics[metric] for point in points],
                    ".-",
                    label=program,
                )
            axes.set(
                title=f"{configuration}: {_COLUMNS[metric][0]}, held-out books",
                xlabel="minutes of training",
            )
            axes.grid(alpha=0.3)
        row[0].legend()
    figure.savefig(path, format="png", dpi=80)
