"""Reads the examples of a fine-tuning run and checks them against the model's kind."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.data.fine_tuning.column_names import ColumnNames, NamedColumns
from albert_tf.data.fine_tuning.examples import (
    Example,
    Labels,
)
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.opened_tables import named_columns
from albert_tf.data.fine_tuning.squad_questions import SquadExample, read_squad_tfds
from albert_tf.data.fine_tuning.task_table import OWN_TASK, Task
from albert_tf.data.fine_tuning.tfds import read_tfds
from albert_tf.errors import InputError, warn
from albert_tf.evaluation.metrics import LOWER_IS_BETTER
from albert_tf.export import exporter
from albert_tf.kinds import OWN_KINDS, Kind, QuestionAnswering, recognise
from albert_tf.kinds.kind import open_source
from albert_tf.kinds.question_answering import usable_examples
from albert_tf.kinds.registry import find_kind
from albert_tf.kinds.taught import TaughtKind
from albert_tf.kinds.text_kind import LongTextKind
from albert_tf.options import select
from albert_tf.options.resolution import resolved
from albert_tf.tasks.fine_tuning.choices import choose_length, set_length
from albert_tf.tasks.fine_tuning.held_out import (
    refuse_evaluation,
    split_rows,
    warn_of_few_rows,
    warn_of_labels,
)
from albert_tf.tasks.fine_tuning.kind_checks import check_task, read_model_kind
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import ExampleSet, check_lines
from albert_tf.tasks.fine_tuning.trained_rows import TrainedRows
from albert_tf.tasks.fine_tuning.unlabelled import (
    join_examples,
    read_unlabelled,
    refuse_options_of_labels,
    split_labelled,
)
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.vocabulary import warn_of_unknown_text
from albert_tf.tokenization import Tokenizer

_SQUAD_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "validation"}

# Split -> name of the set -> examples.
Splits = Mapping[str, Mapping[str, list[Any]]]


@dataclasses.dataclass(frozen=True)
class RunData:
    """What a run learns, evaluates and predicts."""

    task: Task
    kind: Kind
    tokenizer: Tokenizer
    sets: Mapping[str, Sequence[ExampleSet]]  # split -> its sets; only those that the run reads

    @property
    def train_features(self) -> Features | None:
        """The training set; None without `--do_train`."""
        return self.sets["train"][0].features if "train" in self.sets else None

    @property
    def dev_set(self) -> ExampleSet | None:
        """The set that selects the best checkpoint and the thresholds; None without one."""
        return self.sets["dev"][0] if "dev" in self.sets else None

    @property
    def best_metric(self) -> str:
        """Name of the metric that selects the best checkpoint."""
        prefix = self.dev_set.prefix if self.dev_set else ""
        return prefix + (self.kind.metrics[0] if self.kind.metrics else "")

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values of the best metric are better."""
        return LOWER_IS_BETTER.isdisjoint(self.kind.metrics[:1])


def read_data(
    options: FineTuningOptions,
    tokenizer: Tokenizer,
    sources: Mapping[str, Any] | None = None,
    most_tokens: int | None = None,
    stored: StoredRun | None = None,
    teacher_labels: Callable[[TaughtKind], Sequence[str]] | None = None,
) -> RunData:
    """Reads the splits that complete options ask for, and converts their examples to ids.

    `sources` are data in memory by split, instead of the files that the options name. `most_tokens` is
    the model's number of positions, up to which a training may choose its length; None leaves the kind's.
    `stored` is the model of the output folder, whose kind is used without training. `teacher_labels`
    returns the labels of a kind whose training set has none.
    """
    check_lines(options.predict_file)
    task = options.task
    model_kind = None if options.do_train else read_model_kind(options, stored)
    trained = TrainedRows.read(options.output_dir) if options.do_train else None
    if task.sets:
        examples: Splits = {split: _read_split(options, task, split) for split in options.splits}
        kind = _start_kind(options, task, model_kind)
        if options.do_train:
            kind = dataclasses.replace(
                kind, labels=_names_of(task.labels), metrics=task.metrics or kind.metrics
            )
            kind = kind.fit_labels(examples["train"][""], task.name)
            given = sources or {}
            unlabelled = read_unlabelled(options, kind, given=given)
            refuse_options_of_labels(options, kind, has_labels=True)
            train = join_examples(options, examples["train"][""], unlabelled, given)
            examples = {**examples, "train": {"": train}}
    else:
        kind, examples = _read_own(
            options,
            task,
            stored=model_kind,
            given=sources or {},
            columns=stored.kind.columns if stored and stored.kind else (),
            trained=trained,
            teacher_labels=teacher_labels,
        )
    if options.best_metric:
        kind = _select_by(options.best_metric, kind)
    if {"train", "dev"} <= set(examples):
        _warn_of_shared_rows(examples["train"][""], examples["dev"])
    if options.max_seq_length is None and options.do_train and most_tokens is not None:
        train = examples["train"][""]
        given = options.given_to(type(kind))
        length = choose_length(
            kind, train, tokenizer, most=most_tokens, seed=options.random_seed, given=given
        )
        kind = set_length(kind, length, given)
    return _encode(options, task, kind, tokenizer, examples)


