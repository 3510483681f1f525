"""Steps that were skipped because the loss or gradient was not finite."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError

# Returns the records of batches, given their numbers: for each batch and file, record numbers from 1.
NameRecords = Callable[[Collection[int]], Mapping[int, Mapping[str, Sequence[int]]]]

# Number of records in a warning; a batch may have thousands.
_MAX_NAMED = 8


class BadSteps:
    """Counts and reports skipped steps. Reads from the device only in `check`.

    A warning names the first records of the step's batch, and `bad_steps.jsonl` names all, with one line
    per step.

    Args:
        most: maximum number of consecutive skipped steps.
        output_dir: folder of the run.
        name_records: finds the records of batches; None if records have no names.

    Attributes:
        in_a_row: number of consecutive skipped steps at the end.
    """

    def __init__(self, most: int, output_dir: str, name_records: NameRecords | None):
        self._most = most
        self._path = f"{output_dir}/bad_steps.jsonl"
        self._name_records = name_records
        self._unread: list[tuple[int, tuple[tf.Tensor, tf.Tensor]]] = []
        self.in_a_row = 0

    def add(self, step: int, skipped: tuple[tf.Tensor, tf.Tensor]) -> None:
        """Adds the steps up to `step`; `skipped` is the trainer's `skipped_updates`."""
        self._unread.append((step, skipped))

    def check(self, is_chief: bool) -> None:
        """Warns of each skipped step."""
        bad = []
        for step, is_skipped in self._read():
            self.in_a_row = self.in_a_row + 1 if is_skipped else 0
            if is_skipped:
                bad.append(step)
            if self.in_a_row > self._most:
                break
        self._unread = []
        if bad and is_chief:
            self._report(bad)
        if self.in_a_row > self._most:
            raise InputError(
                f"step {bad[-1]}: the loss or gradient of {self.in_a_row} consecutive steps is not "
                "finite; the newest checkpoint is older; restart with a lower learning rate or a longer "
                "warm-up"
            )

    def _read(self) -> Iterator[tuple[int, bool]]:
        """Yields the number of each step and whether it was skipped."""
        for last, (skipped, _) in self._unread:
            flags = skipped.numpy() > 0
            yield from enumerate(flags, last - len(flags) + 1)

    def _report(self, steps: Sequence[int]) -> None:
        records: Mapping[int, Mapping[str, Sequence[int]]] = {}
        if self._name_records is not None:
            # Steps count from 1, batches from 0.
            found = self._name_records([step - 1 for step in steps])
            records = {step: found[step - 1] for step in steps}
            self._write(records)
        for step in steps:
            named = f"; records: {_describe(records[step])}" if step in records else ""
            print(
                f"warning: step {step}: skipped, its loss or gradient is not finite{named}",
                file=sys.stderr,
            )

    def _write(self, records: Mapping[int, Mapping[str, Sequence[int]]]) -> None:
        """Adds steps to the file, replacing those that a killed run wrote before."""
        lines = {line["step"]: line for line in files.read_json_lines(self._path)}
        for step, by_file in records.items():
            lines[step] = {"step": step, "records": by_file}
        files.write_json_lines(self._path, [lines[step] for step in sorted(lines)])


def _describe(records: Mapping[str, Sequence[int]]) -> str:
    named = [f"{path}, record {number}" for path in records for number in records[path]]
    more = len(named) - _MAX_NAMED
    return "; ".join(named[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
