"""The options of `run_squad.py`."""

import dataclasses
import os
from typing import Literal

from albert_tf.data.squad.conventions import WindowConfig
from albert_tf.data.squad.questions import read_squad
from albert_tf.errors import FlagError
from albert_tf.options import check_range, option
from albert_tf.tasks.fine_tuning_options import FineTuningOptions, fill
from albert_tf.tasks.recipes import PAPER_SQUAD_V1, PAPER_SQUAD_V2

# The original's.
_DEFAULTS = {
    "max_seq_length": 384,
    "doc_stride": 128,
    "max_query_length": 64,
    "learning_rate": 5e-5,
    "start_n_top": 5,
    "end_n_top": 5,
    "n_best_size": 20,
    "max_answer_length": 30,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOptions(FineTuningOptions):
    """The options of `run_squad.py`."""

    OF_MODEL = (
        *FineTuningOptions.OF_MODEL,
        *("version_2_with_negative", "head", "start_n_top", "end_n_top", "doc_stride"),
        *("max_query_length", "n_best_size", "max_answer_length"),
    )
    OF_WEIGHTS = (
        *FineTuningOptions.OF_WEIGHTS,
        *("version_2_with_negative", "head", "start_n_top", "end_n_top"),
    )
    OF_TRAINING = (*FineTuningOptions.OF_TRAINING, "doc_stride", "max_query_length")

    train_file: str | None = option("SQuAD's JSON to train on.", None)
    predict_file: str | None = option(
        "SQuAD's JSON to evaluate on or to answer; with it training picks its best checkpoint.",
        None,
    )
    data_source: Literal["files", "tfds"] = option(
        "Files, or TensorFlow Datasets: squad, or squad/v2.0 with --version_2_with_negative.",
        "files",
    )
    data_dir: str | None = option("Folder of TensorFlow Datasets.", None)
    features_dir: str | None = option(
        "Folder of the windows, which are made once; features in --output_dir without this flag.",
        None,
    )
    num_workers: int | None = option(
        "Processes that make windows; the result does not depend on it; default one a core.",
        None,
        least=1,
    )
    do_predict: bool = option(
        "Whether to answer the questions of --predict_file with the best checkpoint.", False
    )
    do_eval_predictions: bool = option(
        "Whether to score --predictions_file without a model; nothing else is done then.", False
    )
    predictions_file: str | None = option("JSON, question's id -> answer, to score.", None)
    null_odds_file: str | None = option(
        "JSON, question's id -> how surely it has no answer, of --predictions_file.", None
    )
    na_prob_thresh: float = option(
        "With --null_odds_file: answers whose null odds are above it count as none.", 1.0
    )
    version_2_with_negative: bool | None = option(
        "Whether questions may have no answer; without this flag the data tell.", None
    )
    head: Literal["simple", "conditional"] | None = option(
        "simple: a start and an end; conditional: ends that depend on starts, and answerability; "
        "without this flag conditional where questions may have no answer.",
        None,
    )
    start_n_top: int | None = option(
        "With --head=conditional, how many starts are tried; 5 without this flag.", None, least=1
    )
    end_n_top: int | None = option(
        "With --head=conditional, how many ends of each start are tried; 5 without this flag.",
        None,
        least=1,
    )
    max_seq_length: int | None = option(
        "Tokens of a window at most, the special ones included; 384 without this flag.",
        None,
        least=5,
    )
    doc_stride: int | None = option(
        "Tokens from the start of a window's passage to that of the next; 128 without this flag.",
        None,
    )
    max_query_length: int | None = option(
        "Tokens of a question at most; 64 without this flag.", None
    )
    n_best_size: int | None = option(
        "Answers to a question in nbest_predictions.json at most; with --head=simple also how many "
        "starts and ends are tried; 20 without this flag.",
        None,
        least=1,
    )
    max_answer_length: int | None = option(
        "Tokens of an answer at most; 30 without this flag.", None, least=1
    )
    null_score_diff_threshold: float | None = option(
        "Null odds above it make a question unanswered; without this flag what evaluation found best.",
        None,
    )
    learning_rate: float | None = option(
        "The peak of the learning rate; 5e-5 without this flag.", None, least=0
    )

    def __post_init__(self):
        super().__post_init__()
        self.check_combinations(
            wanted=("do_train", "do_eval", "do_predict", "do_eval_predictions", "export_dir"),
            for_training=("albert_config_file", "spm_model_file"),
        )
        self._check_sources()
        self.check_early_stopping("predict_file", self.has_predict_set)
        if self.num_trials > 1 and self.export_dir:
            raise FlagError(
                f"--num_trials={self.num_trials}: expected no --export_dir; give it with a trial's "
                "folder as --output_dir"
            )

    @property
    def window_config(self) -> WindowConfig:
        """How questions and passages are cut."""
        return WindowConfig(self.max_seq_length, self.doc_stride, self.max_query_length)

    @property
    def has_predict_set(self) -> bool:
        """Whether there is anything to evaluate on."""
        return bool(self.predict_file) or self.data_source == "tfds"

    def _check_sources(self) -> None:
        if self.do_eval_predictions:
            for name in ("predict_file", "predictions_file"):
                if not getattr(self, name):
                    raise FlagError(f"--do_eval_predictions: expected --{name}; received none")
            return
        for name in ("predictions_file", "null_odds_file"):
            if getattr(self, name):
                raise FlagError(f"--{name}: expected --do_eval_predictions, which scores it")
        for wanted, name in (
            ("do_train", "train_file"),
            ("do_eval", "predict_file"),
            ("do_predict", "predict_file"),
        ):
            if not getattr(self, wanted):
                continue
            if self.data_source == "files" and not getattr(self, name):
                raise FlagError(f"--{wanted}: expected --{name}; received none")
        for name in ("train_file", "predict_file"):
            if self.data_source == "tfds" and getattr(self, name):
                raise FlagError(f"--{name}: expected --data_source=files; received tfds")


def complete(options: QuestionAnsweringOptions) -> QuestionAnsweringOptions:
    """Returns the options with the values of those that the user left out.

    Raises:
        InputError: without training, `--output_dir` holds no model of questions; or the windows have
            no room; or a file cannot be read.
    """
    recipe = None
    if options.do_train:
        version_2 = options.version_2_with_negative
        if version_2 is None and options.data_source == "files":
            version_2 = any(example.is_impossible for example in read_squad(options.train_file))
        head = options.head or ("conditional" if version_2 else "simple")
        options = dataclasses.replace(options, version_2_with_negative=bool(version_2), head=head)
        if options.recipe:
            recipe = PAPER_SQUAD_V2 if version_2 else PAPER_SQUAD_V1
    filled = fill(options, recipe, _DEFAULTS)
    if filled.head is None or filled.albert_config_file is None:
        raise FlagError(
            f"{options.model_flag}: holds no model that answers questions; expected a folder that "
            f"--{'export_dir' if options.exported_model else 'do_train'} wrote"
        )
    for name in ("start_n_top", "end_n_top"):
        check_range(filled, name, 1, filled.max_seq_length)
    features_dir = options.features_dir or os.path.join(options.output_dir, "features")
    return dataclasses.replace(filled, features_dir=features_dir)