def _encode(
    options: FineTuningOptions, task: Task, kind: Kind, tokenizer: Tokenizer, examples: Splits
) -> RunData:
    if options.export_dir:
        exporter.check_kind(kind, options.export_format, tokenizer)
    sets = {
        split: [
            ExampleSet(name, rows, kind.encode(rows, tokenizer)) for name, rows in datasets.items()
        ]
        for split, datasets in examples.items()
    }
    for split, datasets in sets.items():
        for dataset in datasets:
            _say_if_truncated(kind, task, split, dataset)
            warn_of_unknown_text(dataset.features, f"{task.name}, {split}", tokenizer)
    for split, (dataset,) in sets.items() if not task.sets else ():
        path = getattr(options, f"{split}_file") or options.train_file or task.name
        for fault in kind.find_faults(path, split, dataset.examples, dataset.features):
            warn(fault)
    return RunData(task, kind, tokenizer, sets)


def _say_if_truncated(kind: Kind, task: Task, split: str, dataset: ExampleSet) -> None:
    cut, texts = dataset.features.num_truncated, len(dataset.features.lengths)
    if cut:
        has_windows = isinstance(kind, LongTextKind) and kind.reads_one_sequence and not kind.pairs
        advice = "; --long_texts=windows reads all of them" if has_windows else ""
        print(
            f"{task.name}, {split}: {cut / texts:.1%} of {texts} texts are longer than "
            f"--max_seq_length={kind.max_seq_length} and are truncated{advice}"
        )


def _start_kind(
    options: FineTuningOptions, task: Task, stored: Kind | None, kind: Kind | None = None
) -> Kind:
    """Returns the kind as the options define it or, without training, the model's, which is `stored`.

    `kind` is what the training data define; None for the kind of the task.
    """
    if stored:
        expected: dict[str, Any] = {"task_name": task.model_task}
        if task != OWN_TASK:
            expected["name"] = task.kind
        if task.sets:
            expected["labels"] = _names_of(task.labels)
        check_task(options, stored, expected)
    known = stored or kind
    kind_class = type(known) if known else find_kind(task.kind)
    options.check_kinds([kind_class.name])
    given = options.given_to(kind_class)
    if stored:
        return dataclasses.replace(stored, **given)
    return kind_class(task_name=task.model_task, labels=kind.labels if kind else (), **given)


def _select_by(metric: str, kind: Kind) -> Kind:
    known = dict.fromkeys((*kind.reported, *kind.more_metrics))
    if metric not in known:
        raise InputError(f"--best_metric={metric}: expected one of {', '.join(known)}")
    return dataclasses.replace(kind, metrics=tuple(dict.fromkeys((metric, *kind.metrics))))


