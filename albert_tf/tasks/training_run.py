"""What all runs that train begin with: devices, the model to start from, its config, the optimizer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras

from albert_tf import training
from albert_tf.backends import require_tensorflow
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.model_folder import CONFIG_FILE
from albert_tf.optimization import PolynomialDecayWithWarmup
from albert_tf.options.resolution import SOURCES, Resolution, resolved
from albert_tf.tasks.optimizers import OPTIMIZERS
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.training_options import TrainingOptions
from albert_tf.tokenization.vocabulary_files import vocabulary_flags
from albert_tf.training.evaluator import Loss

# The keys of the config that `--dropout` sets.
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def start_devices(options: TrainingOptions) -> None:
    """Creates the strategy of a run. Call this before TensorFlow runs anything else."""
    require_tensorflow("this command")
    if options.deterministic:
        training.make_deterministic()
    flag = f"--distribution_strategy={options.distribution_strategy}"
    with name_place(flag):
        strategy = training.make_strategy(options.distribution_strategy, options.tpu)
    if options.distribution_strategy == "mirrored" and strategy.num_replicas_in_sync == 1:
        print(f"{flag}: this machine has one device, so there is one replica")


def add_init_model(values: Resolution[Any], stored: StoredRun | None) -> None:
    """Adds the config and the vocabulary next to `--init_checkpoint`, whose name becomes a path.

    A run that resumes has them in its own folder, and no longer needs the model that it started from.
    """
    given: TrainingOptions = values.given
    if given.init_checkpoint is None:
        return
    resumed = stored if given.do_train else None
    with name_place("--init_checkpoint"):
        model = resumed.model if resumed else StoredModel.find(given.init_checkpoint)
        config_file = given.albert_config_file or model.config_file
        if config_file is None:
            raise InputError(
                f"{model.path}: has no {CONFIG_FILE} next to it; expected --albert_config_file"
            )
        found = vocabulary_flags(model.folder, *given.given_vocabulary)
    found["albert_config_file"] = config_file
    if resumed:
        values.add("folder", found, origins=resumed.options.get(SOURCES, {}))
    else:
        values.replace("init_checkpoint", model.modules or model.path)
        values.add("model", found)


def load_config(values: Resolution[Any], stored: StoredRun | None = None) -> AlbertConfig:
    """Reads the model's config, checks it against the options, and sets the dropout."""
    config_file, length = values["albert_config_file"], values["max_seq_length"]
    with name_place("--albert_config_file"):
        is_stored = stored is not None and stored.model.config_file == config_file
        model = stored.model if stored and is_stored else StoredModel.of_config(config_file)
        config = model.config
    config = config.with_layers(values["num_hidden_layers"])
    if (positions := values["max_position_embeddings"]) is not None:
        if positions < config.max_position_embeddings:
            raise InputError(
                f"--max_position_embeddings={positions}: {config_file} has "
                f"{config.max_position_embeddings}; expected at least as many"
            )
        config = dataclasses.replace(config, max_position_embeddings=positions)
    if config.type_vocab_size < 2:
        raise InputError(
            f"{config_file}: type_vocab_size {config.type_vocab_size}; expected at least 2, for two "
            "segments"
        )
    if (length or 0) > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length={length}: {config_file} has max_position_embeddings "
            f"{config.max_position_embeddings}; --max_position_embeddings adds some"
        )
    return with_dropout(config, values["dropout"])


def with_dropout(config: AlbertConfig, dropout: float | None) -> AlbertConfig:
    """Returns a config with `--dropout`; None keeps its own rates."""
    if dropout is None:
        return config
    rates: dict[str, Any] = dict.fromkeys(DROPOUTS, dropout)
    return dataclasses.replace(config, **rates)


def warn_of_large_batch(options: TrainingOptions, count: int, what: str) -> None:
    """Warns if a batch is larger than the training data, `count` of `what`."""
    if resolved(options.train_batch_size) > count:
        warn(
            f"--train_batch_size={options.train_batch_size}: there are {count} {what}, so every "
            "update has some of them more than once"
        )


def make_evaluator(
    options: TrainingOptions,
    make_model: Callable[[], keras.Model],
    loss: Loss,
    *,
    num_train_steps: int = 0,
    num_warmup_steps: int = 0,
    decay_steps: int | None = None,
) -> training.Evaluator:
    """Creates a model, in the strategy's scope, and its evaluator: with `--do_train` a `Trainer`.

    The learning rate falls to 0 in the last `decay_steps` updates; None for all.
    """
    strategy = training.make_strategy(options.distribution_strategy, options.tpu)
    with strategy.scope():
        model = make_model()
        if not options.do_train:
            return training.Evaluator(model, loss, strategy)
        _check_batch_divides(options, strategy.num_replicas_in_sync)
        if num_warmup_steps and options.start_warmup_step + num_warmup_steps >= num_train_steps:
            warn(
                f"the warm-up takes {num_warmup_steps} updates, the training {num_train_steps}, "
                "so the learning rate does not reach its peak; see --warmup_steps"
            )
        learning_rate = PolynomialDecayWithWarmup(
            peak_learning_rate=resolved(options.learning_rate),
            num_train_steps=num_train_steps,
            num_warmup_steps=num_warmup_steps,
            power=options.poly_power,
            start_warmup_step=options.start_warmup_step,
            decay_steps=decay_steps,
        )
        return training.Trainer(
            model,
            loss,
            optimizer=OPTIMIZERS[resolved(options.optimizer)].make(learning_rate),
            strategy=strategy,
            seed=options.random_seed,
            accumulate_steps=options.accumulate_steps,
            jit_compile=options.jit_compile,
        )


def _check_batch_divides(options: TrainingOptions, replicas: int) -> None:
    parts = replicas * options.accumulate_steps
    if resolved(options.train_batch_size) % parts:
        raise InputError(
            f"--train_batch_size={options.train_batch_size}: expected a multiple of {parts}, "
            f"which is {replicas} replicas x --accumulate_steps={options.accumulate_steps}"
        )
