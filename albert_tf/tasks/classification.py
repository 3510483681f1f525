"""Fine-tuning on texts: trains, evaluates, predicts and exports on GLUE, RACE and users' own files."""

import dataclasses
import os
from collections.abc import Mapping

import keras
import numpy as np

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import stored_labels
from albert_tf.data.pipeline import evaluation_batches, restore_order
from albert_tf.errors import FlagError, InputError
from albert_tf.evaluation.glue_metrics import compute_metrics, is_collapsed
from albert_tf.export.assets import json_asset
from albert_tf.models import AlbertEncoder
from albert_tf.options import to_json_dict
from albert_tf.tasks import prediction_files
from albert_tf.tasks.classification_data import (
    Data,
    Set,
    check_head,
    read_data,
    write_head,
)
from albert_tf.tasks.classification_options import ClassificationOptions, complete
from albert_tf.tasks.common import (
    check_vocab_size,
    has_checkpoint,
    load_config,
    start_devices,
    write_results,
)
from albert_tf.tasks.fine_tuning import (
    COLLAPSED,
    check_folder,
    count_warmup_steps,
    export_details,
    fine_tune,
    load_best_checkpoint,
    load_exported,
    make_fine_tuner,
    prepare_folder,
)
from albert_tf.tasks.kinds import KINDS
from albert_tf.tasks.line_prediction import check_lines, predict_lines
from albert_tf.tasks.trained_folder import LABEL_METADATA_FILE, LabelMetadata, find_label_metadata
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tasks.trials import run_trials
from albert_tf.tokenization import Tokenizer, load_tokenizer
from albert_tf.training import Evaluator


