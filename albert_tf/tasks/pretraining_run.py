"""Pre-training of an encoder from records."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from albert_tf import training
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.record_batches import (
    Records,
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.errors import InputError, warn
from albert_tf.losses import PretrainingLoss
from albert_tf.model_folder import TRAINED_LAYERS, find_best
from albert_tf.models import AlbertEncoder
from albert_tf.models.base_model import BaseModel
from albert_tf.models.flash_attention import has_flash_attention
from albert_tf.options.resolution import Resolution, resolved
from albert_tf.tasks.noted_options import note_options
from albert_tf.tasks.optimizers import check_rate
from albert_tf.tasks.output_folder import (
    FINGERPRINTS,
    check_output_dir,
    load_init_checkpoint,
    start_or_resume,
    warn_of_other_data,
    write_results,
)
from albert_tf.tasks.paths import check_addresses
from albert_tf.tasks.pretraining_objectives import (
    TOKEN_OBJECTIVES,
    ObjectiveOptions,
    make_objectives,
    make_pretrainer,
)
from albert_tf.tasks.pretraining_options import PretrainingOptions
from albert_tf.tasks.pretraining_records import (
    explain_bad_records,
    open_records,
    record_sizes,
    save_counts,
)
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.training_options import PAPER_PRETRAINING as PAPER
from albert_tf.tasks.training_options import (
    PRETRAINING_RECIPES,
    find_size,
    fixed_length,
)
from albert_tf.tasks.training_run import (
    add_init_model,
    load_config,
    make_evaluator,
    start_devices,
    warn_of_large_batch,
    with_dropout,
)
from albert_tf.tasks.vocabulary import grown_config
from albert_tf.tokenization import Tokenizer

# Entropies of fewer predictions are too low, because rare pieces are missing.
_PREDICTIONS = 100_000
_MAX_BATCHES = 200
# The lead over the frequencies, in nats, from which on a model has learned something of the context.
_LEAD = 0.1

# The options that decide the records of each batch, with their masks, the depths of the updates, and the
# records of each evaluation.
_MASKING = [field.name for field in dataclasses.fields(MaskingConfig)]
_DATA_OPTIONS = {
    "batches": ["input_file", "shuffle_buffer", "train_batch_size", "random_seed", *_MASKING],
    "depths": ["trained_num_hidden_layers"],
    "evaluations, which choose the best weights,": ["eval_input_file", "max_eval_steps"],
}


def run(options: PretrainingOptions) -> dict[str, float]:
    """Trains, evaluates, or both.

    Returns, with `--do_eval`, the metrics on the evaluation records: of the best checkpoint or, without
    `--do_train`, of `--init_checkpoint` if it is given.
    """
    check_addresses(options)
    values = Resolution(options)
    stored = StoredRun.find(options)
    add_init_model(values, stored)
    start_devices(options)
    config = _resolve(values, stored)
    options = values.options()
    objective_options = tuple(field.name for field in dataclasses.fields(ObjectiveOptions))
    check_output_dir(values, config, stored, fixed_options=objective_options)
    records, tokenizer = open_records(options, config, has_begun=stored is not None)
    config = grown_config(config, tokenizer)
    fingerprints = {name: each.fingerprint for name, each in records.items()}
    if stored and options.do_train:
        warn_of_other_data(values, stored, data_options=_DATA_OPTIONS, fingerprints=fingerprints)
    if records["input_file"].masker:
        options.warn_of_few_predictions(resolved(options.max_seq_length))
    evaluator = _make_evaluator(options, config)
    evaluate, eval_records = None, records["eval_input_file"]
    if eval_records.files:
        batches = pretraining_evaluation_batches(
            eval_records,
            options.eval_batch_size,
            options.random_seed,
            fixed_size=fixed_length(options) is not None,
        )
        evaluate = functools.partial(evaluator.evaluate, batches.take(options.max_eval_steps))
    with (
        training.explain_full_memory(),
        training.explain_lost_worker(evaluator.is_alone),
        explain_bad_records(records),
    ):
        if isinstance(evaluator, training.Trainer):
            part = None if stored else evaluator.model
            noted = note_options(values, stored.options if stored else {})
            noted[FINGERPRINTS] = fingerprints
            _train(
                options,
                noted,
                trainer=evaluator,
                starting_part=part,
                records=records,
                tokenizer=tokenizer,
                evaluate=evaluate,
            )
        if not options.do_eval:
            return {}
        _load_evaluated(options, evaluator.model, tokenizer)
        assert evaluate is not None, "--do_eval has records"
        metrics = evaluate()
    if evaluator.is_chief:
        write_results(options, metrics)
    return metrics


def _load_evaluated(
    options: PretrainingOptions, model: keras.Model, tokenizer: Tokenizer | None
) -> None:
    """Loads the weights to evaluate: the best ones or, without `--do_train`, of `--init_checkpoint`."""
    if not options.do_train and options.init_checkpoint is not None:
        load_init_checkpoint(options, model, tokenizer)
        return
    folder = find_best(options.output_dir)
    if folder is None:
        raise InputError(
            f"--output_dir={options.output_dir}: holds no pre-trained model; expected a folder "
            "that --do_train wrote, or --init_checkpoint"
        )
    load_checkpoint(model, folder).check_complete()


def add_recipe(values: Resolution[PretrainingOptions]) -> None:
    """Adds the hyperparameters of the recipe, which is the paper's by default."""
    recipe = values.given.recipe_values
    if values.given.do_train:
        check_rate(values, recipe.optimizer)
    values.add("recipe" if values.given.recipe else "default", dataclasses.asdict(recipe))


