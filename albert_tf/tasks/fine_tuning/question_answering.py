"""Fine-tuning on SQuAD: questions about passages, with answers that are spans of the passage."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.batches import evaluation_batches
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.squad_questions import SquadExample
from albert_tf.data.fine_tuning.squad_windows import (
    PADDING_LOGIT,
    PassageWindows,
    SquadWindows,
    WindowConfig,
    encode_windows,
)
from albert_tf.errors import InputError
from albert_tf.evaluation.squad_answers import (
    Answers,
    ScoredSpans,
    concatenate_spans,
    conditional_spans,
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    simple_spans,
    write_answers,
)
from albert_tf.evaluation.squad_metrics import with_margin
from albert_tf.export import ExportDetails, export_question_answering
from albert_tf.export.version_folders import json_asset
from albert_tf.losses import ConditionalSpanLoss, SpanLoss
from albert_tf.models import AlbertConditionalSpanLabeler, AlbertSpanLabeler
from albert_tf.options import select
from albert_tf.tasks.common import start_devices
from albert_tf.tasks.fine_tuning.question_answering_options import QuestionAnsweringOptions
from albert_tf.tasks.fine_tuning.question_data import (
    read_prediction_set,
    read_training_set,
    warn_of_long_answers,
)
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.fine_tuning.task import FineTuningTask
from albert_tf.tasks.flags import check_addresses
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator

__all__ = ["QuestionAnsweringOptions", "run"]

_THRESHOLD_FILE = "null_threshold.json"
_THRESHOLD = "null_score_diff_threshold"


def run(options: QuestionAnsweringOptions) -> dict[str, float]:
    """Trains, evaluates, answers questions and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on `--predict_file`, with `--num_trials` their medians;
        without evaluation, empty.

    Raises:
        InputError: a file, a question or a checkpoint contradicts the options.
    """
    check_addresses(options)
    start_devices(options)
    training_set, has_impossible = read_training_set(options) if options.do_train else ([], False)
    options = options.complete(has_impossible)
    return run_task(options, functools.partial(_read_task, training_set=training_set))


def gold_answers(examples: Iterable[SquadExample]) -> dict[str, list[str]]:
    """Returns the texts of the right answers by question id; empty if there is no answer."""
    return {example.id: [answer.text for answer in example.answers] for example in examples}


def _read_task(
    options: QuestionAnsweringOptions,
    tokenizer: Tokenizer,
    training_set: Sequence[SquadExample],
) -> "QuestionAnsweringTask":
    wanted = options.do_train or options.do_eval or options.do_predict
    questions = read_prediction_set(options) if wanted and options.has_predict_set else []
    config = select(options, WindowConfig)
    features = windows = None
    if options.do_train:
        features = encode_windows(training_set, tokenizer, config)
    if questions:
        windows = encode_windows(questions, tokenizer, config)
        if options.do_train or options.do_eval:
            warn_of_long_answers(questions, windows, options.max_answer_length)
    return make_task(options, tokenizer, features, questions, windows)


def make_task(
    options: QuestionAnsweringOptions,
    tokenizer: Tokenizer,
    train_features: Features | None = None,
    questions: Sequence[SquadExample] = (),
    windows: SquadWindows | None = None,
) -> "QuestionAnsweringTask":
    """Makes the task of the head that the options name."""
    return _TASKS[options.head](
        options=options,
        tokenizer=tokenizer,
        train_features=train_features,
        num_dev_examples=len(questions),
        name="squad",
        metric="f1",
        best_metric="f1",
        questions=questions,
        windows=windows,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringTask(FineTuningTask):
    """Questions whose answers are spans of a passage. Subclasses add a head.

    Attributes:
        questions: questions to evaluate on or to answer.
        windows: their windows; None if there is no question.
    """

    options: QuestionAnsweringOptions
    questions: Sequence[SquadExample]
    windows: SquadWindows | None

    def find_spans(
        self, passages: PassageWindows, lengths: np.ndarray, outputs: Mapping[str, np.ndarray]
    ) -> ScoredSpans:
        """Reads scored spans from the outputs for W windows of `lengths` (W,)."""
        raise NotImplementedError

    def read_exported(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the outputs as they are."""
        return dict(outputs)

    def evaluate(self, evaluator: Evaluator) -> tuple[dict[str, float], Answers]:
        """Returns the metrics on the questions, and the answers."""
        answers, golds = self.answer(evaluator), gold_answers(self.questions)
        threshold = None
        if self.options.version_2_with_negative:
            threshold = self.options.null_score_diff_threshold
            if threshold is None:
                threshold = with_margin(find_null_threshold(golds, answers), answers.null_odds)
        return evaluate_answers(golds, answers, threshold), answers

    def write_evaluation(self, metrics: Mapping[str, float], predictions: Answers) -> None:
        """Writes answers and threshold."""
        write_answers(self.options.output_dir, predictions, metrics.get(_THRESHOLD))
        self.finish_training(metrics)

    def finish_training(self, best_metrics: Mapping[str, float]) -> None:
        """Writes the threshold that an evaluation found, if any, next to the checkpoints."""
        if _THRESHOLD in best_metrics:
            path = os.path.join(self.options.output_dir, _THRESHOLD_FILE)
            files.write_json(path, {_THRESHOLD: best_metrics[_THRESHOLD]})

    def predict(self, evaluator: Evaluator) -> None:
        """Answers the questions and writes the answers."""
        if self.options.do_eval:
            return  # The evaluation has written them.
        answers = self.answer(evaluator)
        write_answers(self.options.output_dir, answers, self.find_threshold())
        print(f"answers to {len(answers.nbest)} questions in {self.options.output_dir}")

    def export(self, model: keras.Model, details: ExportDetails) -> dict[str, str]:
        """Exports the model and returns the written folders."""
        threshold = self.find_threshold()
        if threshold is not None:
            details = details.add_assets({_THRESHOLD_FILE: json_asset({_THRESHOLD: threshold})})
        config = self.options.answer_config(threshold)
        return export_question_answering(
            model, self.tokenizer, self.options.export_dir, config, details
        )

    @property
    def dev_features(self) -> Features | None:
        """The windows of the questions; None without questions."""
        return self.windows

    def find_threshold(self) -> float | None:
        """Returns the null odds above which a question is unanswered; None for SQuAD 1.1."""
        options = self.options
        if not options.version_2_with_negative:
            return None
        if options.null_score_diff_threshold is not None:
            return options.null_score_diff_threshold
        path = os.path.join(options.model_dir, _THRESHOLD_FILE)
        if not tf.io.gfile.exists(path):
            raise InputError(
                f"{options.model_flag}: no {_THRESHOLD_FILE}, which --do_eval writes; "
                f"expected it or --{_THRESHOLD}"
            )
        return files.read_json(path)[_THRESHOLD]

    def answer(self, evaluator: Evaluator) -> Answers:
        """Answers the questions with the current weights."""
        options, windows = self.options, self.windows
        size = options.eval_batch_size
        # With labels, the conditional head would also score the ends of the known starts.
        features = dataclasses.replace(windows, labels={})
        batches, order = evaluation_batches(features, size, fixed_length(options))
        spans = []
        for number, outputs in enumerate(evaluator.predict_batches(batches)):
            rows = order[number * size : (number + 1) * size]
            lengths = windows.lengths[rows]
            passages = windows.passages(rows, lengths.max())
            of_rows = {name: values[: len(rows)] for name, values in outputs.items()}
            spans.append(self.find_spans(passages, lengths, of_rows))
        return rank_answers(
            [question.id for question in self.questions],
            [question.context for question in self.questions],
            concatenate_spans(spans),
            options.n_best_size,
            options.version_2_with_negative,
        )


