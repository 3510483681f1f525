"""The tags of words, and the spans that they stand for.

In BIO, `B-PER` is the first word of a span of the label PER, `I-PER` each further one, `O` any word
outside of spans. In BIOES a span also ends with `E-PER`, and `S-PER` is a span of one word. Models that
are trained here learn BIO; models from elsewhere may have either, and files the schemes of
`tag_schemes.py`, too. Tags without prefixes and without `O`, such as parts of speech, are classes of
words: each word is a span.

Predicted tags need not be a valid sequence. They are read as in the CoNLL evaluation
(https://www.clips.uantwerpen.be/conll2000/chunking/conlleval.txt): a span goes on as long as the label
stays the same, no B or S begins another one, and no E or S has ended it.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError

Scheme = Literal["BIO", "BIOES"]
OUTSIDE = "O"

# Of a span by whether the word is its first and whether it is its last.
_PREFIXES: dict[Scheme, dict[tuple[bool, bool], str]] = {
    "BIO": {(True, True): "B", (True, False): "B", (False, False): "I", (False, True): "I"},
    "BIOES": {(True, True): "S", (True, False): "B", (False, False): "I", (False, True): "E"},
}
# What `transformers` calls classes without names, which may be tags of any scheme.
_UNNAMED = re.compile(r"LABEL_\d+")


class Span(NamedTuple):
    """A part of a text with a label: its first character, and the one after its last."""

    start: int
    end: int
    label: str


def split_tag(tag: str) -> tuple[str, str] | None:
    """Returns prefix and label of a tag, both empty for `O`; None if it is no tag."""
    if tag == OUTSIDE:
        return "", ""
    prefix, _, label = tag.partition("-")
    return (prefix, label) if label and prefix in ("B", "I", "E", "S") else None


def split_valid_tag(tag: str) -> tuple[str, str]:
    """Returns prefix and label of what is a tag, both empty for `O`."""
    parts = split_tag(tag)
    assert parts is not None
    return parts


def make_tags(labels: Iterable[str]) -> tuple[str, ...]:
    """Returns the tags of BIO for some labels: `O`, and those of each label in turn."""
    return (OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in "BI"))


def scheme_of(tags: Iterable[str]) -> Scheme:
    """Returns the scheme of some tags: BIOES if it has E or S, otherwise BIO."""
    return "BIOES" if any(tag.startswith(("E-", "S-")) for tag in tags) else "BIO"


def are_classes(tags: Sequence[str]) -> bool:
    """Returns whether the tags of a model are classes of words, without prefixes and without `O`."""
    return all(split_tag(tag) is None and not _UNNAMED.fullmatch(tag) for tag in tags)


@dataclasses.dataclass(frozen=True)
class TagTable:
    """What the k tags of a model mean, by their ids."""

    labels: tuple[str, ...]
    label_ids: np.ndarray  # index of each tag's label, -1 for `O`: int32 (k,)
    opens: np.ndarray  # whether a tag always begins a span, as B, S and classes do: bool (k,)
    closes: np.ndarray  # whether a tag always ends a span, as E, S and classes do: bool (k,)
    # The tag of a word in a span by its label, by whether it is the first word, and by whether it is the
    # last: int32 (labels, 2, 2).
    word_tags: np.ndarray
    outside: int  # the id of `O`; -1 if there is none, as each word has a class

    @property
    def has_classes(self) -> bool:
        """Whether each word has a class of its own; otherwise tags stand for spans."""
        return self.outside < 0

    @classmethod
    def from_tags(cls, tags: Sequence[str]) -> Self:
        """Makes the table of the tags of a model, in the order of their ids."""
        if tags and are_classes(tags):
            ids = np.arange(len(tags), dtype=np.int32)
            return cls(
                labels=tuple(tags),
                label_ids=ids,
                opens=np.ones(len(tags), bool),
                closes=np.ones(len(tags), bool),
                word_tags=np.tile(ids[:, None, None], (1, 2, 2)),
                outside=-1,
            )
        parts = []
        for tag in tags:
            if (part := split_tag(tag)) is None:
                raise InputError(
                    f"labels: received '{tag}'; expected O, or B-, I-, E- or S- before a label"
                )
            parts.append(part)
        labels = tuple(dict.fromkeys(label for _, label in parts if label))
        prefixes = _PREFIXES[scheme_of(tags)]
        expected = {
            OUTSIDE,
            *(f"{prefix}-{name}" for name in labels for prefix in prefixes.values()),
        }
        if missing := sorted(expected.difference(tags)):
            raise InputError(f"labels: received no {', '.join(missing)}; expected all tags")
        word_tags = np.zeros((len(labels), 2, 2), np.int32)
        for number, label in enumerate(labels):
            for (is_first, is_last), prefix in prefixes.items():
                word_tags[number, int(is_first), int(is_last)] = tags.index(f"{prefix}-{label}")
        return cls(
            labels=labels,
            label_ids=np.array([labels.index(name) if name else -1 for _, name in parts], np.int32),
            opens=np.array([prefix in ("B", "S") for prefix, _ in parts]),
            closes=np.array([prefix in ("E", "S") for prefix, _ in parts]),
            word_tags=word_tags,
            outside=tags.index(OUTSIDE),
        )


def find_spans(
    tags: tf.Tensor, texts: tf.Tensor, table: TagTable
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the spans of n words.

    `tags`, int (n,), are those of the words, `texts`, int (n,), ascending, the text of each. Returns the
    first and the last word of each span, int64 (spans,), and the index of its label, int32 (spans,).
    """
    label_ids, opens, closes = (
        tf.gather(values, tags) for values in (table.label_ids, table.opens, table.closes)
    )
    is_first = tf.concat([[True], texts[1:] != texts[:-1]], axis=0)[: tf.size(tags)]
    before = tf.where(is_first, -1, tf.roll(label_ids, 1, axis=0))
    is_inside = label_ids >= 0
    goes_on = is_inside & (label_ids == before) & ~opens & ~tf.roll(closes, 1, axis=0)
    firsts = tf.where(is_inside & ~goes_on)[:, 0]
    lasts = tf.where(is_inside & ~tf.roll(goes_on, -1, axis=0))[:, 0]
    return firsts, lasts, tf.gather(label_ids, firsts)


def tag_words(
    starts: np.ndarray, ends: np.ndarray, spans: Sequence[Span], table: TagTable
) -> np.ndarray:
    """Returns the tags of words, int32 (n,), `table.outside` for a word in no span.

    A word belongs to the last span that shares a character with it. The words, from the characters
    `starts` to before `ends`, int (n,), are ascending, and so are the spans, which do not cross.
    """
    tags = np.full(len(starts), table.outside, np.int32)
    if not spans or not len(starts):
        return tags
    span_starts, span_ends = (np.array([span[side] for span in spans]) for side in (0, 1))
    labels = np.array([table.labels.index(span.label) for span in spans])
    number = np.searchsorted(span_starts, ends, side="left") - 1
    number[(number < 0) | (span_ends[number] <= starts)] = -1
    is_first = number != np.concatenate([[-1], number[:-1]])
    is_last = number != np.concatenate([number[1:], [-1]])
    inside = number >= 0
    places = labels[number], is_first.astype(int), is_last.astype(int)
    tags[inside] = table.word_tags[places][inside]
    return tags
