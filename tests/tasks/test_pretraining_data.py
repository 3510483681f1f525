"""Making pre-training data, as a call and as a script."""

import dataclasses
import hashlib
import os
import pathlib
import pydoc_data.topics
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.corpus import CorpusReader
from albert_tf.data.pretraining.instances import ChunkMaker, PretrainingDataStats
from albert_tf.data.records import pretraining_record, unmasked_record
from albert_tf.errors import StoppedError
from albert_tf.tasks.pretraining_data import PretrainingDataOptions, run
from albert_tf.tokenization import AlbertTokenizer
from tests.helpers import ROOT, largest_file, refused, write_wordpiece

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
        output_file=str(tmp_path / "out" / "a.tfrecord"),
        num_shards=2,
        spm_model_file=str(tmp_path / "vocabulary" / "small.model"),
        train_vocab=True,
        vocab_size=400,
        max_seq_length=S,
        max_predictions_per_seq=M,
        dupe_factor=2,
    )


def test_the_vocabulary_of_a_model(options, tmp_path):
    changes = {"spm_model_file": None, "train_vocab": False, "model": "small_en"}
    options = dataclasses.replace(options, num_workers=1, **changes)
    run(options)
    stats = files.read_json(str(tmp_path / "out" / "a.stats.json"))
    tokenizer = AlbertTokenizer.from_preset("small_en")
    assert stats["vocabulary_sha256"] == tokenizer.vocabulary_sha256
    assert stats["options"]["spm_model_file"] == tokenizer.vocabulary_file
    assert stats["options"]["do_lower_case"] is True
    run(dataclasses.replace(options, do_lower_case=False, overwrite=True))
    stats = files.read_json(str(tmp_path / "out" / "a.stats.json"))
    assert stats["options"]["do_lower_case"] is False
    (tmp_path / "empty").mkdir()
    with refused(r"^--model: .*empty: holds no vocabulary$"):
        run(dataclasses.replace(options, model=str(tmp_path / "empty"), overwrite=True))


def files_under(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_text_becomes_a_vocabulary_and_records(options, tmp_path, capfd):
    path = pathlib.Path(options.input_file[0])
    path.write_bytes(path.read_bytes() + b"\n\nbad and good.\n")
    stats = run(options)
    pretraining_record(S, M).parse(tf.constant(records_of(options)))
    counts = [len(list(tf.data.TFRecordDataset(path))) for path in options.shards]
    assert sum(counts) == stats.instances > 100
    assert stats.documents == 5
    means = stats.means()
    assert means["unknown_share"] < 0.05
    assert 0.14 < means["masked_share"] < 0.17
    out = capfd.readouterr().out
    assert "5 documents" in out
    assert f"{stats.instances} instances" in out
    assert "a-00000-of-00002.tfrecord and 1 more" in out
    names = ["a-00000-of-00002.tfrecord", "a-00001-of-00002.tfrecord", "a.stats.json"]
    assert sorted(os.listdir(tmp_path / "out")) == names
    said = files.read_json(str(tmp_path / "out" / "a.stats.json"))
    assert PretrainingDataStats.from_json_dict(said["counts"]) == stats
    assert means.items() < said.items()
    for shard_path, count, shard in zip(
        options.shards, counts, said["shards"].values(), strict=True
    ):
        assert shard == {"bytes": os.path.getsize(shard_path), "records": count}
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert said["input_files"] == [{"path": str(path), "bytes": len(content), "sha256": digest}]
    vocabulary = pathlib.Path(options.spm_model_file)
    assert said["vocab_size"] == options.vocab_size
    assert said["vocabulary_sha256"] == hashlib.sha256(vocabulary.read_bytes()).hexdigest()
    assert said["options"]["dupe_factor"] == options.dupe_factor


def records_of(options):
    return list(tf.data.TFRecordDataset(options.shards).as_numpy_iterator())


def test_the_same_options_make_the_same_records_in_any_number_of_files(options, tmp_path, capsys):
    run(options)
    again = dataclasses.replace(options, train_vocab=False, output_file=str(tmp_path / "c"))
    for changes in ({}, {"num_shards": 7}, {"num_shards": 1}):
        changed = dataclasses.replace(again, overwrite=True, **changes)
        run(changed)
        assert records_of(changed) == records_of(options)
    assert changed.shards == [str(tmp_path / "c")]
    assert "warning: c-00000-of-00002 and 8 more: of another number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("out/a-00001-of-00002.tfrecord", "--output_file=.*a.tfrecord"),
        ("out/a.stats.json", "--output_file=.*a.tfrecord"),
        ("vocabulary/small.model", "--spm_model_file=.*small.model"),
    ],
)
def test_nothing_is_overwritten(options, name, flag, tmp_path):
    existing = tmp_path / name
    existing.parent.mkdir()
    existing.write_text("precious")
    with refused(f"^{flag}: .*{existing.name} exists already", tmp_path):
        run(options)


