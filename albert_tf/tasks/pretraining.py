"""Pre-training: records to an encoder that knows the language."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal

import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.data.input_pipeline import pretraining_batches, pretraining_evaluation_batches
from albert_tf.data.records import (
    RecordSpec,
    check_records,
    explain_bad_records,
    pretraining_record,
)
from albert_tf.errors import FlagError
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.options import option
from albert_tf.tasks.common import (
    TrainingOptions,
    check_output_dir,
    check_range,
    load_config,
    load_init_checkpoint,
    make_evaluator,
    make_plan,
    start_or_resume,
    write_results,
)
from albert_tf.training import Evaluator, Trainer, best_checkpoint, train


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions):
    """The options of `run_pretraining.py`; the defaults are the paper's."""

    input_file: tuple[str, ...] = option("TFRecord files to train on, or globs.", ())
    eval_input_file: tuple[str, ...] = option("TFRecord files to evaluate on, or globs.", ())
    max_predictions_per_seq: int = option("Masked positions of a record, as it was made.", 20)
    sentence_objective: Literal["sop", "nsp", "none"] = option(
        "What the records' sentence labels say: swapped order, random next, or nothing.", "sop"
    )
    train_batch_size: int = option("Sequences of an update, over all replicas.", 4096)
    optimizer: Literal["lamb", "adamw"] = option("The optimizer.", "lamb")
    learning_rate: float = option("The peak of the learning rate.", 0.00176)
    num_train_steps: int = option("Updates in all.", 125000)
    warmup_steps: int = option("Updates until the learning rate is at its peak.", 3125)
    max_eval_steps: int = option("Evaluation steps at most.", 100)
    shuffle_buffer: int = option("Records held to draw the next one from.", 10000)

    def __post_init__(self):
        super().__post_init__()
        for name in ("num_train_steps", "max_eval_steps", "shuffle_buffer"):
            check_range(self, name, 1)
        check_range(self, "max_predictions_per_seq", 1, self.max_seq_length)
        if not (self.do_train or self.do_eval):
            raise FlagError("expected --do_train, --do_eval or both; received neither")
        if self.do_train and not self.input_file:
            raise FlagError("--do_train: expected --input_file; received none")
        if self.do_eval and not self.eval_input_file:
            raise FlagError("--do_eval: expected --eval_input_file; received none")


def run(options: PretrainingOptions) -> dict[str, float]:
    """Trains, evaluates, or both.

    Returns:
        With `--do_eval`, the metrics on the evaluation records: of the best checkpoint, or, without
        `--do_train`, of `--init_checkpoint` where it is given.

    Raises:
        InputError: a file, a record or a checkpoint is not what the options say.
    """
    config = load_config(options)
    spec = pretraining_record(
        options.max_seq_length, options.max_predictions_per_seq, config.vocab_size
    )
    train_files = _checked_files(options.input_file, "input_file", spec)
    eval_files = _checked_files(options.eval_input_file, "eval_input_file", spec)
    check_output_dir(options, config, fixed_options=("sentence_objective",))
    evaluator = _make_evaluator(options, config)
    evaluate = None
    if eval_files:
        batches = pretraining_evaluation_batches(eval_files, spec.parse, options.eval_batch_size)
        evaluate = functools.partial(_evaluate, evaluator, batches.take(options.max_eval_steps))
    with explain_bad_records(train_files + eval_files, spec):
        if options.do_train:
            _train(options, config, evaluator, train_files, spec, evaluate)
        if not options.do_eval:
            return {}
        if options.do_train or options.init_checkpoint is None:
            load_checkpoint(evaluator.model, best_checkpoint(options.output_dir)).check_complete()
        else:
            load_init_checkpoint(options, evaluator.model)
        metrics = evaluate()
    write_results(options, metrics)
    return metrics


def _checked_files(patterns: tuple[str, ...], flag: str, spec: RecordSpec) -> list[str]:
    paths = files.expand_globs(patterns, flag)
    for path in paths:
        check_records(path, spec)
    return paths


def _make_evaluator(options: PretrainingOptions, config: AlbertConfig) -> Evaluator:
    seed, dtype = options.random_seed, options.mixed_precision
    sentence_head = options.sentence_objective != "none"
    return make_evaluator(
        options,
        lambda: AlbertPretrainer(
            AlbertEncoder(config, seed=seed, dtype=dtype), sentence_head, seed + 1, dtype=dtype
        ),
        PretrainingLoss(sentence_head),
        options.num_train_steps,
        options.warmup_steps,
    )


def _train(
    options: PretrainingOptions,
    config: AlbertConfig,
    trainer: Trainer,
    paths: list[str],
    spec: RecordSpec,
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    def batches_from(step: int) -> tf.data.Dataset:
        return pretraining_batches(
            paths,
            spec.parse,
            options.train_batch_size,
            options.shuffle_buffer,
            options.random_seed,
            start_step=step,
        )

    plan = make_plan(
        options, "pretraining", options.num_train_steps, best_metric="loss", higher_is_better=False
    )
    start_or_resume(options, config, trainer, starting_part=trainer.model)
    train(trainer, plan, batches_from, evaluate)


def _evaluate(evaluator: Evaluator, batches: tf.data.Dataset) -> dict[str, float]:
    """Returns the means over the batches, and `loss`, the sum of the two losses."""
    metrics = evaluator.evaluate(batches)
    losses = [value for name, value in metrics.items() if name.endswith("_loss")]
    return metrics | {"loss": sum(losses)}
