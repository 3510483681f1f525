"""The options of `run_classifier.py`."""

import dataclasses
from typing import Any, Literal

from albert_tf import files
from albert_tf.conversion import read_config
from albert_tf.data.fine_tuning.race import LEVELS, RACE_TASK
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.task_table import TASKS, find_task
from albert_tf.errors import FlagError, InputError, name_place
from albert_tf.options import option
from albert_tf.tasks.fine_tuning_options import FineTuningOptions, fill
from albert_tf.tasks.recipes import PAPER
from albert_tf.tasks.trained_folder import read_folder
from albert_tf.training import best_checkpoint

_SPLITS = ("train", "dev", "test")
_OWN_FILES = tuple(f"{split}_file" for split in _SPLITS)

# The original's.
_MAX_SEQ_LENGTH, _MAX_SEQ_LENGTH_OF_RACE = 128, 512
_MAX_QA_LENGTH = 128
_LEARNING_RATE = 2e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationOptions(FineTuningOptions):
    """The options of `run_classifier.py`."""

    OF_MODEL = (*FineTuningOptions.OF_MODEL, "task_name", "max_qa_length")
    OF_TRAINING = (*FineTuningOptions.OF_TRAINING, "max_qa_length")

    output_dir: str | None = option(
        "Folder for checkpoints, metrics, summaries and results; of --exported_model, --predict_file and "
        "nothing else, there are none.",
        None,
    )
    task_name: str | None = option(
        f"The task: {', '.join(TASKS)}; without training that of --output_dir.", None
    )
    data_source: Literal["files", "tfds"] = option(
        "Files in the original layout, or TensorFlow Datasets.", "files"
    )
    data_dir: str | None = option(
        "Folder of GLUE's tasks, or of RACE, in the original layout; or that of TensorFlow Datasets.",
        None,
    )
    train_file: str | None = option("With --task_name=tsv, the file to train on.", None)
    dev_file: str | None = option("With --task_name=tsv, the file to evaluate on.", None)
    test_file: str | None = option("With --task_name=tsv, the file to predict.", None)
    label_type: Literal["string", "float"] = option(
        "With --task_name=tsv, whether labels are names of classes or scores.", "string"
    )
    race_level: Literal[("all", *LEVELS)] = option("With --task_name=race, which articles.", "all")
    max_qa_length: int | None = option(
        "Tokens of question and choice at most; 128 without this flag, or half of --max_seq_length "
        "where that is less.",
        None,
        least=1,
    )
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_predict: bool = option("Whether to predict the test set with the best checkpoint.", False)
    predict_file: str | None = option(
        "File whose lines are predicted on standard output; - is standard input.", None
    )
    init_classifier: str | None = option(
        "Folder that this script trained on another task: its model, vocabulary and best weights start "
        "the training, and the head starts anew. In the paper RTE, STS-B and MRPC start from MNLI's.",
        None,
    )
    max_seq_length: int | None = option(
        "Tokens of an example at most, the special ones included; 128 without this flag, for race 512.",
        None,
        least=5,
    )
    learning_rate: float | None = option(
        "The peak of the learning rate; 2e-5 without this flag.", None, least=0
    )

    def __post_init__(self):
        super().__post_init__()
        self._check_combinations()
        if self.task_name is not None:
            self._check_sources()

    @property
    def init_flag(self) -> str:
        """The flag that names what the weights start from, for messages."""
        return "init_classifier" if self.init_classifier else super().init_flag

    @property
    def task(self) -> Task:
        """The row of the task."""
        return find_task(self.task_name)

    @property
    def splits(self) -> list[str]:
        """The splits that the flags ask for; with a dev set, training picks its best checkpoint."""
        wanted = {
            "train": self.do_train,
            "dev": self.do_eval or (self.do_train and self._is_given("dev")),
            "test": self.do_predict,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]

    def _is_given(self, split: str) -> bool:
        if self.task.sets:
            return split in self.task.sets
        return bool(getattr(self, f"{split}_file"))

    def _check_combinations(self) -> None:
        self.check_combinations(
            wanted=("do_train", "do_eval", "do_predict", "predict_file", "export_dir"),
            for_training=("task_name", *(() if self.init_classifier else ("albert_config_file",))),
        )
        if not self.output_dir and (self.do_eval or self.do_predict or not self.exported_model):
            raise FlagError("expected --output_dir; received none")
        if self.num_trials > 1 and (self.export_dir or self.predict_file):
            raise FlagError(
                f"--num_trials={self.num_trials}: expected neither --export_dir nor --predict_file; "
                "give them with a trial's folder as --output_dir"
            )
        if self.recipe and self.task_name and self.task.name not in PAPER:
            raise FlagError(
                f"--recipe=paper: has no row for --task_name={self.task_name}, but for "
                f"{', '.join(PAPER)}"
            )

    def _check_sources(self) -> None:
        sets = self.task.sets
        if self.race_level != "all" and self.task.name != RACE_TASK.name:
            raise FlagError(f"--race_level={self.race_level}: expected --task_name=race")
        if self.label_type != "string" and sets:
            raise FlagError(f"--label_type={self.label_type}: expected --task_name=tsv")
        self.check_early_stopping("dev_file", "dev" in self.splits)
        for split in self.splits:
            if sets and split not in sets:
                raise FlagError(
                    f"--task_name={self.task_name}: has no {split} set, but for {', '.join(sets)}; "
                    f"the model is that of --task_name={self.task.model_task}"
                )
            flag = "data_dir" if sets else f"{split}_file"
            if self.data_source == "files" and not getattr(self, flag):
                raise FlagError(f"--task_name={self.task_name}: expected --{flag}; received none")
        if self.data_source == "tfds" and not self.task.tfds:
            raise FlagError(f"--data_source=tfds: --task_name={self.task_name} is not there")
        read = ("data_dir",) if sets else _OWN_FILES
        for flag in ("data_dir", *_OWN_FILES):
            if flag not in read and getattr(self, flag):
                raise FlagError(
                    f"--{flag}: --task_name={self.task_name} reads no such thing; "
                    f"it reads --{', --'.join(sorted(read))}"
                )


