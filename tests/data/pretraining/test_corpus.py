"""Files of every format and compression become documents, in chunks that the input alone decides."""

import gzip
import hashlib
import itertools
import json
import os
import sys
import tracemalloc

import pytest

from albert_tf.data.pretraining import corpus
from albert_tf.data.pretraining.corpus import CorpusConfig, CorpusReader
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.file_kinds import decompress
from tests.helpers import refused

zstandard = pytest.importorskip("zstandard", reason="needs zstandard")


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(paths, **config):
    """Returns the sentences of each document."""
    config = CorpusConfig(**config)
    chunks = CorpusReader(paths, config).chunks()
    return [config.split_sentences(document) for chunk in chunks for document in chunk.documents]


def test_blank_lines_and_ends_of_files_end_documents(tmp_path):
    one = write(tmp_path / "one", "\n\na b\nc\n \t\n\nd")
    two = write(tmp_path / "two", "e\n")
    assert read([one, two]) == [["a b", "c"], ["d"], ["e"]]


def test_prose_is_split_into_sentences_across_lines_but_not_paragraphs(tmp_path):
    prose = "Mr. Knightley came\nin. He sat down.\n\nA heading\n\n\nWas it\r\nfive? No!\n"
    paths = [write(tmp_path / name, prose) for name in "ab"]
    document = ["Mr. Knightley came in.", "He sat down.", "A heading", "Was it five?", "No!"]
    received = read(paths, input_format="text")
    assert [[sentence.strip() for sentence in one] for one in received] == [document, document]


def test_the_language_decides_what_a_sentence_is(tmp_path):
    path = write(tmp_path / "text", "Das ist z. B. so. Und das ist bzw. war so.")
    assert len(read([path], input_format="text", language="de")[0]) == 2


def test_json_lines_are_documents_of_prose(tmp_path):
    lines = ['{"text": "One. Two.\\n\\nThree","id":7}', "", '{"text": ""}', '{"text": "\\ud83d x"}']
    received = read([write(tmp_path / "text", "\n".join(lines))], input_format="jsonl")
    expected = [["One.", "Two.", "Three"], ["\ufffd\ufffd\ufffd x"]]
    assert [[sentence.strip() for sentence in one] for one in received] == expected


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"body": "a", "id": 1}', "not a JSON object .*: text is missing, .*; received body, id$"),
        ('{"text": 7}', "not a JSON object .*: text is a whole number"),
        ('["text"]', "not a JSON object .*: it is a list"),
        ('{"text": "a"', "not JSON: .*expected a JSON object"),
    ],
)
def test_json_lines_without_text_are_named(tmp_path, line, what):
    path = write(tmp_path / "text.jsonl", '{"text": "good"}\n\n' + line)
    with refused(f"text.jsonl, line 3: {what}"):
        read([path], input_format="jsonl")


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    path = write(tmp_path / "text", b"a\n\nb\xe9\xe9\nc\xe9\n")
    with refused(r"text, line 3: byte 2 is 0xe9"):
        read([path])


def compressed(suffix, content):
    if suffix == ".gz":
        return gzip.compress(content)
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files(tmp_path, suffix):
    content = "\n".join(f"line {number}" for number in range(100_000)).encode()
    # Concatenated streams are one file, as `cat a.gz b.gz` makes it.
    both = compressed(suffix, content) + compressed(suffix, b"\nend")
    path = write(tmp_path / f"text{suffix}", both)
    reader = CorpusReader([path], CorpusConfig())
    (chunk,) = reader.chunks()
    assert "\n".join(chunk.documents[0]).encode() == content + b"\nend"
    assert reader.sha256 == {path: hashlib.sha256(both).hexdigest()}
    assert reader.bytes_read == len(both)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_memory_does_not_depend_on_the_compression_ratio(suffix):
    size = 200 << 20
    bomb = compressed(suffix, bytes(size))
    assert len(bomb) < size / 500
    tracemalloc.start()
    try:
        assert sum(map(len, decompress([bomb], f"text{suffix}"))) == size
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_broken_compressed_files_are_named(tmp_path, suffix):
    good = compressed(suffix, os.urandom(10_000).hex().encode())
    for content, fault in (
        (good[:-5], f"is cut short; expected a complete {suffix}"),
        (good[:500] + b"\0\xff" * 50 + good[600:], "is (damaged|cut short)"),
        (b"just text", f"is damaged, or no {suffix} file"),
    ):
        path = write(tmp_path / f"text{suffix}", content)
        with refused(f"^{path}: {fault}"):
            read([path])


