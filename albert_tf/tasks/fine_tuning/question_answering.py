"""Fine-tuning on SQuAD: questions about passages, with answers that are spans of the passage."""

import functools

from albert_tf.data.fine_tuning.squad_questions import SquadExample, read_squad_tfds
from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.kinds import QuestionAnswering
from albert_tf.kinds.question_answering import usable_examples
from albert_tf.tasks.common import find_init_model, start_devices
from albert_tf.tasks.fine_tuning.data import RunData, make_data, start_kind
from albert_tf.tasks.fine_tuning.question_answering_options import QuestionAnsweringOptions
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.flags import check_addresses, name_original_files
from albert_tf.tokenization import Tokenizer
from albert_tf.training.loop import Callback

__all__ = ["QuestionAnsweringOptions", "run"]

_TFDS_BUILDERS = {False: "squad", True: "squad/v2.0"}
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "validation"}


def run(options: QuestionAnsweringOptions, callback: Callback | None = None) -> dict[str, float]:
    """Trains, evaluates, answers questions and exports, as the options say.

    Args:
        options: the options.
        callback: called after each report of the training.

    Returns:
        The metrics of the best checkpoint on `--predict_file`, with `--num_trials` their medians;
        without evaluation, empty.

    Raises:
        InputError: a file, a question or a checkpoint contradicts the options.
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
        if (
            options.do_predict and not options.do_eval
        ):  # Otherwise the evaluation writes the answers.
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
