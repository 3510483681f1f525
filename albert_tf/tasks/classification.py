"""Classification: fine-tunes, evaluates, predicts and exports on GLUE tasks and users' own files."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.data import glue
from albert_tf.data.features import Features, encode_examples
from albert_tf.data.input_pipeline import evaluation_batches, restore_order, training_batches
from albert_tf.data.tsv import Example
from albert_tf.errors import FlagError, InputError
from albert_tf.evaluation.glue_metrics import compute_metrics
from albert_tf.export import export_classifier
from albert_tf.losses import ClassificationLoss
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.options import option
from albert_tf.tasks.common import (
    TrainingOptions,
    check_output_dir,
    check_range,
    check_vocab_size,
    has_checkpoint,
    load_config,
    make_evaluator,
    make_plan,
    start_or_resume,
    write_results,
)
from albert_tf.tokenization import Tokenizer, load_tokenizer
from albert_tf.training import Evaluator, Trainer, best_checkpoint, make_deterministic, train

_TASK_FILE = "task.json"
_SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationOptions(TrainingOptions):
    """The options of `run_classifier.py`."""

    task_name: str = option(f"The task: {', '.join(glue.TASKS)}.")
    data_dir: str | None = option("Folder of the GLUE tasks in their original layout.", None)
    train_file: str | None = option("With --task_name=tsv, the file to train on.", None)
    dev_file: str | None = option("With --task_name=tsv, the file to evaluate on.", None)
    test_file: str | None = option("With --task_name=tsv, the file to predict.", None)
    spm_model_file: str | None = option("SentencePiece model of the vocabulary.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool = option("Whether to lower-case the text.", True)
    do_predict: bool = option("Whether to predict the test set with the best checkpoint.", False)
    export_dir: str | None = option("Folder for the SavedModels of the best checkpoint.", None)
    max_seq_length: int = option("Tokens of an example at most, the special ones included.", 128)
    train_batch_size: int = option("Examples of an update, over all replicas.", 32)
    optimizer: Literal["lamb", "adamw"] = option("The optimizer.", "adamw")
    learning_rate: float = option("The peak of the learning rate.", 2e-5)
    num_train_epochs: float = option("Passes over the training set.", 3.0)
    num_train_steps: int | None = option("Updates in all, instead of --num_train_epochs.", None)
    warmup_steps: int | None = option(
        "Updates until the learning rate is at its peak; a tenth of all without this flag.", None
    )
    classifier_dropout: float = option("Dropout on the pooled output.", 0.1)

    def __post_init__(self):
        super().__post_init__()
        check_range(self, "num_train_steps", 1)
        check_range(self, "num_train_epochs", 0)
        check_range(self, "classifier_dropout", 0, 1)
        if not (self.do_train or self.do_eval or self.do_predict or self.export_dir):
            raise FlagError(
                "expected at least one of --do_train, --do_eval, --do_predict, --export_dir; "
                "received none"
            )
        if self.init_checkpoint and not self.do_train:
            raise FlagError(
                "--init_checkpoint: expected --do_train, which starts from it; without it the best "
                "checkpoint of --output_dir is used"
            )
        self._check_sources()

    @property
    def splits(self) -> list[str]:
        """The splits that the flags ask for; with a dev set, training picks its best checkpoint."""
        wanted = {
            "train": self.do_train,
            "dev": self.do_eval or (self.do_train and bool(self.source_of("dev"))),
            "test": self.do_predict,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]

    def source_of(self, split: str) -> str | None:
        """Returns where a split is: the folder of GLUE or a file; None where no flag says it."""
        return getattr(self, self._source_flag(split))

    def _source_flag(self, split: str) -> str:
        return "data_dir" if glue.find_task(self.task_name).splits else f"{split}_file"

    def _check_sources(self) -> None:
        for split in self.splits:
            if not self.source_of(split):
                flag = self._source_flag(split)
                raise FlagError(f"--task_name={self.task_name}: expected --{flag}; received none")
        read = {self._source_flag(split) for split in _SPLITS}
        for flag in ("data_dir", *(f"{split}_file" for split in _SPLITS)):
            if flag not in read and getattr(self, flag):
                raise FlagError(
                    f"--{flag}: --task_name={self.task_name} reads no such thing; "
                    f"it reads --{', --'.join(sorted(read))}"
                )


@dataclasses.dataclass(frozen=True)
class _Data:
    """What a run reads before it makes a model, so that every mistake in it shows at once.

    Attributes:
        labels: names of the classes.
        pairs: whether an example may have two texts.
        examples: of each split.
        features: of each split.
    """

    labels: Sequence[str]
    pairs: bool
    examples: dict[str, list[Example]]
    features: dict[str, Features]


def run(options: ClassificationOptions) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on the dev set; none without `--do_eval`.

    Raises:
        InputError: a file, a row or a checkpoint is not what the options say.
    """
    if options.deterministic:
        make_deterministic()
    config = load_config(options)
    tokenizer = load_tokenizer(options.spm_model_file, options.vocab_file, options.do_lower_case)
    check_vocab_size(tokenizer, options, config)
    data = _read_data(options, tokenizer)
    check_output_dir(options, config)
    _check_task(options, data)
    evaluator = _make_evaluator(options, config, data)
    metrics = glue.find_task(options.task_name).metrics
    evaluate = None
    if "dev" in data.features:
        evaluate = functools.partial(
            _evaluate, evaluator, data.features["dev"], options.eval_batch_size, metrics
        )
    if options.do_train:
        _train(options, config, evaluator, data, evaluate)
    load_checkpoint(evaluator.model, best_checkpoint(options.output_dir)).check_complete()

    results = {}
    if options.do_eval:
        results = evaluate()
        write_results(options, results)
    if options.do_predict:
        _write_predictions(options, evaluator, data)
    if options.export_dir:
        paths = export_classifier(
            evaluator.model,
            data.labels,
            tokenizer,
            options.export_dir,
            options.max_seq_length,
            data.pairs,
        )
        print("\n".join(f"exported {path}" for path in paths.values()))
    return results


