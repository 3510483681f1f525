"""Question answering: questions about passages, whose answers are parts of the passage (SQuAD)."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.data.fine_tuning.squad_questions import (
    SquadExample,
    account_for_questions,
    describe_faults,
    open_questions,
    read_questions,
    show_ids,
)
from albert_tf.data.fine_tuning.squad_windows import (
    SquadWindows,
    count_answer_tokens,
    encode_windows,
)
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.windows import cut_windows
from albert_tf.errors import InputError, warn
from albert_tf.evaluation.answer_spans import find_answers
from albert_tf.evaluation.squad_answers import (
    RankedAnswers,
    ScoredSpans,
    answer_files,
    concatenate_spans,
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    score_spans,
)
from albert_tf.evaluation.squad_metrics import add_margin
from albert_tf.kinds.given_texts import as_texts, check_fields, rows_of
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.registry import register
from albert_tf.losses import ConditionalSpanLoss, SpanLoss
from albert_tf.models import AlbertConditionalSpanLabeler, AlbertSpanLabeler
from albert_tf.options.kinds import QuestionAnsweringFlags
from albert_tf.tokenization.packing import check_max_seq_length
from albert_tf.training.evaluator import Loss

# Outputs of the conditional head that only its loss reads.
_LOSS_OUTPUTS = ("start_log_probs", "end_log_probs")


class Answers(NamedTuple):
    """The answers to n questions, with the numbers of `nbest_predictions.json` and `null_odds.json`.

    Attributes:
        answer: n parts of the contexts, without surrounding white space; "" for an unanswered question.
        start: int (n,), the answer's first character in the context; 0 for an unanswered question.
        end: int (n,), the character after its last one.
        score: float (n,), probability of the best span among the best ones.
        null_odds: float (n,), how surely there is no answer, on the scale of the model's head.
    """

    answer: list[str]
    start: np.ndarray
    end: np.ndarray
    score: np.ndarray
    null_odds: np.ndarray


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswering(QuestionAnsweringFlags, Kind):
    """Questions whose answers are spans of a context. Predictions are `RankedAnswers`."""

    name: ClassVar = "question_answering"
    texts: ClassVar = ("question", "context")
    num_segments: ClassVar = 2
    fixed_options: ClassVar = ("version_2_with_negative", "head", "start_n_top", "end_n_top")
    free_options: ClassVar = ("n_best_size", "max_answer_length", "null_score_diff_threshold")
    finds_spans: ClassVar = True
    can_hold_out: ClassVar = False
    base_learning_rate: ClassVar = 5e-5

    metrics: tuple[str, ...] = ("f1",)

    def __post_init__(self):
        super().__post_init__()
        check_max_seq_length(
            self.max_seq_length,
            self.max_query_length + 4,
            f"[CLS] max_query_length={self.max_query_length} tokens [SEP] a token [SEP]",
        )

    @classmethod
    def open(cls, source: Any, split: str, names: ColumnNames) -> Any:
        super().open(source, split, dataclasses.replace(names, ignore_columns=None))
        return open_questions(source, split, names)

    def read(self, source: Any, split: str) -> list[SquadExample]:
        """Reads what `read_questions` takes; see `usable_examples`."""
        name = source if isinstance(source, str) else split
        if isinstance(source, Table):
            name = source.name
            source = open_table(source, split)
            account_for_questions(source, split)
        examples = read_questions(source, split, split != "test", training=split == "train")
        return usable_examples(examples, name, split)

    def fit_labels(self, examples: Sequence[SquadExample], path: str) -> Self:
        """Returns the kind with a head that suits the training file."""
        version_2 = self.version_2_with_negative
        if version_2 is None:
            version_2 = any(example.is_impossible for example in examples)
        head = self.head or ("conditional" if version_2 else "simple")
        return dataclasses.replace(self, version_2_with_negative=version_2, head=head)

    def make_examples(self, question: Sequence[str], context: Sequence[str]) -> list[SquadExample]:
        """Makes n examples without answers of n questions and n contexts of any length.

        A single context is that of all questions.
        """
        if isinstance(context, str) and not isinstance(question, str):
            question = as_texts("question", question)
            context = [context] * len(question)
        rows = rows_of(question=question, context=context)
        return [
            SquadExample(str(number), question, context)
            for number, (question, context) in enumerate(rows)
        ]

    def example_of_line(self, fields: Sequence[str]) -> SquadExample:
        check_fields(fields, least=2, most=2, expected="question, context with tabs between them")
        question, context = fields
        return SquadExample("0", question, context)

    def encode(self, examples, tokenizer) -> SquadWindows:
        """Converts examples to windows of ids, with the places of the answers if they have any."""
        return encode_windows(
            examples,
            tokenizer,
            max_seq_length=self.max_seq_length,
            doc_stride=self.doc_stride,
            max_query_length=self.max_query_length,
        )

    def find_faults(
        self, path: str, split: str, examples: Sequence[SquadExample], features: SquadWindows
    ) -> list[str]:
        """Counts the questions that cannot be answered right, or teach something wrong."""
        counts = count_answer_tokens(examples, features)
        has_answer = np.array([example.found_answer is not None for example in examples])
        has_none = np.array([example.is_impossible for example in examples])
        faults = (
            (
                f"--max_answer_length={self.max_answer_length}",
                (split == "dev") & (counts > self.max_answer_length),
                f"to evaluate on have only longer answers, of up to {counts.max()} tokens",
            ),
            (
                f"--doc_stride={self.doc_stride}",
                has_answer & (counts == 0),
                "have an answer that no window holds as a whole; smaller steps or longer windows do",
            ),
            (
                path,
                has_none & (not self.version_2_with_negative),
                "have no answer, but this model always gives one",
            ),
        )
        return [
            f"{place}: {is_faulty.sum()} of {len(examples)} questions {what} "
            f"({show_ids([examples[index].id for index in np.flatnonzero(is_faulty).tolist()])})"
            for place, is_faulty, what in faults
            if is_faulty.any()
        ]

    @property
    def loss(self) -> Loss:
        return SpanLoss() if self.head == "simple" else ConditionalSpanLoss()

    def make_model(self, encoder, dropout, seed, dtype) -> keras.Model:
        if self.head == "simple":
            return AlbertSpanLabeler(encoder, seed, dtype=dtype)
        return AlbertConditionalSpanLabeler(
            encoder, self.start_n_top, self.end_n_top, dropout, seed, dtype=dtype
        )

    def decode(self, examples, features: SquadWindows, batches) -> RankedAnswers:
        """Returns the best answers to each question."""
        if examples and not len(features):
            raise InputError("context: expected a text; received empty ones")
        spans = [self._find_spans(features, rows, outputs) for rows, outputs in batches]
        return rank_answers(
            question_ids=[example.id for example in examples],
            contexts=[example.context for example in examples],
            spans=concatenate_spans(spans),
            n_best_size=self.n_best_size,
            version_2_with_negative=bool(self.version_2_with_negative),
        )

    def _find_spans(
        self, features: SquadWindows, rows: np.ndarray, outputs: Mapping[str, np.ndarray]
    ) -> ScoredSpans:
        outputs = {name: values[: len(rows)] for name, values in outputs.items()}
        lengths = features.lengths[rows]
        # Those of one head alone are along the padded tokens.
        length = (
            outputs["start_logits"].shape[1] if self.head == "simple" else lengths.max(initial=1)
        )
        return score_spans(
            windows=features.passages(rows, length),
            numbers=rows,
            outputs=outputs,
            input_mask=np.arange(length) < lengths[:, None],
            n_best_size=self.n_best_size,
            max_answer_length=self.max_answer_length,
        )

    def fit(self, examples: Sequence[SquadExample], predictions: RankedAnswers) -> Self:
        """Returns the kind with the threshold of the highest F1, unless it has one or needs none."""
        if not self.missing:
            return self
        threshold = find_null_threshold(gold_answers(examples), predictions, self.answer_rules)
        threshold = add_margin(threshold, predictions.null_odds)
        return dataclasses.replace(self, null_score_diff_threshold=threshold)

    @property
    def missing(self) -> str | None:
        """The name of the threshold if no dev set has decided it."""
        needed = self.version_2_with_negative and self.null_score_diff_threshold is None
        return "null_score_diff_threshold" if needed else None

    @property
    def _threshold(self) -> float | None:
        """The threshold; None if every question has an answer."""
        return self.null_score_diff_threshold if self.version_2_with_negative else None

    def _texts(self, predictions: RankedAnswers) -> list[str]:
        return list(predictions.predictions(self._threshold).values())

    @property
    def reported(self) -> tuple[str, ...]:
        exact = "exact" if self.version_2_with_negative else "exact_match"
        return tuple(dict.fromkeys((*self.metrics, "f1", exact)))

    def measure(self, examples, predictions: RankedAnswers) -> Quality:
        """Returns the metrics of SQuAD, of version 2.0 if questions may have no answer."""
        golds = gold_answers(examples)
        metrics = evaluate_answers(golds, predictions, self._threshold, self.answer_rules)
        return Quality(metrics)

    def result(self, examples: Sequence[SquadExample], predictions: RankedAnswers) -> Answers:
        """Returns the answers and their places."""
        best = [answers[0] for answers in predictions.nbest.values()]
        # Without a valid span, the text is one that is not in the context.
        texts = [
            text if example.context.startswith(text, answer.start) else ""
            for example, text, answer in zip(examples, self._texts(predictions), best, strict=True)
        ]
        starts = [answer.start if text else 0 for answer, text in zip(best, texts, strict=True)]
        start = np.array(starts, np.int64)
        return Answers(
            answer=texts,
            start=start,
            end=start + np.array([len(text) for text in texts], np.int64),
            score=np.array([answer.probability for answer in best]),
            null_odds=np.array(list(predictions.null_odds.values())),
        )

    def answers(self, examples, predictions: RankedAnswers) -> dict[str, list]:
        """Returns the fields of `Answers`."""
        found = self.result(examples, predictions)
        return {
            "answer": found.answer,
            "start": found.start.tolist(),
            "end": found.end.tolist(),
            "score": found.score.tolist(),
            "null_odds": found.null_odds.tolist(),
        }

    def prediction_files(self, name: str, examples, predictions: RankedAnswers) -> dict[str, str]:
        """Returns SQuAD's files, with `test_` before their names if `name` begins so."""
        prefix = "test_" if name.startswith("test_") else ""
        contents = answer_files(predictions, self._threshold)
        return {prefix + file: content for file, content in contents.items()}

    def outputs(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the outputs that answers are found with, as they are; see `find_candidates`."""
        return {name: value for name, value in outputs.items() if name not in _LOSS_OUTPUTS}

    def read_outputs(self, exported: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return dict(exported)

    def predict_texts(self, predict, tokenizer, graph_tokenizer, question, context):
        """Finds the answers in contexts of any length; see `find_answers`."""
        passage = graph_tokenizer.tokenize_with_offsets(context)
        question_ids = graph_tokenizer(question, max_ids=self.max_query_length)
        inputs, windows, _ = cut_windows(
            passage,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=self.max_seq_length,
            doc_stride=self.doc_stride,
            question_ids=question_ids,
        )
        limit = math.inf if self._threshold is None else self._threshold
        return find_answers(
            context=context,
            input_mask=inputs["input_mask"],
            windows=windows,
            outputs=predict(**inputs),
            passage_lengths=passage.ids.row_lengths(),
            n_best_size=self.n_best_size,
            max_answer_length=self.max_answer_length,
            null_threshold=limit,
        )


def usable_examples(
    examples: Sequence[SquadExample], source: str, split: str
) -> list[SquadExample]:
    """Returns the examples of a split that can be used, and warns of mistakes in the others.

    `source` is their name. Only the split `train` leaves examples out.
    """
    is_training = split == "train"
    if split != "test":
        for line in describe_faults(examples, source, is_training):
            warn(line)
    if not is_training:
        return list(examples)
    trainable = [example for example in examples if example.is_trainable]
    if not trainable:
        raise InputError(f"{source}: none of {len(examples)} questions can be trained on")
    return trainable


def gold_answers(examples: Sequence[SquadExample]) -> dict[str, list[str]]:
    """Returns the texts of the right answers by question id; empty if there is no answer."""
    return {example.id: [answer.text for answer in example.right_answers] for example in examples}
