"""Cuts SQuAD examples into windows: the question, and as much of the passage as fits next to it.

`[CLS] question [SEP] part of the passage [SEP]`. A long passage becomes several overlapping windows.
Every token of the passage has its character offsets, so that answers are cut from the original text.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.squad.conventions import UNKNOWN_POSITION, WindowConfig
from albert_tf.data.squad.questions import SquadExample
from albert_tf.data.windows import Passage, cut_passage, encode_passage, find_max_context
from albert_tf.tokenization import Tokenizer


class Window(NamedTuple):
    """A question and a part of its passage, n tokens without padding.

    Tokens outside the passage have the offsets 0 and 0 and are not of maximum context.

    Attributes:
        example_index: index of the example.
        input_ids: int32 (n,).
        question_length: number of tokens of segment 0, `[CLS] question [SEP]`.
        token_starts: int32 (n,), first character of each token in the passage. With SentencePiece,
            white space before a word belongs to the word's first token.
        token_ends: int32 (n,), the character after the last.
        token_is_max_context: int32 (n,), 1 if no other window of the example shows more of the passage
            around the token, otherwise 0.
        start_position: first token of the answer; 0, the position of [CLS], if the window does not hold
            the answer; -1 if the data hold none.
        end_position: last token of the answer, or the same values.
        is_impossible: 1 if the window does not hold the answer or there is none, otherwise 0.
    """

    example_index: int
    input_ids: np.ndarray
    question_length: int
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray
    start_position: int
    end_position: int
    is_impossible: int


class WindowMaker:
    """Makes the windows of examples.

    Args:
        tokenizer: maps text to ids with character offsets.
        config: sizes of the windows.
    """

    def __init__(self, tokenizer: Tokenizer, config: WindowConfig):
        self._config = config
        self._tokenizer = tokenizer
        self._cls = np.array([tokenizer.cls_id], np.int32)
        self._sep = np.array([tokenizer.sep_id], np.int32)

    def __call__(self, examples: Sequence[SquadExample], first_index: int = 0) -> Iterator[Window]:
        """Yields the windows of each example; none for a passage without tokens.

        Args:
            examples: the passage of consecutive examples is tokenised once.
            first_index: index of the first example.
        """
        questions = self._tokenizer.encode_batch(
            [example.question for example in examples], num_threads=1
        )
        numbered = zip(itertools.count(first_index), examples, questions)
        for context, group in itertools.groupby(numbered, lambda item: item[1].context):
            passage = encode_passage(context, self._tokenizer)
            for index, example, question in group:
                yield from self._make_windows(index, example, question, passage)

    def _make_windows(
        self, index: int, example: SquadExample, question: list[int], passage: Passage
    ) -> Iterator[Window]:
        query = np.array(question[: self._config.max_query_length], np.int32)
        head = np.concatenate([self._cls, query, self._sep])
        size = self._config.max_seq_length - len(head) - 1
        starts, ends = cut_passage(len(passage.ids), size, self._config.doc_stride)
        best = find_max_context(starts, ends)
        answer = _find_answer(example, passage)
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            part = slice(start, end)
            yield Window(
                index,
                np.concatenate([head, passage.ids[part], self._sep]),
                len(head),
                _beside_question(passage.starts[part], len(head)),
                _beside_question(passage.ends[part], len(head)),
                _beside_question(best[part] == number, len(head)),
                *_label(example, answer, start, end, len(head)),
            )


def _beside_question(values: np.ndarray, question_length: int) -> np.ndarray:
    """Adds zeros at the positions of the question and of the last [SEP]."""
    padded = np.zeros(question_length + len(values) + 1, np.int32)
    padded[question_length:-1] = values
    return padded


def _find_answer(example: SquadExample, passage: Passage) -> tuple[int, int] | None:
    """Returns the first and last token of the answer to train on."""
    answer = example.found_answer
    if example.is_impossible or answer is None:
        return None
    return passage.find_tokens(answer.start, answer.start + len(answer.text))


def _label(
    example: SquadExample, answer: tuple[int, int] | None, start: int, end: int, offset: int
) -> tuple[int, int, int]:
    """Returns start, end and `is_impossible` of the window of the tokens `start` to `end - 1`."""
    if example.is_impossible:
        return 0, 0, 1
    if answer is None:
        return UNKNOWN_POSITION, UNKNOWN_POSITION, 0
    first, last = answer
    if start <= first and last < end:
        return first - start + offset, last - start + offset, 0
    return 0, 0, 1