def _resolve(values: Resolution[PretrainingOptions], stored: StoredRun | None) -> AlbertConfig:
    """Adds the values of all options that are left out, and returns the config of the model."""
    given = values.given
    add_recipe(values)
    values.add("default", {"jit_compile": training.has_gpu()})
    if not given.do_train:
        # Don't check or read the training records.
        values.replace("input_file", ())
    config = load_config(values, stored)
    values.add("rows", record_sizes(values, config))
    if given.recipe:
        values.add("recipe", {"dropout": _preset_dropout(given, config)})
        names = (*dataclasses.asdict(PAPER), "max_seq_length", "max_predictions_per_seq", "dropout")
        print(f"recipe {given.recipe}: {values.describe(names)}")
        config = with_dropout(config, values["dropout"])
    if values.is_open("trained_num_hidden_layers"):
        depths = _trained_depths(values, stored, config)
        values.add("model", {"trained_num_hidden_layers": depths})
    return config


def _preset_dropout(options: PretrainingOptions, config: AlbertConfig) -> float | None:
    """Returns the dropout of the preset of the recipe that has the model's size; None without presets."""
    presets = PRETRAINING_RECIPES[resolved(options.recipe)].presets
    if not presets:
        return None
    published = find_size(config, presets)
    if published is None:
        raise InputError(
            f"--recipe={options.recipe}: expected a model with the size of one of "
            f"{', '.join(presets)}; received another"
        )
    return published.hidden_dropout_prob


def _trained_depths(
    values: Resolution[PretrainingOptions], stored: StoredRun | None, config: AlbertConfig
) -> tuple[int, ...]:
    """Returns the numbers of layers that training draws from by default; empty for one number.

    A run that resumes keeps its own.
    """
    if values.given.num_hidden_layers is not None:
        return ()
    model = stored.model if stored else StoredModel.of_config(values["albert_config_file"])
    numbers = tuple(model.trained_layers)
    # A conversion to another number of layers keeps the numbers of the training.
    draws = len(numbers) > 1 and config.num_hidden_layers in numbers
    return numbers if draws else ()


def _make_evaluator(options: PretrainingOptions, config: AlbertConfig) -> training.Evaluator:
    seed, dtype = options.random_seed, resolved(options.mixed_precision)
    # In the kernel's backward pass the order of additions changes.
    may_use_flash = resolved(options.jit_compile) and not options.deterministic
    if config.type_vocab_size < 2:
        raise InputError(
            f"type_vocab_size {config.type_vocab_size}: expected 2, as records have two segments"
        )

    def make_model() -> BaseModel:
        encoder = AlbertEncoder(
            config,
            remat=options.remat,
            use_one_hot_embeddings=options.use_one_hot_embeddings,
            flash_attention=may_use_flash and has_flash_attention(config, dtype),
            trained_num_hidden_layers=resolved(options.trained_num_hidden_layers),
            seed=seed,
            dtype=dtype,
        )
        return make_pretrainer(options, encoder, seed=seed + 1, dtype=dtype)

    return make_evaluator(
        options,
        make_model,
        PretrainingLoss(make_objectives(options)),
        num_train_steps=resolved(options.num_train_steps),
        num_warmup_steps=resolved(options.warmup_steps),
        decay_steps=options.decay_steps,
    )


