"""A corpus of any size: files of three formats, read once, in chunks of bounded size.

A chunk is a few documents, about two million characters. Which documents share a chunk depends on the
input alone, so any number of workers can share the work and produce the same result. A document that
is longer than a chunk is split between two lines.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

import sentencex

from albert_tf import files
from albert_tf.data.pretraining.input_files import name_files
from albert_tf.errors import InputError
from albert_tf.file_kinds import decompress
from albert_tf.options import check_layout, option

_CHUNK_CHARACTERS = 2_000_000
# A longer paragraph, in text without blank lines, is split between two lines.
_PARAGRAPH_CHARACTERS = 100_000

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
    """How files become documents and sentences."""

    input_format: Literal["lines", "text", "jsonl"] = option(
        "lines: one sentence per line, a blank line between documents. text: prose, one document per "
        "file, blank lines between paragraphs. jsonl: one JSON object per line, with a document's prose "
        "in its field 'text'.",
        "lines",
    )
    language: str = option(
        "Language of the prose as an ISO 639 code, used to split it into sentences.", "en"
    )

    def __post_init__(self):
        # The splitter takes any other text, also a code in capitals, for English.
        if not re.fullmatch("[a-z]{2,3}", self.language):
            raise InputError(
                f"language={self.language}: expected an ISO 639 code in small letters, such as en"
            )

    def split_sentences(self, document: Sequence[str]) -> list[str]:
        """Returns the sentences of a document of a `Chunk`."""
        if self.input_format == "lines":
            return list(document)
        return [
            sentence
            for paragraph in document
            for sentence in sentencex.segment(self.language, paragraph)
            if not sentence.isspace()
        ]


class Chunk(NamedTuple):
    """Some consecutive documents."""

    first_document: int  # number of its first document in the corpus, from 0
    documents: list[list[str]]  # the sentences of each document, or the paragraphs of prose


class CorpusReader:
    """Reads files once, in order. A chunk has `min_documents` documents or more, if there are as many."""

    def __init__(self, paths: Sequence[str], config: CorpusConfig, min_documents: int = 1):
        self.sha256: dict[str, str] = {}  # of each file that was read, by path, in hexadecimal
        self.bytes_read = 0  # before decompression
        self._paths = paths
        self._config = config
        self._min_documents = min_documents

    def chunks(self) -> Iterator[Chunk]:
        """Yields the corpus in chunks."""
        first_document = 0
        for documents in group_documents(self.documents(), count_characters, self._min_documents):
            yield Chunk(first_document, documents)
            first_document += len(documents)
        if not first_document:
            raise no_text(self._paths, self._config)

    def sentences(self) -> Iterator[str]:
        """Yields the sentences of all documents."""
        for chunk in self.chunks():
            for document in chunk.documents:
                yield from self._config.split_sentences(document)

    def documents(self) -> Iterator[list[str]]:
        """Yields the documents of all files, each as in a `Chunk`."""
        make_documents = _FORMATS[self._config.input_format]
        for path in self._paths:
            lines = files.decode_lines(self._content(path), path, files.decode_strictly)
            yield from make_documents(lines, path)

    def _content(self, path: str) -> Iterator[bytes]:
        hasher = hashlib.sha256()

        def parts() -> Iterator[bytes]:
            for part in files.read_chunks(path):
                hasher.update(part)
                self.bytes_read += len(part)
                yield part

        yield from decompress(parts(), path)
        self.sha256[path] = hasher.hexdigest()


def count_characters(document: Sequence[str]) -> int:
    """Returns the size of a document, by which documents are grouped."""
    return sum(map(len, document))


def group_documents(
    documents: Iterable[_Item], count: Callable[[_Item], int], min_documents: int
) -> Iterator[list[_Item]]:
    """Yields the documents of each chunk. If too few are left at the end, they join the last chunk.

    `count` returns the number of characters of a document, or of what stands for it.
    """
    full: list[_Item] = []
    filling: list[_Item] = []
    characters = 0
    for document in documents:
        filling.append(document)
        characters += count(document)
        if characters >= _CHUNK_CHARACTERS and len(filling) >= min_documents:
            if full:
                yield full
            full, filling, characters = filling, [], 0
    if len(filling) >= min_documents and full:
        yield full
        full = []
    if full or filling:
        yield full + filling


def no_text(paths: Sequence[str], config: CorpusConfig) -> InputError:
    """Returns the error for a corpus without a document."""
    return InputError(
        f"{name_files(paths)}: no text; expected a corpus of input_format={config.input_format}"
    )


_Lines = Iterable[tuple[int, str]]


def _lines_documents(lines: _Lines, path: str) -> Iterator[list[str]]:
    return _join(
        (None if not line or line.isspace() else line for _, line in lines), _CHUNK_CHARACTERS
    )


def _text_documents(lines: _Lines, path: str) -> Iterator[list[str]]:
    stripped = (line.strip() or None for _, line in lines)
    paragraphs = map(" ".join, _join(stripped, _PARAGRAPH_CHARACTERS))
    return _join(paragraphs, _CHUNK_CHARACTERS)


def _join(parts: Iterable[str | None], max_characters: int) -> Iterator[list[str]]:
    """Yields the parts between two None, in lists that end when they have `max_characters`."""
    joined, characters = [], 0
    for part in parts:
        if part is not None:
            joined.append(part)
            characters += len(part)
        if joined and (part is None or characters >= max_characters):
            yield joined
            joined, characters = [], 0
    if joined:
        yield joined


def _jsonl_documents(lines: _Lines, path: str) -> Iterator[list[str]]:
    for number, line in lines:
        if line and not line.isspace():
            text = _text_field(line, path, number)
            yield from _text_documents(enumerate(text.split("\n")), path)


def _text_field(line: str, path: str, number: int) -> str:
    expected = "a JSON object with a document's text in the field 'text'"
    value = files.parse_json(text=line, path=path, line=number, expected=expected)
    check_layout(value, {"text": str}, f"{path}, line {number}: not {expected}")
    # JSON can spell half a surrogate pair, which no text can hold.
    return value["text"].encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# By input format.
_FORMATS = {"lines": _lines_documents, "text": _text_documents, "jsonl": _jsonl_documents}
