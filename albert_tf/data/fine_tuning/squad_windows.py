"""Cuts SQuAD examples into windows: the question, and as much of the passage as fits next to it.

`[CLS] question [SEP] part of the passage [SEP]`. A long passage becomes several overlapping windows.
Every token of the passage has its character offsets, so that answers are cut from the original text.

Training, evaluation and the exported graph follow the same conventions, so that a served model gives the
answers that were evaluated.
"""

import array
import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.packing import cut_passage, encode_passage, find_max_context
from albert_tf.data.fine_tuning.squad_questions import SquadExample
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization import Tokenizer

# Position of the answer in data without labels.
UNKNOWN_POSITION = -1

# The original's null score of a question whose passage has no token.
NO_WINDOW_SCORE = 1e6

# The original's score of the start, and of the end, where no span is valid.
NO_SPAN_LOG_PROB = -1e6


@dataclasses.dataclass(frozen=True)
class PassageWindows:
    """The offsets of the tokens of W windows in their passages, padded to S; see `SquadWindows`."""

    # Ascending with the examples and within a passage, int (W,). Of equally good answers, that of the
    # lower id is chosen, whatever the order of the windows.
    unique_ids: np.ndarray
    example_indices: np.ndarray  # int (W,)
    token_starts: np.ndarray  # int (W, S)
    token_ends: np.ndarray  # int (W, S)
    token_is_max_context: np.ndarray  # int or bool (W, S)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadWindows(Features):
    """All n windows of some examples, in the order of the examples: 13 bytes per token.

    The labels are `start_positions` and `end_positions`, the first and the last token of the answer, and
    `is_impossible`. In a window without the answer they are 0, the position of [CLS], and 1; if the data
    hold none, -1 and 0. The others are along `input_ids`, and 0 outside the passage.
    """

    example_indices: np.ndarray  # index of each window's example, int32 (n,)
    # First character of each token in the passage, int32. With SentencePiece, white space before a word
    # belongs to its first token.
    token_starts: np.ndarray
    token_ends: np.ndarray  # the character after the last, int32
    # Whether no other window of the example shows more of the passage around the token, bool.
    token_is_max_context: np.ndarray

    def passages(self, rows: np.ndarray, length: int) -> PassageWindows:
        """Returns the offsets of some windows, with zeros for padding."""
        mask, tokens = self.tokens_of(rows, length)
        offsets = {}
        for name in ("token_starts", "token_ends", "token_is_max_context"):
            values = getattr(self, name)
            offsets[name] = np.zeros(mask.shape, values.dtype)
            offsets[name][mask] = values[tokens]
        return PassageWindows(rows, self.example_indices[rows], **offsets)


def encode_windows(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
) -> SquadWindows:
    """Cuts examples into windows; a passage without tokens has none.

    A window has at most `max_seq_length` tokens, special tokens included. That is `max_query_length` + 4
    or more, so that a token of the passage fits. Neighbouring windows start `doc_stride` tokens apart.
    """
    names = ("input_ids", "token_starts", "token_ends", "token_is_max_context")
    along_tokens = {name: array.array("i") for name in names}
    rows = []
    context = passage = None
    questions = tokenizer.encode_batch([example.question for example in examples])
    with Progress("making windows", "windows", delay=SECONDS_WITHOUT_PROGRESS) as progress:
        for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
            if example.context != context:
                context, passage = example.context, encode_passage(example.context, tokenizer)
            head = [tokenizer.cls_id, *question[:max_query_length], tokenizer.sep_id]
            size = max_seq_length - len(head) - 1
            starts, ends = cut_passage(len(passage.ids), size, doc_stride)
            best = find_max_context(starts, ends)
            answer, span = example.found_answer, None
            if answer is not None and not example.is_impossible:
                span = passage.find_tokens(answer.start, answer.start + len(answer.text))
            outside = [0] * len(head)
            for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                part = slice(start, end)
                columns = (
                    (head, passage.ids[part], head[-1:]),
                    (outside, passage.starts[part], [0]),
                    (outside, passage.ends[part], [0]),
                    (outside, best[part] == number, [0]),
                )
                for values, column in zip(along_tokens.values(), columns, strict=True):
                    values.frombytes(np.concatenate(column, dtype=np.int32).tobytes())
                label = _label(example, span, start, end, len(head))
                rows.append((index, len(head) + end - start + 1, len(head), *label))
                progress.update()
    columns = np.array(rows, np.int32).reshape(-1, 6).T.copy()
    indices, lengths, first_lengths, starts, ends, is_impossible = columns
    arrays = {name: np.array(values, np.int32) for name, values in along_tokens.items()}
    arrays["token_is_max_context"] = arrays["token_is_max_context"].astype(bool)
    return SquadWindows(
        lengths=lengths,
        first_lengths=first_lengths,
        labels={"start_positions": starts, "end_positions": ends, "is_impossible": is_impossible},
        example_indices=indices,
        **arrays,
    )


def _label(
    example: SquadExample, answer: tuple[int, int] | None, start: int, end: int, offset: int
) -> tuple[int, int, int]:
    """Returns the labels of the window of tokens `start` to `end - 1`; an answer is (first, last)."""
    if answer is None and not example.is_impossible:
        return UNKNOWN_POSITION, UNKNOWN_POSITION, 0
    if answer and start <= answer[0] and answer[1] < end:
        return answer[0] - start + offset, answer[1] - start + offset, 0
    return 0, 0, 1


def count_answer_tokens(examples: Sequence[SquadExample], windows: SquadWindows) -> np.ndarray:
    """Returns the number of tokens of each shortest answer, int (n,); 0 if it is in no window."""
    counts = np.zeros(len(examples), np.int64)
    firsts = windows.starts + windows.first_lengths
    lasts = windows.starts + windows.lengths - 1  # [SEP]
    for index, first, last in zip(windows.example_indices, firsts, lasts, strict=True):
        starts, ends = windows.token_starts[first:last], windows.token_ends[first:last]
        for answer in set(filter(examples[index].is_at_offset, examples[index].answers)):
            start = answer.start + len(answer.text) - len(answer.text.lstrip())
            end = answer.start + len(answer.text.rstrip())
            if starts[0] <= start and end <= ends[-1]:
                before = np.searchsorted(ends, start, side="right")
                count = np.searchsorted(starts, end - 1, side="right") - before
                counts[index] = min(counts[index] or count, count)
    return counts
