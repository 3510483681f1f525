"""Any number of workers writes the same bytes, and complete chunks are not made again."""

import hashlib
import multiprocessing
import pathlib
import pickle

import numpy as np
import pytest

from albert_tf.data.pretraining import corpus as corpus_module
from albert_tf.data.pretraining import shards
from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.data.pretraining.instances import PretrainingDataConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.data.pretraining.shards import RunWriter, read_sorted
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


def make(corpus, tokenizer, folder, objective="sop", num_workers=1):
    """Returns the bytes of the shards."""
    parts = (CorpusConfig(), SegmentConfig(S, objective), MaskingConfig(M))
    config = PretrainingDataConfig(*parts, seed=7, dupe_factor=2)
    (folder / "runs").mkdir(exist_ok=True, parents=True)
    paths = [str(folder / f"shard{number}") for number in range(3)]
    where = (paths, str(folder / "runs"))
    shards.make_pretraining_data(corpus, tokenizer, config, *where, num_workers)
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


def test_the_bytes_do_not_depend_on_the_workers(corpus, tokenizer, tmp_path, monkeypatch):
    """Which get and return everything as bytes, and complete their tasks in any order."""
    alone = make(corpus, tokenizer, tmp_path / "1", objective="nsp")
    assert len(list((tmp_path / "1" / "runs").glob("*.run"))) > 10

    def in_reverse(work, tasks, num_workers):
        work, tasks = pickle.loads(pickle.dumps((work, list(tasks))))
        return [pickle.loads(pickle.dumps(work(task))) for task in reversed(tasks)]

    monkeypatch.setattr(shards, "run_tasks", in_reverse)
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
    assert list((tmp_path / "2" / "runs").glob("chunk-*.json"))
    assert not list((tmp_path / "2").glob("shard*"))
    resumed = make(corpus, tokenizer, tmp_path / "2", num_workers=2)
    assert resumed == make(corpus, tokenizer, tmp_path / "1")


def test_the_bytes_for_a_seed_never_change(corpus, tokenizer, tmp_path):
    digest = hashlib.sha256(b"".join(make(corpus, tokenizer, tmp_path))).hexdigest()
    assert digest == "ea9a05bb8f4be4ff02b1273ff8661f1df8cbdfa494b9deaa804d720e120d5a9b"


def test_complete_work_is_reused(corpus, tokenizer, tmp_path, monkeypatch):
    whole = make(corpus, tokenizer, tmp_path)
    shard, runs = tmp_path / "shard1", sorted((tmp_path / "runs").iterdir())
    kept = {path: path.stat().st_ino for path in runs}
    lost = [path for path in runs if path.name.startswith("chunk-000003")]
    for path in (shard, *lost):
        path.unlink()
    made = []
    make_chunk = shards.ChunkMaker.__call__

    def note(self, chunk, stats):
        made.append(chunk.number)
        return make_chunk(self, chunk, stats)

    monkeypatch.setattr(shards.ChunkMaker, "__call__", note)
    assert make(corpus, tokenizer, tmp_path) == whole
    assert made == [3]
    changed = [path for path, inode in kept.items() if path.stat().st_ino != inode]
    assert set(changed) <= set(lost)
    # Start and content of a chunk decide whether its records are still valid.
    made.clear()
    longer = tmp_path / "longer"
    longer.write_text(pathlib.Path(corpus[1].path).read_text() + "\n\naa bb\ncc\n")
    changed_corpus = [corpus[0], *find_files([str(longer)])]
    for shard in tmp_path.glob("shard*"):
        shard.unlink()
    now = make(changed_corpus, tokenizer, tmp_path)
    assert made == [max(made)]
    monkeypatch.undo()
    assert now == make(changed_corpus, tokenizer, tmp_path / "fresh")


# Whatever runs records are divided into, any stretch of the sorted whole is read back.


def keyed_records(count):
    rng = np.random.default_rng(0)
    keys = rng.choice(rng.integers(2**64, size=count, dtype=np.uint64), count)  # some are equal
    return [(int(key), rng.bytes(rng.integers(0, 40))) for key in keys]


def write_runs(folder, records, writers=3):
    """Deals records to writers; returns the paths and sizes of all runs."""
    paths, sizes = [], np.zeros((2, 4096), np.int64)
    for number in range(writers):
        writer = RunWriter(str(folder / f"{writers}-{number}"))
        for key, record in records[number::writers]:
            writer.add(key, record)
        writer.flush()
        paths += writer.paths
        sizes += writer.sizes
    return paths, sizes


@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("max_bytes", [100, 1000, 1 << 25])
def test_ranges_are_parts_of_the_whole(tmp_path, monkeypatch, writers, max_bytes):
    monkeypatch.setattr(shards, "_MAX_BYTES", max_bytes)
    records = keyed_records(300)
    paths, sizes = write_runs(tmp_path, records, writers)
    assert (len(paths) > writers) == (max_bytes < 2000)
    assert sizes[0].sum() == 300
    whole = [record for _, record in sorted(records)]
    for first, last in [(0, 300), (0, 1), (0, 67), (67, 233), (233, 300), (50, 50)]:
        assert list(read_sorted(paths, sizes, first, last)) == whole[first:last]


def test_empty_writer_writes_no_run(tmp_path):
    paths, sizes = write_runs(tmp_path, [])
    assert paths == []
    assert list(read_sorted(paths, sizes, 0, 0)) == []