def _read_data(options: ClassificationOptions, tokenizer: Tokenizer) -> _Data:
    task = glue.find_task(options.task_name)
    examples = {}
    labels, pairs = task.labels, False
    if not options.do_train:
        there = _read_task(options)
        labels, pairs = there["labels"], there["pairs"]
    for split in options.splits:
        if task.splits:
            examples[split] = glue.read_glue(task, options.source_of(split), split)
        else:
            path = options.source_of(split)
            examples[split] = glue.read_tsv(path, split, labels)
            if split == "train":
                labels = glue.collect_labels(examples[split], path)
        pairs = pairs or any(example.text_b is not None for example in examples[split])
    features = {
        split: encode_examples(rows, labels, tokenizer, options.max_seq_length)
        for split, rows in examples.items()
    }
    return _Data(labels, pairs, examples, features)


def _task_of(options: ClassificationOptions, data: _Data) -> dict[str, Any]:
    """Returns what the head of a run's checkpoints means, as it is noted beside them."""
    return {
        "task_name": glue.find_task(options.task_name).name,
        "labels": list(data.labels),
        "pairs": data.pairs,
    }


def _check_task(options: ClassificationOptions, data: _Data) -> None:
    """Checks that the checkpoints that are there are of this task."""
    if not has_checkpoint(options):
        return
    there, ours = _read_task(options), _task_of(options, data)
    for name in ("task_name", "labels"):
        if there[name] != ours[name]:
            raise InputError(
                f"--output_dir={options.output_dir}: holds the checkpoints of another task: "
                f"{name} {there[name]}, but this run has {ours[name]}"
            )


def _read_task(options: ClassificationOptions) -> dict[str, Any]:
    path = os.path.join(options.output_dir, _TASK_FILE)
    if not tf.io.gfile.exists(path):
        raise InputError(
            f"--output_dir={options.output_dir}: holds no classifier: no {_TASK_FILE}, which "
            "--do_train writes"
        )
    return files.read_json(path)


def _make_evaluator(options: ClassificationOptions, config: AlbertConfig, data: _Data) -> Evaluator:
    seed, dtype = options.random_seed, options.mixed_precision
    num_train_steps = _count_train_steps(options, data)
    warmup_steps = options.warmup_steps
    if warmup_steps is None:
        warmup_steps = num_train_steps // 10
    return make_evaluator(
        options,
        lambda: AlbertClassifier(
            AlbertEncoder(config, seed=seed, dtype=dtype),
            num_classes=len(data.labels),
            dropout=options.classifier_dropout,
            seed=seed + 1,
            dtype=dtype,
        ),
        ClassificationLoss(),
        num_train_steps,
        warmup_steps,
    )


def _count_train_steps(options: ClassificationOptions, data: _Data) -> int:
    """Returns how many updates the training has; 0 where there is none."""
    if not options.do_train:
        return 0
    if options.num_train_steps is not None:
        return options.num_train_steps
    examples = len(data.features["train"]) * options.num_train_epochs
    return max(1, round(examples / options.train_batch_size))


def _train(
    options: ClassificationOptions,
    config: AlbertConfig,
    trainer: Trainer,
    data: _Data,
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    task = glue.find_task(options.task_name)
    plan = make_plan(
        options,
        task.name,
        _count_train_steps(options, data),
        best_metric=task.metrics[0],
        higher_is_better=True,
    )
    batches_from = functools.partial(
        training_batches, data.features["train"], options.train_batch_size, options.random_seed
    )
    start_or_resume(options, config, trainer, starting_part=trainer.model.encoder)
    if options.export_dir:
        # So that hours of training do not end at a folder that cannot be made.
        files.make_directory(options.export_dir, "export_dir")
    files.write_json(os.path.join(options.output_dir, _TASK_FILE), _task_of(options, data))
    train(trainer, plan, batches_from, evaluate)


def _predict(evaluator: Evaluator, features: Features, batch_size: int) -> np.ndarray:
    """Returns probabilities, float32 (n, classes), in the order of the examples."""
    batches, order = evaluation_batches(features, batch_size)
    logits = restore_order(evaluator.predict(batches), order)
    return tf.nn.softmax(logits).numpy()


def _evaluate(
    evaluator: Evaluator, features: Features, batch_size: int, metrics: Sequence[str]
) -> dict[str, float]:
    probabilities = _predict(evaluator, features, batch_size)
    of_labels = probabilities[np.arange(len(features)), features.label_ids]
    # The least normal number keeps the loss of a certain mistake finite.
    loss = -np.log(np.maximum(of_labels, np.finfo(np.float32).tiny)).mean()
    results = compute_metrics(metrics, features.label_ids, probabilities.argmax(axis=-1))
    return results | {"loss": float(loss)}


def _write_predictions(options: ClassificationOptions, evaluator: Evaluator, data: _Data) -> None:
    """Writes a row for each test example: id, predicted label, probability of each label."""
    probabilities = _predict(evaluator, data.features["test"], options.eval_batch_size)
    header = ["guid", "prediction", *(f"probability_{label}" for label in data.labels)]
    rows = ["\t".join(header)]
    for example, row in zip(data.examples["test"], probabilities, strict=True):
        values = [f"{probability:.6f}" for probability in row]
        rows.append("\t".join([example.guid, data.labels[row.argmax()], *values]))
    path = os.path.join(options.output_dir, "test_results.tsv")
    files.write_text(path, "\n".join(rows) + "\n")
    print(f"predictions in {path}")
