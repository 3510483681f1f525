"""A tiny classifier's vocabulary, labels and texts, and what the Python road answers."""

import numpy as np
import tensorflow as tf

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import encode_examples
from albert_tf.data.fine_tuning.tsv import Example

LABELS = ("calm", "loud", "mute")
MAX_SEQ_LENGTH = 23
VOCAB_SIZE = 50
# Sizes of a model whose weights decide the size of its file.
LARGER_THAN_ITS_GRAPH = {
    "vocab_size": 1500,
    "embedding_size": 64,
    "hidden_size": 128,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
}
WORDS = [
    "the",
    "old",
    "man",
    "and",
    "sea",
    "cat",
    "dog",
    "ran",
    "over",
    "under",
    "9,999",
    "times,",
    "hat",
    "tree",
    "green.",
    "Über",
    "naïve",
]
TEXTS = [
    ("The old man, and the SEA.", "A cat ran 9,999, times"),
    ("naïve dog", ""),
    (" ".join(WORDS * 3), "green tree hat"),
    ("green", " ".join(WORDS * 3)),
    (" ".join(WORDS * 2), " ".join(WORDS * 2)),
    ("", ""),
]


def expected_of_texts(model, tokenizer, pairs=True):
    """What the Python road from text to probabilities gives, text by text."""
    examples = [Example("", a or "x", b if pairs else None) for a, b in TEXTS]
    features = encode_examples(examples, LABELS, tokenizer, MAX_SEQ_LENGTH)
    rows = []
    for index, (text_a, _) in enumerate(TEXTS):
        batch = make_batch(features, np.array([index]))
        if not text_a:
            batch = {
                "input_ids": np.array([[tokenizer.cls_id, tokenizer.sep_id]], np.int32),
                "input_mask": np.ones((1, 2), np.int32),
                "segment_ids": np.zeros((1, 2), np.int32),
            }
        rows.append(tf.nn.softmax(model(batch)).numpy()[0])
    return np.array(rows)