def test_same_command_resumes_after_a_full_disk(options, tmp_path):
    options = dataclasses.replace(options, dupe_factor=8)
    message = r"out/a\.tfrecord/parts/\S*: cannot be written: .*a\.tfrecord\.incomplete', the same"
    # The vocabulary is smaller.
    with largest_file(300_000), pytest.raises(StoppedError, match=message):
        run(options)
    (model,) = (tmp_path / "vocabulary" / "a.tfrecord.incomplete").rglob("small.model")
    made = model.stat()
    run(options)
    made_files = [os.path.relpath(path, tmp_path) for path, _ in options.outputs]
    assert files_under(tmp_path) == sorted(["text.txt", *made_files])
    assert (tmp_path / "vocabulary" / "small.model").stat().st_ino == made.st_ino


@pytest.fixture
def without_training(options, tmp_path):
    words = sorted(set(pathlib.Path(options.input_file[0]).read_text().lower().split()))
    changes = {"train_vocab": False, "spm_model_file": None}
    vocab_file = write_wordpiece(tmp_path / "vocab.txt", words)
    return dataclasses.replace(options, vocab_file=vocab_file, **changes)


def read_then(monkeypatch, change):
    """Lets `change` happen right after the input was read, once."""
    chunks = CorpusReader.chunks

    def read_and_change(self):
        yield from chunks(self)
        monkeypatch.undo()
        change()

    monkeypatch.setattr(CorpusReader, "chunks", read_and_change)


@pytest.mark.parametrize("content", [None, "", "Is it?\nIt is.\n"])
def test_input_that_changes_while_it_is_read(without_training, monkeypatch, tmp_path, content):
    path = pathlib.Path(without_training.input_file[0])
    read_then(monkeypatch, path.unlink if content is None else lambda: path.write_text(content))
    with pytest.raises(StoppedError, match=r"text\.txt: changed while it was read; complete work"):
        run(without_training)
    assert not (tmp_path / "out" / "a.stats.json").exists()


def test_unchanged_chunks_are_reused(without_training, monkeypatch):
    path = without_training.input_file[0]
    read_then(monkeypatch, lambda: os.utime(path, (7, 7)))
    with pytest.raises(StoppedError, match=r"text\.txt: changed while it was read"):
        run(without_training)
    monkeypatch.setattr(ChunkMaker, "__call__", None)
    assert run(without_training).instances > 100


def test_warnings_of_few_predictions_few_sentences_and_unknown_pieces(
    without_training, capsys, tmp_path
):
    prose = dataclasses.replace(without_training, input_format="text", language="th", num_shards=1)
    run(prose)
    # The vocabulary has whole words only.
    (warning,) = re.findall("warning: .*", capsys.readouterr().err)
    assert re.search(r"\d% of the pieces are unknown to .*vocab\.txt; expected .* is True", warning)
    (tmp_path / "thai.txt").write_text("กรุงเทพมหานคร เป็นเมืองหลวง เป็นศูนย์กลางการปกครอง\n\n" * 20)
    changes = {"input_file": (str(tmp_path / "thai.txt"),), "max_predictions_per_seq": 5}
    run(dataclasses.replace(prose, overwrite=True, **changes))
    warnings = capsys.readouterr().err
    assert f"warning: max_predictions_per_seq=5 is only 12.2% of a sequence of {S} pi" in warnings
    assert "warning: found only 20 sentences in 20 paragraphs with --language=th; if" in warnings


