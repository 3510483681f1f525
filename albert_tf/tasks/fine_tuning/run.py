"""A fine-tuning run of any task: trains, evaluates, predicts and exports.

Everything is read and checked before a model is made, so that mistakes show at once.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.errors import InputError, name_place
from albert_tf.export import export
from albert_tf.export.runtimes import Predict
from albert_tf.export.saved_models import INPUTS
from albert_tf.kinds import Kind
from albert_tf.model_folder import ModelFolder, find_best, replace_own
from albert_tf.models import AlbertEncoder
from albert_tf.tasks import common
from albert_tf.tasks.fine_tuning import choices
from albert_tf.tasks.fine_tuning.baselines import measure_baselines, write_baselines
from albert_tf.tasks.fine_tuning.data import RunData, check_kind, read_data
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import (
    measure_sets,
    predict_file,
    predict_sets,
    write_predictions,
    write_scores,
    write_submission,
)
from albert_tf.tasks.fine_tuning.training import FineTuning
from albert_tf.tasks.flags import (
    check_addresses,
    check_vocab_size,
    check_vocabulary,
    load_tokenizer,
)
from albert_tf.training import (
    Evaluator,
    best_metrics,
    explain_full_memory,
)
from albert_tf.training.loop import Callback

# Name of the files of predictions for dev sets, without their ends.
_DEV_PREDICTIONS = "eval_predictions"
# NNCF's own default.
_CALIBRATION_EXAMPLES = 300


def run(
    options: FineTuningOptions,
    in_memory: Mapping[str, Any] = MappingProxyType({}),
    check: Callable[[RunData], None] = lambda data: None,
    callback: Callback | None = None,
) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    `in_memory` are data by split, instead of the files that the options name. `check` is called with the
    data, and `callback` after each report of the training. Returns the metrics of the best checkpoint on
    the dev set, empty without `--do_eval`.
    """
    check_addresses(options)
    options = common.find_init_model(options)
    common.start_devices(options)
    options, kept = choices.keep_chosen(options)
    options = choices.complete(options, in_memory.get("train"))
    config = common.load_config(options)
    tokenizer = load_tokenizer(options.spm_model_file, options.vocab_file, options.do_lower_case)
    check_vocab_size(tokenizer, config, options.albert_config_file)
    # Otherwise rows that were trained on could be held out.
    dev_options = ("random_seed", "dev_fraction", "dev_file") if options.holds_out else ()
    training_options = ("trainable",) if options.do_train else ()
    common.check_output_dir(options, config, ("do_lower_case", *training_options, *dev_options))
    if folder := common.described_folder(options):
        with name_place(f"--output_dir={options.output_dir}"):
            check_vocabulary(ModelFolder(folder), tokenizer)
    with explain_full_memory():
        data = read_data(options, tokenizer, in_memory, config.max_position_embeddings)
        check(data)
        choice = choices.Choice()
        if options.do_train:
            rows = len(data.train_features)
            options, choice = choices.choose(options, config, data.kind, rows, kept)
            _check_micro_batch(options, data.kind)
        return _Run(options, data, config, choice).run(callback)


