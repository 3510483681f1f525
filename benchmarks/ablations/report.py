"""From lines of results to the tables of `docs/paper.md`: our figures next to the paper's, and verdicts.

The page's prose is written by hand; this module fills in what stands between `<!-- NAME -->` and
`<!-- end -->`.
"""

import pathlib
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from albert_tf import files
from benchmarks.ablations.arms import FIGURE_1, FIGURE_1_CLAIMS, TABLES, Claim, Recipe, Row
from benchmarks.ablations.training import Results
from benchmarks.harness import markdown_table

_NOT_MEASURED = "not measured yet"
_SIGNIFICANCE = 0.05
_LEAST_SEEDS = 3
_LAYERS_PICTURE = "images/layer_similarity.png"
_ARMS_PICTURE = "images/ablations.png"
_BLOCK = re.compile(r"<!-- (?P<name>[\w ]+) -->\n.*?<!-- end -->", re.DOTALL)

# The line of one training in the results.
Line = Mapping[str, Any]


class Metric(NamedTuple):
    """A column.

    Attributes:
        title: its header.
        value: its value in a line; None if it was not measured.
        digits: after the decimal point.
    """

    title: str
    value: Callable[[Line], float | None]
    digits: int = 1


def _percent(name: str) -> Callable[[Line], float | None]:
    return lambda line: 100 * line[name] if name in line else None


def _dev(*tasks: str) -> Callable[[Line], float | None]:
    def mean(line: Line) -> float | None:
        scores = [line["dev"][task] for task in tasks]
        return None if None in scores else 100 * statistics.mean(scores)

    return mean


def _evenness(line: Line) -> float:
    return -float(np.std(line["layer_distances"]) / np.mean(line["layer_distances"]))


def _smoothness(name: str) -> Callable[[Line], float]:
    return lambda line: -float(np.mean(np.abs(np.diff(line[name], n=2))))


def _minus_mean(name: str) -> Callable[[Line], float]:
    return lambda line: -statistics.mean(line[name])


METRICS = {
    "masked_lm_loss": Metric("MLM loss", lambda line: line["masked_lm_loss"], 3),
    "masked_lm_accuracy": Metric("MLM", _percent("masked_lm_accuracy")),
    "nsp_accuracy": Metric("NSP", _percent("nsp_accuracy")),
    "sop_accuracy": Metric("SOP", _percent("sop_accuracy")),
    "sst-2": Metric("SST-2", _dev("sst-2")),
    "mrpc": Metric("MRPC", _dev("mrpc")),
    "sts-b": Metric("STS-B", _dev("sts-b")),
    "dev_mean": Metric("dev mean", _dev("sst-2", "mrpc", "sts-b")),
    "blimp": Metric("BLiMP", _percent("blimp")),
    "evenness": Metric("evenness", _evenness, 3),
    "smooth_distances": Metric("smoothness of L2", _smoothness("layer_distances"), 2),
    "smooth_degrees": Metric("smoothness of angle", _smoothness("layer_degrees"), 2),
    "small_distances": Metric("minus mean L2", _minus_mean("layer_distances"), 2),
    "small_degrees": Metric("minus mean angle", _minus_mean("layer_degrees"), 2),
}
_COLUMNS = (
    *("masked_lm_loss", "masked_lm_accuracy", "sop_accuracy"),
    *("sst-2", "mrpc", "sts-b", "dev_mean", "blimp"),
)
_CROSS_COLUMNS = ("masked_lm_accuracy", "nsp_accuracy", "sop_accuracy")

Verdict = Literal["yes", "no", "undecided"]


def verdict(higher: Sequence[float], lower: Sequence[float]) -> Verdict:
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
    if np.ptp(higher) == np.ptp(lower) == 0:  # the test would divide by 0
        p_value = 0.0 if difference else 1.0
    else:
        p_value = stats.ttest_ind(higher, lower, equal_var=False).pvalue
    if p_value >= _SIGNIFICANCE:
        return "undecided"
    return "yes" if difference > 0 else "no"


