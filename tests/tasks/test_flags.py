import dataclasses
import io
import sys
import time

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tasks import flags
from albert_tf.tasks.fine_tuning.data import name_original_files
from albert_tf.tasks.flags import check_addresses, load_tokenizer
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from tests.tokenization.conftest import make_sentences


@pytest.fixture(scope="module")
def model_file(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("vocabulary") / "small.model")
    train_vocabulary(make_sentences(), path, vocab_size=250)
    return path


@pytest.fixture
def vocab_file(tmp_path) -> str:
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    return str(path)


def test_the_vocabulary_decides_the_tokenizer(model_file, vocab_file):
    for path, files, kind, lower_case in (
        (model_file, (model_file, None), AlbertTokenizer, False),
        (vocab_file, ("", vocab_file), WordPieceTokenizer, True),
    ):
        tokenizer = load_tokenizer(*files, lower_case=lower_case)
        assert isinstance(tokenizer, kind)
        assert (tokenizer.vocabulary_file, tokenizer.lower_case) == (path, lower_case)


@pytest.mark.parametrize(
    ("spm_model_file", "vocab_file", "received"),
    [(None, None, "neither"), ("", "", "neither"), ("a.model", "b.txt", "both")],
)
def test_exactly_one_vocabulary_is_needed(spm_model_file, vocab_file, received):
    with pytest.raises(
        InputError, match=f"one of --spm_model_file and --vocab_file, received {received}"
    ):
        load_tokenizer(spm_model_file, vocab_file, lower_case=True)


def test_vocabularies_taken_for_each_other(model_file, vocab_file):
    with pytest.raises(InputError, match="not a SentencePiece model"):
        load_tokenizer(vocab_file, None, lower_case=True)
    with pytest.raises(InputError, match=r"^--vocab_file: '.*small\.model' is .* --spm_model_file"):
        load_tokenizer(None, model_file, lower_case=True)


@pytest.mark.parametrize(
    ("content", "message"), [(b"\xe4", "not UTF-8"), (b"a\nb\n", "no piece"), (None, "No such")]
)
def test_another_fault_of_a_wordpiece_vocabulary_is_named(tmp_path, content, message):
    vocab_file = tmp_path / "vocab.txt"
    if content is not None:
        vocab_file.write_bytes(content)
    with pytest.raises(InputError, match=f"^--vocab_file: {vocab_file}.*{message}"):
        load_tokenizer(None, str(vocab_file), lower_case=True)


@dataclasses.dataclass(frozen=True)
class Paths:
    max_seq_length: int
    output_dir: str
    input_file: str | tuple[str, ...]


@pytest.mark.parametrize("value", ["https://host/file", ("file", "https://host/file")])
def test_address_that_tensorflow_cannot_read_names_its_flag(value):
    message = (
        r"^--input_file=https://host/file: TensorFlow has no access: File system scheme 'https' not"
    )
    with pytest.raises(InputError, match=message):
        check_addresses(Paths(7, "here", value))


def test_wait_for_a_file_system_is_said(monkeypatch):
    monkeypatch.setattr(flags, "_SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    monkeypatch.setattr(tf.io.gfile, "exists", lambda path: wait_until(stderr.getvalue))
    check_addresses(Paths(7, "gs://bucket/out", "file"))
    assert stderr.getvalue() == (
        "--output_dir=gs://bucket/out: waiting for an answer, for some minutes at most\n"
    )


def wait_until(is_reached):
    deadline = time.monotonic() + 60
    while not is_reached() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_error_of_tensorflow_datasets_names_the_flags_of_the_task():
    with (
        pytest.raises(InputError) as caught,
        name_original_files("train_file", "predict_file"),
    ):
        raise InputError("'squad' can be neither read nor downloaded")
    assert str(caught.value) == (
        "--data_source=tfds: 'squad' can be neither read nor downloaded; give the original files "
        "instead: --data_source=files, --train_file and --predict_file"
    )
