"""How one or two texts share a sequence: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

The rules take numbers or, with `minimum=tf.minimum` and `maximum=tf.maximum`, tensors: `graph_packing`
applies the same ones.
"""

from collections.abc import Callable
from typing import TypeVar

from albert_tf.errors import ArgumentError

# Where the choice goes in a question with a gap.
BLANK = "_"

# Number of tokens: an int or an integer tensor.
_Length = TypeVar("_Length")


def join_choice(question: str, choice: str) -> str:
    """Returns question and choice as one text: the choice fills each blank or follows the question."""
    return question.replace(BLANK, choice) if BLANK in question else f"{question} {choice}"


def pair_lengths(
    length_a: _Length,
    length_b: _Length,
    budget: _Length,
    minimum: Callable[[_Length, _Length], _Length] = min,
    maximum: Callable[[_Length, _Length], _Length] = max,
) -> tuple[_Length, _Length]:
    """Returns how many tokens of each of two texts remain when both have to fit.

    The closed form of the original's rule: drop the last token of the longer text, of the second text if
    they are equal, until both fit.

    Args:
        length_a: tokens of the first text.
        length_b: tokens of the second text.
        budget: maximum number of tokens of both together.
        minimum: returns the lesser of two lengths.
        maximum: returns the greater of two lengths.
    """
    kept_b = minimum(length_b, maximum(budget // 2, budget - length_a))
    return minimum(length_a, budget - kept_b), kept_b


def choice_lengths(
    length_a: _Length,
    length_b: _Length,
    max_seq_length: int,
    max_qa_length: int,
    minimum: Callable[[_Length, _Length], _Length] = min,
) -> tuple[_Length, _Length]:
    """Returns how many tokens remain of an article, and of question and choice together.

    As in the original, question and choice keep their last `max_qa_length` tokens. The article keeps its
    front, as much as fits next to them.

    Args:
        length_a: tokens of the article.
        length_b: tokens of question and choice.
        max_seq_length: maximum number of tokens of the sequence, special tokens included.
        max_qa_length: maximum number of tokens of question and choice.
        minimum: returns the lesser of two lengths.
    """
    kept_b = minimum(length_b, max_qa_length)
    return minimum(length_a, max_seq_length - 3 - kept_b), kept_b


def check_max_seq_length(max_seq_length: int, least: int, what_for: str) -> None:
    """Checks that a sequence has room for at least one token of each text.

    Raises:
        ArgumentError: it does not; `what_for` describes a sequence of `least` tokens.
    """
    if max_seq_length < least:
        raise ArgumentError(
            f"max_seq_length={max_seq_length}: expected at least {least}, for {what_for}"
        )