class _SimpleHead(QuestionAnsweringTask):
    loss = SpanLoss()

    def make_model(self, encoder, seed) -> AlbertSpanLabeler:
        return AlbertSpanLabeler(encoder, seed, dtype=self.options.mixed_precision)

    def find_spans(self, passages, lengths, outputs) -> ScoredSpans:
        mask = np.arange(lengths.max()) < lengths[:, None]
        logits = {
            name: np.where(mask, values[:, : lengths.max()], np.float32(PADDING_LOGIT))
            for name, values in outputs.items()
        }
        options = self.options
        return simple_spans(passages, logits, options.n_best_size, options.max_answer_length)


class _ConditionalHead(QuestionAnsweringTask):
    loss = ConditionalSpanLoss()

    def make_model(self, encoder, seed) -> AlbertConditionalSpanLabeler:
        options = self.options
        return AlbertConditionalSpanLabeler(
            encoder,
            options.start_n_top,
            options.end_n_top,
            options.classifier_dropout,
            seed,
            dtype=options.mixed_precision,
        )

    def find_spans(self, passages, lengths, outputs) -> ScoredSpans:
        return conditional_spans(passages, outputs, self.options.max_answer_length)


_TASKS = {"simple": _SimpleHead, "conditional": _ConditionalHead}
