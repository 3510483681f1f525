"""On every engine the pipeline makes the records of a local run, also when a worker dies."""

import collections
import itertools
import os
import pathlib
import signal
import sys
import threading
import time
import types
from importlib.util import find_spec

import numpy as np
import pytest

from albert_tf.data.pretraining import beam, shards
from albert_tf.data.pretraining import corpus as corpus_module
from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.data.pretraining.instances import PretrainingDataConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.errors import InputError, StoppedError
from tests.data.pretraining.corpora import make_tokenizer, write_corpus
from tests.helpers import refused

needs_beam = pytest.mark.skipif(not find_spec("apache_beam"), reason="needs apache-beam")
needs_dask = pytest.mark.skipif(
    not (find_spec("apache_beam") and find_spec("distributed")), reason="needs apache-beam[dask]"
)

TWO_PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A corpus whose files and chunks overlap, for pipelines in this process."""
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 700)
    (tmp_path / "corpus").mkdir()
    return write_corpus(tmp_path / "corpus")


@pytest.fixture(scope="module")
def large_corpus(tmp_path_factory):
    """A corpus of several chunks of their real size, for other processes."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), 450, 400)


def make(module, corpus, tokenizer, folder, *how, objective="sop", num_shards=3):
    """Returns what was made, and the bytes of the shards."""
    (folder / "work").mkdir(parents=True)
    paths = [str(folder / f"{number}.tfrecord") for number in range(num_shards)]
    parts = (CorpusConfig(), SegmentConfig(121, objective), MaskingConfig(5))
    config = PretrainingDataConfig(*parts, seed=3, dupe_factor=2)
    where = (paths, str(folder / "work"))
    made = module.make_pretraining_data(corpus, tokenizer, config, *where, *how)
    return made, [pathlib.Path(path).read_bytes() for path in paths]


def run_in_any_order(stages, first, runner, runner_options, folder):
    """Runs the stages as an engine does, whose groups come in any order, each as an iterator."""
    rng = np.random.default_rng(1)
    inputs = list(first)
    for stage in stages.values():
        groups = collections.defaultdict(list)
        for key, value in itertools.chain.from_iterable(map(stage, rng.permutation(inputs))):
            groups[key].append(value)
        inputs = np.empty(len(groups), object)
        for index, (key, values) in enumerate(groups.items()):
            rng.shuffle(values)
            inputs[index] = key, iter(values)


@pytest.mark.parametrize("settings", [{"num_shards": 1}, {"objective": "nsp"}])
def test_the_order_of_an_engine_does_not_matter(corpus, tokenizer, tmp_path, monkeypatch, settings):
    monkeypatch.setattr(beam, "_run", run_in_any_order)
    local = make(shards, corpus, tokenizer, tmp_path / "local", 1, **settings)
    ours = make(beam, corpus, tokenizer, tmp_path / "beam", "no runner", [], **settings)
    assert ours == local
    assert ours[0][0].instances > 100