class Report:
    """Makes tables of results."""

    def __init__(self, results: Results, recipe: Recipe):
        self._rates = recipe.learning_rates
        self._lines: dict[str, list[Line]] = {}
        self._searches: dict[str, dict[float, Line]] = {}
        for job, line in sorted(results.lines.items(), key=lambda item: item[0].seed):
            if job.learning_rate is None:
                self._lines.setdefault(job.arm, []).append(line)
            else:
                self._searches.setdefault(job.arm, {})[job.learning_rate] = line

    def blocks(self) -> dict[str, str]:
        """Returns the blocks of the page by name."""
        blocks = {"learning rates": self._search()}
        for number, table in TABLES.items():
            blocks[f"table {number}"] = self._table(table.rows, _COLUMNS)
            blocks[f"claims {number}"] = self._claims(table.claims)
        blocks["cross evaluation"] = self._table(TABLES[5].rows, _CROSS_COLUMNS)
        blocks["arms"] = ""
        blocks["figure 1"] = self._claims(FIGURE_1_CLAIMS)
        return blocks

    def _good_lines(self, arm: str) -> list[Line]:
        return [line for line in self._lines.get(arm, ()) if not line["diverged"]]

    def _values(self, arm: str, metric: str) -> list[float]:
        values = map(METRICS[metric].value, self._good_lines(arm))
        return [value for value in values if value is not None]

    def _table(self, rows: Sequence[Row], columns: Sequence[str]) -> str:
        header = ["arm", "seeds", "parameters", *(METRICS[name].title for name in columns)]
        header += ["paper's arm", "parameters", "SST-2", "average"]
        cells = [[row.arm, *self._ours(row.arm, columns), *row.paper] for row in rows]
        return markdown_table(header, cells)

    def _ours(self, arm: str, columns: Sequence[str]) -> list[str]:
        lines, good = self._lines.get(arm, []), self._good_lines(arm)
        if not lines:
            return ["0", "", _NOT_MEASURED, *[""] * (len(columns) - 1)]
        diverged = f", {len(lines) - len(good)} diverged" if len(good) < len(lines) else ""
        parameters = f"{good[0]['parameters'] / 1000:,.0f}k" if good else ""
        cells = [self._mean_and_spread(arm, name) for name in columns]
        return [f"{len(lines)}{diverged}", parameters, *cells]

    def _mean_and_spread(self, arm: str, metric: str) -> str:
        values, digits = self._values(arm, metric), METRICS[metric].digits
        if not values:
            return "–"
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.{digits}f}{spread}"

    def _claims(self, claims: Iterable[Claim]) -> str:
        rows = []
        for claim in claims:
            for metric in claim.metrics:
                higher, lower = (self._values(arm, metric) for arm in (claim.higher, claim.lower))
                ours, sign = _NOT_MEASURED, ""
                if higher and lower:
                    difference = statistics.mean(higher) - statistics.mean(lower)
                    ours = f"{difference:+.{METRICS[metric].digits}f}"
                    sign = verdict(higher, lower)
                rows.append([claim.text, claim.difference, METRICS[metric].title, ours, sign])
        return markdown_table(["claim", "paper", "our metric", "ours", "same sign"], rows, 3)

    def _search(self) -> str:
        rows = []
        for arm, lines in self._searches.items():
            cells = [_NOT_MEASURED] * len(self._rates)
            for index, rate in enumerate(self._rates):
                if line := lines.get(rate):
                    loss = line.get("masked_lm_loss")
                    cells[index] = "diverged" if line["diverged"] else f"{loss:.3f}"
            rows.append([arm, *cells])
        return markdown_table(["arm", *(f"{rate:g}" for rate in self._rates)], rows)

    def draw_arms(self, path: pathlib.Path) -> bool:
        """Draws the masked-LM accuracy of each training, table by table; returns whether there is any."""
        from matplotlib.figure import Figure

        tables = {
            number: [(arm, self._values(arm, "masked_lm_accuracy")) for arm in table.arms]
            for number, table in sorted(TABLES.items())
            if any(map(self._good_lines, table.arms))
        }
        if not tables:
            return False
        figure = Figure(figsize=(12, 4.2), dpi=80, layout="constrained")
        widths = [len(arms) for arms in tables.values()]
        panels = figure.subplots(1, len(tables), sharey=True, width_ratios=widths, squeeze=False)[0]
        for axes, (number, arms) in zip(panels, tables.items(), strict=True):
            for place, (_, values) in enumerate(arms):
                axes.plot([place] * len(values), values, "o", color="C0", alpha=0.6)
                axes.plot([place], np.mean(values) if values else np.nan, "k_", markersize=16)
            axes.set_title(f"table {number}")
            axes.set_xticks(range(len(arms)), [arm for arm, _ in arms], rotation=90)
            axes.set_xlim(-0.7, len(arms) - 0.3)
            axes.grid(axis="y", alpha=0.3)
        panels[0].set_ylabel("masked-LM accuracy, %")
        path.parent.mkdir(exist_ok=True)
        files.write_picture(str(path), figure)
        return True

    def draw_layers(self, path: pathlib.Path) -> bool:
        """Draws figure 1; returns whether there is anything to draw."""
        lines = {arm: self._good_lines(arm) for arm in FIGURE_1}
        if not all(lines.values()):
            return False
        from benchmarks import layer_similarity  # imports TensorFlow

        def mean(name: str, of_arm: Sequence[Line]) -> np.ndarray:
            return np.mean([line[name] for line in of_arm], axis=0)

        changes = {
            arm: layer_similarity.LayerChanges(
                mean("layer_distances", of_arm), mean("layer_degrees", of_arm)
            )
            for arm, of_arm in lines.items()
        }
        path.parent.mkdir(exist_ok=True)
        layer_similarity.draw(changes, str(path))
        return True


def write(results: Results, recipe: Recipe, path: str) -> None:
    """Fills in the tables of a page, and draws its pictures next to it."""
    report = Report(results, recipe)
    blocks = report.blocks()
    folder = pathlib.Path(path).parent
    if report.draw_arms(folder / _ARMS_PICTURE):
        blocks["arms"] = f"![Masked-LM accuracy of each training]({_ARMS_PICTURE})"
    if report.draw_layers(folder / _LAYERS_PICTURE):
        blocks["figure 1"] = f"![Figure 1]({_LAYERS_PICTURE})\n\n{blocks['figure 1']}"

    def fill_in(match: re.Match) -> str:
        name = match["name"]
        return f"<!-- {name} -->\n{blocks[name]}\n<!-- end -->"

    files.write_text(path, _BLOCK.sub(fill_in, pathlib.Path(path).read_text("utf-8")))
