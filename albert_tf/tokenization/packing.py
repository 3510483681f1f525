"""How texts become sequences: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated.

The rules take numbers or, with `minimum=tf.minimum` and `maximum=tf.maximum`, tensors, so that graphs
apply the same ones.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tokenization.graph_normalization import places_in_rows
from albert_tf.tokenization.in_graph import GraphTokenizer

# Where the choice goes in a question with a gap.
BLANK = "_"

# Number of tokens, and what chooses one of two.
_Length: TypeAlias = int | tf.Tensor
_Choose: TypeAlias = Callable[[_Length, _Length], _Length]


def join_choice(question: str, choice: str) -> str:
    """Returns question and choice as one text: the choice fills each blank or follows the question."""
    return question.replace(BLANK, choice) if BLANK in question else f"{question} {choice}"


def pair_lengths(
    length_a: _Length,
    length_b: _Length,
    budget: _Length,
    minimum: _Choose = min,
    maximum: _Choose = max,
) -> tuple[_Length, _Length]:
    """Returns how many tokens of each of two texts remain when both have to fit.

    The closed form of the original's rule: drop the last token of the longer text, of the second text if
    they are equal, until both together have at most `budget` tokens.
    """
    kept_b = minimum(length_b, maximum(budget // 2, budget - length_a))
    return minimum(length_a, budget - kept_b), kept_b


def choice_lengths(
    length_a: _Length,
    length_b: _Length,
    max_seq_length: int,
    max_qa_length: int,
    minimum: _Choose = min,
) -> tuple[_Length, _Length]:
    """Returns how many tokens remain of an article, and of question and choice together.

    As in the original, question and choice keep their last `max_qa_length` tokens. The article keeps its
    front, as much as fits next to them.
    """
    kept_b = minimum(length_b, max_qa_length)
    return minimum(length_a, max_seq_length - 3 - kept_b), kept_b


def count_windows(length: _Length, size: int, maximum: _Choose = max) -> _Length:
    """Returns the number of windows of a text, each with at most `size` of its tokens."""
    return maximum(-(-length // size), 1)


def window_begin(length: _Length, count: _Length, number: _Length) -> _Length:
    """Returns the first token of a window of a text; the one after the last window is the text's end.

    The `count` windows of a text share no token, and one has at most a token more than another.
    """
    return length * number // count


def check_max_seq_length(max_seq_length: int, least: int, what_for: str) -> None:
    """Checks that a sequence has room for `least` tokens, which are `what_for`."""
    if max_seq_length < least:
        raise InputError(
            f"max_seq_length={max_seq_length}: expected at least {least}, for {what_for}"
        )


def encode_in_graph(
    tokenizer: GraphTokenizer,
    text_a: tf.Tensor,
    text_b: tf.Tensor | None,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
) -> dict[str, tf.Tensor]:
    """Makes the inputs of a model from texts, string (B,) each, as `pack_inputs` does from ids."""
    # Both in one pass: the tokenizer is a large part of an exported graph.
    texts = text_a if text_b is None else tf.concat([text_a, text_b], axis=0)
    ids = tokenizer(texts, max_ids=max_seq_length)
    rows = tf.shape(text_a)[0]
    ids_b = None if text_b is None else ids[rows:]
    return pack_inputs(
        ids_a=ids[:rows], ids_b=ids_b, cls_id=cls_id, sep_id=sep_id, max_seq_length=max_seq_length
    )


def pack_inputs(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None,
    cls_id: int,
    sep_id: int,
    max_seq_length: int | tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded with 0 to the longest of the batch.

    A single text keeps its front; of a pair the longer text is truncated, the second if they are equal.
    An empty second text makes no pair. `ids_a` and `ids_b` are int32 (B, None), the returned `input_ids`,
    `input_mask` and `segment_ids` int32 (B, S).
    """
    length_a = ids_a.row_lengths()
    length_b = tf.zeros_like(length_a) if ids_b is None else ids_b.row_lengths()
    special_ids = tf.where(length_b > 0, tf.constant(3, tf.int64), 2)
    budget = tf.cast(max_seq_length, tf.int64) - special_ids
    kept_a, kept_b = pair_lengths(length_a, length_b, budget, tf.minimum, tf.maximum)
    parts = [_Part(ids_a, tf.zeros_like(kept_a), kept_a)]
    if ids_b is not None:
        parts.append(_Part(ids_b, tf.zeros_like(kept_b), kept_b))
    return _join(parts, cls_id, sep_id)


