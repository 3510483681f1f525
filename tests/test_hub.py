"""Models of the Hugging Face Hub and of archives, by the real clients: cached, refused, damaged."""

import functools
import http.server
import io
import os
import tarfile
import threading

import huggingface_hub
import keras
import pytest
from huggingface_hub import constants

import albert_tf
from albert_tf.conversion import save_model
from albert_tf.models import AlbertEncoder
from albert_tf.sources import find_model
from tests.helpers import assert_same_weights, refused, tiny_config
from tests.tokenization.conftest import train_model

COMMIT = "c0ffee" * 6 + "abcd"
REFUSALS = {
    "/api/models/me/private/revision/main": (401, ""),
    "/api/models/me/gated/revision/main": (403, "GatedRepo"),
    "/api/models/me/gone/revision/main": (404, "RepoNotFound"),
    "/api/models/me/tiny/revision/gone": (404, "RevisionNotFound"),
}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Refuses models as the Hub does, and serves the archives of a folder."""

    def do_GET(self):
        self.server.paths.append(self.path)
        if self.path not in REFUSALS:
            return super().do_GET()
        status, code = REFUSALS[self.path]
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        return self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(tiny_config(vocab_size=150), seed=3)


@pytest.fixture(scope="module")
def cache(tmp_path_factory, encoder):
    """The folder in which the clients keep their downloads, with two models of the Hub."""
    cache = tmp_path_factory.mktemp("cache")
    for name in ("tiny", "pickle"):
        folder = cache / "hub" / f"models--me--{name}"
        (folder / "refs").mkdir(parents=True)
        for revision in ("main", "v1"):
            (folder / "refs" / revision).write_text(COMMIT)
    contents = {"spiece.model": train_model()}
    save_model(encoder, str(cache / "hub/models--me--tiny/snapshots" / COMMIT), contents=contents)
    snapshot = cache / "hub/models--me--pickle/snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
        get_file = functools.partial(keras.utils.get_file, cache_dir=str(cache / "keras"))
        patch.setattr(keras.utils, "get_file", get_file)
        yield cache


@pytest.fixture
def cached(cache, monkeypatch):
    """The folder of `me/tiny` in the cache, for clients without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return str(cache / "hub/models--me--tiny/snapshots" / COMMIT)


def make_archive(path, *members):
    with tarfile.open(path, mode="w:gz") as archive:
        for name in members:
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"{}"))


ARCHIVED = {"1_Pooling/config.json", "albert_config.json", "vocab.txt"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory, cache):
    """A server with archives, which the Hub's client takes for the Hub."""
    folder = tmp_path_factory.mktemp("archives")
    make_archive(folder / "good.tar.gz", "._x", *(f"base/{name}" for name in ARCHIVED))
    make_archive(folder / "outside.tar.gz", "base/albert_config.json", "../outside.txt")
    (folder / "page.tar.gz").write_bytes(b"<html>")
    handler = functools.partial(Handler, directory=folder)
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        server.paths = []
        server.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        patch.setattr(constants, "ENDPOINT", server.address)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("me/tiny@gone", "'me/tiny@gone' is neither a folder .*small_en.* no revision 'gone'$"),
        (
            "hf://me/private",
            "hf://me/private: there is no such model, or it is private: `hf auth lo",
        ),
        ("me/gated", "hf://me/gated: is open to those who accept its conditions"),
        ("me/gone", "neither a folder or .*small_en.*hf://me/gone: there is no such model"),
        ("hf://me", "expected hf://owner/name or hf://owner/name@revision"),
        ("gone", "neither a folder or checkpoint, nor .* albert_tf .*small_en., nor owner/name of"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_what_the_hub_refuses_is_one_line(name, message):
    with refused(message):
        find_model(name)


def test_an_archive_is_downloaded_and_unpacked_once(hub):
    for _ in range(2):
        folder = find_model(f"{hub.address}/good.tar.gz")
        files = {os.path.relpath(path, folder) for path in walk(folder)}
        assert files == ARCHIVED
    assert hub.paths.count("/good.tar.gz") == 1


def walk(folder):
    return [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "outside",
            r"'\.\./outside\.txt' would be extracted to .*, which is outside the destinati",
        ),
        ("page", "no .tar.gz archive, or a damaged one"),
        ("gone", "cannot be downloaded: .*404 -- .*; where there is a network"),
    ],
)
def test_a_faulty_archive_is_one_line_and_no_file(hub, cache, name, message):
    for _ in range(2):
        with refused(message):
            find_model(f"{hub.address}/{name}.tar.gz")
    assert not any("outside" in path for path in walk(cache))
    # It was downloaded again, as it may be whole by now.
    assert hub.paths.count(f"/{name}.tar.gz") == 2


def test_only_files_that_are_read_are_asked_for(cached, monkeypatch):
    asked = {}

    def download(repo, **options):
        asked.update(options, repo=repo)
        return cached

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert find_model("hf://me/tiny@v1") == cached
    assert (asked["repo"], asked["revision"]) == ("me/tiny", "v1")
    names = ["config.json", "model.safetensors", "spiece.model", "1_Pooling/config.json"]
    others = ["pytorch_model.bin", "onnx/model.safetensors", "train.csv"]
    patterns = asked["allow_patterns"]
    filtered = huggingface_hub.utils.filter_repo_objects([*names, *others], allow_patterns=patterns)
    assert list(filtered) == names


def test_what_is_cached_needs_no_network(cached, encoder, monkeypatch):
    for name in ("me/tiny", "hf://me/tiny", "me/tiny@v1", f"hf://me/tiny@{COMMIT}"):
        assert find_model(name) == cached
    assert_same_weights(AlbertEncoder.from_preset("me/tiny"), encoder)
    assert len(albert_tf.AlbertTokenizer.from_preset("me/tiny").pieces) == 150
    assert len(albert_tf.load("me/tiny").tokenizer.pieces) == 150
    with refused("holds neither model.safetensors nor .* pickles such as pytorch_model.bin"):
        find_model("me/pickle")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert find_model("me/tiny") == cached


@pytest.mark.parametrize(("revision", "option"), [("", ""), ("@v1", " --revision v1")])
@pytest.mark.usefixtures("cached")
def test_what_is_not_cached_needs_one(revision, option):
    message = (
        rf"^hf://me/never\S*: not completely in the cache, and the Hub cannot be reached .*; where "
        rf"there is a network, `hf download me/never{option} --local-dir never`"
    )
    with refused(message):
        find_model(f"hf://me/never{revision}")
