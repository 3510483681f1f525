"""Tagged texts: read from CoNLL files of words with tags, or texts with character spans; and as ids.

A word is labelled on its first piece, in the window that shows most context around it. So each word
counts once in the loss, and is predicted where it was learnt.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning.character_spans import (
    OddSpan,
    read_spans,
    shown,
    warn_of_odd_spans,
)
from albert_tf.data.fine_tuning.column_meanings import account_for_columns
from albert_tf.data.fine_tuning.column_names import usual_columns
from albert_tf.data.fine_tuning.columns import hide_labels, refuse_sets
from albert_tf.data.fine_tuning.conll import WORDS, Sentence, is_conll, read_conll
from albert_tf.data.fine_tuning.examples import Example, check_label, label_name
from albert_tf.data.fine_tuning.features import Features, concatenate, strip_padding
from albert_tf.data.fine_tuning.opened_tables import open_table, split_labelled
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.tag_schemes import check_tags, read_tags
from albert_tf.data.fine_tuning.tags import (
    Span,
    TagTable,
    make_tags,
    split_valid_tag,
    tag_words,
)
from albert_tf.data.fine_tuning.windows import (
    Words,
    chunks,
    cut_into_arrays,
    find_words,
    ragged_rows,
    tokenize,
)
from albert_tf.errors import InputError, warn
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.word_starts import word_tables

_TAGS = ("ner_tags", "tags", "labels")


@dataclasses.dataclass(frozen=True)
class TaggedText(Example):
    """A text with spans, in their order; None in a test set without labels.

    If the file separates words, `words` are the start and end of each; the text has a space between two.
    """

    spans: tuple[Span, ...] | None = None
    words: tuple[tuple[int, int], ...] | None = None
    has_classes: bool = False  # whether the spans are the words, each with its class

    @property
    def known_spans(self) -> tuple[Span, ...]:
        """The spans of a text with labels."""
        assert self.spans is not None
        return self.spans


def read_tagged(
    source: Any, split: str, labels: Sequence[str] | None, has_classes: bool | None = None
) -> list[TaggedText]:
    """Reads tagged texts, from a CoNLL file or from whatever has named columns.

    A row has `text` and `spans`, a list of objects with `start`, `end` and `label`, or of lists of the
    three, whose offsets count characters (code points); or lists of words, `tokens`, and of tags,
    `ner_tags`. A line of a CoNLL file has a word in the first column, or in the second after its number,
    and its tag in the last column, or in that which `read_conll` says; an empty line ends a text. A test
    set may lack the tags, or `spans`.

    Args:
        source: a CoNLL file, or what `Table.read` takes.
        split: `train`, `dev` or `test`.
        labels: those that exist; None accepts all.
        has_classes: whether tags are classes of words, see `read_tags`.
    """
    if is_conll(source):
        name = files.as_path(source)
        texts = list(make_texts([*read_conll(name, split)], labels, has_classes))
    else:
        table = open_table(source, split)
        name = table.name
        texts = list(_read_table(table, split, labels, has_classes))
    if not texts:
        raise InputError(f"{name}: holds no text")
    unlabelled = sum(text.spans is None for text in texts)
    if unlabelled not in (0, len(texts)):
        raise InputError(
            f"{name}: {unlabelled} of {len(texts)} texts have no 'spans'; expected all or none of them"
        )
    return texts


def split_tagged(source: Any) -> tuple[Any, Table | None]:
    """Splits a source into texts with spans or tags and texts without; an empty part is None."""
    if is_conll(source):
        return source, None
    table = open_table(source, "test")
    named = [column for column in table.columns if column == table.names.label_column]
    return split_labelled(table, named or usual_columns(table.columns, ("spans", *_TAGS)))


def read_untagged(source: Any) -> list[TaggedText]:
    """Reads texts as `read_tagged` does, without their spans."""
    source = hide_labels(source) if isinstance(source, Table) else source
    return [dataclasses.replace(text, spans=None) for text in read_tagged(source, "test", None)]


def collect_labels(texts: Sequence[TaggedText], path: str) -> tuple[str, ...]:
    """Returns the labels of a training file, sorted."""
    labels = sorted({span.label for text in texts for span in text.known_spans})
    if not labels:
        raise InputError(f"{path}: none of its {len(texts)} texts has a span; expected one or more")
    return tuple(labels)


def _read_table(
    table: Table, split: str, labels: Sequence[str] | None, has_classes: bool | None
) -> Iterator[TaggedText]:
    refuse_sets(table)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    text_column = table.names.text_column or _find_column(table, ("text", *WORDS))
    has_words = text_column.lower() in WORDS or isinstance(rows[0].get(text_column), list)
    usual = _TAGS if has_words else ("spans",)
    label_column = table.names.label_column or _find_column(table, usual)
    # A test set may lack it.
    read_labels = label_column if label_column in table.columns else None
    account_for_columns(
        table,
        split,
        {
            "the words" if has_words else "the text": text_column,
            "the tags" if has_words else "the spans": read_labels,
        },
    )
    if has_words:
        yield from make_texts(
            [*_read_words(table, rows, split, word_column=text_column, tag_column=label_column)],
            labels,
            has_classes,
        )
        return
    faults: list[OddSpan] = []
    for number, row in zip(table.numbers, rows, strict=True):
        place, text, spans = table.place(number), row.get(text_column), row.get(label_column)
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                f"{place}: '{text_column}' is {shown(text)}; expected a text that is not empty"
            )
        if spans is not None or split != "test":
            if not isinstance(spans, list):
                raise InputError(f"{place}: '{label_column}' is {shown(spans)}; expected a list")
            spans, odd = read_spans(place, text, values=spans, labels=labels)
            faults += odd
        yield TaggedText(f"{split}-{number}", text, spans=spans)
    warn_of_odd_spans(faults)


def _find_column(table: Table, names: Sequence[str]) -> str:
    columns = {column.lower(): column for column in table.columns}
    return next((columns[name] for name in names if name in columns), names[0])


def _read_words(
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    split: str,
    word_column: str,
    tag_column: str,
) -> Iterator[Sentence]:
    names = [word_column, tag_column]
    for number, row in zip(table.numbers, rows, strict=True):
        place, words, tags = table.place(number), row.get(word_column), row.get(tag_column)
        columns: list[Any] = [words] if tags is None and split == "test" else [words, tags]
        if tags and isinstance(tags, list) and all(type(tag) is int for tag in tags):
            raise InputError(
                f"{place}: '{tag_column}' is {shown(tags)}, numbers of tags; expected their names, such "
                "as B-PER, which Parquet files and folders of datasets have"
            )
        for name, column in zip(names, columns, strict=False):
            if not (isinstance(column, list) and all(isinstance(item, str) for item in column)):
                raise InputError(f"{place}: '{name}' is {shown(column)}; expected a list of texts")
        if not words or len(set(map(len, columns))) > 1:
            counts = " and ".join(str(len(column)) for column in columns)
            raise InputError(f"{place}: received {counts} words and tags; expected as many of each")
        yield f"{split}-{number}", [place] * len(words), words, tags


def make_texts(
    sentences: Sequence[Sentence],
    labels: Sequence[str] | None,
    has_classes: bool | None = None,
) -> Iterator[TaggedText]:
    """Yields texts that are given as words, of which all have tags or none.

    `labels` are those that exist; None accepts all. `has_classes` is that of `read_tags`.
    """
    given = [tags for *_, tags in sentences if tags is not None]
    known = {*(labels or ()), *make_tags(labels or ())}
    names = {tag: label_name(tag, known) for tag in itertools.chain.from_iterable(given)}
    read = read_tags([[names[tag] for tag in tags] for tags in given], has_classes)
    if read.name not in ("BIO", "BIOES"):
        warn(f"{sentences[0][1][0]}: the tags are read as {read.name}")
    read_texts = iter(read.texts)
    for guid, places, words, tags in sentences:
        for place, word in zip(places, words, strict=True):
            if not word.strip():
                raise InputError(f"{place}: the word {shown(word)} is white space; expected a word")
        ends = list(itertools.accumulate(len(word) + 1 for word in words))
        limits = [(end - 1 - len(word), end - 1) for end, word in zip(ends, words, strict=True)]
        spans = None
        if tags is not None:
            tags = next(read_texts)
            if read.has_classes:
                for place, tag in zip(places, tags, strict=True):
                    check_label(place, tag, labels)
                spans = tuple(Span(*limit, tag) for limit, tag in zip(limits, tags, strict=True))
            else:
                check_tags(tags, places, read.scheme, labels)
                spans = tuple(_join_words(limits, tags))
        yield TaggedText(
            guid,
            " ".join(words),
            spans=spans,
            words=tuple(limits),
            has_classes=read.has_classes,
        )


def _join_words(words: Sequence[tuple[int, int]], tags: Sequence[str]) -> Iterator[Span]:
    """Yields the spans of words with valid tags."""
    span: Span | None = None
    for (start, end), tag in zip(words, tags, strict=True):
        prefix, label = split_valid_tag(tag)
        if span and prefix in ("I", "E"):
            span = span._replace(end=end)
            continue
        if span:
            yield span
        span = Span(start, end, label) if label else None
    if span:
        yield span


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingFeatures(Features):
    """The windows `[CLS] part of a text [SEP]` of n texts; `token_labels` has `label_ids` of words."""

    words: Words  # of all texts; their tokens are indices into `input_ids`

    @property
    def word_labels(self) -> np.ndarray:
        """The tags of all words, int32 (w,)."""
        return self.token_labels["label_ids"][self.words.tokens]


def encode_tagged(
    examples: Sequence[TaggedText],
    tags: Sequence[str],
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int,
) -> TaggingFeatures:
    """Converts texts to ids, cut as `cut_windows` does. A text without tokens has no window.

    The words of a text without spans have no label.
    """
    tables = word_tables(tokenizer)
    parts, word_parts = [], []
    count = 0
    with (
        tf.device("CPU"),
        Progress(
            "making windows", "texts", len(examples), delay=SECONDS_WITHOUT_PROGRESS
        ) as progress,
    ):
        for chunk in chunks([example.text_a for example in examples]):
            texts = [example.text_a for example in examples[chunk]]
            tokens = tokenize(texts, tokenizer)
            inputs, windows, _ = cut_into_arrays(
                passages=tokens,
                tokenizer=tokenizer,
                max_seq_length=max_seq_length,
                doc_stride=doc_stride,
            )
            parts.append(strip_padding(inputs))
            # Windows that score consecutive tokens are in order.
            is_scored = windows.token_is_max_context[inputs["input_mask"] > 0]
            places = count + np.flatnonzero(is_scored)
            count += len(is_scored)
            characters = ragged_rows([[*map(ord, text)] for text in texts])
            firsts, numbers, *limits = map(np.asarray, find_words(tokens, characters, tables))
            word_parts.append((places[firsts], chunk.start + numbers, *limits))
            progress.update(len(texts))
    words = Words(*map(np.concatenate, zip(*word_parts, strict=True)))
    arrays = concatenate(parts)
    features = TaggingFeatures(
        input_ids=arrays["input_ids"],
        lengths=arrays["lengths"],
        first_lengths=arrays["first_lengths"],
        words=words,
    )
    spans = [example.spans for example in examples]
    if all(each is None for each in spans):
        return features
    return label_words(features, "label_ids", spans, tags)


def label_words(
    features: TaggingFeatures,
    name: str,
    spans: Sequence[Sequence[Span] | None],
    tags: Sequence[str],
) -> TaggingFeatures:
    """Returns features with the ids of the tags of all words as `token_labels`.

    `spans` are those of each text; the words of a text with None have no label.
    """
    table, words = TagTable.from_tags(tags), features.words
    bounds = np.searchsorted(words.texts, np.arange(len(spans) + 1))
    ids = np.full(len(features.input_ids), -1, np.int32)
    for known, part in zip(
        spans, itertools.starmap(slice, itertools.pairwise(bounds)), strict=True
    ):
        if known is not None:
            starts, ends = words.starts[part], words.ends[part]
            ids[words.tokens[part]] = tag_words(starts, ends, spans=known, table=table)
    return dataclasses.replace(features, token_labels={**features.token_labels, name: ids})
