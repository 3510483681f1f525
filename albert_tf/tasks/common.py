"""What all tasks that train have in common: output folder, model and optimizer."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import keras

from albert_tf import files, folders, model_folder, training
from albert_tf.backends import require_tensorflow
from albert_tf.checkpoints.hugging_face import stored_config
from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_model, write_description
from albert_tf.errors import InputError, name_place, warn
from albert_tf.kinds import Kind
from albert_tf.optimization import AdamWeightDecay, Lamb, PolynomialDecayWithWarmup
from albert_tf.options import to_json_dict
from albert_tf.tasks.training_options import TrainingOptions
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from albert_tf.tokenization.vocabulary_files import vocabulary_flags
from albert_tf.training.evaluator import Loss
from albert_tf.training.loop import WriteBest

RESULTS_FILE = "eval_results.json"
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_OPTIMIZERS = {
    "lamb": Lamb,
    "adamw": AdamWeightDecay,
    "debiased_adamw": functools.partial(AdamWeightDecay, bias_correction=True),
}


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


_Options = TypeVar("_Options", bound=TrainingOptions)


def described_folder(options: TrainingOptions) -> str | None:
    """Returns the folder that describes the model that `--output_dir` holds; None if there is none.

    It is that of the run's state with `--do_train`, otherwise that of the best weights.
    """
    if options.do_train:
        folder = os.path.join(options.output_dir, model_folder.STATE_DIR)
        return folder if model_folder.list_states(folder) else None
    return model_folder.find_best(options.output_dir)


def find_init_model(options: _Options) -> _Options:
    """Returns the options with the path of `--init_checkpoint`, and the config and vocabulary next to it.

    Flags that name these take precedence. A run that resumes has them in its own folder, and no longer
    needs the model that it started from.
    """
    if options.init_checkpoint is None:
        return options
    with name_place("--init_checkpoint"):
        resumed = described_folder(options) if options.do_train else None
        stored = StoredModel.at(resumed) if resumed else StoredModel.find(options.init_checkpoint)
        config_file = options.albert_config_file or stored.config_file
        if config_file is None:
            raise InputError(
                f"{stored.path}: has no {model_folder.CONFIG_FILE} next to it; expected "
                "--albert_config_file"
            )
        found = {"albert_config_file": config_file}
        if not resumed:
            found["init_checkpoint"] = stored.path
        found |= vocabulary_flags(stored.folder, *options.given_vocabulary)
    return dataclasses.replace(options, **found)


def load_config(options: TrainingOptions) -> AlbertConfig:
    """Reads the model's config, checks it against the options, and sets the dropout."""
    with name_place("--albert_config_file"):
        config = read_config(options.albert_config_file)
    config = config.with_layers(options.num_hidden_layers)
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
    if files.matches(options.output_dir, "ckpt-*.index"):
        raise InputError(
            f"--output_dir={options.output_dir}: holds checkpoints of TensorFlow; expected a new folder, "
            f"or one with {model_folder.STATE_DIR}/ and {model_folder.BEST_DIR}/"
        )
    folder = described_folder(options)
    if folder is None:
        return
    stored = StoredModel.at(folder)
    _check_config(options, config, stored.config)
    started_with = stored.own.get("options", {})
    _check_options(options, started_with, fixed_options)
    if options.do_train:
        for what, names in data_options:
            _warn_of_other_data(options, started_with, what, names)


def _check_config(options: TrainingOptions, config: AlbertConfig, found: AlbertConfig) -> None:
    stored, current = (stored_config(model_config).to_dict() for model_config in (found, config))
    for name, value in current.items():
        if stored[name] != value:
            flag = "dropout" if name in _DROPOUTS else name
            is_given = getattr(options, flag, None) is not None
            raise InputError(
                f"--output_dir={options.output_dir}: holds the checkpoints of another model: "
                f"{name} {stored[name]}, but {f'--{flag}' if is_given else options.albert_config_file} "
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
    trainer: training.Trainer,
    starting_part: keras.Model,
    tokenizer: Tokenizer | None = None,
    kind: Kind | None = None,
    noted: Mapping[str, Any] = MappingProxyType({}),
    advice: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[WriteBest]:
    """Initialises or restores the weights, and describes the model and the run in the output folder.

    `noted` is written with the options, `advice` in the config, see `write_description`.

    In this context the chief holds the folder's lock, so no second training can use it.
    `--init_checkpoint` initialises `starting_part`, the model or its encoder. Records of an unknown
    tokenizer have none. Yields a function that writes the model as the best one.
    """
    if not described_folder(options):
        load_init_checkpoint(options, starting_part)
    described = {**to_json_dict(options), **noted}
    contents = {}
    if tokenizer:
        described["do_lower_case"] = tokenizer.lower_case
        if trainer.is_chief:
            contents = tokenizer_files(tokenizer, trainer.model.config, kind)
    # The folder may be moved, or published.
    del described["output_dir"]

    def write_best(metrics: Mapping[str, float]) -> None:
        folder = os.path.join(options.output_dir, model_folder.BEST_DIR)
        said = {"options": described, "metrics": dict(metrics)}
        save_model(trainer.model, folder, kind=kind, contents=contents, noted=said, advice=advice)

    with contextlib.ExitStack() as stack:
        if trainer.is_chief:
            files.make_directory(options.output_dir)
            stack.enter_context(folders.lock_folder(options.output_dir))
        training.resume(trainer, options.output_dir)
        if trainer.is_chief:
            folder = os.path.join(options.output_dir, model_folder.STATE_DIR)
            noted = {"options": described}
            write_description(folder, trainer.model, kind, contents, noted, advice)
        yield write_best


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
            options.learning_rate,
            num_train_steps,
            num_warmup_steps,
            options.poly_power,
            options.start_warmup_step,
            decay_steps,
        )
        return training.Trainer(
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