def run(options: ClassificationOptions) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on the dev set, with `--num_trials` their medians; none
        without `--do_eval`.

    Raises:
        InputError: a file, a row or a checkpoint is not what the options say.
    """
    files.check_addresses(to_json_dict(options))
    options = complete(options)
    start_devices(options)
    return run_trials(options, _run_once) if options.num_trials > 1 else _run_once(options)


def _run_once(options: ClassificationOptions) -> dict[str, float]:
    config = load_config(options)
    tokenizer = load_tokenizer(options.spm_model_file, options.vocab_file, options.do_lower_case)
    check_vocab_size(tokenizer, options, config)
    check_lines(options)
    data = read_data(options, tokenizer)
    check_head(options, data.head)
    check_folder(options, config, tokenizer)
    if options.export_format == "tflite" and data.head.kind == "multiple_choice":
        raise FlagError("--export_format=tflite: multiple choice has no such form")
    run = _Run(options, data, _make_evaluator(options, config, data))
    if options.do_train:
        run.train(config, tokenizer)
    load_best_checkpoint(options, run.evaluator.model)
    results = run.evaluate_best() if options.do_eval else {}
    if options.do_predict:
        run.predict_test()
    if options.export_dir:
        run.export(tokenizer, results)
    if options.predict_file:
        predict_lines(options, data.head, run.evaluator.model, tokenizer)
    return results


def _make_evaluator(options: ClassificationOptions, config: AlbertConfig, data: Data) -> Evaluator:
    kind = KINDS[data.head.kind]
    if options.exported_model:
        return load_exported(options, kind.exported_logits, kind.loss)

    def make_model(encoder: AlbertEncoder, seed: int) -> keras.Model:
        dropout, dtype = options.classifier_dropout, options.mixed_precision
        return kind.make_model(data.head, encoder, dropout, seed, dtype)

    train_sets = data.sets.get("train", [])
    num_examples = sum(len(train_set.features) for train_set in train_sets)
    return make_fine_tuner(options, config, make_model, kind.loss, num_examples)


class _Run:
    """A model with its data, once both are made.

    Args:
        options: of the run.
        data: of the run.
        evaluator: a `Trainer` where the options say `--do_train`.
    """

    def __init__(self, options: ClassificationOptions, data: Data, evaluator: Evaluator):
        self.options = options
        self.data = data
        self.evaluator = evaluator
        self.kind = KINDS[data.head.kind]

    def train(self, config: AlbertConfig, tokenizer: Tokenizer) -> None:
        """Trains from the newest checkpoint or `--init_checkpoint`, to the end of the plan."""
        options, trainer = self.options, self.evaluator
        dev_sets = self.data.sets.get("dev")
        main_set = dev_sets[0].name if dev_sets else ""
        metric = self.data.task.metrics[0]
        (train_set,) = self.data.sets["train"]
        _check_init_labels(options, self.data.head)
        bias = trainer.model.head.dense.bias
        with prepare_folder(options, config, trainer, tokenizer, bias):
            write_head(options, self.data.head)
            fine_tune(
                options,
                trainer,
                train_set.features,
                self.data.task.name,
                metric,
                best_metric=_prefix(main_set) + metric,
                evaluate=self._evaluate_in_training if dev_sets else None,
                num_dev_examples=len(dev_sets[0].examples) if dev_sets else 0,
            )

    def evaluate_best(self) -> dict[str, float]:
        """Evaluates the model as it is and writes metrics, predictions and confusion matrices."""
        results, outputs = self._evaluate()
        write_results(self.options, results)
        head = self.data.head
        for dev_set in self.data.sets["dev"]:
            of_set = outputs[dev_set.name]
            path = self._path("eval_predictions", dev_set)
            prediction_files.write_predictions(path, head, dev_set.examples, of_set)
            if head.labels:
                prediction_files.write_confusion_matrix(
                    self._path("confusion_matrix", dev_set),
                    head.labels,
                    dev_set.features.labels["label_ids"],
                    self.kind.predictions(of_set),
                )
        return results

    def predict_test(self) -> None:
        """Predicts the test sets and writes predictions, and the leaderboard's files."""
        files.make_directory(self.options.output_dir)
        for test_set in self.data.sets["test"]:
            outputs = self._predict(test_set)
            path = self._path("test_results", test_set)
            prediction_files.write_predictions(path, self.data.head, test_set.examples, outputs)
            print(f"predictions in {path}")
            names = self.kind.names(self.kind.predictions(outputs), self.data.head)
            submission = prediction_files.write_submission(
                self.options.output_dir, self.data.task, test_set.name, test_set.examples, names
            )
            if submission:
                print(f"for the leaderboard {submission}")

    def export(self, tokenizer: Tokenizer, metrics: Mapping[str, float]) -> None:
        """Writes SavedModels of the model as it is."""
        head = self.data.head
        assets = {LABEL_METADATA_FILE: json_asset(dataclasses.asdict(head))}
        details = export_details(self.options, tokenizer, metrics, assets)
        paths = self.kind.export(self.evaluator.model, head, tokenizer, self.options, details)
        print("\n".join(f"exported {path}" for path in paths.values()))

    def _evaluate(self) -> tuple[dict[str, float], Mapping[str, np.ndarray]]:
        """Returns the metrics of all dev sets, and the outputs of each."""
        task = self.data.task
        names = (*task.metrics, *task.more_metrics)
        results, outputs = {}, {}
        for dev_set in self.data.sets["dev"]:
            of_set = outputs[dev_set.name] = self._predict(dev_set)
            label_ids = dev_set.features.labels["label_ids"]
            values = compute_metrics(names, label_ids, self.kind.predictions(of_set))
            values["loss"] = self.kind.mean_loss(of_set, label_ids)
            values |= self._evaluate_subsets(dev_set, of_set)
            results |= {_prefix(dev_set.name) + name: value for name, value in values.items()}
        return results, outputs

    def _evaluate_subsets(self, dev_set: Set, outputs: np.ndarray) -> dict[str, float]:
        """Returns the metrics of each part of a set that has several."""
        subset_of_row = np.array([example.subset for example in dev_set.examples])
        subsets = np.unique(subset_of_row)
        if len(subsets) < 2:
            return {}
        labels, predictions = dev_set.features.labels["label_ids"], self.kind.predictions(outputs)
        results = {}
        for subset in subsets:
            rows = subset_of_row == subset
            values = compute_metrics(self.data.task.metrics, labels[rows], predictions[rows])
            results |= {_prefix(subset) + name: value for name, value in values.items()}
        return results

    def _evaluate_in_training(self) -> dict[str, float]:
        """Returns the metrics of all dev sets and, after the warm-up, whether the model has collapsed."""
        results, outputs = self._evaluate()
        (train_set,), main_set = self.data.sets["train"], self.data.sets["dev"][0]
        warmup_steps = count_warmup_steps(self.options, len(train_set.features))
        if self.data.head.labels and self.evaluator.step > warmup_steps:
            label_ids = main_set.features.labels["label_ids"]
            results[COLLAPSED] = float(is_collapsed(outputs[main_set.name], label_ids))
        return results

    def _predict(self, examples: Set) -> np.ndarray:
        """Returns the outputs, float32 (n, k), in the order of the examples."""
        batches, order = evaluation_batches(
            examples.features, self.options.eval_batch_size, fixed_length(self.options)
        )
        return self.kind.outputs(restore_order(self.evaluator.predict(batches), order))

    def _path(self, what: str, examples: Set) -> str:
        name = f"{what}_{examples.name}" if examples.name else what
        return os.path.join(self.options.output_dir, f"{name}.tsv")


def _check_init_labels(options: ClassificationOptions, head: LabelMetadata) -> None:
    """Checks that the head that training starts from, where it is known, is of the task's classes.

    Raises:
        InputError: its classes are others, or in another order.
    """
    if not options.init_checkpoint or options.reset_head or has_checkpoint(options):
        return
    noted = find_label_metadata(options.init_checkpoint)
    labels = noted.labels if noted else stored_labels(options.init_checkpoint)
    # Another number is reported with the head's shape.
    if labels != head.labels and len(labels) == len(head.labels):
        raise InputError(
            f"--init_checkpoint={options.init_checkpoint}: its head is of the classes "
            f"{', '.join(labels)}; this task's are {', '.join(head.labels)}; --reset_head starts the "
            "head anew"
        )


def _prefix(set_name: str) -> str:
    """Returns what the names of the metrics of a set, or of a part of one, begin with."""
    return f"{set_name}_" if set_name else ""
