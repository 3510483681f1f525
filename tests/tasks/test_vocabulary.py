"""The vocabulary of the flags decides the tokenizer."""

import pytest

from albert_tf.tasks.vocabulary import load_tokenizer
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from tests.helpers import refused, write_wordpiece
from tests.tokenization.conftest import make_sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A vocabulary of each kind, and two that are none."""
    folder = tmp_path_factory.mktemp("vocabularies")
    train_vocabulary(make_sentences(), str(folder / "small.model"), vocab_size=250)
    write_wordpiece(folder / "vocab.txt", ["a"])
    (folder / "latin.txt").write_bytes(b"\xe4")
    (folder / "few.txt").write_text("a\nb\n")
    return folder


def test_the_vocabulary_decides_the_tokenizer(folder, monkeypatch):
    monkeypatch.chdir(folder)
    albert = load_tokenizer("small.model", None, lower_case=False)
    bert = load_tokenizer("", "vocab.txt", lower_case=True)
    assert [type(each) for each in (albert, bert)] == [AlbertTokenizer, WordPieceTokenizer]
    assert (albert.vocabulary_file, albert.lower_case) == ("small.model", False)
    assert (bert.vocabulary_file, bert.lower_case) == ("vocab.txt", True)


ONE_OF = "one of --spm_model_file and --vocab_file, received"


@pytest.mark.parametrize(
    ("spm_model_file", "vocab_file", "message"),
    [
        (None, None, f"{ONE_OF} neither"),
        ("", "", f"{ONE_OF} neither"),
        ("a.model", "b.txt", f"{ONE_OF} both"),
        ("vocab.txt", None, "not a SentencePiece model"),
        (None, "small.model", r"^--vocab_file: 'small\.model' is .* --spm_model_file"),
        (None, "latin.txt", r"^--vocab_file: latin\.txt.*not UTF-8"),
        (None, "few.txt", r"^--vocab_file: few\.txt.*no piece"),
        (None, "none.txt", r"^--vocab_file: none\.txt.*No such"),
    ],
)
def test_other_vocabularies_are_refused(folder, monkeypatch, spm_model_file, vocab_file, message):
    monkeypatch.chdir(folder)
    with refused(message):
        load_tokenizer(spm_model_file, vocab_file, lower_case=True)
