"""The options of a training with a teacher."""

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.sources import MODEL_NAMES

# Default of `teacher_weight`.
TEACHER_WEIGHT = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherOptions:
    """The options of a training with a teacher."""

    teacher: str | None = option(
        "Model whose answers to the training texts are learnt, beside or instead of labels, of the same "
        f"kind and with the same labels: {MODEL_NAMES}.",
        None,
    )
    teacher_weight: float | None = option(
        f"Share of the --teacher in the loss of a row with a label. Default: {TEACHER_WEIGHT}.",
        None,
        least=0,
        most=1,
    )
    unlabeled_file: str | None = option(
        "File of more texts to train on, which only the --teacher labels: lines of text, or a table.",
        None,
    )

    def check_teacher(self, do_train: bool) -> None:
        """Checks that the options go together, and with a run that trains or does not."""
        for name in ("teacher_weight", "unlabeled_file"):
            if getattr(self, name) is not None and not self.teacher:
                raise InputError(f"--{name}={getattr(self, name)}: expected --teacher, too")
        if self.teacher and not do_train:
            raise InputError(
                f"--teacher={self.teacher}: expected --do_train; a model has learnt it"
            )
