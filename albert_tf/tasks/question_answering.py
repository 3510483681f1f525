"""Fine-tuning on SQuAD: trains, evaluates, answers and exports."""

import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.pipeline import evaluation_batches
from albert_tf.data.squad.conventions import AnswerConfig
from albert_tf.data.squad.questions import SquadExample
from albert_tf.data.squad.window_arrays import SquadWindows
from albert_tf.errors import InputError
from albert_tf.evaluation.squad_answers import (
    Answers,
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    write_answers,
)
from albert_tf.evaluation.squad_plots import draw_squad_plots
from albert_tf.evaluation.squad_score import gold_answers, score_predictions_file
from albert_tf.evaluation.squad_spans import PassageWindows, ScoredSpans, concatenate_spans
from albert_tf.evaluation.squad_thresholds import with_margin
from albert_tf.export import export_question_answering
from albert_tf.export.assets import json_asset
from albert_tf.models import AlbertEncoder
from albert_tf.options import to_json_dict
from albert_tf.tasks.answer_heads import ANSWER_HEADS
from albert_tf.tasks.common import (
    check_vocab_size,
    load_config,
    start_devices,
    write_results,
)
from albert_tf.tasks.fine_tuning import (
    check_folder,
    export_details,
    fine_tune,
    load_best_checkpoint,
    load_exported,
    make_fine_tuner,
    prepare_folder,
)
from albert_tf.tasks.question_answering_data import (
    make_features,
    make_windows,
    read_prediction_set,
    read_training_set,
    warn_of_long_answers,
)
from albert_tf.tasks.question_answering_options import QuestionAnsweringOptions, complete
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tasks.trials import run_trials
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.training import Evaluator, best_metrics

_THRESHOLD_FILE = "null_threshold.json"
_THRESHOLD = "null_score_diff_threshold"


def run(options: QuestionAnsweringOptions) -> dict[str, float]:
    """Trains, evaluates, answers and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on `--predict_file`, with `--num_trials` their medians; those
        of `--predictions_file` with `--do_eval_predictions`; else none.

    Raises:
        InputError: a file, a question or a checkpoint is not what the options say.
    """
    files.check_addresses(to_json_dict(options))
    if options.do_eval_predictions:
        return _score_predictions(options)
    options = complete(options)
    start_devices(options)
    return run_trials(options, _run_once) if options.num_trials > 1 else _run_once(options)


def _score_predictions(options: QuestionAnsweringOptions) -> dict[str, float]:
    files.make_directory(options.output_dir)
    results = score_predictions_file(
        options.predict_file,
        options.predictions_file,
        options.null_odds_file,
        options.na_prob_thresh,
        options.version_2_with_negative,
        plots_dir=options.output_dir,
    )
    write_results(options, results)
    return results


def _run_once(options: QuestionAnsweringOptions) -> dict[str, float]:
    config = load_config(options)
    tokenizer = AlbertTokenizer(options.spm_model_file, options.do_lower_case)
    check_vocab_size(tokenizer, options, config)
    check_folder(options, config, tokenizer)
    training_set = read_training_set(options) if options.do_train else []
    wanted = options.do_train or options.do_eval or options.do_predict
    questions = read_prediction_set(options) if wanted and options.has_predict_set else []
    features = make_features(options, training_set, tokenizer) if options.do_train else None
    evaluator = _make_evaluator(options, config, features)
    run = _Run(options, evaluator, tokenizer, questions)
    if options.do_train:
        run.train(config, features)
    load_best_checkpoint(options, evaluator.model)
    results = run.evaluate_best() if options.do_eval else {}
    if options.do_predict and not options.do_eval:
        run.predict()
    if options.export_dir:
        run.export(results)
    return results


def _make_evaluator(
    options: QuestionAnsweringOptions, config: AlbertConfig, features: Features | None
) -> Evaluator:
    head = ANSWER_HEADS[options.head]
    if options.exported_model:
        return load_exported(options, dict, head.loss)

    def make_model(encoder: AlbertEncoder, seed: int) -> keras.Model:
        return head.make_model(options, encoder, seed)

    num_examples = 0 if features is None else len(features)
    return make_fine_tuner(options, config, make_model, head.loss, num_examples)


