"""What files are is told by their content: the same text in any packing is read, or named in one line."""

import bz2
import gzip
import io
import itertools
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf import files
from albert_tf.checkpoints.safetensors_files import read_tensors
from albert_tf.checkpoints.tensors import open_tensors, write_checkpoint
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.pretraining.corpus import CorpusConfig, CorpusReader
from albert_tf.data.pretraining.record_files import scan
from albert_tf.data.records import unmasked_record, write_records
from albert_tf.errors import InputError
from albert_tf.sources import find_model
from tests.helpers import refused

_TEXT = "text,label\nIt was good.,yes\nÜber alles.,no\n"
_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"


def zstd(content, **parameters):
    compressor = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(**parameters)
    ).compressobj()  # which does not know the size, so the frame asks for the whole window
    return compressor.compress(content) + compressor.flush()


PACKINGS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def tar(content, format=tarfile.PAX_FORMAT):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=format) as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zipped(content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", content)
    return packed.getvalue()


def lines_of(path):
    return [line for _, line in files.read_lines(str(path))]


def cased(text):
    """Draws the text with capitals at any places."""
    flips = st.lists(st.booleans(), min_size=len(text), max_size=len(text))
    return flips.map(
        lambda drawn: "".join(c.upper() if up else c for c, up in zip(text, drawn, strict=True))
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    packing=st.sampled_from(sorted(PACKINGS)),
    name=st.sampled_from(["a", "a.txt", "a.csv", *(f"a.txt{end}" for end in PACKINGS)]).flatmap(
        cased
    ),
    text=st.text(max_size=50),
    parts=st.integers(1, 3),
)
def test_text_in_any_packing_has_the_same_lines_or_one_line_of_error(
    tmp_path_factory, packing, name, text, parts
):
    path = tmp_path_factory.mktemp("packed") / name
    content = text.encode()
    # Several streams, as `cat a.gz b.gz` makes them.
    ends = [len(content) * part // parts for part in range(parts + 1)]
    pieces = [content[a:b] for a, b in itertools.pairwise(ends)]
    plain, packed = path.with_name("plain"), b"".join(map(PACKINGS[packing], pieces))
    plain.write_bytes(content)
    path.write_bytes(packed)
    try:
        expected = lines_of(plain)
    except InputError:  # e.g. a text of control characters
        return
    promises = name.lower().endswith(tuple(PACKINGS)[1:])
    if packing == "" and promises and content:
        with refused("is damaged, or no "):
            lines_of(path)
    else:
        assert lines_of(path) == expected


@pytest.mark.parametrize("end", [*PACKINGS, ".ZST", ".Gz"])
def test_tables_and_corpora_are_read_in_any_packing(tmp_path, end):
    path = tmp_path / f"table.csv{end}"
    path.write_bytes(PACKINGS[end.lower()](_TEXT.encode()))
    table = Table.read(path)
    assert (table.columns, len(table.rows)) == (("text", "label"), 2)
    documents = list(CorpusReader([str(path)], CorpusConfig()).documents())
    assert documents == [_TEXT.splitlines()]


@pytest.mark.parametrize("window_log", [27, 31])
def test_long_windows_and_padding(tmp_path, window_log):
    content = b"a line\n" * 100
    (tmp_path / "long").write_bytes(zstd(content, window_log=window_log, enable_ldm=True))
    (tmp_path / "padded").write_bytes(gzip.compress(content) + bytes(512))
    (tmp_path / "skipped").write_bytes(b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(content))
    for name in ("long", "padded", "skipped"):
        assert lines_of(tmp_path / name) == ["a line"] * 100


OTHERS = {
    "a tar archive": tar(b"text"),
    "a zip archive": zipped("text"),
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "a pickle": pickle.dumps([1, 2, 3]),
    "a Parquet file": b"PAR1\x15\x04\xd0",
    "an ORC file": b"ORC\x1d\0\0\x0a",
    "an Arrow or Feather file": b"ARROW1\0\0\xff\xff\xff\xff",
    "a picture": b"GIF89a\x01\0",
    "an HDF5 file": b"\x89HDF\r\n\x1a\n",
    "an array of NumPy": b"\x93NUMPY\x01\0",
    "a safetensors file": b'\x40\0\0\0\0\0\0\0{"a":{}}',
    "UTF-16 text": "text\n".encode("utf-16"),
    "UTF-32 text": "text\n".encode("utf-32"),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\0\4",
    "a binary file": bytes(range(32)) * 8,
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_text_is_named(tmp_path, what, packing):
    path = tmp_path / "a.txt"
    path.write_bytes(PACKINGS[packing](OTHERS[what]))
    for read in (lines_of, files.read_json):
        if what.startswith("UTF-") and read is files.read_json:
            continue
        with refused(rf"^{path}, line 1: begins like {what}.*; expected UTF-8 text"):
            read(str(path))


@pytest.mark.parametrize(
    "start", ["ORC", "PAR1", "ARROW1", "FEA1", "GIF8", "Obj", "SQLite format 3"]
)
def test_texts_may_begin_with_the_letters_of_formats(tmp_path, start):
    path = tmp_path / "a.csv"
    path.write_text(f"{start},text,label\n1,ORC are orcs.,b\n")
    assert Table.read(path).columns == (start, "text", "label")
    assert lines_of(path)[1] == "1,ORC are orcs.,b"


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, "without a word"])
def test_tar_archives_of_all_ages(tmp_path, format):
    content = tar(b"text", tarfile.GNU_FORMAT if isinstance(format, str) else format)
    if isinstance(format, str):
        header = bytearray(content[:512])
        header[257:265] = bytes(8)
        header[148:156] = b" " * 8
        header[148:156] = f"{sum(header):06o}\0 ".encode()
        content = bytes(header) + content[512:]
    (tmp_path / "corpus.tar.gz").write_bytes(gzip.compress(content))
    with refused(r"begins like a tar archive; expected UTF-8 text: unpack it, and name its files"):
        lines_of(tmp_path / "corpus.tar.gz")
    with refused(r"begins like a file of gzip; unpack it, and name the folder"):
        find_model(str(tmp_path / "corpus.tar.gz"))


def test_databases_are_named(tmp_path):
    with sqlite3.connect(tmp_path / "a.txt") as database:
        database.execute("CREATE TABLE a (text)")
    database.close()
    with refused("line 1: begins like an SQLite database; expected UTF-8 text"):
        lines_of(tmp_path / "a.txt")


def test_compressed_twice_is_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bz2.compress(b"text")))
    with refused("holds bzip2 within gzip; expected one compression"):
        lines_of(tmp_path / "a.gz")


