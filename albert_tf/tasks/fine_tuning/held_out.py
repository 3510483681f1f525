"""The rows of a training file: which are held out as the dev set, and warnings of what spoils them."""

import collections
from collections.abc import Sequence
from typing import Any

from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR
from albert_tf.data.fine_tuning.examples import hold_out, quote_names
from albert_tf.errors import InputError, warn
from albert_tf.kinds import Classification, Kind, MultiLabel
from albert_tf.tasks.fine_tuning.options import CHECKPOINT_CHOICES, FineTuningOptions
from albert_tf.tasks.fine_tuning.trained_rows import TrainedRows

# With fewer rows a training is not refused, but pointless.
_FEW_ROWS = 10
# So many whole numbers with fewer rows each are rather scores than classes.
_MANY_NUMBERS, _ROWS_OF_A_CLASS = 20, 10


def split_rows(
    options: FineTuningOptions, kind: Kind, examples: Sequence[Any], trained: TrainedRows | None
) -> tuple[list[Any], list[Any]]:
    """Splits the examples of a training file into a training set and a dev set.

    Args:
        options: those of the run.
        kind: the kind, with its labels.
        examples: those of the file.
        trained: what the run was trained on before, which stays in the training set.

    Raises:
        InputError: there are too few rows to evaluate on, or they cannot be evaluated.
    """
    if kind.can_hold_out is None and examples[0].label is None:  # of all
        refuse_evaluation(options)
        return [*examples], []
    by_label = bool(kind.labels)
    train, dev = hold_out(
        examples, fraction=options.dev_fraction, seed=options.random_seed, by_label=by_label
    )
    if by_label:
        train, dev = _keep_labels(kind, train, dev)
    if trained:
        train, dev = trained.keep(train, dev)
    if dev:
        print(
            f"{options.train_file}: {len(dev)} rows, chosen by --random_seed, are the dev set; "
            f"{len(train)} are trained on (--dev_fraction={options.dev_fraction:g})"
        )
    elif options.do_eval is not False:
        raise InputError(
            f"{options.train_file}: too few rows to evaluate on; expected --dev_file, or "
            "--dev_fraction=0 for a training without an evaluation"
        )
    return train, dev


def refuse_evaluation(options: FineTuningOptions) -> None:
    """Raises an `InputError` if a run without labels in its training rows asks for a dev set."""
    asked = {name: getattr(options, name) for name in ("do_eval", *CHECKPOINT_CHOICES)}
    asked["dev_fraction"] = options.asks_to_hold_out
    for name, is_asked in asked.items():
        if is_asked:
            raise InputError(
                f"--{name}: {options.train_file} has no labels to evaluate on; expected --dev_file"
            )


def warn_of_labels(kind: Kind, path: str, examples: Sequence[Any]) -> None:
    """Warns of labels that are rather scores, and of those that differ in capitals alone."""
    if isinstance(kind, Classification) and _are_scores(kind.labels, len(examples)):
        warn(
            f"{path}: the {len(kind.labels)} labels are numbers, such as "
            f"{quote_names(kind.labels[:3])}, and count as classes; --task_name=regression learns scores"
        )
    spellings = collections.defaultdict(list)
    for label in kind.label_names:
        spellings[label.casefold()].append(label)
    for names in spellings.values():
        if len(names) > 1:
            shown = quote_names(names)
            warn(f"{path}: {shown} differ in capitals alone, and count as different labels")


def warn_of_few_rows(kind: Kind, path: str, train: Sequence[Any]) -> None:
    """Warns of few training rows, and of labels that a single one has."""
    if len(train) < _FEW_ROWS:
        warn(
            f"{path}: {len(train)} rows are trained on; with fewer than {_FEW_ROWS} the answers are "
            "mostly chance"
        )
    counts = collections.Counter(label for example in train for label in _labels_of(kind, example))
    single = [label for label, count in counts.items() if count == 1]
    if single and kind.labels:
        warn(f"{path}: the model can hardly learn labels of a single row: {quote_names(single)}")


def _are_scores(labels: Sequence[str], rows: int) -> bool:
    try:
        numbers = [float(label) for label in labels]
    except ValueError:
        return False
    has_fractions = any(number % 1 for number in numbers)
    return has_fractions or len(labels) >= max(_MANY_NUMBERS, rows / _ROWS_OF_A_CLASS)


def _labels_of(kind: Kind, example: Any) -> list[str]:
    """Returns the label of an example, or the names in a set of labels."""
    label = getattr(example, "label", None)
    if not isinstance(label, str):
        return []
    return label.split(LABEL_SEPARATOR) if isinstance(kind, MultiLabel) else [label]


def _keep_labels(kind: Kind, train: list[Any], dev: list[Any]) -> tuple[list[Any], list[Any]]:
    """Moves the rows to the training set whose label no row there has."""
    known = {label for example in train for label in _labels_of(kind, example)}
    held_out = [known.issuperset(_labels_of(kind, example)) for example in dev]
    moved = [example for example, stays in zip(dev, held_out, strict=True) if not stays]
    return train + moved, [example for example, stays in zip(dev, held_out, strict=True) if stays]
