"""What all tasks that train have in common: output folder, model and optimizer."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.backends import require_tensorflow
from albert_tf.checkpoints.loading import find_config, load_checkpoint, read_config
from albert_tf.checkpoints.tensor_files import latest_checkpoint
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.optimization import AdamWeightDecay, Lamb, PolynomialDecayWithWarmup
from albert_tf.options import to_json_dict
from albert_tf.sources import find_model, folder_of
from albert_tf.tasks.trained_folder import options_path, read_options, write_options
from albert_tf.tasks.training_options import TrainingOptions
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.vocabulary_files import (
    VOCABULARY_SHA256,
    find_vocabulary,
    is_lower_cased,
)
from albert_tf.training import (
    Evaluator,
    Trainer,
    make_deterministic,
    make_strategy,
    resume,
)
from albert_tf.training.evaluator import Loss

RESULTS_FILE = "eval_results.json"
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_OPTIMIZERS = {"lamb": Lamb, "adamw": AdamWeightDecay}


def start_devices(options: TrainingOptions) -> None:
    """Creates the strategy of a run. Call this before TensorFlow runs anything else."""
    require_tensorflow("this command")
    if options.deterministic:
        make_deterministic()
    flag = f"--distribution_strategy={options.distribution_strategy}"
    with name_place(flag):
        strategy = make_strategy(options.distribution_strategy, options.tpu)
    if options.distribution_strategy == "mirrored" and strategy.num_replicas_in_sync == 1:
        print(f"{flag}: this machine has one device, so there is one replica")


_Options = TypeVar("_Options", bound=TrainingOptions)


def find_init_model(options: _Options) -> _Options:
    """Returns the options with the path of `--init_checkpoint`, and the config and vocabulary beside it.

    Flags that name these take precedence. A run that resumes has them in its own folder, and no longer
    needs the model that it started from.
    """
    if options.init_checkpoint is None:
        return options
    with name_place("--init_checkpoint"):
        resumes = options.do_train and has_checkpoint(options)
        path = options.output_dir if resumes else find_model(options.init_checkpoint)
        config_file = options.albert_config_file or find_config(path)
        if config_file is None:
            raise InputError(
                f"{path}: has no {CONFIG_FILE} beside it; expected --albert_config_file"
            )
        found = {"albert_config_file": config_file}
        if not resumes:
            found["init_checkpoint"] = path
        if not (options.spm_model_file or options.vocab_file):
            folder = folder_of(path)
            found["spm_model_file"], found["vocab_file"] = find_vocabulary(folder)
            if hasattr(options, "do_lower_case") and options.do_lower_case is None:
                found["do_lower_case"] = is_lower_cased(folder, found["vocab_file"] is not None)
    return dataclasses.replace(options, **found)


def load_config(options: TrainingOptions) -> AlbertConfig:
    """Reads the model's config, checks it against the options, and sets the dropout."""
    with name_place("--albert_config_file"):
        config = read_config(options.albert_config_file)
    if config.type_vocab_size < 2:
        raise InputError(
            f"{options.albert_config_file}: type_vocab_size {config.type_vocab_size}; expected at "
            "least 2, for two segments"
        )
    if (options.max_seq_length or 0) > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length={options.max_seq_length}: {options.albert_config_file} has "
            f"max_position_embeddings {config.max_position_embeddings}"
        )
    if options.dropout is None:
        return config
    return dataclasses.replace(config, **dict.fromkeys(_DROPOUTS, options.dropout))


def check_output_dir(
    options: TrainingOptions,
    config: AlbertConfig,
    fixed_options: Sequence[str] = (),
    data_options: Sequence[tuple[str, Sequence[str]]] = (),
) -> None:
    """Checks that the options match the checkpoints in the output folder, if there are any.

    `fixed_options` cannot change after the start, nor can the optimizer with `--do_train`, as its state
    is restored. Each of `data_options` is a name, such as `batches`, and the options that decide it; a
    change of one prints a warning.
    """
    if not has_checkpoint(options):
        return
    _check_config(options, config)
    path = options_path(options.output_dir)
    started_with = read_description(options, path, read_options)
    if started_with is None:
        return
    _check_options(options, started_with, fixed_options)
    if options.do_train:
        for what, names in data_options:
            _warn_of_other_data(options, started_with, what, names)


def read_description(options: TrainingOptions, path: str, read: Callable[[str], Any]) -> Any | None:
    """Reads a file that describes a folder's checkpoints.

    Returns None if it is missing and `--do_train` writes it again: the user has removed a damaged file.
    """
    if options.do_train and not tf.io.gfile.exists(path):
        warn(f"{path}: missing; writing it again from the flags")
        return None
    with name_remedy():
        return read(path)


