"""The baselines of a run: fitted to its training set, kept in its folder, measured beside the model."""

import os
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.data.fine_tuning.examples import Example, ScoreRange
from albert_tf.data.fine_tuning.features import label_ids
from albert_tf.errors import InputError, warn
from albert_tf.evaluation.baselines import Baselines, standard_error
from albert_tf.evaluation.metrics import LOWER_IS_BETTER
from albert_tf.kinds import Kind
from albert_tf.kinds.text_kind import TextKind
from albert_tf.tasks.fine_tuning.data import RunData
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import ExampleSet

_FILE = "baselines.npz"


def write_baselines(options: FineTuningOptions, data: RunData) -> None:
    """Fits the baselines to the training set, and writes them for evaluations, also later ones."""
    kind = data.kind
    if not kind.reads_pooler:
        return
    assert isinstance(kind, TextKind), "it has labels that texts are trained with"
    examples = [row for row in data.sets["train"][0].examples if row.label is not None]
    if not examples:
        return
    targets = label_ids(examples, kind.accepted_labels)
    weights = np.ones(len(examples))
    are_scores = isinstance(kind.accepted_labels, ScoreRange)
    if are_scores:
        targets = targets[:, None]
    elif targets.ndim == 1:
        weights = np.array(getattr(kind, "weights", ()) or [1.0] * len(kind.labels))[targets]
        targets = np.eye(len(kind.labels))[targets]
    texts = list(map(_texts, examples))
    fitted = Baselines.fit(texts, targets, are_scores, weights, options.random_seed)
    files.write_bytes(os.path.join(options.output_dir, _FILE), fitted.to_bytes())


def measure_baselines(
    options: FineTuningOptions,
    kind: Kind,
    sets: Sequence[ExampleSet],
    predictions: Sequence[Any],
) -> dict[str, dict[str, dict[str, float]]]:
    """Measures the baselines of the folder, if it has any, on the sets that a model was measured on.

    Prints them, and a warning if the model is no better. Returns `{"baselines": {name: metrics}}`.
    """
    path = os.path.join(options.output_dir, _FILE)
    if not kind.reads_pooler or not files.exists(path):
        return {}
    try:
        baselines = Baselines.from_bytes(files.read_bytes(path))
    except (ValueError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: damaged; remove it, or train again") from error
    results: dict[str, dict[str, float]] = {}
    for dataset, model in zip(sets, predictions, strict=True):
        received = baselines.predict(list(map(_texts, dataset.examples)))
        fitted = {name: kind.fit(dataset.examples, received[name]) for name in received}
        for name, predicted in received.items():
            values = fitted[name].measure(dataset.examples, predicted).metrics
            known = {dataset.prefix + key: values[key] for key in kind.reported if key in values}
            results.setdefault(name, {}).update(known)
        metric = dataset.prefix + kind.metrics[0]
        values = {name: measured[metric] for name, measured in results.items()}
        shown = ", ".join(f"{_said(name)} {value:.4f}" for name, value in values.items())
        print(f"baselines, {metric} on the same rows: {shown}")
        best = max(values, key=lambda name: _sign(kind) * values[name])
        rival = _Predicted(fitted[best], received[best])
        _compare(options, dataset, name=best, model=_Predicted(kind, model), rival=rival)
    return {"baselines": results}


class _Predicted(NamedTuple):
    """Predictions, and the kind with the thresholds that suit them."""

    kind: Kind
    predictions: Any


def _sign(kind: Kind) -> int:
    """Returns 1 if higher values of the first metric are better, otherwise -1."""
    return -1 if kind.metrics[0] in LOWER_IS_BETTER else 1


def _compare(
    options: FineTuningOptions, dataset: ExampleSet, name: str, model: _Predicted, rival: _Predicted
) -> None:
    """Warns if a model is not better than a baseline by more than the standard error."""
    metric = model.kind.metrics[0]

    def measure(rows: np.ndarray) -> np.ndarray:
        examples = [dataset.examples[row] for row in rows]
        measured = (each.kind.measure(examples, each.predictions[rows]) for each in (model, rival))
        return np.array([quality.metrics[metric] for quality in measured])

    count = len(dataset.examples)
    if count < 2:
        return  # no error can be estimated
    value, rival_value = measure(np.arange(count))
    error = standard_error(lambda rows: np.subtract(*measure(rows)), count, options.random_seed)
    if _sign(model.kind) * (value - rival_value) <= error:
        warn(
            f"the model is not better than the {_said(name)}: {dataset.prefix}{metric} "
            f"{value:.4f} against {rival_value:.4f} on {count} rows, where the standard error of "
            f"the difference is {error:.4f}"
        )


def _said(name: str) -> str:
    return name.replace("_", " ")


def _texts(example: Example) -> list[str]:
    """Returns the text of a row, or those of its choices."""
    pair = example.choices or (example.text_b,)
    first = example.text_b if example.choices else example.text_a
    return [" ".join(filter(None, (first, second))) for second in pair]
