"""A corpus of any size: files of three formats, read once, in blocks of bounded size.

A block is some documents, about two million characters. Which documents share a block depends on the
input alone, so work can be dealt out by blocks to any number of workers and the result is the same. A
document that is longer than a block is cut into several, between two lines.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import sentencex

from albert_tf import files, gfile
from albert_tf.data.pretraining.compression import decompress
from albert_tf.errors import InputError, StoppedError

InputFormat = Literal["lines", "text", "jsonl"]
EncodingErrors = Literal["strict", "replace"]

_BLOCK_CHARACTERS = 2_000_000
# A paragraph that has no end, in text without blank lines, is cut between two lines.
_PARAGRAPH_CHARACTERS = 100_000


@dataclasses.dataclass(frozen=True)
class CorpusRule:
    """How files become documents.

    Attributes:
        input_format: `lines`: a sentence a line, a blank line or the end of a file ends a document.
            `text`: prose; a file is a document, blank lines separate paragraphs. `jsonl`: a JSON
            object a line, whose field `text` is the prose of a document.
        encoding_errors: `strict` refuses bytes that are not UTF-8, `replace` reads them as U+FFFD.
        language: ISO 639 code of the prose, for its sentences.
        min_documents: the fewest documents in a block, where there are as many.
        block_characters: how many characters fill a block.
    """

    input_format: InputFormat = "lines"
    encoding_errors: EncodingErrors = "strict"
    language: str = "en"
    min_documents: int = 1
    block_characters: int = _BLOCK_CHARACTERS

    def split_sentences(self, document: Sequence[str]) -> list[str]:
        """Returns the sentences of a document as a `Block` holds it."""
        if self.input_format == "lines":
            return list(document)
        return [
            sentence
            for paragraph in document
            for sentence in sentencex.segment(self.language, paragraph)
            if not sentence.isspace()
        ]


class Block(NamedTuple):
    """Some documents that follow each other.

    Attributes:
        number: of the block, from 0.
        first_document: number of its first document in the corpus, from 0.
        documents: the sentences of each, or the paragraphs where the format is prose.
        input_bytes: bytes of the files that were read for it.
    """

    number: int
    first_document: int
    documents: list[list[str]]
    input_bytes: int


class InputFile(NamedTuple):
    """One file of the corpus.

    Attributes:
        path: its name.
        size: its bytes.
        modified: nanoseconds since 1970.
    """

    path: str
    size: int
    modified: int


def find_files(patterns: Sequence[str], flag: str) -> list[InputFile]:
    """Returns the files that match, sorted within each pattern, each file once.

    Args:
        patterns: file names, glob patterns, and folders, which stand for all files below them but
            hidden ones.
        flag: name of the flag that gave them, for the message.

    Raises:
        InputError: a pattern matches no file, a folder holds none, or a file cannot be read.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if gfile.isdir(pattern):
            matches = _files_below(pattern)
            if not matches:
                raise InputError(f"--{flag}: the folder '{pattern}' holds no file")
        else:
            matches = files.expand_globs([pattern], flag)
        found.update(dict.fromkeys(matches))
    return [find_file(path) for path in found]


def find_file(path: str) -> InputFile:
    """Returns a file with its size and time.

    Raises:
        InputError: it does not exist, is a folder, or cannot be read.
    """
    files.refuse_folder(path)
    with files.explain_unreadable(path):
        stat = gfile.stat(path)
    return InputFile(path, stat.length, stat.mtime_nsec)


def _files_below(folder: str) -> list[str]:
    found: list[str] = []
    entered: set[str] = set()
    for parent, folders, names in gfile.walk(folder):
        real = os.path.realpath(parent)
        if real in entered:  # a symbolic link, perhaps to a folder above
            folders.clear()
            continue
        entered.add(real)
        folders.sort()  # decides under which name a folder that has several is entered
        found += [os.path.join(parent, name) for name in names if not name.startswith(".")]
    return sorted(found)


@contextlib.contextmanager
def expect_unchanged(inputs: Sequence[InputFile]) -> Iterator[None]:
    """Checks after something has read files that they are as they were.

    Raises:
        StoppedError: a file has another size or time, or is gone. It takes the place of an `InputError`,
            which the change may have caused.
    """
    try:
        yield
    except InputError:
        _check_unchanged(inputs)
        raise
    _check_unchanged(inputs)


def _check_unchanged(inputs: Sequence[InputFile]) -> None:
    for before in inputs:
        try:
            after = find_file(before.path)
        except InputError as error:
            raise StoppedError(f"{error}; it was there when the run started") from error
        if after != before:
            raise StoppedError(
                f"{before.path}: changed while it was read: {before.size} bytes at the start, "
                f"{after.size} now, last written {(after.modified - before.modified) / 1e9:.0f} s later"
            )


