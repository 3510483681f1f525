"""Scores a predictions file of SQuAD without a model, as the official scripts do."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from albert_tf import files
from albert_tf.data.squad.questions import SquadExample, read_squad, show_ids
from albert_tf.errors import InputError
from albert_tf.evaluation.squad_metrics import GoldAnswers, evaluate_v1, evaluate_v2
from albert_tf.evaluation.squad_plots import draw_squad_plots


def gold_answers(examples: Iterable[SquadExample]) -> dict[str, list[str]]:
    """Returns the texts of the right answers by question id; empty if there is no answer."""
    return {example.id: [answer.text for answer in example.answers] for example in examples}


def score_predictions_file(
    data_file: str,
    predictions_file: str,
    null_odds_file: str | None = None,
    na_prob_thresh: float = 1.0,
    version_2_with_negative: bool | None = None,
    plots_dir: str | None = None,
) -> dict[str, float]:
    """Scores a predictions file of SQuAD 1.1 or 2.0.

    Questions without a prediction, and predictions without a question, count as in the official
    scripts. A line on standard error reports their number.

    Args:
        data_file: SQuAD JSON file with the right answers.
        predictions_file: JSON file, question id -> answer, empty for none.
        null_odds_file: JSON file, question id -> confidence that there is no answer (SQuAD 2.0 only).
        na_prob_thresh: answers with null odds above it count as none. The default is the script's, meant
            for probabilities.
        version_2_with_negative: whether the data are SQuAD 2.0; None if they are when any question has no
            answer.
        plots_dir: existing folder for plots, see `squad_plots`; None for no plots.

    Returns:
        The metrics of `evaluate_v1` or `evaluate_v2`.

    Raises:
        InputError: a file cannot be read or has another layout, no question has a prediction, or a
            prediction has no null odds.
    """
    golds = gold_answers(read_squad(data_file))
    if version_2_with_negative is None:
        version_2_with_negative = not all(golds.values())
    predictions = read_predictions(predictions_file)
    _compare_ids(golds, predictions, data_file, predictions_file)
    if null_odds_file is None:
        return (evaluate_v2 if version_2_with_negative else evaluate_v1)(golds, predictions)
    if not version_2_with_negative:
        raise InputError(f"{null_odds_file}: null odds are of SQuAD 2.0; {data_file} is SQuAD 1.1")
    null_odds = read_null_odds(null_odds_file)
    without = [name for name in golds if name in predictions and name not in null_odds]
    if without:
        raise InputError(
            f"{null_odds_file}: {len(without)} questions that have a prediction are missing "
            f"({show_ids(without)}); expected a number for each"
        )
    if plots_dir is not None:
        draw_squad_plots(plots_dir, golds, predictions, null_odds)
    return evaluate_v2(golds, predictions, null_odds, na_prob_thresh)


def read_predictions(path: str) -> dict[str, str]:
    """Reads answers by question id.

    Raises:
        InputError: the file cannot be read, is not JSON or holds something else.
    """
    return _read_values(path, lambda value: isinstance(value, str), "a text")


def read_null_odds(path: str) -> dict[str, float]:
    """Reads null odds by question id.

    Raises:
        InputError: the file cannot be read, is not JSON or holds something else.
    """
    return _read_values(path, _is_number, "a finite number")


def _is_number(value: Any) -> bool:
    # In Python `True` is an `int`; NaN compares as false.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _read_values(path: str, is_right: Callable[[Any], bool], expected: str) -> dict[str, Any]:
    values = files.read_json(path)
    if not isinstance(values, dict):
        raise InputError(
            f"{path}: holds {_brief(values)}; expected an object, question ID -> {expected}"
        )
    for name, value in values.items():
        if not is_right(value):
            raise InputError(f"{path}: '{name}' has {_brief(value)}; expected {expected}")
    return values


def _brief(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 40 else shown[:40] + "..."


def _compare_ids(
    golds: GoldAnswers, predictions: Mapping[str, str], data_file: str, predictions_file: str
) -> None:
    """Warns of ids that only one of the files has; raises an error if they have none in common."""
    missing = [name for name in golds if name not in predictions]
    unknown = [name for name in predictions if name not in golds]
    if len(missing) == len(golds):
        raise InputError(
            f"{predictions_file}: has a prediction for none of the {len(golds)} questions of "
            f"{data_file}; it has {len(unknown)} other ids ({show_ids(unknown)})"
        )
    for names, what in (
        (missing, f"of {len(golds)} questions of {data_file} have no prediction"),
        (unknown, f"predictions are for no question of {data_file}"),
    ):
        if names:
            print(
                f"warning: {predictions_file}: {len(names)} {what} ({show_ids(names)})",
                file=sys.stderr,
            )