def cut_in_graph(
    ids: tf.RaggedTensor, cls_id: int, sep_id: int, max_seq_length: int
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Makes the inputs of W windows of texts, of whose ids, int32 (B, None), each window has a part.

    Returns them, int32 (W, S), and the text of each window, int64 (W,).
    """
    lengths = ids.row_lengths()
    counts = count_windows(lengths, max_seq_length - 2, tf.maximum)
    texts, numbers = places_in_rows(tf.pad(tf.cumsum(counts), [[1, 0]]))
    length, count = tf.gather(lengths, texts), tf.gather(counts, texts)
    begins = tf.gather(ids.row_starts(), texts) + window_begin(length, count, numbers)
    splits = tf.concat([begins, ids.row_splits[-1:]], axis=0)
    windows = tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False)
    return pack_inputs(
        ids_a=windows, ids_b=None, cls_id=cls_id, sep_id=sep_id, max_seq_length=max_seq_length
    ), texts


def pack_choices(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
    max_qa_length: int,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] article [SEP] question and option [SEP]`, padded as by `pack_inputs`.

    `ids_a` are those of the articles, `ids_b` those of questions and options, of which the last
    `max_qa_length` are kept; int32 (B, None) each.
    """
    length_a, length_b = ids_a.row_lengths(), ids_b.row_lengths()
    kept_a, kept_b = choice_lengths(length_a, length_b, max_seq_length, max_qa_length, tf.minimum)
    parts = [_Part(ids_a, tf.zeros_like(kept_a), kept_a), _Part(ids_b, length_b - kept_b, kept_b)]
    return _join(parts, cls_id, sep_id)


class _Part(NamedTuple):
    """The ids of texts, int32 (B, None), and which of them are kept: int64 (B,) each."""

    ids: tf.RaggedTensor
    begins: tf.Tensor
    lengths: tf.Tensor


def _join(parts: Sequence[_Part], cls_id: int, sep_id: int) -> dict[str, tf.Tensor]:
    """Puts [CLS] before the texts and [SEP] after each that is first or not empty, and pads."""
    first, *others = parts
    total_lengths = [2 + first.lengths]
    for part in others:
        with_sep = tf.where(part.lengths > 0, part.lengths + 1, 0)
        total_lengths.append(total_lengths[-1] + with_sep)
    # 0 for a batch without texts.
    positions = tf.range(
        tf.reduce_max(tf.pad(total_lengths[-1], [[0, 1]], constant_values=1))
    )  # (S,)
    mask = positions < total_lengths[-1][:, None]  # (B, S)
    # A text is followed by its [SEP], all of them by padding.
    input_ids = tf.where(mask, sep_id, 0)
    starts = [tf.ones_like(first.lengths), *total_lengths[:-1]]
    for part, start in zip(parts, starts, strict=True):
        in_text = positions - start[:, None]
        is_text = (in_text >= 0) & (in_text < part.lengths[:, None])
        index = in_text + (part.ids.row_starts() + part.begins)[:, None]
        ids = tf.gather(tf.pad(part.ids.values, [[0, 1]]), tf.where(is_text, index, 0))
        input_ids = tf.where(is_text, ids, input_ids)
    input_ids = tf.where(positions == 0, cls_id, input_ids)
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": tf.cast(mask & (positions >= total_lengths[0][:, None]), tf.int32),
    }