def name_files(paths: Sequence[str]) -> str:
    """Returns a name for some files, for messages."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


class CorpusReader:
    """Reads files once, from the first to the last.

    Args:
        paths: the files. Those that end in `.gz` or `.zst` are decompressed.
        rule: how they become documents.

    Attributes:
        sha256: path -> hash of the file's bytes, in hexadecimal, of each file that was read.
        bytes_read: of the files, as they are on disk.
        replaced_lines: lines in which bytes were not UTF-8 and were replaced.
    """

    def __init__(self, paths: Sequence[str], rule: CorpusRule):
        self.sha256: dict[str, str] = {}
        self.bytes_read = 0
        self.replaced_lines = 0
        self._paths = paths
        self._rule = rule

    def blocks(self) -> Iterator[Block]:
        """Yields the corpus in blocks.

        Raises:
            InputError: a file cannot be read or decompressed, a line is not UTF-8 or not of the
                format, or there is no text.
        """
        number = first_document = done_bytes = 0
        for documents in _group_documents(self._documents(), self._rule):
            read = self.bytes_read - done_bytes
            yield Block(number, first_document, documents, read)
            done_bytes += read
            first_document += len(documents)
            number += 1
        if not number:
            raise InputError(
                f"{name_files(self._paths)}: no text, expected a corpus of "
                f"--input_format={self._rule.input_format}"
            )

    def sentences(self) -> Iterator[str]:
        """Yields the sentences of all documents.

        Raises:
            InputError: as `blocks` does.
        """
        for block in self.blocks():
            for document in block.documents:
                yield from self._rule.split_sentences(document)

    def _documents(self) -> Iterator[list[str]]:
        make_documents = _FORMATS[self._rule.input_format]
        for path in self._paths:
            lines = files.decode_lines(self._content(path), path, self._decode)
            yield from make_documents(lines, path, self._rule.block_characters)

    def _content(self, path: str) -> Iterator[bytes]:
        hasher = hashlib.sha256()

        def chunks() -> Iterator[bytes]:
            for chunk in files.read_chunks(path):
                hasher.update(chunk)
                self.bytes_read += len(chunk)
                yield chunk

        yield from decompress(chunks(), path)
        self.sha256[path] = hasher.hexdigest()

    def _decode(self, line: bytes, place: str) -> str:
        try:
            return files.decode_strictly(line, place)
        except InputError:
            if self._rule.encoding_errors == "strict":
                raise
            self.replaced_lines += 1
            return line.decode("utf-8", "replace")


def _group_documents(documents: Iterable[list[str]], rule: CorpusRule) -> Iterator[list[list[str]]]:
    """Yields the documents of each block; too few at the end join the block before."""
    full: list[list[str]] = []
    filling: list[list[str]] = []
    characters = 0
    for document in documents:
        filling.append(document)
        characters += sum(map(len, document))
        if characters >= rule.block_characters and len(filling) >= rule.min_documents:
            if full:
                yield full
            full, filling, characters = filling, [], 0
    if len(filling) >= rule.min_documents and full:
        yield full
        full = []
    if full or filling:
        yield full + filling


_Lines = Iterable[tuple[int, str]]


def _lines_documents(lines: _Lines, path: str, max_characters: int) -> Iterator[list[str]]:
    document, characters = [], 0
    for _, line in lines:
        if not line.isspace() and line:
            document.append(line)
            characters += len(line)
        elif document:
            yield document
            document, characters = [], 0
        if characters >= max_characters:
            yield document
            document, characters = [], 0
    if document:
        yield document


def _text_documents(lines: _Lines, path: str, max_characters: int) -> Iterator[list[str]]:
    document, characters = [], 0
    for paragraph in _paragraphs(line for _, line in lines):
        document.append(paragraph)
        characters += len(paragraph)
        if characters >= max_characters:
            yield document
            document, characters = [], 0
    if document:
        yield document


def _jsonl_documents(lines: _Lines, path: str, max_characters: int) -> Iterator[list[str]]:
    for number, line in lines:
        if line and not line.isspace():
            text = _text_field(line, path, number)
            numbered = enumerate(text.split("\n"))
            yield from _text_documents(numbered, path, max_characters)


def _text_field(line: str, path: str, number: int) -> str:
    place = f"{path}, line {number}"
    expected = "expected a JSON object with the text of a document in the field 'text'"
    try:
        value = files.parse_json(line, path, number)
    except InputError as error:
        raise InputError(f"{error}; {expected}") from error
    if not isinstance(value, dict):
        raise InputError(f"{place}: received JSON that is no object; {expected}")
    if "text" not in value:
        names = ", ".join(f"'{name}'" for name in value) or "none"
        raise InputError(f"{place}: no field 'text', but {names}; {expected}")
    if not isinstance(value["text"], str):
        kind = type(value["text"]).__name__
        raise InputError(f"{place}: the field 'text' is of type {kind}; {expected}")
    # JSON can spell half a surrogate pair, which no text can hold.
    return value["text"].encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# --input_format -> (numbered lines, path, most characters) -> documents.
_FORMATS = {"lines": _lines_documents, "text": _text_documents, "jsonl": _jsonl_documents}


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines between blank ones, joined."""
    paragraph, characters = [], 0
    for line in lines:
        text = line.strip()
        if text:
            paragraph.append(text)
            characters += len(text)
        if paragraph and (not text or characters >= _PARAGRAPH_CHARACTERS):
            yield " ".join(paragraph)
            paragraph, characters = [], 0
    if paragraph:
        yield " ".join(paragraph)
