import pytest

from albert_tf.errors import FlagError, InputError
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, load_tokenizer


def test_a_sentencepiece_model(small_model_file):
    tokenizer = load_tokenizer(small_model_file, None, lower_case=False)
    assert isinstance(tokenizer, AlbertTokenizer)
    assert tokenizer.vocabulary_file == small_model_file
    assert tokenizer.lower_case is False


def test_a_wordpiece_vocabulary(tmp_path):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    tokenizer = load_tokenizer("", str(vocab_file), lower_case=True)
    assert isinstance(tokenizer, WordPieceTokenizer)
    assert tokenizer.vocabulary_file == str(vocab_file)
    assert tokenizer.lower_case is True


@pytest.mark.parametrize(
    ("spm_model_file", "vocab_file", "received"),
    [(None, None, "neither"), ("", "", "neither"), ("a.model", "b.txt", "both")],
)
def test_exactly_one_vocabulary_is_needed(spm_model_file, vocab_file, received):
    with pytest.raises(
        FlagError, match=f"one of --spm_model_file and --vocab_file, received {received}"
    ):
        load_tokenizer(spm_model_file, vocab_file, lower_case=True)


def test_vocabularies_taken_for_each_other(small_model_file, tmp_path):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    with pytest.raises(InputError, match="not a SentencePiece model"):
        load_tokenizer(str(vocab_file), None, lower_case=True)
    with pytest.raises(InputError, match=r"small\.model"):
        load_tokenizer(None, small_model_file, lower_case=True)
