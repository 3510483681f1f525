"""Any number of workers writes the same bytes, and complete parts are not made again."""

import hashlib
import multiprocessing
import pathlib
import pickle

import pytest
import tensorflow as tf

from albert_tf.data.pretraining import corpus as corpus_module
from albert_tf.data.pretraining import shards
from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.data.pretraining.instances import PretrainingDataConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.data.workers import run_tasks
from albert_tf.errors import StoppedError
from albert_tf.progress import Progress
from tests.data.pretraining.corpora import make_tokenizer, write_corpus

S, M = 29, 5


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 1500)


def make(corpus, tokenizer, folder, objective="sop", num_workers=1, num_shards=3):
    """Returns the bytes of the shards."""
    parts = (CorpusConfig(), SegmentConfig(S, objective), MaskingConfig(M))
    config = PretrainingDataConfig(*parts, seed=7, dupe_factor=2)
    (folder / "parts").mkdir(exist_ok=True, parents=True)
    paths = [str(folder / f"shard{number}") for number in range(num_shards)]
    where = (paths, str(folder / "parts"))
    stats, _ = shards.make_pretraining_data(corpus, tokenizer, config, *where, num_workers)
    counts = [sum(1 for _ in tf.data.TFRecordDataset(path)) for path in paths]
    assert counts == [stats.shard_records[number] for number in range(num_shards)]
    return [pathlib.Path(path).read_bytes() for path in paths]


def test_progress_counts_all_bytes_and_all_instances(corpus, tokenizer, tmp_path, monkeypatch):
    made = []

    class NotedProgress(Progress):
        def __exit__(self, *exception):
            made.append((self.done, self.total))
            super().__exit__(*exception)

    monkeypatch.setattr(shards, "Progress", NotedProgress)
    make(corpus, tokenizer, tmp_path)
    for done, total in made:
        assert done == pytest.approx(total)
    assert len(made) == 2


@pytest.mark.parametrize("max_bytes", [5000, 1 << 25])
def test_the_bytes_do_not_depend_on_workers_and_memory(
    corpus, tokenizer, tmp_path, monkeypatch, max_bytes
):
    """Workers get and return everything as bytes, and complete their tasks in any order."""
    alone = make(corpus, tokenizer, tmp_path / "1", objective="nsp")
    assert len(list((tmp_path / "1" / "parts").iterdir())) > 10

    def in_reverse(work, tasks, num_workers):
        work, tasks = pickle.loads(pickle.dumps((work, list(tasks))))
        return [pickle.loads(pickle.dumps(work(task))) for task in reversed(tasks)]

    monkeypatch.setattr(shards, "run_tasks", in_reverse)
    monkeypatch.setattr(shards, "_MAX_BYTES", max_bytes)
    assert make(corpus, tokenizer, tmp_path / "2", objective="nsp") == alone


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_which_resumes(corpus, tokenizer, tmp_path, monkeypatch):
    def kill_after_a_result(*arguments):
        for result in run_tasks(*arguments):
            yield result
            for worker in multiprocessing.active_children():
                worker.kill()

    monkeypatch.setattr(shards, "_TEXT_BYTES_PER_WORKER", 1)
    with monkeypatch.context() as patch:
        patch.setattr(shards, "run_tasks", kill_after_a_result)
        with pytest.raises(StoppedError, match="a worker process died"):
            make(corpus, tokenizer, tmp_path / "2", num_workers=2)
    assert list((tmp_path / "2" / "parts").iterdir())
    assert not list((tmp_path / "2").glob("shard*"))
    resumed = make(corpus, tokenizer, tmp_path / "2", num_workers=2)
    assert resumed == make(corpus, tokenizer, tmp_path / "1")


@pytest.mark.parametrize("num_shards", [1, 5])
def test_the_records_for_a_seed_never_change(corpus, tokenizer, tmp_path, num_shards):
    made = b"".join(make(corpus, tokenizer, tmp_path, num_shards=num_shards))
    digest = "ea9a05bb8f4be4ff02b1273ff8661f1df8cbdfa494b9deaa804d720e120d5a9b"
    assert hashlib.sha256(made).hexdigest() == digest


def test_complete_work_is_reused(corpus, tokenizer, tmp_path, monkeypatch):
    whole = make(corpus, tokenizer, tmp_path)
    parts = sorted((tmp_path / "parts").iterdir())
    kept = {path: path.stat().st_ino for path in parts}
    for path in (tmp_path / "shard1", parts[3]):
        path.unlink()
    made = []
    make_chunk = shards.ChunkMaker.__call__

    def note(self, chunk, stats):
        made.append(chunk.first_document)
        return make_chunk(self, chunk, stats)

    monkeypatch.setattr(shards.ChunkMaker, "__call__", note)
    assert make(corpus, tokenizer, tmp_path) == whole
    assert len(made) == 1
    assert {path for path, inode in kept.items() if path.stat().st_ino != inode} <= {parts[3]}
    # Start and content of a chunk decide whether its records are still valid.
    made.clear()
    longer = tmp_path / "longer"
    longer.write_text(pathlib.Path(corpus[1].path).read_text() + "\n\naa bb\ncc\n")
    changed_corpus = [corpus[0], *find_files([str(longer)])]
    for shard in tmp_path.glob("shard*"):
        shard.unlink()
    now = make(changed_corpus, tokenizer, tmp_path)
    assert len(made) == 1
    monkeypatch.undo()
    assert now == make(changed_corpus, tokenizer, tmp_path / "fresh")
