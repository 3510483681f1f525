"""Paths that cannot be read are named with their flags."""

import dataclasses
import io
import sys
import time

import pytest

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tasks import paths
from albert_tf.tasks.fine_tuning.data import name_original_files
from albert_tf.tasks.output_folder import write_results
from albert_tf.tasks.paths import check_addresses
from tests.helpers import refused


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
    monkeypatch.setattr(paths, "_SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    monkeypatch.setattr(files, "exists", lambda path: wait_until(stderr.getvalue))
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


def test_metrics_are_printed_although_they_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    options = Paths(7, str(tmp_path / "file" / "out"), "x")
    with refused("cannot make the folder"):
        write_results(options, {"accuracy": 0.5, "loss": 0.25})
    assert capsys.readouterr().out == "accuracy 0.5000, loss 0.2500\n"
