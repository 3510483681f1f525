"""Writes what the shipped folders note of the rules of the tokenizer, after a change of these.

Usage:
    python -m tests.tokenization.shipped_notes
"""

import pathlib
from collections.abc import Iterator

from albert_tf.sources import find_model, shipped_names
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import vocabulary_contents
from albert_tf.tokenization.tokenizer_settings import TOKENIZER_CONFIG_FILE


def shipped_notes() -> Iterator[tuple[pathlib.Path, bytes]]:
    """Yields the file of each shipped folder with the note, and its content under the present rules."""
    for name in shipped_names():
        folder = pathlib.Path(find_model(name))
        tokenizer = AlbertTokenizer(str(folder / AlbertTokenizer.file_name))
        yield folder / TOKENIZER_CONFIG_FILE, vocabulary_contents(tokenizer)[TOKENIZER_CONFIG_FILE]


def main():
    for path, content in shipped_notes():
        is_same = path.read_bytes() == content
        path.write_bytes(content)
        print(f"{path}: {'as it was' if is_same else 'written anew'}")


if __name__ == "__main__":
    main()
