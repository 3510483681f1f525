"""Plots of the null odds: histograms and precision-recall curves.

Names, axes and contents are those of `evaluate-v2.0.py`, except that the histograms span the range of the
null odds, which need not be probabilities.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.evaluation.squad_metrics import (
    GoldAnswers,
    score_answers_v2,
    which_have_answers,
)
from albert_tf.evaluation.squad_thresholds import PrecisionRecallCurve, precision_recall_curves

_BINS = 20


def draw_squad_plots(
    output_dir: str,
    golds: GoldAnswers,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> list[str]:
    """Draws `na_prob_hist_{hasAns,noAns}.png` and `pr_{exact,f1,oracle}.png`.

    Args:
        output_dir: an existing folder.
        golds: right answers to the questions.
        predictions: question id -> answer, before a threshold is applied.
        null_odds: question id -> null odds, finite.

    Returns:
        The files; no histogram of an empty set. Empty without matplotlib, which is optional.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    paths = []
    for name, draw in _pictures(golds, predictions, null_odds).items():
        figure = Figure(figsize=(5, 4), layout="constrained")
        draw(figure.subplots())
        paths.append(os.path.join(output_dir, f"{name}.png"))
        files.write_picture(paths[-1], figure)
    return paths


def _pictures(
    golds: GoldAnswers, predictions: Mapping[str, str], null_odds: Mapping[str, float]
) -> dict[str, Callable[[Any], None]]:
    """Returns the plots: name -> function that draws on axes."""
    pictures: dict[str, Callable[[Any], None]] = {}
    has_answer = which_have_answers(golds)
    for name, answerable in (("hasAns", True), ("noAns", False)):
        odds = [odd for key, odd in null_odds.items() if has_answer.get(key) is answerable]
        if odds:
            pictures[f"na_prob_hist_{name}"] = functools.partial(
                _draw_histogram, odds=odds, title=f"Null odds: {name}"
            )
    scores = score_answers_v2(golds, predictions)
    curves = precision_recall_curves(scores.exact, scores.f1, null_odds, has_answer)
    for kind, curve in curves.items():
        pictures[f"pr_{kind}"] = functools.partial(
            _draw_curve, curve=curve, title=f"Precision-recall, {kind}: AP {curve.average:.2f}"
        )
    return pictures


def _draw_histogram(axes: Any, odds: Sequence[float], title: str) -> None:
    axes.hist(odds, bins=_BINS, weights=[1 / len(odds)] * len(odds))
    axes.set(title=title, xlabel="null odds", ylabel="proportion of questions")


def _draw_curve(axes: Any, curve: PrecisionRecallCurve, title: str) -> None:
    axes.step(curve.recalls, curve.precisions, where="post")
    axes.fill_between(curve.recalls, curve.precisions, step="post", alpha=0.2)
    axes.set(title=title, xlabel="recall", ylabel="precision", xlim=(0, 1.05), ylim=(0, 1.05))
