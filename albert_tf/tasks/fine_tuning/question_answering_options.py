"""The options of `run_squad.py`."""

import dataclasses
from typing import ClassVar, Literal

from albert_tf.errors import FlagError
from albert_tf.kinds import QuestionAnswering
from albert_tf.kinds.registry import option_fields
from albert_tf.options import option
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.recipes import PAPER_SQUAD_V1, PAPER_SQUAD_V2

# The original's.
_DEFAULTS = {"learning_rate": 5e-5}
_DEFAULTS |= {field.name: field.default for field in option_fields(QuestionAnswering.name)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOptions(FineTuningOptions):
    """The options of `run_squad.py`."""

    _OF_HEAD: ClassVar = ("version_2_with_negative", "head", "start_n_top", "end_n_top")
    OF_MODEL: ClassVar = (
        *FineTuningOptions.OF_MODEL,
        *_OF_HEAD,
        *("doc_stride", "max_query_length", "n_best_size", "max_answer_length"),
    )
    OF_WEIGHTS: ClassVar = (*FineTuningOptions.OF_WEIGHTS, *_OF_HEAD)
    OF_TRAINING: ClassVar = (*FineTuningOptions.OF_TRAINING, "doc_stride", "max_query_length")

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
    version_2_with_negative: bool | None = option(
        "Questions may have no answer. Default: as in --train_file.", None
    )
    head: Literal["simple", "conditional"] | None = option(
        "simple: start and end; conditional: the end depends on the start, and answerability is "
        "predicted. Default: conditional if questions may have no answer, otherwise simple.",
        None,
    )
    start_n_top: int | None = option(
        "Number of starts to try (--head=conditional). Default: 5.", None, least=1
    )
    end_n_top: int | None = option(
        "Number of ends to try per start (--head=conditional). Default: 5.", None, least=1
    )
    doc_stride: int | None = option(
        "Number of tokens between the starts of two neighbouring windows in the passage. Default: 128.",
        None,
        least=1,
    )
    max_query_length: int | None = option(
        "Maximum number of tokens of a question. Default: 64.", None, least=1
    )
    n_best_size: int | None = option(
        "Maximum number of answers per question in nbest_predictions.json and, with --head=simple, "
        "number of starts and of ends to try. Default: 20.",
        None,
        least=1,
    )
    max_answer_length: int | None = option(
        "Maximum number of tokens of an answer. Default: 30.", None, least=1
    )
    null_score_diff_threshold: float | None = option(
        "Leave a question unanswered if its null odds exceed this threshold. Default: the best one in "
        "evaluation.",
        None,
    )

    def __post_init__(self):
        super().__post_init__()
        self.check_combinations(
            ("albert_config_file",),
            dev_flag="predict_file",
            has_dev_set=self.has_predict_set,
        )
        self._check_sources()

    @property
    def has_predict_set(self) -> bool:
        """Whether there are questions to evaluate on."""
        return bool(self.predict_file) or self.data_source == "tfds"

    def complete(self, has_impossible: bool) -> "QuestionAnsweringOptions":
        """Returns the options with the values of those that the user left out.

        Args:
            has_impossible: whether any training question has no answer.

        Raises:
            InputError: without training, `--output_dir` holds no model that answers questions or has a
                damaged file; or the windows are too small.
        """
        options, recipe = self, None
        if self.do_train:
            version_2 = self.version_2_with_negative
            if version_2 is None:
                version_2 = has_impossible
            head = self.head or ("conditional" if version_2 else "simple")
            options = dataclasses.replace(self, version_2_with_negative=version_2, head=head)
            if self.recipe:
                recipe = PAPER_SQUAD_V2 if version_2 else PAPER_SQUAD_V1
        filled = options.fill(recipe, _DEFAULTS)
        if filled.head is None or filled.albert_config_file is None:
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
