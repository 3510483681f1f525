"""Pre-training: records to an encoder that knows the language."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.data.dynamic_masking import DynamicMasker, find_vocabulary_fault
from albert_tf.data.input_pipeline import (
    Mask,
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.records import (
    RecordSpec,
    check_records,
    explain_bad_records,
    first_record,
    is_unmasked,
    pretraining_record,
    unmasked_record,
)
from albert_tf.errors import FlagError, InputError
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.options import option
from albert_tf.tasks.common import (
    check_output_dir,
    check_vocab_size,
    load_config,
    load_init_checkpoint,
    make_evaluator,
    make_plan,
    start_devices,
    start_or_resume,
    write_results,
)
from albert_tf.tasks.masking_options import MaskingOptions
from albert_tf.tasks.recipes import PAPER_PRETRAINING as PAPER
from albert_tf.tasks.recipes import PretrainingRecipeName, find_size
from albert_tf.tasks.training_options import TrainingOptions, check_range
from albert_tf.tokenization import Tokenizer, load_tokenizer
from albert_tf.training import Evaluator, Trainer, best_checkpoint, train
from albert_tf.training.strategy import StrategyName


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions, MaskingOptions):
    """The options of `run_pretraining.py`; the defaults are the paper's.

    Those of masking, and the vocabulary, are for records without masks.
    """

    input_file: tuple[str, ...] = option("TFRecord files to train on, or globs.", ())
    eval_input_file: tuple[str, ...] = option("TFRecord files to evaluate on, or globs.", ())
    spm_model_file: str | None = option("SentencePiece model of records without masks.", None)
    vocab_file: str | None = option("WordPiece vocabulary of records without masks.", None)
    recipe: PretrainingRecipeName | None = option(
        "Train one of the paper's four sizes as version 1 or 2 was: the defaults, and its dropout.",
        None,
    )
    sentence_objective: Literal["sop", "nsp", "none"] = option(
        "What the records' sentence labels say: swapped order, random next, or nothing.", "sop"
    )
    train_batch_size: int = option(
        "Sequences of an update, over all replicas.", PAPER.train_batch_size
    )
    optimizer: Literal["lamb", "adamw"] = option("The optimizer.", PAPER.optimizer)
    learning_rate: float = option("The peak of the learning rate.", PAPER.learning_rate)
    num_train_steps: int = option("Updates in all.", PAPER.num_train_steps)
    warmup_steps: int = option(
        "Updates until the learning rate is at its peak.", PAPER.warmup_steps
    )
    distribution_strategy: StrategyName = option(
        "one_device, mirrored for a replica on each of the machine's devices, multi_worker_mirrored "
        "for one on each device of the workers in TF_CONFIG, or tpu.",
        "one_device",
    )
    max_eval_steps: int = option("Evaluation steps at most.", 100)
    remat: bool = option(
        "Whether each block's activations are computed anew in the backward pass, to save memory.",
        False,
    )
    use_one_hot_embeddings: bool = option(
        "Whether embeddings are looked up by products with one-hot vectors, which suits TPUs.",
        False,
    )
    shuffle_buffer: int = option("Records held to draw the next one from.", 10000)

    def __post_init__(self):
        super().__post_init__()
        for name in ("num_train_steps", "max_eval_steps", "shuffle_buffer"):
            check_range(self, name, 1)
        for name in ("max_predictions_per_seq", "ngram"):
            check_range(self, name, 1, self.max_seq_length)
        check_range(self, "masked_lm_prob", 0, 1)
        if not (self.do_train or self.do_eval):
            raise FlagError("expected --do_train, --do_eval or both; received neither")
        if self.do_train and not self.input_file:
            raise FlagError("--do_train: expected --input_file; received none")
        if self.do_eval and not self.eval_input_file:
            raise FlagError("--do_eval: expected --eval_input_file; received none")


class _Records(NamedTuple):
    """Record files of one kind.

    Attributes:
        paths: the files.
        spec: what their records hold.
        mask: masks a batch of them; None where the records have masks.
    """

    paths: list[str]
    spec: RecordSpec
    mask: Mask | None


def run(options: PretrainingOptions) -> dict[str, float]:
    """Trains, evaluates, or both.

    Returns:
        With `--do_eval`, the metrics on the evaluation records: of the best checkpoint, or, without
        `--do_train`, of `--init_checkpoint` where it is given.

    Raises:
        InputError: a file, a record or a checkpoint is not what the options say.
    """
    start_devices(options)
    if options.recipe:
        options = _with_recipe(options)
    config = load_config(options)
    train_records = _open_records(options, config, "input_file")
    eval_records = _open_records(options, config, "eval_input_file")
    check_output_dir(options, config, fixed_options=("sentence_objective",))
    evaluator = _make_evaluator(options, config)
    evaluate = None
    if eval_records.paths:
        batches = pretraining_evaluation_batches(
            eval_records.paths,
            eval_records.spec.parse,
            options.eval_batch_size,
            options.random_seed,
            eval_records.mask,
        )
        evaluate = functools.partial(_evaluate, evaluator, batches.take(options.max_eval_steps))
    with (
        explain_bad_records(train_records.paths, train_records.spec),
        explain_bad_records(eval_records.paths, eval_records.spec),
    ):
        if options.do_train:
            _train(options, config, evaluator, train_records, evaluate)
        if not options.do_eval:
            return {}
        if options.do_train or options.init_checkpoint is None:
            load_checkpoint(evaluator.model, best_checkpoint(options.output_dir)).check_complete()
        else:
            load_init_checkpoint(options, evaluator.model)
        metrics = evaluate()
    if evaluator.is_chief:
        write_results(options, metrics)
    return metrics


def _with_recipe(options: PretrainingOptions) -> PretrainingOptions:
    """Sets the recipe's dropout, where the user gave none, and prints all values."""
    published = find_size(load_config(options), options.recipe)
    if published is None:
        raise InputError(
            f"--recipe={options.recipe}: {options.albert_config_file} has none of the paper's four "
            "sizes base, large, xlarge and xxlarge"
        )
    if options.dropout is None:
        options = dataclasses.replace(options, dropout=published.hidden_dropout_prob)
    names = (*dataclasses.asdict(PAPER), "dropout")
    values = ", ".join(f"{name} {getattr(options, name)}" for name in names)
    print(f"recipe {options.recipe}: {values}")
    return options


