"""Fine-tuning on texts: GLUE, RACE and the user's own files."""

import dataclasses
import sys

from albert_tf.data.fine_tuning.task import Task
from albert_tf.errors import FlagError, name_flags
from albert_tf.kinds import KINDS, Kind
from albert_tf.kinds.registry import option_fields, read_kind
from albert_tf.tasks.common import start_devices
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions
from albert_tf.tasks.fine_tuning.kind_task import KindTask
from albert_tf.tasks.fine_tuning.labelled_task import ExampleSet
from albert_tf.tasks.fine_tuning.line_prediction import check_lines
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.fine_tuning.text_data import read_text_data
from albert_tf.tasks.flags import check_addresses
from albert_tf.tasks.trained_folder import LabelMetadata
from albert_tf.tokenization import Tokenizer

__all__ = ["ClassificationOptions", "make_task", "run"]


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


def make_task(options: ClassificationOptions, tokenizer: Tokenizer) -> KindTask:
    """Reads the data of a run.

    Raises:
        InputError: a file or a row contradicts the options or the model.
    """
    check_lines(options.predict_file)
    row, metadata, examples = read_text_data(options)
    kind = make_kind(options, row, metadata)
    if options.export_format in kind.without_forms:
        raise FlagError(
            f"--export_format={options.export_format}: {kind.name.replace('_', ' ')} has no such form"
        )
    _check_vocabulary(options, kind)
    if options.do_train:
        fault = kind.micro_batch_fault(options.train_batch_size // options.accumulate_steps)
        if fault:
            raise FlagError(f"--train_batch_size={options.train_batch_size}: {fault}")
    with name_flags():
        sets = {
            split: [
                ExampleSet(name, rows, kind.encode(rows, tokenizer))
                for name, rows in of_split.items()
            ]
            for split, of_split in examples.items()
        }
    if not row.sets:
        for split, (one,) in sets.items():
            path = getattr(options, f"{split}_file")
            for fault in kind.find_faults(path, split, one.examples, one.features):
                print(f"warning: {fault}", file=sys.stderr)
    dev_sets = sets.get("dev", [])
    metric = row.metrics[0] if row.metrics else ""
    prefix = dev_sets[0].prefix if dev_sets else ""
    return KindTask(
        kind=kind,
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


def _check_vocabulary(options: ClassificationOptions, kind: Kind) -> None:
    """Raises a `FlagError` if the text model would need a vocabulary with offsets in a graph."""
    saved_model = options.export_dir and options.export_format == "saved_model"
    if kind.needs_offsets and saved_model and options.vocab_file:
        raise FlagError(
            "--export_dir: expected --spm_model_file or another --export_format; a text model with a "
            "WordPiece vocabulary cannot find parts of texts"
        )
