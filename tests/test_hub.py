"""Models of the Hugging Face Hub and of archives, from a local server, by the real clients."""

import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
import re
import tarfile
import threading
import urllib.parse

import keras
import pytest
from huggingface_hub import constants

import albert_tf
from albert_tf.conversion import save_model
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder
from albert_tf.sources import find_model
from tests.helpers import assert_same_weights, tiny_config
from tests.tokenization.conftest import train_model

COMMIT = "c0ffee" * 6 + "abcd"
_ERRORS = {"missing": (404, "RepoNotFound"), "private": (401, None), "gated": (403, "GatedRepo")}


class HubServer(http.server.ThreadingHTTPServer):
    """Speaks the part of the Hub's protocol that downloads need, and serves other files by path."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos = {}  # repository -> file -> content; in place of the files the name of an error
        self.files = {}  # path -> content
        self.cuts = {}  # file -> number of bytes after which the connection is dropped, once
        self.requests = []  # so far, method and path
        self.tokens = set()  # the `Authorization` headers so far

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.requests.append((self.command, path))
        self.server.tokens.add(self.headers.get("Authorization"))
        if path in self.server.files:
            return self._send_file(path, self.server.files[path])
        info = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = info or file
        repo = self.server.repos.get(found[1], "missing") if found else "missing"
        if isinstance(repo, str):
            return self._fail(*_ERRORS[repo])
        revision = (info[3] if info else file[2]) or "main"
        if revision not in ("main", "v1", COMMIT):
            return self._fail(404, "RevisionNotFound")
        if file:
            if file[3] not in repo:
                return self._fail(404, "EntryNotFound")
            return self._send_file(file[3], repo[file[3]])
        if info[2] == "tree":
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": _sum(content)}
                for name, content in repo.items()
            ]
            return self._send(json.dumps(tree).encode(), {"Content-Type": "application/json"})
        siblings = [{"rfilename": name} for name in repo]
        values = {"id": found[1], "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0}
        return self._send(json.dumps(values).encode(), {"Content-Type": "application/json"})

    do_HEAD = do_GET  # noqa: N815

    def _send_file(self, name, content):
        start = 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(asked[1])
        headers = {"ETag": f'"{_sum(content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        self._send(content[start:], headers, 206 if start else 200, self.server.cuts, name)

    def _send(self, content, headers, status=200, cuts=None, name=""):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut := (cuts or {}).pop(name, None):
            self.wfile.write(content[:cut])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(content)

    def _fail(self, status, code):
        headers = {"X-Error-Code": code} if code else {}
        self._send(b'{"error": "refused"}', headers, status)

    def log_message(self, *args):
        pass


def _sum(content):
    return hashlib.sha1(content).hexdigest()


@contextlib.contextmanager
def serve():
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_archive(*members):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in members:
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"{}"))
    return content.getvalue()


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(tiny_config(vocab_size=150), seed=3)


@pytest.fixture(scope="module")
def hub(tmp_path_factory, encoder):
    """A hub with a model that has more than is needed, and with faults of all kinds."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(encoder, str(folder), contents={"spiece.model": train_model()})
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    more = dict.fromkeys(("pytorch_model.bin", "onnx/model.safetensors", "train.csv"), b"unused")
    with serve() as server:
        server.repos |= {
            "me/tiny": {**files, **more, "1_Pooling/config.json": b"{}"},
            "me/other": files,
            "me/pickle": {"config.json": files["config.json"], "pytorch_model.bin": b"pickle"},
            "me/private": "private",
            "me/gated": "gated",
        }
        server.files |= {
            "/good.tar.gz": make_archive("._x", *(f"base/{name}" for name in ARCHIVED)),
            "/cut.tar.gz": make_archive("base/albert_config.json"),
            "/outside.tar.gz": make_archive("base/albert_config.json", "../outside.txt"),
            "/page.tar.gz": b"<html>",
        }
        server.cuts |= {"model.safetensors": 1000, "/cut.tar.gz": 20}
        yield server


