"""The pipeline makes the set of instances that the local path makes."""

import collections
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining import beam, shards
from albert_tf.data.pretraining import corpus as corpus_module
from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.data.pretraining.instances import PretrainingDataConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.data.record_files import list_records
from albert_tf.errors import InputError
from albert_tf.tokenization import WordPieceTokenizer

WORDS = [first + second for first in "abcde" for second in "abcdefg"]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 700)


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    return WordPieceTokenizer(str(path), lower_case=True)


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "corpus").mkdir()
    for name in ("one", "two"):
        documents = (
            "\n".join(" ".join(rng.choice(WORDS, 7)) for _ in range(rng.integers(2, 20)))
            for _ in range(30)
        )
        (tmp_path / "corpus" / name).write_text("\n\n".join(documents))
    return find_files([str(tmp_path / "corpus")])


def config_for(objective):
    segments = SegmentConfig(29, objective)
    return PretrainingDataConfig(CorpusConfig(), segments, MaskingConfig(5), seed=3, dupe_factor=2)


def make(
    module, corpus, tokenizer, folder, *how, objective="sop", num_shards=1, compression="none"
):
    (folder / "work").mkdir(parents=True)
    names = [folder / "out.x"]
    if num_shards > 1:
        names = [folder / f"out-{number:05d}-of-{num_shards:05d}.x" for number in range(num_shards)]
    paths = [str(name) for name in names]
    made = module.make_pretraining_data(
        corpus, tokenizer, config_for(objective), paths, compression, str(folder / "work"), *how
    )
    records = list_records(paths).flat_map(tf.data.TFRecordDataset).as_numpy_iterator()
    return made, collections.Counter(records)


@pytest.mark.parametrize(
    ("objective", "num_shards", "compression"), [("sop", 1, "none"), ("nsp", 3, "gzip")]
)
def test_beam_makes_the_instances_of_a_local_run(
    corpus, tokenizer, tmp_path, objective, num_shards, compression
):
    pytest.importorskip("apache_beam", reason="needs apache-beam")
    settings = {"objective": objective, "num_shards": num_shards, "compression": compression}
    local = make(shards, corpus, tokenizer, tmp_path / "local", 1, **settings)
    how = ("DirectRunner", [])
    ours = make(beam, corpus, tokenizer, tmp_path / "beam", *how, **settings)
    assert ours == local
    assert sum(ours[1].values()) == ours[0].stats.instances > 100


def test_fewer_instances_than_shards_are_refused(tokenizer, tmp_path):
    pytest.importorskip("apache_beam", reason="needs apache-beam")
    (tmp_path / "text").write_text("aa bb cc")
    corpus = find_files([str(tmp_path / "text")])
    with pytest.raises(
        InputError, match="num_shards=5: expected at most the number of instances, 2"
    ):
        make(beam, corpus, tokenizer, tmp_path / "beam", "DirectRunner", [], num_shards=5)


def test_a_missing_package_is_named(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=r"pip install 'apache-beam\[tfrecord\]'"):
        make(beam, corpus, tokenizer, tmp_path / "beam", "DirectRunner", [])