def test_weights_that_are_something_else_are_named(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(gzip.compress(b"arrays"))
    with refused(f"^{path}: the file is damaged: .*; it begins like a file of gzip"):
        read_tensors(str(path))
    write_checkpoint(str(tmp_path / "model"), {"a": np.zeros(3)})
    (tmp_path / "model.index").write_bytes(_POINTER)
    with refused(f"^{tmp_path}/model.index: a pointer of git-lfs"):
        open_tensors(str(tmp_path / "model"))
    write_records(str(tmp_path / "a.tfrecord"), [bytes(100)] * 3)
    path = tmp_path / "b.tfrecord"
    path.write_bytes(bz2.compress((tmp_path / "a.tfrecord").read_bytes()))
    with refused(f"^{path}: begins like a file of bzip2; expected a TFRecord file, plain or com"):
        scan(str(path), unmasked_record(8))
    path.write_bytes(gzip.compress(b"A text."))
    with refused(f"^{path}, record 1: damaged or cut short"):
        scan(str(path), unmasked_record(8))
    path.write_bytes(_POINTER)
    with refused(f"^{path}: a pointer of git-lfs"):
        scan(str(path), unmasked_record(8))


def test_metadata_that_is_null_is_none(tmp_path):
    path = tmp_path / "model.safetensors"
    header = json.dumps(
        {"__metadata__": None, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.float32([7]).tobytes())
    np.testing.assert_array_equal(read_tensors(str(path))["a"], [7])


def test_pointers_of_git_lfs_are_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(_POINTER)
    for read in (
        lines_of,
        files.read_bytes,
        files.sha256,
        files.read_json,
        read_tensors,
        find_model,
    ):
        with refused(rf"^{path}.*: a pointer of git-lfs.*`git lfs pull`"):
            read(str(path))