@pytest.fixture(scope="module")
def cache(hub, tmp_path_factory):
    """The folder where the clients, which now ask the local server, keep what they download."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        address = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        patch.setattr(constants, "ENDPOINT", hub.address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
        patch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setenv("HF_TOKEN", "hf_token")
        get_file = functools.partial(keras.utils.get_file, cache_dir=str(cache / "keras"))
        patch.setattr(keras.utils, "get_file", get_file)
        yield cache


def find(name):
    """Returns where a model is found, or the error."""
    try:
        return find_model(name)
    except InputError as error:
        return str(error)


@pytest.fixture(scope="module")
def found(hub, cache):
    """What comes of each name the last time, and of one archive before."""
    cut = f"{hub.address}/cut.tar.gz"
    first = find(cut)
    names = ("good", *FAULTY_ARCHIVES, "cut", "good")
    archives = [f"{hub.address}/{name}.tar.gz" for name in names]
    found = {name: find(name) for name in ("me/other", *SAME, *FAULTS, *archives)}
    return {"cut at first": first, **found}


ARCHIVED = {"1_Pooling/config.json", "albert_config.json", "vocab.txt"}
SAME = ("me/tiny", "hf://me/tiny", "me/tiny@v1", f"hf://me/tiny@{COMMIT}")
FAULTS = {
    "me/tiny@gone": "'me/tiny@gone' is neither a folder .*small_en.*there is no revision 'gone'$",
    "hf://me/private": "hf://me/private: there is no such model, or it is private: `hf auth login`",
    "me/gated": "hf://me/gated: is open to those who accept its conditions",
    "me/gone": "neither a folder or checkpoint, nor .*small_en.*hf://me/gone: there is no such model",
    "hf://me/pickle": "holds neither model.safetensors nor .* pickles such as pytorch_model.bin",
    "hf://me": "expected hf://owner/name or hf://owner/name@revision",
    "gone": "neither a folder or checkpoint, nor .* albert_tf .small_en., nor owner/name of the Hu",
}
FAULTY_ARCHIVES = {
    "outside": r"'\.\./outside\.txt' would be extracted to .*, which is outside the destination",
    "page": "no .tar.gz archive, or a damaged one",
    "gone": "cannot be downloaded: .*404 -- Not Found; where there is a network",
}


def test_what_is_needed_of_a_model_is_downloaded(hub, found):
    folder = found["me/tiny"]
    names = {os.path.relpath(path, folder) for path in walk(folder)}
    weights = {"config.json", "model.safetensors", "spiece.model"}
    assert names == {*weights, "1_Pooling/config.json"}
    for name, files in {"me/tiny": folder, "me/other": found["me/other"]}.items():
        with open(os.path.join(files, "model.safetensors"), "rb") as file:
            # The connection was dropped in one of them.
            assert file.read() == hub.repos[name]["model.safetensors"]
    assert {found[name] for name in SAME} == {folder}
    assert "Bearer hf_token" in hub.tokens


def walk(folder):
    return [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize(("name", "message"), FAULTS.items())
def test_what_the_hub_refuses_is_one_line(found, name, message):
    assert re.search(message, found[name])
    assert "\n" not in found[name]


def test_an_archive_is_unpacked_once(hub, found):
    folder = found[f"{hub.address}/good.tar.gz"]
    assert {os.path.relpath(path, folder) for path in walk(folder)} == ARCHIVED
    assert "retrieval incomplete" in found["cut at first"]
    assert os.listdir(found[f"{hub.address}/cut.tar.gz"]) == ["albert_config.json"]
    paths = [path for _, path in hub.requests]
    assert (paths.count("/good.tar.gz"), paths.count("/cut.tar.gz")) == (1, 2)


@pytest.mark.parametrize(("name", "message"), FAULTY_ARCHIVES.items())
def test_a_faulty_archive_is_one_line_and_no_file(hub, found, cache, name, message):
    received = found[f"{hub.address}/{name}.tar.gz"]
    assert re.search(message, received)
    assert "\n" not in received
    assert not any("outside" in path for path in walk(cache))


NO_NETWORK = [("HF_HUB_OFFLINE", True), ("ENDPOINT", "http://127.0.0.1:9")]


@pytest.mark.parametrize("changes", NO_NETWORK)
def test_what_is_cached_needs_no_network(hub, found, encoder, tmp_path, monkeypatch, changes):
    monkeypatch.setattr(constants, *changes)
    assert find("me/tiny") == find("hf://me/tiny@v1") == found["me/tiny"]
    assert_same_weights(AlbertEncoder.from_preset("me/tiny"), encoder)
    assert len(albert_tf.AlbertTokenizer.from_preset("me/tiny").pieces) == 150
    assert len(albert_tf.load("me/tiny").tokenizer.pieces) == 150
    # Half a download is none.
    weights = os.path.join(found["me/other"], "model.safetensors")
    os.rename(weights, tmp_path / "weights")
    for other, revision in (("other", ""), ("never", ""), ("never", "v1")):
        option = f" --revision {revision}" if revision else ""
        message = (
            rf"^hf://me/{other}\S*: not completely in the cache, and the Hub cannot be reached .*; where "
            rf"there is a network, `hf download me/{other}{option} --local-dir {other}`"
        )
        assert re.search(message, find(f"hf://me/{other}" + f"@{revision}" * bool(revision)))
    os.rename(tmp_path / "weights", weights)
