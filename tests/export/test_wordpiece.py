"""Text models with a WordPiece vocabulary answer as the Python code does."""

import numpy as np
import pytest

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import encode_choices, encode_examples
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import InputError
from albert_tf.export import (
    export,
)
from albert_tf.models import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertSpanLabeler,
)
from albert_tf.tokenization import WordPieceTokenizer
from tests.export.kinds import OF_NAMES
from tests.export.runtimes import run_in_session
from tests.export.samples import LABELS, MAX_SEQ_LENGTH, TEXTS
from tests.helpers import tiny_config

PIECES = [*"abcdefghijklmnopqrstuvwxyz", "the", "man", "sea", "##s", "##n", "."]
PAIRS = [(a, b) for a, b in TEXTS if a] + [("中文 Straße", "x" * 300), ("a\0b \ufffd", "ΑΣ")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join([*pieces, *(f"##{letter}" for letter in "abcdefghij")]))
    return WordPieceTokenizer(str(path))


@pytest.fixture(scope="module")
def encoder(tokenizer):
    config = tiny_config(
        vocab_size=tokenizer.vocab_size, num_hidden_layers=1, initializer_range=0.1
    )
    return AlbertEncoder(config, seed=1)


def logits(model, features):
    rows = range(len(features))
    return np.concatenate([model(make_batch(features, np.array([row]))) for row in rows])


@pytest.mark.slow
def test_classifier_of_pairs(tokenizer, encoder, tmp_path):
    model = AlbertClassifier(encoder, len(LABELS), seed=2)
    paths = export(model, OF_NAMES["classifier"], tokenizer, str(tmp_path))
    texts_a, texts_b = zip(*PAIRS, strict=True)
    outputs = run_in_session(paths["text"], {"text_a": texts_a, "text_b": texts_b})
    examples = [Example("", a, b) for a, b in PAIRS]
    features = encode_examples(examples, LABELS, tokenizer, MAX_SEQ_LENGTH)
    np.testing.assert_allclose(outputs["logits"], logits(model, features), atol=1e-5)


@pytest.mark.slow
def test_multiple_choice(tokenizer, encoder, tmp_path):
    model = AlbertMultipleChoice(encoder, seed=2)
    paths = export(model, OF_NAMES["multiple_choice"], tokenizer, str(tmp_path))
    rows = [
        ("The man and the sea.", "Who _ ?", ("a", "b c", "the seas")),
        ("a", "b", ("c", "", "e")),
    ]
    articles, questions, options = zip(*rows, strict=True)
    inputs = {"article": articles, "question": questions, "options": options}
    examples = [Example("", a, q, None, choices) for a, q, choices in rows]
    features = encode_choices(examples, LABELS, tokenizer, MAX_SEQ_LENGTH, 9)
    outputs = run_in_session(paths["text"], inputs)
    np.testing.assert_allclose(outputs["logits"], logits(model, features), atol=1e-5)


def test_question_answering_is_refused(tokenizer, encoder, tmp_path):
    with pytest.raises(InputError, match="a text model with a WordPiece vocabulary cannot"):
        export(AlbertSpanLabeler(encoder), OF_NAMES["simple_spans"], tokenizer, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
