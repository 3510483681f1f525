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
    with pytest.raises(InputError, match=r"^--vocab_file: '.*small\.model' is .* --spm_model_file"):
        load_tokenizer(None, small_model_file, lower_case=True)


@pytest.mark.parametrize(
    ("content", "message"), [(b"\xff\xfe", "not UTF-8"), (b"a\nb\n", "no piece"), (None, "No such")]
)
def test_another_fault_of_a_wordpiece_vocabulary_is_named(tmp_path, content, message):
    vocab_file = tmp_path / "vocab.txt"
    if content is not None:
        vocab_file.write_bytes(content)
    with pytest.raises(InputError, match=f"^--vocab_file: {vocab_file}.*{message}"):
        load_tokenizer(None, str(vocab_file), lower_case=True)
