"""The corpus maker of the quick start, run as a user runs it, on two libraries for speed."""

import collections
import csv
import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.helpers import ROOT

SCRIPT = ROOT / "examples" / "quickstart" / "make_corpus.py"
LIBRARIES = ("numpy", "scikit-learn")
SPLITS = ("train", "dev", "test")
FILES = {"corpus.txt", "corpus_dev.txt", "train.csv", "dev.csv", "test.csv", "stats.json"}


def run_script(*flags: str, **environment: str) -> subprocess.CompletedProcess:
    command, environment = [sys.executable, SCRIPT, *flags], {**os.environ, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def make(folder: pathlib.Path, **environment: str) -> pathlib.Path:
    result = run_script(f"--output_dir={folder}", "--libraries", *LIBRARIES, **environment)
    assert result.returncode == 0, result.stderr
    return folder


def read_documents(path: pathlib.Path) -> list[list[str]]:
    return [part.splitlines() for part in path.read_text(encoding="utf-8").split("\n\n")]


def read_rows(path: pathlib.Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["label", "text"]
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("corpus"), PYTHONHASHSEED="1")


@pytest.fixture(scope="module")
def corpus(folder):
    return {name: read_documents(folder / f"{name}.txt") for name in ("corpus", "corpus_dev")}


@pytest.fixture(scope="module")
def rows(folder):
    return {split: read_rows(folder / f"{split}.csv") for split in SPLITS}


@pytest.fixture(scope="module")
def make_corpus():
    sys.path.insert(0, str(SCRIPT.parent))
    yield importlib.import_module("make_corpus")
    sys.path.remove(str(SCRIPT.parent))


@pytest.mark.slow
def test_same_versions_and_seed_give_the_same_bytes(folder, tmp_path):
    again = make(tmp_path, PYTHONHASHSEED="2")
    for name in FILES:
        assert (again / name).read_bytes() == (folder / name).read_bytes(), name


def test_documents_have_several_sentences_of_one_line_each_once(corpus):
    documents = [document for part in corpus.values() for document in part]
    assert min(map(len, documents)) >= 6
    lines = [line for document in documents for line in document]
    assert len(lines) == len(set(lines)) > 10_000
    for line in lines:
        assert line == " ".join(line.split())
        assert line[-1] in ".!?\"')"
        assert 4 <= len(line.split()) <= 60


def test_every_other_row_has_a_slip(rows, corpus, make_corpus):
    for split, name in (("train", "corpus"), ("dev", "corpus_dev")):
        lines = {line for document in corpus[name] for line in document}
        assert len(rows[split]) > 100
        for number, (label, text) in enumerate(rows[split]):
            words = text.split()
            assert 8 <= len(words) <= 30
            mended = {
                " ".join([*words[:place], make_corpus.REPLACEMENTS[word], *words[place + 1 :]])
                for place, word in enumerate(words)
                if word in make_corpus.REPLACEMENTS
            }
            assert label == ("slip" if number % 2 else "right")
            assert (text in lines, bool(mended & lines)) == (label == "right", label == "slip")


def test_no_sentence_of_a_split_is_in_another(rows, corpus):
    seen = [{text for _, text in rows[split]} for split in SPLITS]
    assert sum(map(len, seen)) == len(set().union(*seen))
    lines = {line for part in corpus.values() for document in part for line in document}
    assert seen[SPLITS.index("test")].isdisjoint(lines)


def test_stats_count_what_is_in_the_files(folder, corpus, rows):
    assert {path.name for path in folder.iterdir()} == FILES
    stats = json.loads((folder / "stats.json").read_text())
    for name, documents in corpus.items():
        lines = [line for document in documents for line in document]
        assert stats[name] == {
            "documents": len(documents),
            "sentences": len(lines),
            "words": sum(len(line.split()) for line in lines),
        }
    for split in SPLITS:
        assert stats[split] == collections.Counter(label for label, _ in rows[split])
    assert set(stats["versions"]) == set(LIBRARIES)


@pytest.mark.parametrize(
    ("flags", "exit_code", "words"),
    [
        (["--libraries", "numpy"], 2, "--output_dir"),
        (["--output_dir=out", "--max_megabytes=0"], 2, "--max_megabytes: got 0.0, expected more"),
        ([f"--output_dir={SCRIPT}", "--libraries", "numpy"], 1, "--output_dir: "),
    ],
)
def test_a_mistake_gives_one_line_and_no_traceback(flags, exit_code, words):
    result = run_script(*flags)
    assert result.returncode == exit_code
    assert words in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