@pytest.fixture(scope="module")
def local(large_corpus, tokenizer, tmp_path_factory):
    """What a local run makes of the large corpus."""
    return make(shards, large_corpus, tokenizer, tmp_path_factory.mktemp("local") / "out", 1)


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two worker processes."""
    from dask.distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


def on(cluster):
    """Returns the runner and its options for a Dask cluster."""
    return "DaskRunner", [f"--dask_client_address={cluster.scheduler_address}"]


@needs_beam
def test_beams_own_processes_make_the_records_of_a_local_run(
    large_corpus, tokenizer, local, tmp_path
):
    how = ("DirectRunner", TWO_PROCESSES)
    assert make(beam, large_corpus, tokenizer, tmp_path / "beam", *how) == local


def wait_for_a_part(folder):
    while not list((folder / "beam" / "work").glob("?" * 64)):
        time.sleep(0.01)


@needs_dask
def test_dask_makes_the_records_of_a_local_run_though_a_worker_is_killed(
    cluster, large_corpus, tokenizer, local, tmp_path
):
    killed = []

    def kill_one():
        wait_for_a_part(tmp_path)
        killed.append(cluster.workers[0].pid)
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    ours = make(beam, large_corpus, tokenizer, tmp_path / "beam", *on(cluster))
    assert killed
    assert ours == local
    cluster.wait_for_workers(2)
    assert killed[0] not in [worker.pid for worker in cluster.workers.values()]


@pytest.mark.parametrize("engine", ["one process", "Dask"])
@needs_dask
def test_a_workers_error_is_the_local_one(request, tokenizer, tmp_path, engine):
    how = "DirectRunner", []
    if engine == "Dask":
        how = on(request.getfixturevalue("cluster"))
    (tmp_path / "bad").write_bytes(b"aa bb\ncc \xff\n")
    corpus = find_files([str(tmp_path / "bad")])
    with pytest.raises(InputError) as error:
        make(beam, corpus, tokenizer, tmp_path / "beam", *how)
    assert str(error.value).startswith(f"{tmp_path}/bad, line 2: byte 4 is 0xff, which is not UTF")


@needs_dask
def test_a_cluster_that_ends_in_the_middle_is_one_line(large_corpus, tokenizer, tmp_path):
    from dask.distributed import LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)

    def end():
        wait_for_a_part(tmp_path)
        cluster.close()

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    with pytest.raises(StoppedError, match=r"^DaskRunner (failed|ended before the pipeline)"):
        make(beam, large_corpus, tokenizer, tmp_path / "beam", *on(cluster))
    thread.join()
    assert not list((tmp_path / "beam").glob("*.tfrecord"))


@needs_dask
def test_a_scheduler_that_does_not_answer_is_one_line(corpus, tokenizer, tmp_path):
    options = ["--dask_client_address=tcp://127.0.0.1:1", "--dask_connection_timeout=1"]
    message = r"DaskRunner failed: OSError: .*tcp://127.0.0.1:1"
    with pytest.raises(StoppedError, match=message) as error:
        make(beam, corpus, tokenizer, tmp_path / "beam", "DaskRunner", options)
    assert "\n" not in str(error.value)
    assert "Traceback" in (tmp_path / "beam" / "work" / "pipeline.log").read_text()
    assert not list((tmp_path / "beam").glob("*.tfrecord*"))


@pytest.mark.parametrize(
    ("text", "num_shards", "message"),
    [
        ("\n\n", 1, "text: no text; expected a corpus of input_format=lines"),
        ("aa bb cc", 5, "num_shards=5: expected fewer for 2 instances"),
    ],
)
def test_a_corpus_too_small_is_refused(tokenizer, tmp_path, monkeypatch, text, num_shards, message):
    monkeypatch.setattr(beam, "_run", run_in_any_order)
    (tmp_path / "text").write_text(text)
    corpus = find_files([str(tmp_path / "text")])
    with refused(message):
        make(beam, corpus, tokenizer, tmp_path / "beam", "no runner", [], num_shards=num_shards)


def test_options_that_a_runner_refuses_are_one_line(corpus, tokenizer, tmp_path, monkeypatch):
    def refuse(runner, options):
        raise ValueError("Pipeline has validations errors: \nMissing required option: project.")

    beams = types.SimpleNamespace(Pipeline=refuse, PipelineOptions=list)
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", beams)
    monkeypatch.setattr(beam, "_import_beam", lambda runner: beams)
    message = r"^runner_options: Pipeline has validations errors: Missing required option: proj"
    with refused(message):
        make(beam, corpus, tokenizer, tmp_path / "beam", "DataflowRunner", [])


@pytest.mark.parametrize(
    ("runner", "modules"),
    [("DirectRunner", "apache_beam"), ("DaskRunner", "apache_beam, dask, distributed")],
)
def test_a_missing_package_is_named(corpus, tokenizer, tmp_path, monkeypatch, runner, modules):
    for name in ("apache_beam", "dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with refused(rf"^needs {modules}, which .*: pip install 'albert-tf\[beam\]'$"):
        make(beam, corpus, tokenizer, tmp_path / "beam", runner, [])