def test_a_missing_package_for_zst_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "text.zst", compressed(".zst", b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with refused(r"text\.zst: needs zstandard, .*: pip install 'albert-tf\[zstd\]'$"):
        read([path])


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n", b"\xef\xbb\xbf"])
def test_files_without_text_are_named(tmp_path, content):
    paths = [write(tmp_path / "one", content), write(tmp_path / "two", content)]
    with refused(r"one and 1 more: no text; expected .*input_format=lines"):
        read(paths)


def test_a_line_without_end_is_named(tmp_path):
    path = write(tmp_path / "text", b"a\nb\n" + b"x" * (66 << 20))
    with refused("text, line 3: is longer than 64 MiB"):
        read([path])


def numbered_documents(lengths):
    """Documents of lines of ten characters."""
    numbers = (f"{number:010d}" for number in itertools.count())
    return "\n\n".join("\n".join(itertools.islice(numbers, length)) for length in lengths)


@pytest.mark.parametrize("min_documents", [1, 2])
@pytest.mark.parametrize("lengths", [[3, 4, 5, 6, 1, 9], [1] * 23, [40], [8, 7], [1, 30, 1, 1]])
@pytest.mark.parametrize("input_format", ["lines", "jsonl"])
def test_chunks_are_bounded_and_complete(
    tmp_path, monkeypatch, min_documents, lengths, input_format
):
    monkeypatch.setattr(corpus, "_CHUNK_CHARACTERS", 70)
    text = numbered_documents(lengths)
    lines = [line for line in text.split("\n") if line]
    if input_format == "jsonl":
        documents = [document.replace("\n", "\n\n") for document in text.split("\n\n")]
        text = "\n".join(json.dumps({"text": document}) for document in documents)
    paths = [write(tmp_path / "text", text)]
    chunks = list(CorpusReader(paths, CorpusConfig(input_format), min_documents).chunks())
    received = [line for chunk in chunks for document in chunk.documents for line in document]
    assert received == lines
    for before, chunk in itertools.pairwise(chunks):
        assert chunk.first_document == before.first_document + len(before.documents)
    for chunk in chunks:
        assert sum(map(len, itertools.chain(*chunk.documents))) < 4 * 70 * min_documents
        assert len(chunk.documents) >= min_documents
        assert max(map(len, chunk.documents)) <= 7
    assert len(chunks) >= sum(lengths) // 28 // min_documents


def test_files_folders_and_patterns_are_found_once(tmp_path):
    for name in ("b.txt", "a.txt", "sub/deep/c.txt", "sub/.hidden", ".git/d.txt", "e.incomplete/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, name)
    found = find_files([str(tmp_path / "*.txt"), str(tmp_path)])
    names = [os.path.relpath(file.path, tmp_path) for file in found]
    assert names == ["a.txt", "b.txt", "sub/deep/c.txt"]
    assert [file.size for file in found] == [5, 5, 14]
    # A folder is entered once, regardless of links that lead to it or to a parent.
    for link, target in {"sub/deep/loop": "sub", "sub/again": "sub/deep"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    found = find_files([str(tmp_path)])
    assert sorted(os.path.basename(file.path) for file in found) == ["a.txt", "b.txt", "c.txt"]
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    with refused("nowhere: cannot be read: No such file"):
        find_files([str(tmp_path)])
    with refused(r"no file matches '.*\*\.md'"):
        find_files([str(tmp_path / "*.md")])
    (tmp_path / "empty").mkdir()
    with refused(r"the folder '.*empty' holds no file"):
        find_files([str(tmp_path / "empty")])