def _open_records(options: PretrainingOptions, config: AlbertConfig, flag: str) -> _Records:
    """Finds the files of a flag, checks them, and sees of which of the two kinds they are."""
    paths = files.expand_globs(getattr(options, flag), flag)
    kinds = {is_unmasked(path): path for path in paths}
    if len(kinds) > 1:
        raise InputError(
            f"--{flag}: {kinds[True]} holds records without masks, {kinds[False]} records with "
            "masks; expected records of one kind"
        )
    if True not in kinds:
        masked = pretraining_record(
            options.max_seq_length, options.max_predictions_per_seq, config.vocab_size
        )
        _check_all(paths, masked)
        return _Records(paths, masked, None)
    if not (options.spm_model_file or options.vocab_file):
        raise InputError(
            f"--{flag}: {kinds[True]} holds records without masks; expected --spm_model_file or "
            "--vocab_file, the vocabulary that they were made with"
        )
    # Nothing is tokenised, so how text would be is of no account.
    tokenizer = load_tokenizer(options.spm_model_file, options.vocab_file, lower_case=True)
    check_vocab_size(tokenizer, options, config)
    unmasked = unmasked_record(options.max_seq_length, config.vocab_size)
    _check_all(paths, unmasked)
    _check_vocabulary(paths, unmasked, tokenizer)
    return _Records(paths, unmasked, DynamicMasker(tokenizer, options.masking_rule))


def _check_all(paths: list[str], spec: RecordSpec) -> None:
    for path in paths:
        check_records(path, spec)


def _check_vocabulary(paths: list[str], spec: RecordSpec, tokenizer: Tokenizer) -> None:
    for path in paths:
        record = {name: tensor.numpy() for name, tensor in spec.parse(first_record(path)).items()}
        if fault := find_vocabulary_fault(record, tokenizer):
            raise InputError(
                f"{path}, record 1: {fault}; expected the vocabulary that the records were made with"
            )


def _make_evaluator(options: PretrainingOptions, config: AlbertConfig) -> Evaluator:
    seed, dtype = options.random_seed, options.mixed_precision
    sentence_head = options.sentence_objective != "none"

    def make_model() -> AlbertPretrainer:
        encoder = AlbertEncoder(
            config,
            remat=options.remat,
            use_one_hot_embeddings=options.use_one_hot_embeddings,
            seed=seed,
            dtype=dtype,
        )
        return AlbertPretrainer(encoder, sentence_head, seed + 1, dtype=dtype)

    return make_evaluator(
        options,
        make_model,
        PretrainingLoss(sentence_head),
        options.num_train_steps,
        options.warmup_steps,
    )


def _train(
    options: PretrainingOptions,
    config: AlbertConfig,
    trainer: Trainer,
    records: _Records,
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    def batches_from(step: int) -> tf.data.Dataset:
        return pretraining_batches(
            records.paths,
            records.spec.parse,
            options.train_batch_size,
            options.shuffle_buffer,
            options.random_seed,
            start_step=step,
            mask=records.mask,
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