class _Run:
    """One training, or what follows one, of a task whose data are read."""

    def __init__(
        self,
        options: FineTuningOptions,
        data: RunData,
        config: AlbertConfig,
        choice: choices.Choice,
    ):
        self.options = options
        self.choice = choice
        self.data = data
        self.kind = data.kind
        self.config = config
        check_kind(options, data.kind)
        predicts = options.do_predict or options.export_dir or options.lines_file
        if data.kind.missing and predicts and not data.dev_set:
            raise InputError(
                f"--output_dir={options.output_dir}: has no {data.kind.missing}, which --do_eval "
                f"writes; expected it or --{data.kind.missing}"
            )
        self.num_train_steps = _count_train_steps(options, data)
        self.warmup_steps = options.warmup_steps
        if self.warmup_steps is None and options.do_train:
            self.warmup_steps = int(self.num_train_steps * options.warmup_proportion)
        self.evaluator = self._make()

    def run(self, callback: Callback | None) -> dict[str, float]:
        """Does what the options ask for and returns the metrics of `--do_eval`."""
        if self.options.do_train:
            self._train(callback)
            write_baselines(self.options, self.data)
        options = self.options
        self._load_best_checkpoint()
        metrics = {}
        if self.data.dev_set:
            predictions = predict_sets(self.kind, self.data.sets["dev"], self.evaluator, options)
            if options.do_train or self.kind.missing:
                self._fit(predictions[0])
            if options.do_eval:
                metrics = self._write_evaluation(predictions)
        if "test" in self.data.sets:
            self._write_predictions()
        if options.export_dir:
            self._export(metrics)
        if options.lines_file:
            predict_file(options, self.kind, self.data.tokenizer, self.evaluator)
        return metrics

    def _train(self, callback: Callback | None) -> None:
        """Trains and, if a training with a chosen rate has collapsed, starts again at half the rate."""
        while True:
            training = FineTuning(
                self.options,
                self.data,
                self.config,
                self.evaluator,
                self.num_train_steps,
                self.warmup_steps,
                self.choice,
                callback,
            )
            training.run()
            if not training.starts_again:
                return
            training.remove_results()
            self.options, self.choice = choices.start_again(self.options, self.choice)
            self.evaluator = self._make()

    def _fit(self, predictions: Any) -> None:
        """Chooses thresholds that suit the dev set, and writes them."""
        kind = self.kind.fit(self.data.dev_set.examples, predictions)
        if kind != self.kind:
            replace_own(find_best(self.options.output_dir), kind=kind.to_dict())
        self.kind = kind

    def _write_evaluation(self, predictions: Sequence[Any]) -> dict[str, float]:
        """Writes metrics and predictions of the dev sets, and how well each label is predicted."""
        options, dev_sets = self.options, self.data.sets["dev"]
        metrics, qualities = measure_sets(self.kind, dev_sets, predictions)
        baselines = measure_baselines(options, self.kind, dev_sets, predictions)
        common.write_results(options, metrics, **baselines)
        measured = zip(dev_sets, predictions, qualities, strict=True)
        for dataset, predicted, quality in measured:
            write_predictions(self.kind, options.output_dir, _DEV_PREDICTIONS, dataset, predicted)
            write_scores(quality, options.output_dir, dataset)
        return metrics

    def _write_predictions(self) -> None:
        options, kind, task = self.options, self.kind, self.data.task
        files.make_directory(options.output_dir)
        test_sets = self.data.sets["test"]
        predictions = predict_sets(kind, test_sets, self.evaluator, options)
        for dataset, predicted in zip(test_sets, predictions, strict=True):
            name = options.TEST_PREDICTIONS
            path = write_predictions(kind, options.output_dir, name, dataset, predicted)
            print(f"predictions in {path}")
            if dataset.name in task.submissions:
                names = kind.answers(dataset.examples, predicted)["prediction"]
                path = write_submission(
                    options.output_dir, task, dataset.name, dataset.examples, names
                )
                print(f"for the leaderboard {path}")

    def _make(self) -> Evaluator:
        """Makes the model and what runs it: a `Trainer` with `--do_train`."""
        options, kind = self.options, self.kind
        seed, dtype = options.random_seed, options.mixed_precision

        def make_model() -> keras.Model:
            encoder = AlbertEncoder(self.config, seed=seed, dtype=dtype)
            model = kind.make_model(encoder, options.classifier_dropout, seed + 1, dtype)
            has_head = len(model.weights) > len(encoder.weights)
            if not has_head and {"embedding", "blocks"} <= {*options.frozen_parts}:
                raise InputError(
                    f"--trainable={options.trainable}: {kind.name} has no head; expected embedding "
                    "or blocks"
                )
            for part in options.frozen_parts:
                for layer in tf.nest.flatten(getattr(encoder, part)):
                    layer.trainable = False
            return model

        return common.make_evaluator(
            options, make_model, kind.loss, self.num_train_steps, self.warmup_steps
        )

    def _load_best_checkpoint(self) -> None:
        """Loads the best checkpoint of `--output_dir`."""
        load_checkpoint(self.evaluator.model, self.options.output_dir).check_complete()
        self.kind, _ = self.kind.stored({})

    def _export(self, metrics: dict[str, float]) -> None:
        """Exports the model, with these and the best metrics in its card."""
        options = self.options
        # Other formats are converted after this evaluation.
        is_exported = options.export_format == "saved_model"
        evaluations = {
            "as exported" if is_exported else "before the conversion": metrics,
            "best checkpoint in training": best_metrics(options.output_dir),
        }
        paths = export(
            self.evaluator.model,
            self.kind,
            self.data.tokenizer,
            options.export_dir,
            options.export_format,
            options.export_weights,
            evaluations={name: values for name, values in evaluations.items() if values},
            calibration=self._calibration_inputs() if options.calibrates else (),
            evaluate=self._evaluate_exported if options.do_eval else None,
        )
        print("\n".join(f"exported {path}" for path in paths.values()))

    def _calibration_inputs(self) -> list[dict[str, np.ndarray]]:
        """Returns some examples of the training set, or of the dev set if there is no training."""
        features = self.data.train_features or self.data.dev_set.features
        count = min(len(features), _CALIBRATION_EXAMPLES)
        rng = np.random.default_rng(self.options.random_seed)
        examples = rng.choice(len(features), count, replace=False)
        batches = (make_batch(features, examples[[index]]) for index in range(count))
        return [{name: batch[name] for name in INPUTS} for batch in batches]

    def _evaluate_exported(self, predict: Predict) -> dict[str, float]:

        def model(batch, training):
            return self.kind.read_outputs(predict(batch))

        # Other runtimes know nothing of the devices of the training.
        evaluator = Evaluator(model, self.kind.loss, tf.distribute.get_strategy())
        predictions = predict_sets(self.kind, self.data.sets["dev"], evaluator, self.options)
        return measure_sets(self.kind, self.data.sets["dev"], predictions)[0]


def _check_micro_batch(options: FineTuningOptions, kind: Kind) -> None:
    if options.train_batch_size // options.accumulate_steps < kind.least_micro_batch:
        raise InputError(
            f"--train_batch_size={options.train_batch_size}: expected {kind.least_micro_batch} examples "
            "or more for each micro-batch"
        )


def _count_train_steps(options: FineTuningOptions, data: RunData) -> int:
    if not options.do_train:
        return 0
    if options.num_train_steps is not None:
        return options.num_train_steps
    num_examples = len(data.train_features)
    return max(1, round(num_examples * options.num_train_epochs / options.train_batch_size))
