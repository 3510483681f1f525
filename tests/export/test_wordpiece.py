"""Text models with a WordPiece vocabulary answer as the Python code does."""

import string

import pytest

from albert_tf.tokenization import WordPieceTokenizer
from tests.export.kinds import (
    CHOICES,
    TEXTS,
    assert_equal,
    expected_of_texts,
    export_kind,
    make_model,
    text_columns,
)
from tests.export.runtimes import run_in_session
from tests.helpers import refused, write_wordpiece

PIECES = [*string.ascii_lowercase, "the", "man", "sea", "##s", "##n", "."]
ROWS = {
    "classifier": [*TEXTS, ("中文 Straße", "x" * 300), ("a\0b \ufffd", "ΑΣ")],
    "multiple_choice": CHOICES,
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    pieces = [*PIECES, *(f"##{letter}" for letter in "abcdefghij")]
    return WordPieceTokenizer(write_wordpiece(path, pieces))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS)
def test_numbers(kind, tokenizer, tmp_path):
    model = make_model(kind)
    paths = export_kind(kind, model, tokenizer, str(tmp_path), "saved_model")
    received = run_in_session(paths["text"], text_columns(kind, ROWS[kind]))
    assert_equal(received, expected_of_texts(kind, model, tokenizer, ROWS[kind]))


@pytest.mark.parametrize("kind", ["simple_spans", "token_classifier"])
def test_kinds_that_need_offsets_are_refused(kind, tokenizer, tmp_path):
    message = "^export_format=saved_model: a text model with a WordPiece vocabulary cannot find "
    with refused(message, tmp_path):
        export_kind(kind, make_model(kind), tokenizer, str(tmp_path), "saved_model")
