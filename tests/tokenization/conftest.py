"""Vocabularies that the tests of this folder share."""

import io

import pytest
import sentencepiece

from albert_tf.tokenization import AlbertTokenizer, train_vocabulary
from tests.helpers import shared_path

TEXT = (
    "the old keeper of lights walks along windy shores and counts ships that pass by night while "
    "his daughter reads letters from distant friends about gardens rivers castles"
)
WORDS = TEXT.split()
LATIN = "abcdefghijklmnopqrstuvwxyz"
ALPHABETS = (LATIN, "αβγδεζηθικλμνξοπρστυφχψως", "абвгдежзийклмнопрстуфхцчшщыэюя")


def make_sentences() -> list[str]:
    """300 sentences with words, suffixes, punctuation, numbers before commas, and three alphabets."""
    words = [WORDS[(7 * i) % len(WORDS)] for i in range(303)]
    sentences = [
        f"{words[i]} {words[i + 1]}ing, {words[i + 2]}'s {i % 97},{i % 10}00, a{i % 10}, £{i} ({i})."
        for i in range(300)
    ]
    return sentences + [" ".join(alphabet) for alphabet in ALPHABETS] * 3


def train_model(**settings) -> bytes:
    """Trains a SentencePiece model with other settings than ALBERT's."""
    special = {"vocab_size": 150, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    control = {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_sentences()),
        model_writer=model,
        minloglevel=5,
        **(special | control | settings),
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def small_model_file(tmp_path_factory) -> str:
    model_file = str(tmp_path_factory.mktemp("vocabulary") / "small.model")
    train_vocabulary(make_sentences(), model_file, vocab_size=250)
    return model_file


@pytest.fixture(scope="session")
def small_tokenizer(small_model_file) -> AlbertTokenizer:
    return AlbertTokenizer(small_model_file)


@pytest.fixture(scope="session")
def accents_file(tmp_path_factory) -> str:
    """A vocabulary that keeps accents."""
    model_file = str(tmp_path_factory.mktemp("vocabulary") / "accents.model")
    sentences = [*make_sentences(), *["má ma mã パンダ ハンタ é ü ｍ"] * 9]
    train_vocabulary(sentences, model_file, vocab_size=270, keep_accents=True)
    return model_file


@pytest.fixture(scope="session")
def official_model_file() -> str:
    return str(shared_path("data/sentencepiece/30k-clean.model"))
