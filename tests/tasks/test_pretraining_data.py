"""Making pre-training data, as a call and as a script."""

import dataclasses
import pathlib
import pydoc_data.topics
import resource
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf.data.records import check_records, is_unmasked, pretraining_record, unmasked_record
from albert_tf.errors import FlagError, InputError
from albert_tf.tasks.pretraining_data import PretrainingDataOptions, run

ROOT = pathlib.Path(__file__).parents[2]
S, M = 41, 7


def write_text(path):
    """Writes the parts of Python's own manual, a paragraph a line."""
    topics = [pydoc_data.topics.topics[name] for name in ("strings", "class", "import", "with")]
    documents = [topic.strip().replace("\n\n", "\0").split("\0") for topic in topics]
    lines = [[" ".join(paragraph.split()) for paragraph in document] for document in documents]
    path.write_text("\n\n".join("\n".join(document) for document in lines), "utf-8")
    return str(path)


@pytest.fixture
def options(tmp_path):
    return PretrainingDataOptions(
        input_file=(write_text(tmp_path / "text.txt"),),
        output_file=(str(tmp_path / "out" / "a.tfrecord"), str(tmp_path / "out" / "b.tfrecord")),
        spm_model_file=str(tmp_path / "vocabulary" / "small.model"),
        train_vocab=True,
        vocab_size=400,
        max_seq_length=S,
        max_predictions_per_seq=M,
        dupe_factor=2,
    )


def files_under(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_text_becomes_a_vocabulary_and_records(options, tmp_path, capfd):
    stats = run(options)
    for path in options.output_file:
        check_records(path, pretraining_record(S, M), limit=None)
    counts = [len(list(tf.data.TFRecordDataset(path))) for path in options.output_file]
    assert sum(counts) == stats.instances > 100
    assert counts[0] - counts[1] in (0, 1)
    assert stats.documents == 4
    assert stats.unknown_share < 0.05
    assert 0.14 < stats.masked_share < 0.17
    out = capfd.readouterr().out
    assert "4 documents" in out
    assert f"{stats.instances} instances" in out
    assert options.output_file[1] in out
    assert all(not name.endswith(".incomplete") for name in files_under(tmp_path))


def test_dynamic_masking_writes_sequences_without_masks(options):
    stats = run(dataclasses.replace(options, masking="dynamic"))
    for path in options.output_file:
        assert is_unmasked(path)
        check_records(path, unmasked_record(S), limit=None)
    assert stats.instances > 100
    assert stats.predictions == 0


def test_the_same_options_make_the_same_bytes(options, tmp_path):
    run(options)
    again = dataclasses.replace(
        options, train_vocab=False, output_file=(str(tmp_path / "c"), str(tmp_path / "d"))
    )
    run(again)
    for one, other in zip(options.output_file, again.output_file, strict=True):
        assert pathlib.Path(one).read_bytes() == pathlib.Path(other).read_bytes()


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("output_file", "out/b.tfrecord"),
        ("spm_model_file", "vocabulary/small.model"),
        ("spm_model_file", "vocabulary/small.vocab"),
    ],
)
def test_nothing_is_overwritten(options, flag, name, tmp_path):
    existing = tmp_path / name
    existing.parent.mkdir()
    existing.write_text("precious")
    before = files_under(tmp_path)
    with pytest.raises(InputError, match=f"--{flag}: '.*{existing.name}' exists already"):
        run(options)
    assert existing.read_text() == "precious"
    assert files_under(tmp_path) == before


KILLED_BEFORE_A_RENAME = """
import os, signal, sys
import tensorflow as tf
from albert_tf.tasks.pretraining_data import PretrainingDataOptions, run

rename = tf.io.gfile.rename
left = {published}

def rename_or_die(source, target, overwrite=False):
    global left
    if ".incomplete" not in target:
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
    rename(source, target, overwrite)

tf.io.gfile.rename = rename_or_die
run({options})
"""


@pytest.mark.parametrize("published", [0, 1, 2, 3])
def test_a_killed_run_is_finished_by_the_same_command(options, tmp_path, published):
    """Kills a real process before each of the four files gets its name."""
    script = KILLED_BEFORE_A_RENAME.format(published=published, options=options)
    killed = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    written = [pathlib.Path(path) for path, _ in options.outputs]
    assert [path.exists() for path in written] == [number < published for number in range(4)]

    run(options)
    content = [path.read_bytes() for path in written]
    assert files_under(tmp_path) == sorted(
        ["text.txt", *(str(path.relative_to(tmp_path)) for path in written)]
    )
    for path in written:
        path.unlink()
    run(options)
    assert [path.read_bytes() for path in written] == content


def test_a_vocabulary_that_a_killed_run_did_not_make_stays(options, tmp_path):
    model = tmp_path / "vocabulary" / "small.model"
    (model.parent / "b.tfrecord.incomplete").mkdir(parents=True)
    model.write_text("precious")
    with pytest.raises(InputError, match=r"--spm_model_file: '.*small\.model' exists already and"):
        run(options)
    assert files_under(tmp_path) == ["text.txt", "vocabulary/small.model"]
    assert model.read_text() == "precious"


