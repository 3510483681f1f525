"""Conventions of extractive question answering.

Training, evaluation and the exported graph follow the same ones, so that a served model gives the answers
that were evaluated.
"""

import dataclasses

from albert_tf.data.fine_tuning.packing import check_max_seq_length
from albert_tf.data.windows import TextWindowConfig
from albert_tf.errors import ArgumentError

# Position of the answer in data without labels.
UNKNOWN_POSITION = -1

# Logit of padding, below every logit that a model returns: answers must not depend on the amount of
# padding, which differs between batches.
PADDING_LOGIT = -1e30

# The original's null score of a question whose passage has no token.
NO_WINDOW_SCORE = 1e6

# The original's score of the start, and of the end, where no span is valid.
NO_SPAN_LOG_PROB = -1e6


@dataclasses.dataclass(frozen=True)
class WindowConfig(TextWindowConfig):
    """How questions and passages are cut into windows.

    Attributes:
        max_seq_length: maximum number of tokens of a window, special tokens included.
        doc_stride: number of tokens between the starts of two neighbouring windows in the passage.
        max_query_length: maximum number of tokens of a question; the rest of it is dropped.

    Raises:
        ArgumentError: one of them is too small.
    """

    max_query_length: int = 64

    def __post_init__(self):
        super().__post_init__()
        if self.max_query_length < 1:
            raise ArgumentError(f"max_query_length={self.max_query_length}: expected at least 1")
        check_max_seq_length(
            self.max_seq_length,
            self.max_query_length + 4,
            f"[CLS] max_query_length={self.max_query_length} tokens [SEP] a token [SEP]",
        )


@dataclasses.dataclass(frozen=True)
class AnswerConfig(WindowConfig):
    """How passages are cut into windows and answers are chosen.

    Exported models keep it as `assets/answer_rule.json`.

    Attributes:
        n_best_size: number of starts and of ends that are tried (simple head only).
        max_answer_length: maximum number of tokens of an answer.
        null_threshold: null score above which a question is unanswered; None if every question has an
            answer.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    null_threshold: float | None = None
