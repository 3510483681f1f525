"""Fills in the tables of `docs/paper.md`, between `<!-- NAME -->` and `<!-- end -->`."""

import pathlib
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from albert_tf import files
from benchmarks.ablations.arms import CLAIMS, FIGURE_1, TABLES
from benchmarks.harness import markdown_table
from benchmarks.trainings import Line, mean_and_spread

_NOT_MEASURED = "not measured yet"
_SIGNIFICANCE = 0.05
_LEAST_SEEDS = 3
_PICTURE = "images/layer_similarity.png"
_BLOCK = re.compile(r"<!-- (?P<name>[\w ]+) -->\n.*?<!-- end -->", re.DOTALL)

# Arm -> the lines of its trainings.
Lines = Mapping[str, Sequence[Line]]


class Metric(NamedTuple):
    """A column: its title, its value in a line, and digits after the decimal point."""

    title: str
    value: Callable[[Line], float]
    digits: int = 1


def _dev(*tasks: str) -> Callable[[Line], float]:
    return lambda line: 100 * statistics.mean(line["dev"][task] for task in tasks)


def _smoothness(name: str) -> Callable[[Line], float]:
    return lambda line: -np.mean(np.abs(np.diff(line[name], n=2)))


METRICS = {
    "masked_lm_loss": Metric("MLM loss", lambda line: line["masked_lm_loss"], 3),
    "masked_lm_accuracy": Metric("MLM", lambda line: 100 * line["masked_lm_accuracy"]),
    "nsp_accuracy": Metric("NSP", lambda line: 100 * line["nsp_accuracy"]),
    "sop_accuracy": Metric("SOP", lambda line: 100 * line["sop_accuracy"]),
    "sst-2": Metric("SST-2", _dev("sst-2")),
    "mrpc": Metric("MRPC", _dev("mrpc")),
    "sts-b": Metric("STS-B", _dev("sts-b")),
    "dev_mean": Metric("dev mean", _dev("sst-2", "mrpc", "sts-b")),
    "blimp": Metric("BLiMP", lambda line: 100 * line["blimp"]),
    "evenness": Metric("evenness", lambda line: -stats.variation(line["layer_distances"]), 3),
    "smooth_distances": Metric("smoothness of L2", _smoothness("layer_distances"), 2),
    "smooth_degrees": Metric("smoothness of angle", _smoothness("layer_degrees"), 2),
    "small_distances": Metric("minus mean L2", lambda line: -np.mean(line["layer_distances"]), 2),
    "small_degrees": Metric("minus mean angle", lambda line: -np.mean(line["layer_degrees"]), 2),
}
_COLUMNS = tuple(METRICS)[:9]


def verdict(higher: Sequence[float], lower: Sequence[float]) -> Literal["yes", "no", "undecided"]:
    """Says whether a difference has the sign that the paper found.

    Args:
        higher: values of the arm that the paper found better, one for each seed.
        lower: those of the other arm.

    Returns:
        yes or no if Welch's t-test finds a difference (p < 0.05, two-sided), otherwise undecided;
        undecided also with fewer than three seeds.
    """
    if min(len(higher), len(lower)) < _LEAST_SEEDS:
        return "undecided"
    difference = statistics.mean(higher) - statistics.mean(lower)
    if stats.ttest_ind(higher, lower, equal_var=False).pvalue < _SIGNIFICANCE:
        return "yes" if difference > 0 else "no"
    return "undecided"


def _values(lines: Lines, arm: str, metric: str) -> list[float]:
    """Returns the values of an arm's lines; none if they lack the metric."""
    try:
        return [METRICS[metric].value(line) for line in lines.get(arm, ())]
    except KeyError:
        return []


def _arms(lines: Lines) -> str:
    """Returns the table of all arms; the paper's columns are those of an arm's first table."""
    header = ["tables", "arm", "seeds", "parameters", *(METRICS[name].title for name in _COLUMNS)]
    header += ["paper's arm", "parameters", "SST-2", "average"]
    rows = []
    for arm in dict.fromkeys(arm for of_table in TABLES.values() for arm in of_table):
        of_arm = lines.get(arm, ())
        size = f"{of_arm[0]['parameters'] / 1000:,.0f}k" if of_arm else _NOT_MEASURED
        values = {name: _values(lines, arm, name) for name in _COLUMNS}
        cells = [
            mean_and_spread(of_metric, METRICS[name].digits) if of_metric else "–"
            for name, of_metric in values.items()
        ]
        numbers = [number for number, of_table in TABLES.items() if arm in of_table]
        papers = TABLES[numbers[0]][arm].split(" | ")
        rows.append([", ".join(map(str, numbers)), arm, str(len(of_arm)), size, *cells, *papers])
    return markdown_table(header, rows, text_columns=2)


def _claims(lines: Lines) -> str:
    rows = []
    for source, claim in [(source, claim) for source, of in CLAIMS.items() for claim in of]:
        higher, lower = (_values(lines, arm, claim.metric) for arm in (claim.higher, claim.lower))
        ours, sign, metric = _NOT_MEASURED, "", METRICS[claim.metric]
        if higher and lower:
            difference = statistics.mean(higher) - statistics.mean(lower)
            ours, sign = f"{difference:+.{metric.digits}f}", verdict(higher, lower)
        rows.append([source, claim.text, claim.difference, metric.title, ours, sign])
    header = ["", "claim", "paper", "our metric", "ours", "same sign"]
    return markdown_table(header, rows, text_columns=4)


def write(found: Iterable[Line], path: pathlib.Path) -> None:
    """Fills in the tables of a page from the lines of a results file, and draws figure 1 next to it."""
    lines: dict[str, list[Line]] = {}
    for line in sorted(found, key=lambda line: line["seed"]):
        lines.setdefault(line["arm"], []).append(line)
    blocks = {"claims": _claims(lines), "arms": _arms(lines)}
    if all(arm in lines for arm in FIGURE_1):
        from benchmarks import layer_similarity  # imports TensorFlow

        names = ("layer_distances", "layer_degrees")
        means = {
            arm: [np.mean([line[name] for line in lines[arm]], axis=0) for name in names]
            for arm in FIGURE_1
        }
        changes = {arm: layer_similarity.LayerChanges(*means[arm]) for arm in means}
        layer_similarity.draw(changes, str(path.parent / _PICTURE))
    page = _BLOCK.sub(
        lambda match: f"<!-- {match['name']} -->\n{blocks[match['name']]}\n<!-- end -->",
        path.read_text("utf-8"),
    )
    files.write_text(str(path), page)