def _train(
    options: PretrainingOptions,
    noted: Mapping[str, Any],
    trainer: training.Trainer,
    starting_part: keras.Model | None,
    records: Mapping[str, Records],
    tokenizer: Tokenizer | None,
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    train_records = records["input_file"]
    batches_from = functools.partial(
        pretraining_batches,
        train_records,
        resolved(options.train_batch_size),
        options.shuffle_buffer,
        options.random_seed,
    )
    if trainer.is_chief and tokenizer is None:
        warn(
            f"--output_dir={options.output_dir} will hold no vocabulary, as that of the records "
            "is not known; --spm_model_file or --vocab_file names it"
        )
    advice = StoredModel.of_config(resolved(options.albert_config_file)).advice
    advice.pop(TRAINED_LAYERS, None)
    with start_or_resume(
        options, trainer, starting_part, tokenizer, noted=noted, advice=advice
    ) as write_best:
        if trainer.is_chief:
            save_counts(options, records)
            num_records = sum(file.count for file in train_records.files)
            warn_of_large_batch(options, num_records, "records")
        check = LearningCheck(batches_from().as_numpy_iterator(), resolved(options.warmup_steps))
        plan = training.TrainingPlan(
            options,
            write_best,
            description="pretraining",
            num_train_steps=resolved(options.num_train_steps),
            best_metric="loss",
            higher_is_better=False,
            keeps_last=TOKEN_OBJECTIVES[options.objective].keeps_last,
        )
        training.train(trainer, plan, batches_from, evaluate, callback=check)
    if trainer.is_chief and (
        path := training.draw_learning_curve(options.output_dir, "accuracy", "perplexity")
    ):
        print(f"learning curve in {path}")


class LearningCheck:
    """Warns of a pre-training that does not learn, which a falling loss can hide.

    A masked LM first learns how frequent each piece is. From there on the loss falls only if the model
    uses the context. Where the learning rate is too high, or too few sequences are seen, it never does.
    So the check is made once, long after the warm-up: is the loss below the entropy of the pieces?

    `batches` are the first of the training, with `masked_lm_ids` (B, M) and `masked_lm_weights`.
    """

    def __init__(self, batches: Iterable[Mapping[str, np.ndarray]], warmup_steps: int):
        self._entropy = unigram_entropy(batches)
        self._step = 2 * warmup_steps + 1000
        self._checked = False

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        """Prints a warning at the first report after the step, if the loss is still that high."""
        loss = metrics.get("train_masked_lm_loss")
        if loss is None or step < self._step or self._checked:
            return
        self._checked = True
        if loss > self._entropy - _LEAD:
            warn(
                f"after {step} updates the masked-LM loss is {loss:.2f}. Guessing from how "
                f"frequent each piece is has {self._entropy:.2f}, so the model has learned nothing of "
                "the context. A third of the --learning_rate often helps; then a longer --warmup_steps, "
                "shorter sequences at first, and a higher --masked_lm_prob"
            )


def unigram_entropy(batches: Iterable[Mapping[str, np.ndarray]]) -> float:
    """Returns the entropy of the distribution of the pieces to predict, in nats.

    With the correction of Miller (1955) for the pieces that a sample lacks: (observed - 1) / (2 n).
    """
    counts = np.zeros(0, np.int64)
    for number, batch in enumerate(batches):
        ids = batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
        more = np.bincount(ids, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
        if counts.sum() >= _PREDICTIONS or number + 1 == _MAX_BATCHES:
            break
    counts = counts[counts > 0]
    total = counts.sum()
    shares = counts / total
    return float(-np.sum(shares * np.log(shares)) + (len(counts) - 1) / (2 * total))