@contextlib.contextmanager
def name_remedy() -> Iterator[None]:
    """Adds to an error how to restore a damaged file that describes a folder's checkpoints."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"{error}; if the file is damaged, remove it and repeat the flags of the training: "
            "--do_train writes it again and keeps the checkpoints"
        ) from error


def has_checkpoint(options: TrainingOptions) -> bool:
    """Returns whether the output folder holds a checkpoint."""
    return latest_checkpoint(options.output_dir) is not None


def _check_config(options: TrainingOptions, config: AlbertConfig) -> None:
    path = os.path.join(options.output_dir, CONFIG_FILE)
    found = read_description(options, path, AlbertConfig.from_json_file)
    there = (found or config).to_dict()
    for name, value in config.to_dict().items():
        if there[name] != value:
            of_flag = name in _DROPOUTS and options.dropout is not None
            raise InputError(
                f"--output_dir={options.output_dir}: holds the checkpoints of another model: "
                f"{name} {there[name]}, but {'--dropout' if of_flag else options.albert_config_file} "
                f"says {value}"
            )


def _check_options(
    options: TrainingOptions, started_with: Mapping[str, Any], fixed_options: Sequence[str]
) -> None:
    for name in (*fixed_options, *(["optimizer"] if options.do_train else [])):
        if name not in started_with:
            raise InputError(
                f"--output_dir={options.output_dir}: holds the checkpoints of another kind of run: "
                f"one without {name}"
            )
        if started_with[name] != getattr(options, name):
            raise InputError(
                f"--output_dir={options.output_dir}: holds the checkpoints of a run with "
                f"{name} {started_with[name]}; --{name} says {getattr(options, name)}"
            )


def _warn_of_other_data(
    options: TrainingOptions, started_with: Mapping[str, Any], what: str, names: Sequence[str]
) -> None:
    ours = to_json_dict(options)
    changes = [
        f"{name} {started_with[name]}, now {ours[name]}"
        for name in names
        if name in started_with and started_with[name] != ours[name]
    ]
    if changes:
        warn(
            f"--output_dir={options.output_dir}: the run resumes with other {what} than it "
            f"began with: {'; '.join(changes)}"
        )


@contextlib.contextmanager
def start_or_resume(
    options: TrainingOptions,
    config: AlbertConfig,
    trainer: Trainer,
    starting_part: keras.Model,
    tokenizer: Tokenizer | None = None,
    noted: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[None]:
    """Initialises or restores the weights, and writes config and options to the output folder.

    `noted` is written next to the options.

    In this context the chief holds the folder's lock, so no second training can use it.
    `--init_checkpoint` initialises `starting_part`, the model or its encoder. Records of an unknown
    tokenizer have none.
    """
    if not has_checkpoint(options):
        load_init_checkpoint(options, starting_part)
    of_tokenizer = {}
    if tokenizer:
        of_tokenizer = {
            VOCABULARY_SHA256: tokenizer.vocabulary_sha256,
            "do_lower_case": tokenizer.lower_case,
        }
    with contextlib.ExitStack() as stack:
        if trainer.is_chief:
            files.make_directory(options.output_dir)
            stack.enter_context(files.lock_folder(options.output_dir))
        resume(trainer, options.output_dir)
        if trainer.is_chief:
            described = {CONFIG_FILE: files.to_json(config.to_dict()).encode()}
            values = {**to_json_dict(options), **of_tokenizer, **noted}
            write_options(options.output_dir, values, described)
            if tokenizer:
                # So that whatever uses the folder needs it alone.
                copy = os.path.join(options.output_dir, tokenizer.file_name)
                files.write_bytes(copy, tokenizer.vocabulary)
        yield


def load_init_checkpoint(options: TrainingOptions, model: keras.Model) -> None:
    """Reads `--init_checkpoint` into a model, if it is given.

    Missing heads are initialised randomly if `--do_train` trains them.
    """
    if options.init_checkpoint is None:
        return
    with name_place("--init_checkpoint"):
        report = load_checkpoint(model, options.init_checkpoint)
        if not options.do_train:
            report.check_complete()
    print(report.summary())


def warn_of_large_batch(options: TrainingOptions, count: int, what: str) -> None:
    """Warns if a batch is larger than the training data, `count` of `what`."""
    if options.train_batch_size > count:
        warn(
            f"--train_batch_size={options.train_batch_size}: there are {count} {what}, so every "
            "update has some of them more than once"
        )


def write_results(
    options: TrainingOptions, metrics: Mapping[str, float], **more: Mapping[str, Any]
) -> None:
    """Writes the metrics of the final evaluation, and more, to `eval_results.json`; prints the former."""
    files.make_directory(options.output_dir)
    files.write_json(os.path.join(options.output_dir, RESULTS_FILE), {**metrics, **more})
    print(", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))


def make_evaluator(
    options: TrainingOptions,
    make_model: Callable[[], keras.Model],
    loss: Loss,
    num_train_steps: int,
    num_warmup_steps: int,
    decay_steps: int | None = None,
) -> Evaluator:
    """Creates a model, in the strategy's scope, and its evaluator: with `--do_train` a `Trainer`.

    The learning rate falls to 0 in the last `decay_steps` updates; None for all.
    """
    strategy = make_strategy(options.distribution_strategy, options.tpu)
    with strategy.scope():
        model = make_model()
        if not options.do_train:
            return Evaluator(model, loss, strategy)
        _check_batch_divides(options, strategy.num_replicas_in_sync)
        if num_warmup_steps and options.start_warmup_step + num_warmup_steps >= num_train_steps:
            warn(
                f"the warm-up takes {num_warmup_steps} updates, the training {num_train_steps}, "
                "so the learning rate does not reach its peak; see --warmup_steps"
            )
        learning_rate = PolynomialDecayWithWarmup(
            options.learning_rate,
            num_train_steps,
            num_warmup_steps,
            options.poly_power,
            options.start_warmup_step,
            decay_steps,
        )
        return Trainer(
            model,
            loss,
            _OPTIMIZERS[options.optimizer](learning_rate),
            strategy,
            options.random_seed,
            options.accumulate_steps,
            options.jit_compile,
        )


def _check_batch_divides(options: TrainingOptions, replicas: int) -> None:
    parts = replicas * options.accumulate_steps
    if options.train_batch_size % parts:
        raise InputError(
            f"--train_batch_size={options.train_batch_size}: expected a multiple of {parts}, "
            f"which is {replicas} replicas x --accumulate_steps={options.accumulate_steps}"
        )
