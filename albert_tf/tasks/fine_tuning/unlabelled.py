"""The training texts that only a teacher labels: `--unlabeled_file`, or a training set without labels."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from albert_tf import files
from albert_tf.data.fine_tuning import conll
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.tables import Table, is_table
from albert_tf.data.source_files import suffix_of
from albert_tf.errors import InputError
from albert_tf.kinds import Kind
from albert_tf.kinds.kind import open_source
from albert_tf.kinds.registry import KINDS, find_kind
from albert_tf.kinds.taught import TaughtKind
from albert_tf.options.kinds import option_fields
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.teacher_options import TEACHER_WEIGHT

# The column that texts without a table are read as.
_TEXT = "text"
# The split of texts in memory, and what messages call them.
_IN_MEMORY = "unlabeled"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def check_can_be_taught(options: FineTuningOptions, kind: type[Kind]) -> None:
    """Raises an `InputError` if models of a kind learn from no teacher."""
    if not _is_taught(kind):
        names = ", ".join(name for name, known in KINDS.items() if _is_taught(known))
        raise InputError(
            f"--teacher={options.teacher}: {kind.name} learns from no teacher; expected one of {names}"
        )


def _is_taught(kind: type[Kind]) -> bool:
    return issubclass(kind, TaughtKind) and kind.can_be_taught


def split_labelled(options: FineTuningOptions, source: Any) -> tuple[Any, Table | None]:
    """Splits a training set into rows with a label and rows without one, and says how many these are.

    An empty part is None. Only a training with a teacher may have rows without a label.
    """
    if options.teacher is None or source is None:
        return source, None
    kind = find_kind(options.task.kind)
    check_can_be_taught(options, kind)
    assert issubclass(kind, TaughtKind), "checked"
    labelled, rest = kind.split_labelled(source)
    if rest is not None:
        count = len(rest.rows)
        total = count + (len(labelled.rows) if labelled else 0)
        print(f"{rest.name}: {count} of {total} rows have no label, and learn from --teacher alone")
    return labelled, rest


def read_unlabelled(
    options: FineTuningOptions, kind: Kind, table: Any = None, given: Mapping[str, Any] = _NOTHING
) -> list[Any]:
    """Returns the examples of `--unlabeled_file`, or the same in memory, and of rows without a label.

    A file that is no table has a text in each line; lines without one are left out. Rows in memory may be
    texts, too.

    Args:
        options: those of the run.
        kind: the kind, of which the columns alone are known.
        table: the rows of the training set without a label, if there are any.
        given: data in memory by split.
    """
    if options.teacher is None:
        return []
    check_can_be_taught(options, type(kind))
    assert isinstance(kind, TaughtKind), "checked"
    examples = kind.read_unlabelled(table) if table else []
    source = given.get(_IN_MEMORY, options.unlabeled_file)
    if source is not None:
        opened = _read_lines(source) or open_source(
            kind, source, "test", names=ColumnNames(), columns=kind.columns
        )
        examples = join_examples(options, examples, kind.read_unlabelled(opened), given)
    return examples


def refuse_options_of_labels(options: FineTuningOptions, kind: Kind, has_labels: bool) -> None:
    """Raises an `InputError` if an option says how labels are learnt, and a teacher alone is learnt.

    `has_labels` is whether training rows have labels.
    """
    if options.teacher is None or (has_labels and options.teacher_weight != 1):
        return
    assert isinstance(kind, TaughtKind), "checked"
    fields = option_fields(type(kind))
    given = {name: (getattr(kind, name), fields[name].default) for name in kind.label_options}
    reason, expected = "the labels count nothing at --teacher_weight=1", "a lower weight"
    if not has_labels:
        given["teacher_weight"] = (options.teacher_weight, TEACHER_WEIGHT)
        reason, expected = "no training row has a label", "rows with labels"
    for name, (value, default) in given.items():
        if value != default:
            raise InputError(
                f"--{name}={value}: {reason}, so it has no effect; expected {expected}, or no such option"
            )


def join_examples(
    options: FineTuningOptions, first: list[Any], unlabelled: list[Any], given: Mapping[str, Any]
) -> list[Any]:
    """Returns the examples of a training set, and those of `--unlabeled_file`, which have to be alike.

    `given` are data in memory by split.

    Raises:
        InputError: some are pairs of texts, and others are single texts.
    """
    if first and unlabelled and (first[0].text_b is None) != (unlabelled[0].text_b is None):
        has, expected = "is read as single texts", "pairs of texts"
        if first[0].text_b is None:
            has, expected = "has pairs of texts", "single texts"
        flag = f"--unlabeled_file={options.unlabeled_file}"
        name = _IN_MEMORY if _IN_MEMORY in given else flag
        raise InputError(f"{name}: {has}; expected {expected}, as in the training set")
    return first + unlabelled


def _read_lines(source: Any) -> Table | None:
    """Returns a table of the lines of a file, or of a list of texts; None for what a kind opens."""
    if not isinstance(source, str):
        are_texts = isinstance(source, list | tuple) and all(isinstance(x, str) for x in source)
        return _table_of(_IN_MEMORY, enumerate(source), "") if are_texts else None
    if not files.exists(source):
        raise InputError(f"--unlabeled_file: no file '{source}'")
    if is_table(source) or suffix_of(source) in conll.SUFFIXES:
        return None
    return _table_of(source, files.read_lines(source), unit="line")


def _table_of(name: str, lines: Iterable[tuple[int, str]], unit: str) -> Table:
    """Returns a table of the texts that are not empty."""
    texts = {number: line for number, line in lines if line.strip()}
    if not texts:
        raise InputError(f"{name}: holds no text; expected a text in each line")
    records = [{_TEXT: text} for text in texts.values()]
    return Table.of_records(name, records=records, numbers=[*texts], unit=unit)
