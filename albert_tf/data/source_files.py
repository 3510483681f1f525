"""What the names of files of texts say, whatever they are compressed with."""

import os

from albert_tf.file_kinds import COMPRESSED_SUFFIXES

# Suffixes of files with an object of JSON in each line, or with one list of them.
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


def without_compression(path: str) -> str:
    """Returns a path without the suffix of a compressed file."""
    stem, suffix = os.path.splitext(path)
    return stem if suffix.lower() in COMPRESSED_SUFFIXES else path


def suffix_of(path: str) -> str:
    """Returns the suffix of a path in lower case, without that of a compressed file."""
    return os.path.splitext(without_compression(path).lower())[1]
