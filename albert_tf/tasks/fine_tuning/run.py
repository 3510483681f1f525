"""A fine-tuning run of any task: trains, evaluates, predicts and exports.

Everything is read and checked before a model is made, so that mistakes show at once.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.conversion import replace_kind, stored_part
from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.errors import InputError, name_place
from albert_tf.export import export
from albert_tf.export.saved_models import INPUTS
from albert_tf.export.writers import Predict
from albert_tf.kinds import Kind
from albert_tf.kinds.registry import read_kind
from albert_tf.model_folder import BEST_DIR, find_best
from albert_tf.options.export_forms import FORMS
from albert_tf.options.kinds import option_fields
from albert_tf.options.resolution import Resolution, resolved
from albert_tf.tasks.fine_tuning import choices
from albert_tf.tasks.fine_tuning.baselines import measure_baselines, write_baselines
from albert_tf.tasks.fine_tuning.data import RunData, read_data
from albert_tf.tasks.fine_tuning.kind_checks import check_kind
from albert_tf.tasks.fine_tuning.model import make_evaluator
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import (
    measure_sets,
    predict_file,
    predict_sets,
    write_predictions,
    write_scores,
    write_submission,
)
from albert_tf.tasks.fine_tuning.teacher import compare_with_teacher, find_teacher
from albert_tf.tasks.fine_tuning.trained_rows import TrainedRows
from albert_tf.tasks.fine_tuning.training import FineTuning
from albert_tf.tasks.output_folder import check_output_dir, write_results
from albert_tf.tasks.paths import check_addresses
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.training_run import add_init_model, load_config, start_devices
from albert_tf.tasks.vocabulary import (
    check_vocab_size,
    check_vocabulary,
    grown_config,
    load_tokenizer,
    with_added_pieces,
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
    values = Resolution(options)
    stored = StoredRun.find(options)
    add_init_model(values, stored)
    start_devices(options)
    choices.add_known(values, stored, in_memory.get("train"))
    config = load_config(values, stored)
    options = values.options()
    tokenizer = load_tokenizer(
        options.spm_model_file, options.vocab_file, resolved(options.do_lower_case)
    )
    check_vocab_size(tokenizer, config, resolved(options.albert_config_file))
    tokenizer = with_added_pieces(tokenizer, options.add_pieces, has_begun=stored is not None)
    config = grown_config(config, tokenizer)
    choices.add_embedder(values, stored, config, tokenizer.lower_case)
    options = values.options()
    check_output_dir(values, config, stored, _fixed_options(options))
    if stored:
        with name_place(f"--output_dir={options.output_dir}"):
            check_vocabulary(stored.model.folder, tokenizer)
    with explain_full_memory():
        teacher = find_teacher(options, stored.kind if stored else None)
        data = read_data(
            options,
            tokenizer,
            sources=in_memory,
            most_tokens=config.max_position_embeddings,
            stored=stored,
            teacher_labels=teacher.labels_of if teacher else None,
        )
        check(data)
        if options.do_train:
            if options.do_eval is None:
                values.replace("do_eval", data.dev_set is not None)
            rows = len(data.sets["train"][0].features)
            choices.add_chosen(values, config, data.kind, rows, stored)
            options = values.options()
            _check_micro_batch(options, data.kind)
        check_kind(options, data.kind, stored)
        _check_rows(options, data)
        _check_complete(options, data)
        if teacher:
            data = teacher.teach(data)
        if options.do_train:
            training = FineTuning(values, data, config, stored, callback)
            training.run()
            while training.starts_again:
                training.start_again()
                training.run()
            write_baselines(options, data)
            evaluator: Evaluator = training.trainer
        else:
            evaluator = make_evaluator(options, config, data.kind)
        return _TrainedRun(options, data, evaluator).run()


def _fixed_options(options: FineTuningOptions) -> tuple[str, ...]:
    """Returns the options that cannot change when a run resumes."""
    # Otherwise rows that were trained on could be held out.
    dev_options = ("random_seed", "dev_fraction", "dev_file") if options.holds_out else ()
    training_options = ("trainable", "teacher", "teacher_weight") if options.do_train else ()
    return ("do_lower_case", *training_options, *dev_options)


class _TrainedRun:
    """What follows a training: evaluation, predictions and export of the best checkpoint."""

    def __init__(self, options: FineTuningOptions, data: RunData, evaluator: Evaluator):
        self.options = options
        self.data = data
        self.evaluator = evaluator
        self._load_best()
        folder = find_best(options.output_dir)
        best = read_kind(folder) if folder else None
        assert best is not None, "the model is read from there"
        self.kind = data.kind.as_stored.with_weights_of(best)

    def run(self) -> dict[str, float]:
        """Does what the options ask for and returns the metrics of `--do_eval`."""
        options = self.options
        metrics = {}
        if self.data.dev_set:
            predictions = self._predict_dev()
            if (options.do_train or self.kind.missing) and self._fit(predictions[0]):
                predictions = self._predict_dev()
            if options.do_eval:
                metrics = self._write_evaluation(predictions)
        if "test" in self.data.sets:
            self._write_predictions()
        if options.export_dir:
            self._export(options.export_dir, metrics)
        if options.predict_file:
            predict_file(options, self.kind, self.data.tokenizer, self.evaluator)
        return metrics

    @property
    def _model(self) -> keras.Model:
        return stored_part(self.evaluator.model)

    def _load_best(self) -> None:
        load_checkpoint(self._model, self.options.output_dir).check_complete()

    def _predict_dev(self) -> list[Any]:
        return predict_sets(
            self.kind, sets=self.data.sets["dev"], evaluator=self.evaluator, options=self.options
        )

    def _fit(self, predictions: Any) -> bool:
        """Chooses thresholds and, after a training, a temperature that suit the dev set; writes them.

        Returns whether the model has changed.
        """
        examples, kind = self.data.sets["dev"][0].examples, self.kind
        kind = kind.fit(examples, predictions)
        if self.options.do_train:
            kind, said = kind.calibrate(examples, predictions)
            if said:
                print(said)
        if kind == self.kind:
            return False
        has_changed = replace_kind(os.path.join(self.options.output_dir, BEST_DIR), kind)
        self.kind = kind.as_stored
        if has_changed:
            self._load_best()
        return has_changed

    def _write_evaluation(self, predictions: Sequence[Any]) -> dict[str, float]:
        """Writes metrics and predictions of the dev sets, and how well each label is predicted."""
        options, dev_sets = self.options, self.data.sets["dev"]
        metrics, qualities = measure_sets(self.kind, dev_sets, predictions)
        baselines = measure_baselines(options, self.kind, sets=dev_sets, predictions=predictions)
        teacher = compare_with_teacher(options, self.kind, dev_sets)
        write_results(options, metrics, **baselines, **teacher)
        measured = zip(dev_sets, predictions, qualities, strict=True)
        for dataset, predicted, quality in measured:
            write_predictions(
                self.kind,
                options.output_dir,
                name=_DEV_PREDICTIONS,
                examples=dataset,
                predictions=predicted,
            )
            write_scores(quality, options.output_dir, dataset)
        return metrics

    def _write_predictions(self) -> None:
        options, kind, task = self.options, self.kind, self.data.task
        files.make_directory(options.output_dir)
        test_sets = self.data.sets["test"]
        predictions = predict_sets(kind, sets=test_sets, evaluator=self.evaluator, options=options)
        for dataset, predicted in zip(test_sets, predictions, strict=True):
            name = options.TEST_PREDICTIONS
            path = write_predictions(
                kind, options.output_dir, name, examples=dataset, predictions=predicted
            )
            print(f"predictions in {path}")
            if dataset.name in task.submissions:
                names = kind.answers(dataset.examples, predicted)["prediction"]
                path = write_submission(
                    options.output_dir,
                    task,
                    set_name=dataset.name,
                    examples=dataset.examples,
                    names=names,
                )
                print(f"for the leaderboard {path}")

    def _export(self, export_dir: str, metrics: dict[str, float]) -> None:
        """Exports the model, with these and the best metrics in its card."""
        options = self.options
        # Files of other forms are converted after this evaluation.
        is_exported = FORMS[options.export_format].evaluated == "model"
        evaluations = {
            "as exported" if is_exported else "before the conversion": metrics,
            "best checkpoint in training": best_metrics(options.output_dir),
        }
        paths = export(
            self._model,
            self.kind,
            self.data.tokenizer,
            export_dir,
            options.export_format,
            options.export_weights,
            evaluations={name: values for name, values in evaluations.items() if values},
            calibration=self._calibration_inputs() if options.calibrates else (),
            evaluate=self._evaluate_exported if options.do_eval else None,
        )
        print("\n".join(f"exported {path}" for path in paths.values()))

    def _calibration_inputs(self) -> list[dict[str, np.ndarray]]:
        """Returns some examples of the training set, or of the dev set if there is no training."""
        features = self.data.train_features or self.data.sets["dev"][0].features
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
        predictions = predict_sets(
            self.kind, sets=self.data.sets["dev"], evaluator=evaluator, options=self.options
        )
        return measure_sets(self.kind, self.data.sets["dev"], predictions)[0]


def _check_rows(options: FineTuningOptions, data: RunData) -> None:
    trained = TrainedRows.read(options.output_dir) if options.do_train else None
    if trained:
        trained.check(data.sets["train"][0].examples, options.output_dir)


def _check_micro_batch(options: FineTuningOptions, kind: Kind) -> None:
    if resolved(options.train_batch_size) // options.accumulate_steps < kind.least_micro_batch:
        raise InputError(
            f"--train_batch_size={options.train_batch_size}: expected {kind.least_micro_batch} examples "
            "or more for each micro-batch"
        )


def _check_complete(options: FineTuningOptions, data: RunData) -> None:
    """Checks that the model has, or will have, all that predictions need."""
    predicts = options.do_predict or options.export_dir or options.predict_file
    if data.kind.missing and predicts and not data.dev_set:
        has_flag = data.kind.missing in option_fields(type(data.kind))
        expected = f"it or --{data.kind.missing}" if has_flag else "it"
        raise InputError(
            f"--output_dir={options.output_dir}: has no {data.kind.missing}, which --do_eval "
            f"writes; expected {expected}"
        )
