"""The options of fine-tuning on SQuAD, with the original's names of files."""

import dataclasses
from typing import ClassVar

from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.options import option
from albert_tf.tasks.fine_tuning.options import FineTuningOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(FineTuningOptions):
    """The options of `albert-squad`: fine-tuning on SQuAD, with the original's names of files."""

    TEST_PREDICTIONS: ClassVar = "predictions"

    task_name: str = option("Task.", SQUAD_TASK.name)
    predict_file: str | None = option(
        "File to evaluate on or to answer: the same formats as --train_file. Training uses it to choose "
        "the best checkpoint.",
        None,
    )
    do_predict: bool = option(
        "Answer the questions of --predict_file with the best checkpoint.", False
    )

    def __post_init__(self):
        if self.predict_file:
            for name in ("dev_file", "test_file"):
                self._assume(name, self.predict_file)
            # An evaluation writes the answers, too.
            is_alone = not (self.train_file or self._asks_for_something)
            self._assume("do_predict", (self.do_predict or is_alone) and not self.do_eval)
        super().__post_init__()

    @property
    def lines_file(self) -> None:
        """No file is answered on standard output."""
        return None

    def file_flag(self, split: str) -> str:
        """Returns the name of the option that names the file of a split."""
        return "train_file" if split == "train" else "predict_file"
