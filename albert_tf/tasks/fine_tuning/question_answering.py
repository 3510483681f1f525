"""Fine-tuning on SQuAD: questions about passages, with answers that are spans of the passage."""

import dataclasses
import functools
from typing import ClassVar

from albert_tf.data.fine_tuning.squad_questions import SquadExample, read_squad_tfds
from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.errors import InputError
from albert_tf.kinds import QuestionAnswering
from albert_tf.kinds.question_answering import usable_examples
from albert_tf.kinds.registry import with_kind_options
from albert_tf.options import option
from albert_tf.tasks.common import find_init_model, start_devices
from albert_tf.tasks.fine_tuning.data import RunData, make_data, start_kind
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.flags import check_addresses, name_original_files
from albert_tf.tasks.recipes import PAPER_SQUAD_V1, PAPER_SQUAD_V2
from albert_tf.tokenization import Tokenizer
from albert_tf.training.loop import Callback

# The original's.
_LEARNING_RATE = 5e-5

_TFDS_BUILDERS = {False: "squad", True: "squad/v2.0"}
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "validation"}


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
        """
        recipe = None
        if self.do_train and self.recipe:
            given = self.version_2_with_negative
            is_version_2 = has_impossible if given is None else given
            recipe = PAPER_SQUAD_V2 if is_version_2 else PAPER_SQUAD_V1
        length = QuestionAnswering.max_seq_length
        filled = self.fill(recipe, {"max_seq_length": length, "learning_rate": _LEARNING_RATE})
        if filled.albert_config_file is None:
            raise InputError(
                f"{self.model_flag}: holds no model that answers questions; expected a folder that "
                f"--{'export_dir' if self.exported_model else 'do_train'} wrote"
            )
        return filled

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


QuestionAnsweringOptions = with_kind_options(_QuestionAnsweringOptions, [QuestionAnswering])


def run(options: QuestionAnsweringOptions, callback: Callback | None = None) -> dict[str, float]:
    """Trains, evaluates, answers questions and exports, as the options say.

    Args:
        options: the options.
        callback: called after each report of the training.

    Returns:
        The metrics of the best checkpoint on `--predict_file`, with `--num_trials` their medians;
        without evaluation, empty.
    """
    options = find_init_model(options)
    check_addresses(options)
    start_devices(options)
    version_2 = options.version_2_with_negative
    train = _read(options, "train", version_2) if options.do_train else []
    options = options.complete(has_impossible=any(example.is_impossible for example in train))
    return run_task(options, functools.partial(_read_data, train=train), callback)


def _read_data(
    options: QuestionAnsweringOptions, tokenizer: Tokenizer, train: list[SquadExample]
) -> RunData:
    kind, examples = start_kind(options, SQUAD_TASK), {}
    if options.do_train:
        kind = kind.fit_labels(train, options.train_file)
        examples["train"] = {"": train}
    if options.has_predict_set:
        if options.do_train or options.do_eval:
            examples["dev"] = {"": _read(options, "dev", kind.version_2_with_negative)}
        # An evaluation writes the answers, too.
        if options.do_predict and not options.do_eval:
            examples["test"] = {"": _read(options, "test", kind.version_2_with_negative)}
    return make_data(options, SQUAD_TASK, kind, tokenizer, examples)


def _read(
    options: QuestionAnsweringOptions, split: str, version_2: bool | None
) -> list[SquadExample]:
    """Reads the questions of a split."""
    if options.data_source == "files":
        path = options.train_file if split == "train" else options.predict_file
        return QuestionAnswering().read(path, split)
    builder = _TFDS_BUILDERS[bool(version_2)]
    with name_original_files("train_file", "predict_file"):
        examples = read_squad_tfds(builder, _TFDS_SPLITS[split], options.data_dir)
    return usable_examples(examples, f"{builder}, {_TFDS_SPLITS[split]}", split)
