"""Corpora of random words, and their vocabulary."""

import numpy as np

from albert_tf.data.pretraining.input_files import find_files
from albert_tf.tokenization import WordPieceTokenizer
from tests.helpers import write_wordpiece

WORDS = [first + second for first in "abcdefghij" for second in "abcdefghij"]


def make_tokenizer(folder, others=()):
    """Returns the tokenizer of the words and other pieces."""
    return WordPieceTokenizer(write_wordpiece(folder / "vocab.txt", [*WORDS, *others]))


def write_corpus(folder, documents=40, sentences=30):
    """Writes two files of documents of fewer sentences, and returns the files."""
    rng = np.random.default_rng(0)

    def document():
        count = rng.integers(1, sentences)
        return "\n".join(" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(count))

    for name in ("one", "two"):
        (folder / name).write_text("\n\n".join(document() for _ in range(documents)))
    return find_files([str(folder)])