@pytest.mark.parametrize(("limit", "file"), [(100, "small.model"), (300_000, "a.tfrecord")])
def test_a_full_disk_is_named_and_leaves_nothing(options, tmp_path, limit, file):
    options = dataclasses.replace(options, output_file=options.output_file[:1], dupe_factor=8)
    script = (
        "import command_line\n"
        "from albert_tf.tasks.pretraining_data import PretrainingDataOptions, run\n"
        "from albert_tf.errors import InputError\n"
        f"try: run({options})\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        # A file of more than `limit` bytes is refused like one that finds the disk full.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert f"{file}: cannot be written: " in done.stdout
    assert files_under(tmp_path) == ["text.txt"]


def test_a_corpus_without_text_leaves_nothing_behind(options, tmp_path):
    pathlib.Path(options.input_file[0]).write_text("\n\n")
    with pytest.raises(InputError, match=r"text\.txt: no text"):
        run(options)
    assert files_under(tmp_path) == ["text.txt"]


def test_a_pattern_without_files_is_named(options, tmp_path):
    with pytest.raises(InputError, match=r"--input_file: no file matches '.*\*\.md'"):
        run(dataclasses.replace(options, input_file=(str(tmp_path / "*.md"),)))


def test_more_files_than_instances_are_refused(options, tmp_path):
    pathlib.Path(options.input_file[0]).write_text("Is it?\nIt is.\n")
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] is it ? .".replace(" ", "\n"))
    names = tuple(str(tmp_path / name) for name in "abc")
    options = dataclasses.replace(
        options,
        output_file=names,
        train_vocab=False,
        spm_model_file=None,
        vocab_file=str(vocabulary),
    )
    with pytest.raises(InputError, match="--output_file: received 3 files for 2 instances"):
        run(options)
    assert files_under(tmp_path) == ["text.txt", "vocab.txt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": ()}, "--input_file: received '', expected at least one file"),
        ({"output_file": ("a", "")}, "--output_file: received 'a,', expected at least one file"),
        ({"output_file": ("a", "b", "./a")}, "--output_file: would write './a', which --output_f"),
        ({"output_file": ("v.model",), "spm_model_file": "v.model"}, "--output_file: .* --spm_mod"),
        ({"output_file": ("v.vocab",), "spm_model_file": "v.model"}, "--output_file: .* --spm_mod"),
        ({"output_file": ("a",), "input_file": ("x/../a",)}, "--output_file: .* --input_file nam"),
        ({"spm_model_file": "a", "input_file": ("a",)}, "--spm_model_file: .*'a', which --input_f"),
        (
            {"spm_model_file": "a", "output_file": ("a",), "train_vocab": False},
            "--output_file: would write 'a', which --spm_model_file names too; expected different",
        ),
        ({"vocab_size": 4}, "--vocab_size: received '4', expected 5 to 2147483647"),
        ({"vocab_size": 2**31}, "--vocab_size: received '2147483648', expected 5 to"),
        ({"max_seq_length": 4}, "--max_seq_length: received '4', expected 5 to 65536"),
        ({"max_seq_length": 65537}, "--max_seq_length: received '65537', expected 5 to 65536"),
        ({"max_predictions_per_seq": 0}, "--max_predictions_per_seq: received '0', expected 1 to"),
        ({"max_predictions_per_seq": 65537}, "--max_predictions_per_seq: received '65537', exp"),
        ({"masked_lm_prob": 0.0}, "--masked_lm_prob: received '0.0', expected more than 0"),
        ({"short_seq_prob": 1.5}, "--short_seq_prob: received '1.5', expected 0 to 1"),
        ({"ngram": 0}, "--ngram: received '0', expected 1 or more"),
        ({"dupe_factor": 0}, "--dupe_factor: received '0', expected 1 or more"),
        ({"random_seed": -1}, "--random_seed: received '-1', expected 0 or more"),
        ({"spm_model_file": None, "train_vocab": False}, "expected one of --spm_model_file and"),
        ({"vocab_file": "vocab.txt"}, "expected one of --spm_model_file and --vocab_file"),
        ({"spm_model_file": None, "vocab_file": "v"}, "--train_vocab: expected --spm_model_file"),
    ],
)
def test_a_mistake_in_the_flags_is_named(options, changes, message):
    with pytest.raises(FlagError, match=f"^{message}"):
        dataclasses.replace(options, **changes)


def run_script(*flags):
    return subprocess.run(
        [sys.executable, str(ROOT / "create_pretraining_data.py"), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_script_makes_records(tmp_path):
    output = tmp_path / "out.tfrecord"
    done = run_script(
        f"--input_file={write_text(tmp_path / 'text.txt')}",
        f"--output_file={output}",
        f"--spm_model_file={tmp_path / 'small.model'}",
        "--train_vocab",
        "--vocab_size=400",
        f"--max_seq_length={S}",
        f"--max_predictions_per_seq={M}",
        "--dupe_factor=1",
        "--nodo_whole_word_mask",
        "--sentence_objective=nsp",
    )
    assert done.returncode == 0, done.stderr
    assert "with label 1" in done.stdout
    check_records(str(output), pretraining_record(S, M), limit=None)


def test_the_script_refuses_a_bad_flag_in_one_line(tmp_path):
    flags = [f"--input_file={tmp_path}/text", f"--output_file={tmp_path}/out", "--vocab_file=v"]
    done = run_script(*flags, "--ngram=0")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        "create_pretraining_data.py: error: --ngram: received '0', expected 1 or more"
    )
    assert "Traceback" not in done.stderr
