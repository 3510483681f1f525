"""Fine-tuning on texts: trains, evaluates, predicts and exports on GLUE, RACE and users' own files."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint, stored_shape
from albert_tf.data.input_pipeline import evaluation_batches, restore_order, training_batches
from albert_tf.errors import InputError
from albert_tf.evaluation.glue_metrics import compute_metrics
from albert_tf.models import AlbertEncoder
from albert_tf.tasks import prediction_files
from albert_tf.tasks.classification_data import (
    Data,
    Set,
    check_head,
    read_data,
    write_head,
)
from albert_tf.tasks.classification_options import (
    SPM_MODEL_FILE,
    VOCAB_FILE,
    ClassificationOptions,
    complete,
)
from albert_tf.tasks.common import (
    check_output_dir,
    check_vocab_size,
    has_checkpoint,
    load_config,
    make_evaluator,
    make_plan,
    start_devices,
    start_or_resume,
    write_results,
)
from albert_tf.tasks.kinds import KINDS
from albert_tf.tasks.learning_curve import draw_learning_curve
from albert_tf.tasks.line_prediction import predict_lines
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tasks.trials import run_trials
from albert_tf.tokenization import Tokenizer, load_tokenizer
from albert_tf.training import (
    Evaluator,
    Trainer,
    TrainingPlan,
    best_checkpoint,
    train,
)


def run(options: ClassificationOptions) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on the dev set, with `--num_trials` their medians; none
        without `--do_eval`.

    Raises:
        InputError: a file, a row or a checkpoint is not what the options say.
    """
    options = complete(options)
    start_devices(options)
    return run_trials(options, _run_once) if options.num_trials > 1 else _run_once(options)


def _run_once(options: ClassificationOptions) -> dict[str, float]:
    config = load_config(options)
    tokenizer = load_tokenizer(options.spm_model_file, options.vocab_file, options.do_lower_case)
    check_vocab_size(tokenizer, options, config)
    data = read_data(options, tokenizer)
    check_output_dir(options, config)
    check_head(options, data.head)
    run = _Run(options, data, _make_evaluator(options, config, data))
    if options.do_train:
        run.train(config, tokenizer)
    load_checkpoint(run.evaluator.model, best_checkpoint(options.output_dir)).check_complete()
    results = run.evaluate_best() if options.do_eval else {}
    if options.do_predict:
        run.predict_test()
    if options.export_dir:
        paths = run.kind.export(run.evaluator.model, data.head, tokenizer, options)
        print("\n".join(f"exported {path}" for path in paths.values()))
    if options.predict_file:
        predict_lines(options, data.head, run.evaluator.model, tokenizer)
    return results


def _make_evaluator(options: ClassificationOptions, config: AlbertConfig, data: Data) -> Evaluator:
    seed, dtype = options.random_seed, options.mixed_precision
    kind = KINDS[data.head.kind]

    def make_model() -> keras.Model:
        encoder = AlbertEncoder(config, seed=seed, dtype=dtype)
        return kind.make_model(data.head, encoder, options.classifier_dropout, seed + 1, dtype)

    num_train_steps = _count_train_steps(options, data)
    warmup_steps = options.warmup_steps
    if warmup_steps is None:
        warmup_steps = int(num_train_steps * options.warmup_proportion)
    return make_evaluator(options, make_model, kind.loss, num_train_steps, warmup_steps)


def _count_train_steps(options: ClassificationOptions, data: Data) -> int:
    """Returns how many updates the training has; 0 where there is none."""
    if not options.do_train:
        return 0
    if options.num_train_steps is not None:
        return options.num_train_steps
    (train_set,) = data.sets["train"]
    examples = len(train_set.features) * options.num_train_epochs
    return max(1, round(examples / options.train_batch_size))


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
        plan = make_plan(
            options,
            self.data.task.name,
            _count_train_steps(options, self.data),
            best_metric=_prefix(main_set) + self.data.task.metrics[0],
            higher_is_better=True,
        )
        (train_set,) = self.data.sets["train"]
        batches_from = functools.partial(
            training_batches,
            train_set.features,
            options.train_batch_size,
            options.random_seed,
            fixed_length=fixed_length(options),
        )
        start_or_resume(options, config, trainer, _starting_part(options, trainer.model))
        if options.export_dir:
            # So that hours of training do not end at a folder that cannot be made.
            files.make_directory(options.export_dir, "export_dir")
        write_head(options, self.data.head)
        _copy_vocabulary(options, tokenizer)
        evaluate = (lambda: self._evaluate()[0]) if dev_sets else None
        _train_until_no_better(options, trainer, plan, batches_from, evaluate)
        if path := draw_learning_curve(options.output_dir, self.data.task.metrics[0]):
            print(f"learning curve in {path}")

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
            results |= {_prefix(dev_set.name) + name: value for name, value in values.items()}
        return results, outputs

    def _predict(self, examples: Set) -> np.ndarray:
        """Returns the outputs, float32 (n, k), in the order of the examples."""
        batches, order = evaluation_batches(
            examples.features, self.options.eval_batch_size, fixed_length(self.options)
        )
        return self.kind.outputs(restore_order(self.evaluator.predict(batches), order))

    def _path(self, what: str, examples: Set) -> str:
        name = f"{what}_{examples.name}" if examples.name else what
        return os.path.join(self.options.output_dir, f"{name}.tsv")


def _prefix(set_name: str) -> str:
    """What the names of a set's metrics begin with."""
    return f"{set_name}_" if set_name else ""


def _train_until_no_better(
    options: ClassificationOptions,
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    """Trains to the end of the plan or, with early stopping, until evaluations bring nothing better."""
    patience = options.early_stopping_evaluations
    if patience is None or evaluate is None:
        train(trainer, plan, batches_from, evaluate)
        return
    every = plan.save_checkpoints_steps
    while not _brought_nothing_better(trainer.step, plan, patience * every):
        end = min(trainer.step - trainer.step % every + every, plan.num_train_steps)
        train(trainer, dataclasses.replace(plan, num_train_steps=end), batches_from, evaluate)
        if trainer.step >= plan.num_train_steps:
            return


def _brought_nothing_better(step: int, plan: TrainingPlan, patience_steps: int) -> bool:
    best = plan.best.metrics
    if best is None or step - best["step"] < patience_steps:
        return False
    print(f"stopped at step {step}: no evaluation was better since step {best['step']}")
    return True


def _starting_part(options: ClassificationOptions, model: keras.Model) -> keras.Model:
    """Returns what `--init_checkpoint` is read into: the model, or its encoder where it has no head.

    Raises:
        InputError: it has a head of another number of classes.
    """
    if not options.init_checkpoint or options.reset_head or has_checkpoint(options):
        return model.encoder
    bias = model.head.dense.bias
    try:
        shape = stored_shape(options.init_checkpoint, bias.path)
    except InputError as error:
        raise InputError(f"--init_checkpoint: {error}") from error
    if shape is None:
        return model.encoder
    if shape != tuple(bias.shape):
        raise InputError(
            f"--init_checkpoint={options.init_checkpoint}: has a head with {shape[0]} outputs; this "
            f"task has {bias.shape[0]}; --reset_head starts the head anew"
        )
    return model


def _copy_vocabulary(options: ClassificationOptions, tokenizer: Tokenizer) -> None:
    """Puts the vocabulary beside the checkpoints, so that prediction needs the folder alone."""
    name = SPM_MODEL_FILE if options.spm_model_file else VOCAB_FILE
    content = files.read_bytes(tokenizer.vocabulary_file)
    files.write_bytes(os.path.join(options.output_dir, name), content)
