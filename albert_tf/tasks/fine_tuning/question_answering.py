"""Fine-tuning on SQuAD: questions about passages, with answers that are spans of the passage."""

import dataclasses
from typing import Any, ClassVar

from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.options.kinds import QuestionAnsweringFlags, with_kind_options
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.training_options import PAPER_SQUAD_V1, PAPER_SQUAD_V2


@dataclasses.dataclass(frozen=True, kw_only=True)
class _QuestionAnsweringOptions(FineTuningOptions):
    """The options of `run_squad.py`."""

    task: ClassVar = SQUAD_TASK
    # The original's names.
    DEV_PREDICTIONS: ClassVar = "predictions"
    TEST_PREDICTIONS: ClassVar = "predictions"

    train_file: str | None = option(
        "SQuAD JSON file to train on; or JSON lines, Parquet or a folder of datasets with the columns "
        "question, context and answers.",
        None,
    )
    predict_file: str | None = option(
        "The same to evaluate on or to answer. Training uses it to choose the best checkpoint.",
        None,
    )
    data_dir: str | None = option("Folder of TensorFlow Datasets.", None)
    do_predict: bool = option(
        "Answer the questions of --predict_file with the best checkpoint.", False
    )

    def __post_init__(self):
        super().__post_init__()
        self.check_combinations(has_dev_set=self.has_predict_set)
        self._check_sources()

    @property
    def has_predict_set(self) -> bool:
        """Whether there are questions to evaluate on."""
        return bool(self.predict_file) or self.data_source == "tfds"

    @property
    def splits(self) -> list[str]:
        """The splits to read. An evaluation writes the answers, too."""
        evaluates = self.has_predict_set and (self.do_train or self.do_eval)
        wanted = {
            "train": self.do_train,
            "dev": evaluates,
            "test": self.do_predict and not self.do_eval,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]

    def file_flag(self, split: str) -> str:
        """Returns the name of the option that names the file of a split."""
        return "train_file" if split == "train" else "predict_file"

    def complete(self, train: Any = None) -> "_QuestionAnsweringOptions":
        """Returns the options with the values of those that the user left out."""
        recipe = None
        if self.do_train and self.recipe:
            recipe = PAPER_SQUAD_V2 if self._is_version_2(train) else PAPER_SQUAD_V1
        filled = self.fill(recipe)
        if filled.albert_config_file is None:
            raise InputError(
                f"--output_dir={self.output_dir}: holds no model that answers questions; expected a "
                "folder that --do_train wrote"
            )
        return filled

    def _is_version_2(self, train: Any) -> bool:
        from albert_tf.data.fine_tuning.squad_questions import read_questions

        if self.version_2_with_negative is not None or self.data_source == "tfds":
            return bool(self.version_2_with_negative)
        source = self.train_file if train is None else train
        questions = read_questions(source, "train", training=True)
        return any(question.is_impossible and question.is_trainable for question in questions)

    def _check_sources(self) -> None:
        if self.data_source == "tfds":
            for name in ("train_file", "predict_file"):
                if getattr(self, name):
                    raise InputError(f"--{name}: expected --data_source=files; received tfds")
            return
        for wanted, name in (
            ("do_train", "train_file"),
            ("do_eval", "predict_file"),
            ("do_predict", "predict_file"),
        ):
            if getattr(self, wanted) and not getattr(self, name):
                raise InputError(f"--{wanted}: expected --{name}; received none")


QuestionAnsweringOptions = with_kind_options(
    _QuestionAnsweringOptions, {"question_answering": QuestionAnsweringFlags}
)