def complete(options: ClassificationOptions) -> ClassificationOptions:
    """Returns the options with the values of those that the user left out.

    Raises:
        FlagError: without training, `--output_dir` does not know the task either.
    """
    if options.init_classifier:
        options = _start_from_classifier(options)
    recipe = PAPER[options.task.name] if options.recipe and options.do_train else None
    completed = fill(options, recipe, _defaults(options))
    if completed.task_name is None or completed.albert_config_file is None:
        raise FlagError(
            f"{options.model_flag}: holds no classifier; expected a folder that "
            f"--{'export_dir' if options.exported_model else 'do_train'} wrote"
        )
    return completed


def _defaults(options: ClassificationOptions) -> dict[str, Any]:
    """Returns the values of options that nothing else gives."""
    of_race = options.task_name is not None and options.task.name == RACE_TASK.name
    longest = _MAX_SEQ_LENGTH_OF_RACE if of_race else _MAX_SEQ_LENGTH
    return {
        "max_seq_length": longest,
        "max_qa_length": min(_MAX_QA_LENGTH, (options.max_seq_length or longest) // 2),
        "learning_rate": _LEARNING_RATE,
    }


def _start_from_classifier(options: ClassificationOptions) -> ClassificationOptions:
    """Returns the options with those of `--init_classifier`'s folder that its weights go with.

    Raises:
        InputError: the folder holds no classifier, or one of another vocabulary or case.
    """
    if options.init_checkpoint or not options.do_train:
        raise FlagError("--init_classifier: expected --do_train, and no --init_checkpoint")
    folder = options.init_classifier
    of_folder = {
        name: value
        for name, value in read_folder(folder, ("do_lower_case",)).items()
        if value is not None
    }
    if len(of_folder) < 3:  # config, case and one of two vocabularies
        raise InputError(
            f"--init_classifier={folder}: holds no classifier; expected a folder that --do_train wrote"
        )
    if options.albert_config_file is None:
        with name_place("--init_classifier"):
            read_config(of_folder["albert_config_file"])
    for name in ("spm_model_file", "vocab_file", "do_lower_case"):
        received, there = getattr(options, name), of_folder.get(name)
        if received is not None and not _are_same(received, there):
            raise InputError(
                f"--{name}={received}: the model of --init_classifier={folder} has another; expected "
                f"no --{name}"
            )
    missing = {name: value for name, value in of_folder.items() if getattr(options, name) is None}
    return dataclasses.replace(
        options, init_checkpoint=best_checkpoint(folder), reset_head=True, **missing
    )


def _are_same(received: str | bool, there: str | bool | None) -> bool:
    """Returns whether two values are equal, or two files."""
    if isinstance(received, bool) or there is None:
        return received == there
    return files.read_bytes(received) == files.read_bytes(there)
