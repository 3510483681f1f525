"""Fine-tuning on texts: GLUE, RACE and the user's own files."""

import dataclasses
import functools
import sys
from collections.abc import Mapping

from albert_tf.data.fine_tuning.task import Task, TaskKind
from albert_tf.errors import FlagError, name_flags
from albert_tf.kinds import KINDS, Kind
from albert_tf.kinds.registry import option_fields, read_kind
from albert_tf.tasks.common import start_devices
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions
from albert_tf.tasks.fine_tuning.contrastive import ContrastiveTask, check_contrast
from albert_tf.tasks.fine_tuning.kind_task import KindTask
from albert_tf.tasks.fine_tuning.labelled_task import ExampleSet, LabelledTask
from albert_tf.tasks.fine_tuning.line_prediction import check_lines
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.fine_tuning.text_data import read_text_data
from albert_tf.tasks.flags import check_addresses
from albert_tf.tasks.trained_folder import LabelMetadata
from albert_tf.tokenization import Tokenizer

__all__ = ["LABELLED_TASKS", "ClassificationOptions", "make_task", "run"]

LABELLED_TASKS: Mapping[TaskKind, type[LabelledTask]] = {
    "embedding": ContrastiveTask,
}


def run(options: ClassificationOptions) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on the dev set, with `--num_trials` their medians; empty
        without `--do_eval`.

    Raises:
        InputError: a file, a row or a checkpoint contradicts the options.
    """
    check_addresses(options)
    start_devices(options)
    return run_task(options.complete(), make_task)


def make_task(options: ClassificationOptions, tokenizer: Tokenizer) -> LabelledTask:
    """Reads the data of a run.

    Raises:
        InputError: a file or a row contradicts the options or the model.
    """
    check_lines(options.predict_file)
    row, metadata, examples = read_text_data(options)
    if metadata.kind in KINDS and options.export_format in KINDS[metadata.kind].without_forms:
        raise FlagError(
            f"--export_format={options.export_format}: {metadata.kind.replace('_', ' ')} has no such form"
        )
    _check_vocabulary(options, metadata.kind)
    if metadata.kind == "embedding" and options.do_train:
        check_contrast(options)
    labels = metadata.accepted_labels
    with name_flags():
        if metadata.kind in KINDS:
            kind = make_kind(options, row, metadata)
            task_class = functools.partial(KindTask, kind=kind)
            encode = functools.partial(kind.encode, tokenizer=tokenizer)
        else:
            task_class = LABELLED_TASKS[metadata.kind]
            encode = functools.partial(
                task_class.encode, labels=labels, tokenizer=tokenizer, options=options
            )
        sets = {
            split: [ExampleSet(name, rows, encode(rows)) for name, rows in of_split.items()]
            for split, of_split in examples.items()
        }
    if metadata.kind in KINDS and not row.sets:
        for split, (one,) in sets.items():
            path = getattr(options, f"{split}_file")
            for fault in kind.find_faults(path, split, one.examples, one.features):
                print(f"warning: {fault}", file=sys.stderr)
    dev_sets = sets.get("dev", [])
    metric = row.metrics[0] if row.metrics else ""
    prefix = dev_sets[0].prefix if dev_sets else ""
    return task_class(
        options=options,
        tokenizer=tokenizer,
        train_features=sets["train"][0].features if "train" in sets else None,
        num_dev_examples=len(dev_sets[0].examples) if dev_sets else 0,
        name=row.name,
        metric=metric,
        best_metric=prefix + metric,
        row=row,
        metadata=metadata,
        sets=sets,
    )


def make_kind(options: ClassificationOptions, row: Task, metadata: LabelMetadata) -> Kind:
    """Returns the kind that the options and the data define or, without training, the model's."""
    values = {field.name: getattr(options, field.name) for field in option_fields(metadata.kind)}
    if not options.do_train:
        return dataclasses.replace(read_kind(options.model_dir), **values)
    return KINDS[metadata.kind](
        task_name=metadata.task_name,
        metrics=(*row.metrics, *row.more_metrics),
        labels=metadata.labels,
        **({"pairs": True} if metadata.pairs else {}),
        **values,
    )


def _check_vocabulary(options: ClassificationOptions, kind: TaskKind) -> None:
    """Raises a `FlagError` if the text model would need a vocabulary with offsets in a graph."""
    saved_model = options.export_dir and options.export_format == "saved_model"
    if kind == "token_classification" and saved_model and options.vocab_file:
        raise FlagError(
            "--export_dir: expected --spm_model_file or another --export_format; a text model with a "
            "WordPiece vocabulary cannot find parts of texts"
        )
