"""Tables of predictions and scores, tab-separated."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics


def to_tsv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns a table with a header row. All rows have the columns of the first one."""
    lines = []
    for row in rows:
        if not lines:
            lines.append("\t".join(row))
        # Nine digits give the same float32 back.
        lines.append(
            "\t".join(f"{x:.9g}" if isinstance(x, float) else str(x) for x in row.values())
        )
    return "\n".join(lines) + "\n"


def confusion_matrix(labels: Sequence[str], label_ids: np.ndarray, predicted: np.ndarray) -> str:
    """Returns how often each true label (row) was predicted as each label (column)."""
    counts = metrics.confusion_matrix(label_ids, predicted, labels=range(len(labels)))
    return to_tsv(
        {"label": label, **dict(zip(labels, row, strict=True))}
        for label, row in zip(labels, counts, strict=True)
    )


def label_scores(scores: Mapping[str, NamedTuple]) -> str:
    """Returns the scores of each label, and the number of its true examples."""
    return to_tsv(
        {
            "label": label,
            **{
                name: f"{value:.6f}" if isinstance(value, float) else value
                for name, value in of_label._asdict().items()
            },
        }
        for label, of_label in scores.items()
    )
