"""Converts tagged texts to ids: windows of tokens, and the words in them.

A word is labelled on its first piece, in the window that shows most context around it. So each word
counts once in the loss, and is predicted where it was learnt.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tags import TagTable, tag_words
from albert_tf.data.windows import (
    Passage,
    TextWindowConfig,
    cut_passage,
    encode_passage,
    find_max_context,
)
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.words import WordTables, begin_words, word_tables


class Words(NamedTuple):
    """The w words of some texts, in order.

    Attributes:
        tokens: int64 (w,), index of the first token of each word.
        starts: int64 (w,), its first character in the text, which is not white space.
        ends: int64 (w,), the character after its last one.
    """

    tokens: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingFeatures(Features):
    """The windows `[CLS] part of a text [SEP]` of n texts. `token_labels` has the `label_ids` of words.

    Attributes:
        words: words of all texts. Their tokens are indices into `input_ids`.
        word_texts: int64 (w,), index of each word's text.
    """

    words: Words
    word_texts: np.ndarray


def encode_tagged(
    examples: Sequence[TaggedText],
    tags: Sequence[str],
    tokenizer: Tokenizer,
    config: TextWindowConfig,
) -> TaggingFeatures:
    """Converts texts to ids. All of them have spans, or none. A text without tokens has no window."""
    table, tables = TagTable.from_tags(tags), word_tables(tokenizer)
    special = np.array([tokenizer.cls_id, tokenizer.sep_id], np.int32)
    ids, lengths, words, labels = [], [], [], []
    count = 0
    with Progress(
        "making windows", "texts", len(examples), delay=SECONDS_WITHOUT_PROGRESS
    ) as progress:
        for example in examples:
            passage = encode_passage(example.text_a, tokenizer)
            starts, ends = cut_passage(
                len(passage.ids), config.max_seq_length - 2, config.doc_stride
            )
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                ids += [special[:1], passage.ids[start:end], special[1:]]
            of_text = find_words(passage, example.text_a, tables)
            if example.spans is not None:
                labels.append(tag_words(of_text.starts, of_text.ends, example.spans, table))
            # Special tokens come before the text's own: [CLS] of each window and [SEP] of those before.
            window = find_max_context(starts, ends)[of_text.tokens]
            window_starts = np.concatenate([[0], np.cumsum(ends - starts + 2)])
            places = count + window_starts[window] + 1 + of_text.tokens - starts[window]
            words.append(of_text._replace(tokens=places))
            lengths.append(ends - starts + 2)
            count += window_starts[-1]
            progress.update()
    joined = Words(*(np.concatenate([np.zeros(0, np.int64), *x]) for x in zip(*words, strict=True)))
    token_labels = {}
    if labels:
        token_labels["label_ids"] = np.full(count, -1, np.int32)
        token_labels["label_ids"][joined.tokens] = np.concatenate(labels)
    lengths = np.concatenate([np.zeros(0, np.int32), *lengths]).astype(np.int32)
    return TaggingFeatures(
        input_ids=np.concatenate([special[:0], *ids]),
        lengths=lengths,
        first_lengths=lengths,
        token_labels=token_labels,
        words=joined,
        word_texts=np.repeat(np.arange(len(words)), [len(each.tokens) for each in words]),
    )


def find_words(passage: Passage, text: str, tables: WordTables) -> Words:
    """Returns the words of a text; a group of tokens without a visible character is none."""
    before = np.concatenate([[2], tables.closes[passage.ids[:-1]]])[: len(passage.ids)]
    ends_before = np.concatenate([[0], passage.ends[:-1]])[: len(passage.ids)]
    begins = begin_words(tables.opens[passage.ids], before, passage.starts, ends_before)
    tokens = np.flatnonzero(begins)
    last_tokens = np.append(tokens, len(passage.ids))[1:] - 1
    visible = np.flatnonzero([not char.isspace() for char in text])
    firsts = np.searchsorted(visible, passage.starts[tokens])
    afters = np.searchsorted(visible, passage.ends[last_tokens])
    is_word = firsts < afters
    firsts, afters = firsts[is_word], afters[is_word]
    return Words(tokens[is_word], visible[firsts], visible[afters - 1] + 1)
