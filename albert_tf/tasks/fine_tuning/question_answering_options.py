"""The options of `run_squad.py`."""

import dataclasses
from typing import ClassVar

from albert_tf.errors import FlagError
from albert_tf.kinds import QuestionAnswering
from albert_tf.kinds.registry import with_kind_options
from albert_tf.options import option
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.recipes import PAPER_SQUAD_V1, PAPER_SQUAD_V2

# The original's.
_LEARNING_RATE = 5e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class _QuestionAnsweringOptions(FineTuningOptions):
    """The options of `run_squad.py`."""

    # The original's names.
    DEV_PREDICTIONS: ClassVar = "predictions"
    TEST_PREDICTIONS: ClassVar = "predictions"

    train_file: str | None = option("SQuAD JSON file to train on.", None)
    predict_file: str | None = option(
        "SQuAD JSON file to evaluate on or to answer. Training uses it to choose the best checkpoint.",
        None,
    )
    data_dir: str | None = option("Folder of TensorFlow Datasets.", None)
    do_predict: bool = option(
        "Answer the questions of --predict_file with the best checkpoint.", False
    )

    def __post_init__(self):
        super().__post_init__()
        self.check_combinations(
            () if self.init_checkpoint else ("albert_config_file",),
            dev_flag="predict_file",
            has_dev_set=self.has_predict_set,
        )
        self._check_sources()

    @property
    def has_predict_set(self) -> bool:
        """Whether there are questions to evaluate on."""
        return bool(self.predict_file) or self.data_source == "tfds"

    def complete(self, has_impossible: bool) -> "_QuestionAnsweringOptions":
        """Returns the options with the values of those that the user left out.

        Args:
            has_impossible: whether any training question has no answer.

        Raises:
            InputError: without training, `--output_dir` holds no model or has a damaged file.
        """
        recipe = None
        if self.do_train and self.recipe:
            given = self.version_2_with_negative
            is_version_2 = has_impossible if given is None else given
            recipe = PAPER_SQUAD_V2 if is_version_2 else PAPER_SQUAD_V1
        length = QuestionAnswering.max_seq_length
        filled = self.fill(recipe, {"max_seq_length": length, "learning_rate": _LEARNING_RATE})
        if filled.albert_config_file is None:
            raise FlagError(
                f"{self.model_flag}: holds no model that answers questions; expected a folder that "
                f"--{'export_dir' if self.exported_model else 'do_train'} wrote"
            )
        return filled

    def _check_sources(self) -> None:
        if self.data_source == "tfds":
            for name in ("train_file", "predict_file"):
                if getattr(self, name):
                    raise FlagError(f"--{name}: expected --data_source=files; received tfds")
            return
        for wanted, name in (
            ("do_train", "train_file"),
            ("do_eval", "predict_file"),
            ("do_predict", "predict_file"),
        ):
            if getattr(self, wanted) and not getattr(self, name):
                raise FlagError(f"--{wanted}: expected --{name}; received none")


QuestionAnsweringOptions = with_kind_options(_QuestionAnsweringOptions, [QuestionAnswering])
