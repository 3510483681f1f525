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


@dataclasses.dataclass(frozen=True)
class Paths:
    max_seq_length: int
    output_dir: str
    input_file: str | tuple[str, ...]


@pytest.mark.parametrize("value", ["https://host/file", ("file", "https://host/file")])
def test_address_that_tensorflow_cannot_read_names_its_flag(value):
    message = r"^--input_file=https://host/file: TensorFlow has no access: File system scheme 'ht"
    with refused(message):
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
    names = name_original_files("train_file", "predict_file")
    with pytest.raises(InputError) as caught, names:
        raise InputError("'squad' can be neither read nor downloaded")
    assert str(caught.value) == (
        "--data_source=tfds: 'squad' can be neither read nor downloaded; give the original files "
        "instead: --data_source=files, --train_file and --predict_file"
    )
