"""Texts like docstrings, in which the names of libraries and functions are known spans."""

import numpy as np

from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from tests.tasks.animals import training_of, write_model

LIBRARIES = ["numpy", "keras", "open cv", "pandas"]
FUNCTIONS = ["mean", "dot", "sort", "load"]
OTHERS = ["the", "of", "array", "returns", "with", "calls", "see", "Sums", "\N{SNAKE}", "(it)"]
KINDS_OF_WORDS = [("LIB", LIBRARIES), ("FUNC", FUNCTIONS), ("", OTHERS), ("", OTHERS)]


def make_text(rng, max_words=12):
    """Returns a text and its spans (start, end, label)."""
    text, spans = "", []
    for _ in range(rng.integers(2, max_words)):
        label, words = KINDS_OF_WORDS[rng.integers(4)]
        word = str(rng.choice(words))
        if label:
            spans.append((len(text), len(text) + len(word), label))
        text += f"{word}, " if rng.random() < 0.2 else f"{word} "
    return text.strip(), spans


def write_conll(path, count, seed, **more):
    """Writes BIOES tags of words between spaces, where a comma is a word, too."""
    rng = np.random.default_rng(seed)
    lines = ["-DOCSTART- -X- O", ""]
    for _ in range(count):
        text, spans = make_text(rng, **more)
        tags = {}
        for start, end, label in spans:
            words = text[start:end].split()
            inner = ["B", *["I"] * (len(words) - 2), "E"] if len(words) > 1 else ["S"]
            for word, prefix in zip(words, inner, strict=True):
                tags[text.index(word, start)] = f"{prefix}-{label}"
        place = 0
        for word in text.replace(",", " ,").split():
            place = text.index(word, place)
            lines.append(f"{word} _ {tags.get(place, 'O')}")
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_data(folder):
    """Writes texts, a vocabulary of 54 pieces and the config of a tiny model."""
    write_conll(folder / "train.conll", 300, 1)
    write_conll(folder / "dev.conll", 40, 2, max_words=50)
    words = " ".join([*LIBRARIES, *FUNCTIONS, *OTHERS]).split()
    write_model(folder, [*words, ","], 54, max_position_embeddings=40)


def make_options(data, output_dir, **changes):
    values = {
        "task_name": "token_classification",
        "train_file": str(data / "train.conll"),
        "dev_file": str(data / "dev.conll"),
        **training_of(data, output_dir),
        "max_seq_length": 40,
        "doc_stride": 11,
        **changes,
    }
    return FineTuningOptions(**values)
