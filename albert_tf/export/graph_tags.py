"""Finds labelled spans of texts in a graph, from what a model returns for their tokens.

The spans are those of `albert_tf.evaluation.entities`: words begin by the same rule, each is read in the
same window, and tags become spans by the same rule.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.tags import TagTable, go_on
from albert_tf.tokenization.graph_normalization import is_white_space, places_in_rows
from albert_tf.tokenization.in_graph import TokensWithOffsets
from albert_tf.tokenization.interface import WordTables, begin_words


def find_labelled_spans(
    text: tf.Tensor,
    tokens: TokensWithOffsets,
    probabilities: tf.Tensor,
    tables: WordTables,
    tags: TagTable,
) -> dict[str, tf.Tensor]:
    """Finds the labelled spans of texts, string (B,), of any length.

    `probabilities`, float32 (T, k), are those of the tags of the T tokens of all texts.

    Returns:
        `count`, int32 (B,), the number of spans of each text. The others are (B, N), where N is the
        greatest count, and 0 or empty after the spans of a text: `start` and `end`, int32, the first
        character of each span and the one after its last, in code points as Python counts them;
        `start_byte` and `end_byte`, int32, the same in bytes; `label`, string; `score`, float32, the
        mean probability of the tags of its words.
    """
    characters, byte_offsets = tf.strings.unicode_decode_with_offsets(text, "UTF-8")
    words = _find_words(tokens, characters, *tables)
    firsts, lasts, labels, scores = _find_spans(
        tf.gather(probabilities, words.tokens), words.texts, tags
    )
    texts = tf.gather(words.texts, firsts)
    starts, ends = tf.gather(words.starts, firsts), tf.gather(words.ends, lasts)
    row_starts = tf.gather(characters.row_starts(), texts)
    # The byte after the last character of a text is that of no character.
    is_end = ends == tf.gather(characters.row_limits(), texts)
    lengths = tf.cast(tf.gather(tf.strings.length(text), texts), tf.int64)
    end_bytes = tf.gather(tf.pad(byte_offsets.values, [[0, 1]]), ends)
    outputs = {
        "start": tf.cast(starts - row_starts, tf.int32),
        "end": tf.cast(ends - row_starts, tf.int32),
        "start_byte": tf.cast(tf.gather(byte_offsets.values, starts), tf.int32),
        "end_byte": tf.cast(tf.where(is_end, lengths, end_bytes), tf.int32),
        "label": tf.gather(tf.constant(tags.labels), labels),
        "score": scores,
    }
    rows = {
        name: tf.RaggedTensor.from_value_rowids(
            values, texts, tf.size(text, tf.int64), validate=False
        )
        for name, values in outputs.items()
    }
    counts = tf.cast(rows["start"].row_lengths(), tf.int32)
    return {"count": counts, **{name: values.to_tensor() for name, values in rows.items()}}


class _Words(NamedTuple):
    """The w words of B texts, int64 (w,) each."""

    tokens: tf.Tensor  # index of the first token of each word, in all texts
    texts: tf.Tensor  # its text
    starts: tf.Tensor  # index of its first character in all texts
    ends: tf.Tensor  # index of the character after its last one


def _find_words(
    tokens: TokensWithOffsets, characters: tf.RaggedTensor, opens: np.ndarray, closes: np.ndarray
) -> _Words:
    """Finds the words as `albert_tf.data.fine_tuning.tagged_text.find_words` does."""
    ids, starts, ends = (values.values for values in tokens)
    texts, places = places_in_rows(tokens.ids.row_splits)
    is_first = places == 0
    begins = begin_words(
        tf.gather(opens, ids),
        tf.where(is_first, 2, _shifted(tf.gather(closes, ids))),
        starts,
        tf.where(is_first, tf.zeros_like(ends), _shifted(ends)),
    )
    firsts = tf.where(begins)[:, 0]
    # The first token of each text begins a word, so no word spans two texts.
    lasts = tf.concat([firsts[1:], tf.size(ids, tf.int64)[None]], axis=0)[: tf.size(firsts)] - 1
    texts = tf.gather(texts, firsts)
    offsets = tf.gather(characters.row_starts(), texts)
    visible = tf.where(~is_white_space(characters.values))[:, 0]
    from_visible, to_visible = (
        tf.searchsorted(visible, offsets + limits, out_type=tf.int64)
        for limits in (tf.gather(starts, firsts), tf.gather(ends, lasts))
    )
    kept = tf.where(from_visible < to_visible)[:, 0]
    return _Words(
        tokens=tf.gather(firsts, kept),
        texts=tf.gather(texts, kept),
        starts=tf.gather(visible, tf.gather(from_visible, kept)),
        ends=tf.gather(visible, tf.gather(to_visible, kept) - 1) + 1,
    )


def _find_spans(
    probabilities: tf.Tensor, texts: tf.Tensor, table: TagTable
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the spans as `albert_tf.evaluation.entities.predict_spans` does.

    Returns the first and the last word of each, int64 (n,), the id of its label, int32 (n,), and the mean
    probability of its words' tags, float32 (n,).
    """
    tags = tf.argmax(probabilities, axis=-1)
    labels, closes = tf.gather(table.label_ids, tags), tf.gather(table.closes, tags)
    before = tf.where(texts != _shifted(texts), -1, _shifted(labels))
    goes_on = go_on(labels, tf.gather(table.opens, tags), before, _shifted(closes))
    is_inside = labels >= 0
    begins = is_inside & ~goes_on
    firsts = tf.where(begins)[:, 0]
    goes_on_after = tf.concat([goes_on, [False]], axis=0)[1:]
    lasts = tf.where(is_inside & ~goes_on_after)[:, 0]
    numbers = tf.boolean_mask(tf.cumsum(tf.cast(begins, tf.int32)) - 1, is_inside)
    scores = tf.boolean_mask(tf.reduce_max(probabilities, axis=-1), is_inside)
    return firsts, lasts, tf.gather(labels, firsts), tf.math.segment_mean(scores, numbers)


def _shifted(values: tf.Tensor) -> tf.Tensor:
    """Returns the value before each of (n,) values; -1 or false before the first value."""
    none = tf.constant(False if values.dtype == tf.bool else -1, values.dtype)
    return tf.concat([none[None], values], axis=0)[: tf.size(values)]