class _Run:
    """A model with the questions that it answers.

    Args:
        options: of the run.
        evaluator: a `Trainer` where the options say `--do_train`.
        tokenizer: text to ids.
        questions: to evaluate on or to answer; none where there are none.
    """

    def __init__(
        self,
        options: QuestionAnsweringOptions,
        evaluator: Evaluator,
        tokenizer: AlbertTokenizer,
        questions: Sequence[SquadExample],
    ):
        self.options = options
        self.evaluator = evaluator
        self.tokenizer = tokenizer
        self.questions = questions
        self.head = ANSWER_HEADS[options.head]
        self.windows: SquadWindows | None = None
        if questions:
            self.windows = make_windows(options, questions, tokenizer)
            if options.do_train or options.do_eval:
                warn_of_long_answers(options, questions, self.windows)

    def train(self, config: AlbertConfig, features: Features) -> None:
        """Trains from the newest checkpoint or `--init_checkpoint`, to the end of the plan."""
        options, trainer = self.options, self.evaluator
        bias = self.head.bias(trainer.model)
        with prepare_folder(options, config, trainer, self.tokenizer, bias):
            fine_tune(
                options,
                trainer,
                features,
                "squad",
                metric="f1",
                best_metric="f1",
                evaluate=(lambda: self._evaluate(self._answer())) if self.questions else None,
                num_dev_examples=len(self.questions),
            )
        self._keep_threshold(best_metrics(options.output_dir) or {})

    def evaluate_best(self) -> dict[str, float]:
        """Evaluates the model as it is; writes metrics, predictions, the threshold and pictures."""
        answers = self._answer()
        results = self._evaluate(answers)
        output_dir = self.options.output_dir
        write_results(self.options, results)
        threshold = results.get(_THRESHOLD)
        write_answers(output_dir, answers, threshold)
        self._keep_threshold(results)
        if threshold is not None:
            golds = gold_answers(self.questions)
            draw_squad_plots(output_dir, golds, answers.predictions(), answers.null_odds)
        return results

    def predict(self) -> None:
        """Answers the questions, which need no right answers, and writes the predictions."""
        files.make_directory(self.options.output_dir)
        answers = self._answer()
        write_answers(self.options.output_dir, answers, self._find_threshold())
        print(f"answers to {len(answers.nbest)} questions in {self.options.output_dir}")

    def export(self, metrics: Mapping[str, float]) -> None:
        """Writes SavedModels that answer questions."""
        options, threshold = self.options, self._find_threshold()
        config = AnswerConfig(
            max_seq_length=options.max_seq_length,
            doc_stride=options.doc_stride,
            max_query_length=options.max_query_length,
            n_best_size=options.n_best_size,
            max_answer_length=options.max_answer_length,
            null_threshold=threshold,
        )
        assets = {}
        if threshold is not None:
            assets[_THRESHOLD_FILE] = json_asset({_THRESHOLD: threshold})
        paths = export_question_answering(
            self.evaluator.model,
            self.tokenizer,
            options.export_dir,
            config,
            export_details(options, self.tokenizer, metrics, assets),
        )
        print("\n".join(f"exported {path}" for path in paths.values()))

    def _keep_threshold(self, metrics: Mapping[str, float]) -> None:
        """Writes the threshold that an evaluation found beside the checkpoints, where it has one."""
        if _THRESHOLD in metrics:
            path = os.path.join(self.options.output_dir, _THRESHOLD_FILE)
            files.write_json(path, {_THRESHOLD: metrics[_THRESHOLD]})

    def _find_threshold(self) -> float | None:
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

    def _answer(self) -> Answers:
        """Answers the questions with the model as it is."""
        options, windows = self.options, self.windows
        size = options.eval_batch_size
        batches, order = evaluation_batches(windows.features, size, fixed_length(options))
        rows = (order[start : start + size] for start in range(0, len(order), size))
        outputs = self.evaluator.predict_batches(batches)
        parts = [
            self._find_spans(of_batch, rows_of_batch)
            for of_batch, rows_of_batch in zip(outputs, rows, strict=True)
        ]
        return rank_answers(
            [question.id for question in self.questions],
            [question.context for question in self.questions],
            concatenate_spans(parts),
            options.n_best_size,
            options.version_2_with_negative,
        )

    def _find_spans(self, outputs: Mapping[str, np.ndarray], rows: np.ndarray) -> ScoredSpans:
        """Reads spans from the outputs for some windows, int (B,)."""
        lengths = self.windows.features.lengths[rows]
        passages = PassageWindows(**self.windows.passages(rows, lengths.max()))
        of_rows = {name: values[: len(rows)] for name, values in outputs.items()}
        return self.head.spans(self.options, passages, lengths, of_rows)

    def _evaluate(self, answers: Answers) -> dict[str, float]:
        golds = gold_answers(self.questions)
        threshold = None
        if self.options.version_2_with_negative:
            threshold = self.options.null_score_diff_threshold
            if threshold is None:
                threshold = with_margin(find_null_threshold(golds, answers), answers.null_odds)
        return evaluate_answers(golds, answers, threshold)
