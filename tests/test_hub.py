"""Models of the Hugging Face Hub and of archives, from a local server, by the real clients."""

import functools
import io
import os
import re
import tarfile

import keras
import pytest
from huggingface_hub import constants

import albert_tf
from albert_tf.conversion import save_hugging_face
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder
from albert_tf.sources import find_model
from tests.helpers import assert_same_weights, tiny_config
from tests.hub_server import COMMIT, serve
from tests.tokenization.conftest import train_model


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
    save_hugging_face(encoder, str(folder), more_files={"spiece.model": train_model()})
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
            "/good.tar.gz": make_archive("._x", "base/albert_config.json", "base/vocab.txt"),
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
    assert sorted(os.listdir(found[f"{hub.address}/good.tar.gz"])) == [
        "albert_config.json",
        "vocab.txt",
    ]
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


@pytest.mark.parametrize(
    ("name", "value"), [("HF_HUB_OFFLINE", True), ("ENDPOINT", "http://127.0.0.1:9")]
)
def test_without_a_network_what_is_cached_works(
    hub, found, encoder, tmp_path, monkeypatch, name, value
):
    monkeypatch.setattr(constants, name, value)
    assert find("me/tiny") == find("hf://me/tiny@v1") == found["me/tiny"]
    assert_same_weights(AlbertEncoder.from_preset("me/tiny"), encoder)
    assert len(albert_tf.AlbertTokenizer.from_preset("me/tiny").pieces) == 150
    assert len(albert_tf.load("me/tiny").tokenizer.pieces) == 150
    # Half a download is none.
    weights = os.path.join(found["me/other"], "model.safetensors")
    os.rename(weights, tmp_path / "weights")
    for other in ("other", "never"):
        message = (
            rf"^hf://me/{other}: not completely in the cache, and the Hub cannot be reached .*; where "
            rf"there is a network, `hf download me/{other} --local-dir {other}`"
        )
        assert re.search(message, find(f"hf://me/{other}"))
    os.rename(tmp_path / "weights", weights)
