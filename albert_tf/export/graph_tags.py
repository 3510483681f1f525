"""Finds labelled spans of texts in a graph, from what a model returns for their tokens.

The spans are those of `albert_tf.evaluation.entities`: words begin by the same rule, each is read in the
same window, and tags become spans by the same rule.
"""

import tensorflow as tf

from albert_tf.data.fine_tuning.tags import TagTable, go_on
from albert_tf.data.fine_tuning.windows import find_words
from albert_tf.tokenization.in_graph import TokensWithOffsets
from albert_tf.tokenization.interface import WordTables


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
    words = find_words(tokens, characters, tables)
    firsts, lasts, labels, scores = _find_spans(
        tf.gather(probabilities, words.tokens), words.texts, tags
    )
    texts = tf.gather(words.texts, firsts)
    starts, ends = tf.gather(words.starts, firsts), tf.gather(words.ends, lasts)
    row_starts = tf.gather(characters.row_starts(), texts)
    first_bytes = tf.gather(byte_offsets.values, row_starts + starts)
    # The byte after the last character of a text is that of no character.
    is_end = ends == tf.gather(characters.row_lengths(), texts)
    lengths = tf.cast(tf.gather(tf.strings.length(text), texts), tf.int64)
    end_bytes = tf.gather(tf.pad(byte_offsets.values, [[0, 1]]), row_starts + ends)
    outputs = {
        "start": tf.cast(starts, tf.int32),
        "end": tf.cast(ends, tf.int32),
        "start_byte": tf.cast(first_bytes, tf.int32),
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
