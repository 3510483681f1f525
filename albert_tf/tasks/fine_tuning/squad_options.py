"""The options of fine-tuning on SQuAD, with the original's names of files."""

import dataclasses
from typing import Any, ClassVar, Self

from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.options import option
from albert_tf.tasks.fine_tuning.options import FineTuningOptions, ask_for_something


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(FineTuningOptions):
    """The options of `albert-squad`: fine-tuning on SQuAD, with the original's names of files."""

    FILE_FLAGS: ClassVar = {
        "train": "train_file",
        "dev": "predict_file",
        "test": "predict_file",
    }
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

    @classmethod
    def from_flags(cls, **flags: Any) -> Self:
        """Returns the options that the flags mean: `--predict_file` is the dev set and the test set."""
        if path := flags.pop("predict_file", None):
            # An evaluation writes the answers, too.
            is_alone = not (flags.get("train_file") or ask_for_something(flags))
            predicts = (flags.get("do_predict") or is_alone) and not flags.get("do_eval")
            flags |= {"dev_file": path, "test_file": path, "do_predict": bool(predicts)}
        return super().from_flags(**flags)