def test_only_word_marks_start_words_if_asked(options, tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("абвгдежзик"), rng.integers(2, 9))) for _ in range(300)]
    path = tmp_path / "russian.txt"
    path.write_text("\n".join(" ".join(rng.choice(words, 20)) for _ in range(200)))
    changes = {"input_file": (str(path),), "vocab_size": 120, "dupe_factor": 1, "num_shards": 1}
    options = dataclasses.replace(options, word_start="sentencepiece", **changes)
    run(options)
    changes = {"train_vocab": False, "output_file": str(tmp_path / "dynamic")}
    dynamic = dataclasses.replace(options, masking="dynamic", **changes)
    assert run(dynamic).predictions == 0
    tokenizer = AlbertTokenizer(options.spm_model_file, lower_case=True)
    is_marked = np.array([piece.startswith("▁") for piece in tokenizer.pieces])
    assert tokenizer.word_start.mean() > is_marked.mean() + 0.2
    is_marked[[tokenizer.cls_id, tokenizer.sep_id]] = True
    for made, spec in ((options, pretraining_record(S, M)), (dynamic, unmasked_record(S))):
        batch = spec.parse(tf.constant(records_of(made)))
        ids = batch["input_ids"].numpy()
        if made is options:
            rows, places = np.nonzero(batch["masked_lm_weights"])
            chosen = batch["masked_lm_positions"].numpy()[rows, places]
            ids[rows, chosen] = batch["masked_lm_ids"].numpy()[rows, places]
        is_piece = batch["input_mask"].numpy() == 1
        np.testing.assert_array_equal(batch["token_boundary"], is_marked[ids] & is_piece)


MODEL = {"vocab_file": None}


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("\n\n", {}, r"text\.txt: no text"),
        ("Is it?\nIt is.\n", {"num_shards": 3}, "=3: expected fewer for 2 instances, as a"),
        ("Is it?", {"input_file": ("*.none",)}, r"--input_file: no file matches '\*\.none'"),
        (
            "Is it?",
            {"input_file": ("*.jsonl.gz",)},
            r"^--input_file: .*\.gz: named as JSON; expec.* lines$",
        ),
        ("Is it?", {"vocab_file": "gone"}, "^--vocab_file: gone: cannot be read: No such file"),
        ("Is it?", {**MODEL, "spm_model_file": "."}, r"^--spm_model_file: \.: a folder; expected"),
    ],
)
def test_a_refused_corpus_leaves_nothing_behind(
    without_training, tmp_path, monkeypatch, text, changes, message
):
    monkeypatch.chdir(tmp_path)
    pathlib.Path(without_training.input_file[0]).write_text(text)
    (tmp_path / "text.jsonl.gz").touch()
    with refused(message):
        run(dataclasses.replace(without_training, **changes))
    assert files_under(tmp_path) == ["text.jsonl.gz", "text.txt", "vocab.txt"]


MEASURE_MEMORY = """
import resource, sys
from albert_tf.tasks.pretraining_data import PretrainingDataOptions, run

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(PretrainingDataOptions(
    input_file=(sys.argv[1],), output_file=sys.argv[2], vocab_file=sys.argv[3], num_workers=1,
    dupe_factor=1, max_seq_length=512, input_format="text"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    """In one process, because it does all: the parent's work and a worker's."""
    vocabulary = write_wordpiece(tmp_path / "vocab.txt", "ab.")
    grown = []
    for copies in (1, 50):
        text = tmp_path / f"{copies}.txt"
        text.write_text(("a b a b . " * 30 + "\n") * 3_300 * copies)
        arguments = [str(text), str(tmp_path / f"{copies}.tfrecord"), vocabulary]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE_MEMORY, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=280,
        )
        grown.append(int(done.stdout.split()[-1]) / 1024)
    assert max(grown) < 300, grown
    assert grown[1] < 2 * grown[0] + 50, grown
