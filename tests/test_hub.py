"""Models of the Hugging Face Hub and of archives, from a local server, by the real clients."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from albert_tf.conversion import save_hugging_face
from albert_tf.models import AlbertEncoder
from tests.helpers import tiny_config
from tests.hub_server import COMMIT, serve
from tests.tokenization.conftest import train_model

# Runs a program in a fork for each environment; what all of them import is imported once.
FORK = """
import json, os, sys
import tensorflow, albert_tf
albert_tf.load, albert_tf.AlbertEncoder, albert_tf.AlbertTokenizer
environments, program = json.loads(sys.argv.pop(1)), sys.argv.pop(1)
for environment in environments:
    if not os.fork():
        os.environ.update(environment)
        exec(program)
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0
    print("end", flush=True)
"""
# Prints for each name what comes of it, as a line of JSON.
FIND = """
import json, sys
from albert_tf.sources import find_model
for name in sys.argv[1:]:
    try:
        found = find_model(name)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(json.dumps([name, found]))
"""
LOAD = """
import sys, albert_tf
print(albert_tf.load(sys.argv[1]).embed(["a day"])[0].tolist())
print(albert_tf.AlbertEncoder.from_preset(sys.argv[1]).count_params())
print(len(albert_tf.AlbertTokenizer.from_preset(sys.argv[1]).pieces))
"""


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
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def run(program, hub, cache, names, environments=({},)):
    """Returns the lines that a program prints in each environment."""
    (cache / "keras").mkdir(exist_ok=True)
    of_client = {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(cache / "hub"),
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": "hf_token",
        "KERAS_HOME": str(cache / "keras"),
    }
    done = subprocess.run(
        [sys.executable, "-c", FORK, json.dumps(environments), program, *names],
        env={**os.environ, **of_client},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return [part.splitlines() for part in done.stdout.split("end\n")[:-1]]


def read_found(lines):
    """Returns what comes of names, in their order."""
    return [json.loads(line)[1] for line in lines if line.startswith('["')]


@pytest.fixture(scope="module")
def found(hub, cache):
    """What comes of each name the last time, in one process, and of one archive before."""
    archives = [
        f"{hub.address}/{name}.tar.gz" for name in ("good", *FAULTY_ARCHIVES, "cut", "good")
    ]
    cut = archives[-2]
    names = [cut, "me/other", *SAME, *FAULTS, *archives]
    (lines,) = run(FIND, hub, cache, names)
    first, *others = read_found(lines)
    return {"cut at first": first, **dict(zip(names[1:], others, strict=True))}


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
    assert re.search(f"^InputError: .*{message}", found[name])
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
    assert re.search(f"^InputError: .*{message}", received)
    assert "\n" not in received
    assert not any("outside" in path for path in walk(cache))


def test_without_a_network_what_is_cached_works(hub, found, cache, encoder):
    # Half a download is none.
    os.unlink(os.path.join(found["me/other"], "model.safetensors"))
    names = ("me/tiny", "hf://me/tiny@v1", "hf://me/other", "hf://me/never")
    environments = ({"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"})
    for lines in run(FIND + LOAD, hub, cache, names, environments):
        folder, same, *faults = read_found(lines)
        assert folder == same == found["me/tiny"]
        for name, fault in zip(("other", "never"), faults, strict=True):
            message = (
                rf"^InputError: hf://me/{name}: not completely in the cache, and the Hub cannot be "
                rf"reached .*; where there is a network, `hf download me/{name} --local-dir {name}`"
            )
            assert re.search(message, fault)
        embedding, count, pieces = map(json.loads, lines[-3:])
        assert (count, pieces) == (encoder.count_params(), 150)
        assert np.isfinite(embedding).all()
        assert len(embedding) == 48
