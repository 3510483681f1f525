"""The columns that usually say how a row counts, and what becomes of them.

A table may have any other columns, which a run names but does not read. Those of `MEANINGS` are used,
refused by name, or alike in all rows and so without a meaning: to pass over them would change what is
learnt or measured. In a test set, whose rows are all answered, they have no effect.
"""

import collections
import dataclasses
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from albert_tf.data.fine_tuning.cells import is_missing
from albert_tf.data.fine_tuning.column_names import split_names
from albert_tf.data.fine_tuning.examples import quote_names
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError, warn

_NAMES_SHOWN = 30

# Texts of an embedder: pairs that belong together, with or without a negative, or pairs with scores.
Pairs = Literal["pairs", "scored_pairs"]

_TRUE = dict.fromkeys(("true", "1", "1.0", "yes", "y", "t"), True)
_FALSE = dict.fromkeys(("false", "0", "0.0", "no", "n", "f"), False)
_IS_TRUE = _TRUE | _FALSE
_IS_FALSE = {value: not is_true for value, is_true in _IS_TRUE.items()} | {"": True}
_ANSWERS = {
    **dict.fromkeys(("accept", "accepted"), True),
    **dict.fromkeys(("reject", "rejected", "ignore", "ignored"), False),
}


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What columns of some names say of their rows."""

    names: tuple[str, ...]  # in lower case, with `_` between words
    says: str
    advice: str = ""  # what to do instead, if they are refused
    # Value in lower case -> whether a row with it is kept. Columns with other values are refused.
    keeps: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    is_usual_text: bool = (
        False  # a column with other values than those of `keeps` is an ordinary one
    )
    of_pairs: tuple[Pairs, ...] = ()  # has a meaning in tables of such pairs alone
    counts_alike: bool = False  # has a meaning even if it is alike in all rows
    # What all values of a column are that has the meaning by any other name.
    values: re.Pattern[str] | None = None


MEANINGS = (
    Meaning(
        ("answer",),
        "what the annotator said of the label",  # as Prodigy writes it
        "leave out the rows that were not accepted",
        _ANSWERS,
        is_usual_text=True,
    ),
    Meaning(
        ("accept", "accepted", "is_accepted", "approved", "is_approved"),
        "whether the label was accepted",
        "leave out the rows that were not",
        _IS_TRUE | _ANSWERS,
    ),
    Meaning(
        (
            *("reject", "rejected", "is_rejected", "ignore", "ignored", "is_ignored", "exclude"),
            *("excluded", "is_excluded", "skip", "skipped", "is_skipped", "discard", "discarded"),
            *("cancelled", "was_cancelled", "deleted", "is_deleted"),
        ),
        "whether the row is to be left out",
        "leave out those rows",
        _IS_FALSE,
    ),
    Meaning(
        (
            *("split", "splits", "data_split", "dataset_split", "partition", "fold", "folds"),
            *("kfold", "k_fold", "fold_id", "cv_fold", "is_train", "is_training", "is_valid"),
            *("is_validation", "is_dev", "is_val", "is_test", "train_test"),
        ),
        "which part of the data the row is in",
        "give each part as a file, --train_file and --dev_file",
        # `Training` and `PublicTest` are those of Kaggle's column `Usage`.
        values=re.compile(
            "(train|training|trn|dev|devel|development|val|valid|validation|eval"
            "|(public|private)?[ _-]?test|testing|tst|held[ _-]?out)([ _-]?(set|split|data))?"
        ),
    ),
    Meaning(
        (
            *("weight", "weights", "sample_weight", "sample_weights", "row_weight"),
            *("instance_weight", "example_weight", "importance", "loss_weight"),
        ),
        "how much the row counts",
        "--class_weights weights the rows of a label",
    ),
    Meaning(
        (
            *("confidence", "label_confidence", "confidence_score", "label_probability"),
            *("annotator_confidence", "certainty", "agreement", "annotator_agreement"),
        ),
        "how sure the label is",
        "leave out the rows that are not sure enough",
    ),
    Meaning(
        (
            *("negative", "negatives", "hard_negative", "hard_negatives", "hard_neg", "hard_negs"),
            *("neg", "negs", "negative_passages"),
        ),
        "which text does not belong to the first",
        "give one text a row, in the column 'negative'",
        of_pairs=("pairs", "scored_pairs"),
        counts_alike=True,
    ),
    Meaning(
        (
            *("gold_label", "true_label", "pair_label", "entailment", "entailment_label"),
            *("entailment_judgment", "judgment", "judgement", "duplicate", "is_duplicate"),
            *("paraphrase", "is_paraphrase", "match", "is_match", "similar", "is_similar"),
            *("similarity", "similarity_score", "similarity_label", "relatedness", "is_related"),
            *("relatedness_score", "relevant", "is_relevant", "relevance", "relevance_score"),
            *("relevance_label", "relevance_grade", "is_selected", "gold_score"),
        ),
        "whether, or how much, the texts belong together",
        "--label_column reads scores; leave out the pairs that do not belong together",
        of_pairs=("pairs",),
    ),
)
# Names that are those of `MEANINGS` with a number, such as `negative_1`.
_NUMBER = re.compile(r"_?\d+$")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def leave_out_rows(table: Table) -> Table:
    """Leaves out the rows that a column says do not count; a warning counts them by reason."""
    named = {*dataclasses.asdict(table.names).values()}
    named |= {*split_names(table.names.label_columns, table.columns)}
    kept, reasons = [True] * len(table.rows), []
    columns = list(table.columns)
    for position, column in enumerate(table.columns):
        meaning = find_meaning(column)
        if meaning is None or not meaning.keeps or column in named:
            continue
        values = [*_values(table, position)]
        if not all(value in meaning.keeps for value in values):
            continue
        flags = [meaning.keeps[value] for value in values]
        if all(flags):
            continue
        left_out = collections.Counter(
            value for value, keep in zip(values, flags, strict=True) if not keep
        )
        shown = ", ".join(f"{value} ({count})" for value, count in left_out.most_common())
        reasons.append(f"'{column}' is {shown}")
        kept = [old and new for old, new in zip(kept, flags, strict=True)]
        columns[position] = ""  # it has been used
    if not reasons:
        return table
    said = f"{table.name}: left out {kept.count(False)} of {len(kept)} rows: {', '.join(reasons)}"
    if not any(kept):
        raise InputError(f"{said}; expected rows that count, or --ignore_columns")
    warn(said)
    return dataclasses.replace(
        table,
        columns=tuple(columns),
        rows=list(itertools.compress(table.rows, kept)),
        numbers=list(itertools.compress(table.numbers, kept)),
    )


def account_for_columns(
    table: Table, split: str, read: Mapping[str, str | int | None], pairs: Pairs | None = None
) -> None:
    """Says which columns are read as what, and refuses others that have a meaning.

    Of the rest of a table nothing is said, since its other rows have the same columns.

    Args:
        table: the table.
        split: `train`, `dev` or `test`.
        read: what each column is read as -> its name; None for columns that are not there.
        pairs: what the pairs of an embedder are.

    Raises:
        InputError: a column that is not read says how its rows count.
    """
    names = {column for column in read.values() if column is not None}
    others = [column for column in table.columns if column and column not in names]
    for column in others if split != "test" else ():
        _refuse_meaning(table, column, pairs)
    if table.is_rest:
        return
    roles = ", ".join(
        f"'{column}' as {role}" for role, column in read.items() if column is not None
    )
    not_read = (*table.hidden, *others)
    rest = f"; not read: {quote_names(not_read, _NAMES_SHOWN)}" if not_read else ""
    print(f"{table.name}: reads {roles or 'no column'}{rest}", file=sys.stderr)


def _refuse_meaning(table: Table, column: str, pairs: Pairs | None) -> None:
    position = table.columns.index(column)
    meaning = find_meaning(column) or _find_meaning_of(_values(table, position))
    if meaning is None or (meaning.of_pairs and pairs not in meaning.of_pairs):
        return
    values = {*_values(table, position)}
    if meaning.is_usual_text and not values - {""} <= meaning.keeps.keys():
        return
    if len(values) == 1 and not (meaning.counts_alike and values != {""}):
        return
    raise InputError(
        f"{table.name}: the column '{column}', such as {quote_names([max(values)])}, says "
        f"{meaning.says}, and is not read; {meaning.advice}, or pass over it with "
        f"--ignore_columns={column}"
    )


def find_meaning(column: str) -> Meaning | None:
    """Returns what a column says of its rows by its name; None for other names."""
    name = re.sub(r"[\W_]+", "_", _WORD_START.sub("_", column)).strip("_").lower()
    names = {name, _NUMBER.sub("", name)}
    return next((meaning for meaning in MEANINGS if names & {*meaning.names}), None)


def _find_meaning_of(values: Iterator[str]) -> Meaning | None:
    """Returns the meaning that the values of a column give it; None without one."""
    first = next(filter(None, values), "")
    for meaning in MEANINGS:
        if (pattern := meaning.values) and pattern.fullmatch(first):
            are_alike = all(pattern.fullmatch(value) for value in values if value)
            return meaning if are_alike else None
    return None


def _values(table: Table, position: int) -> Iterator[str]:
    """Yields the values of a column in lower case, "" for none."""
    for row in table.rows:
        cell: Any = row[position]
        yield "" if is_missing(cell) else str(cell).strip().lower()