def _read_own(
    options: FineTuningOptions,
    task: Task,
    stored: Kind | None,
    given: Mapping[str, Any],
    *,
    columns: NamedColumns,
    trained: TrainedRows | None,
    teacher_labels: Callable[[TaughtKind], Sequence[str]] | None,
) -> tuple[Kind, Splits]:
    """Returns the kind with the labels of the training set, and the examples of the user's data.

    `columns` and `trained` are those of the run in the output folder, if there is one. A teacher has the
    labels of a training set without any.
    """
    if task == OWN_TASK:
        options.check_kinds(OWN_KINDS)
    sources = {
        split: _own_source(options, split, sources=given, columns=columns)
        for split in options.splits
    }
    train, without_labels = split_labelled(options, sources.get("train"))
    if train:
        sources["train"] = train
    elif without_labels:
        del sources["train"]
    is_new = options.do_train and task.kind in OWN_KINDS
    defined = recognise(train, task.kind) if is_new and train is not None else None
    kind = _start_kind(options, task, stored, kind=defined)
    kind = dataclasses.replace(kind, columns=named_columns(select(options, ColumnNames), columns))
    examples: dict[str, dict[str, list[Any]]] = {}
    unlabelled = read_unlabelled(options, kind, without_labels, given=given)
    refuse_options_of_labels(options, kind, has_labels="train" in sources)
    if options.do_train and "train" not in sources:
        assert isinstance(kind, TaughtKind), "others have labels"
        assert teacher_labels is not None, "or else there are labels"
        kind = kind.fit_unlabelled(teacher_labels(kind), unlabelled)
    for split, source in sources.items():
        if options.data_source == "tfds":
            assert isinstance(kind, QuestionAnswering), "the options refuse other kinds"
            examples[split] = {"": _read_squad_tfds(options, kind, split)}
        else:
            examples[split] = {"": kind.read(source, split)}
        if split == "train":
            kind = kind.fit_labels(examples[split][""], getattr(source, "name", source))
    if options.do_train:
        path = options.train_file or options.unlabeled_file or task.name
        labelled = examples.pop("train", {"": []})[""]
        warn_of_labels(kind, path, labelled)
        if options.holds_out and labelled:
            labelled, dev = split_rows(options, kind, examples=labelled, trained=trained)
            examples |= {"dev": {"": dev}} if dev else {}
        elif options.holds_out:
            refuse_evaluation(options)
            print(f"{path}: no row has a label, so none is held out as a dev set")
        rows = join_examples(options, labelled, unlabelled, given)
        warn_of_few_rows(kind, path, rows)
        examples = {"train": {"": rows}, **examples}
    return kind, examples


def _own_source(
    options: FineTuningOptions, split: str, sources: Mapping[str, Any], columns: NamedColumns
) -> Any:
    """Returns the data of a split as the kind reads them; None for TensorFlow Datasets."""
    if options.data_source == "tfds":
        return None
    source = sources.get(split, getattr(options, f"{split}_file"))
    if isinstance(source, str) and not files.exists(source):
        raise InputError(f"--{options.FILE_FLAGS[split]}: no file '{source}'")
    kind = find_kind(options.task.kind)
    return open_source(kind, source, split, names=select(options, ColumnNames), columns=columns)


@contextlib.contextmanager
def name_original_files(*names: str) -> Iterator[None]:
    """Adds to an error of `--data_source=tfds` the flags that name the original files instead."""
    try:
        yield
    except InputError as error:
        *flags, last = [f"--{name}" for name in ("data_source=files", *names)]
        raise InputError(
            f"--data_source=tfds: {error}; give the original files instead: {', '.join(flags)} and {last}"
        ) from error


def _read_squad_tfds(
    options: FineTuningOptions, kind: QuestionAnswering, split: str
) -> list[SquadExample]:
    builder = "squad/v2.0" if kind.version_2_with_negative else "squad"
    with name_original_files("train_file", "predict_file"):
        examples = read_squad_tfds(builder, _SQUAD_TFDS_SPLITS[split], options.data_dir)
    return usable_examples(examples, f"{builder}, {_SQUAD_TFDS_SPLITS[split]}", split)


def _read_split(options: FineTuningOptions, task: Task, split: str) -> dict[str, list[Example]]:
    if options.data_source == "tfds":
        with name_original_files("data_dir"):
            return {
                name: read_tfds(task, split, set_name=name, data_dir=options.data_dir)
                for name in task.sets[split]
            }
    return {
        name: source.read(resolved(options.data_dir), split, task.labels)
        for name, source in task.sets[split].items()
    }


def _names_of(labels: Labels) -> tuple[str, ...]:
    return tuple(labels) if isinstance(labels, Sequence) else ()


def _warn_of_shared_rows(train: Sequence[Any], dev_sets: Mapping[str, Sequence[Any]]) -> None:
    """Counts the dev rows that are training rows, too."""
    if not isinstance(train[0], Example):
        return
    known = {dataclasses.replace(example, negative=None).texts for example in train}
    for name, dev in dev_sets.items():
        shared = sum(example.texts in known for example in dev)
        if shared:
            which = f"{name} dev" if name else "dev"
            warn(f"{shared} of {len(dev)} {which} rows have the texts of a training row")
