"""The corpus maker of the quick start, run as a user runs it, on two libraries for speed."""

import collections
import csv
import importlib
import itertools
import json
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "quickstart" / "make_corpus.py"
LIBRARIES = ("numpy", "scikit-learn")
SPLITS = ("train", "dev", "test")
FILES = {"corpus.txt", "corpus_dev.txt", "train.tsv", "dev.tsv", "test.tsv", "stats.json"}


def run_script(*flags: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, SCRIPT, *flags],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def make(folder: pathlib.Path, **environment: str) -> pathlib.Path:
    result = run_script(f"--output_dir={folder}", "--libraries", *LIBRARIES, **environment)
    assert result.returncode == 0, result.stderr
    return folder


def read_documents(path: pathlib.Path) -> list[list[str]]:
    return [part.splitlines() for part in path.read_text(encoding="utf-8").split("\n\n")]


def read_rows(path: pathlib.Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, "excel-tab")
    assert header == ["label", "text_a"]
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("corpus"), PYTHONHASHSEED="1")


@pytest.fixture(scope="module")
def corpus(folder):
    return {name: read_documents(folder / f"{name}.txt") for name in ("corpus", "corpus_dev")}


@pytest.fixture(scope="module")
def rows(folder):
    return {split: read_rows(folder / f"{split}.tsv") for split in SPLITS}


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


def test_rows_have_balanced_labels_and_enough_words_once_without_names_of_libraries(rows):
    for split, most in (("train", 1000), ("dev", 150), ("test", 150)):
        counts = collections.Counter(label for label, _ in rows[split])
        assert set(counts) == set(LIBRARIES)
        assert most // 3 <= min(counts.values()) <= max(counts.values()) <= most
    texts = [text.lower() for split in SPLITS for _, text in rows[split]]
    assert len(texts) == len(set(texts))
    names = {"keras", "matplotlib", "numpy", "np", "python", "scipy", "sklearn", "tensorflow", "tf"}
    for text in texts:
        assert 8 <= len(text.split()) <= 60
        assert names.isdisjoint(text.replace(".", " ").replace(",", " ").split()), text


def test_no_line_for_pretraining_is_part_of_a_held_out_row(rows, corpus):
    lines = {line for document in corpus["corpus"] for line in document}
    for _, text in rows["dev"] + rows["test"]:
        words = text.split()
        for start, stop in itertools.combinations(range(len(words) + 1), 2):
            assert " ".join(words[start:stop]) not in lines, text


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
    ("docstring", "expected"),
    [
        ("Return the sum of squares", ["Return the sum of squares."]),
        (
            "Adds `x` to :func:`~package.y`, see [here](there). The\nrest, e.g. of Zoë, is *all kept*!",
            ["Adds x to y, see here.", "The rest, e.g. of Zoë, is all kept!"],
        ),
        (
            "Does it well.\n\nParameters\n----------\nx : int, optional\n    The first of two.\n",
            ["The first of two."],
        ),
        (
            "Does it very well.\n\nArgs:\n  x: The first\n    of two.\n  y: The second of two.\n",
            ["Does it very well.", "The first of two.", "The second of two."],
        ),
        (
            "Does it very well.\n\n>>> print('This is no sentence.')\nThis is no sentence.\n\n"
            "It is like this::\n\n    This is no sentence.\n\nAfter code comes text.\n",
            ["Does it very well.", "After code comes text."],
        ),
        (
            ".. plot::\n\n   This is no sentence.\n\n.. note:: This is a\n   sentence of a note.\n\n"
            "```python\nThis is no sentence.\n```\n",
            ["This is a sentence of a note."],
        ),
    ],
)
def test_sentences_are_what_reads_as_english(make_corpus, docstring, expected):
    assert make_corpus.sentences(docstring) == expected


def test_the_opening_ends_before_the_first_section_and_at_60_words(make_corpus):
    long = "This sentence has" + " very" * 40 + " many words."
    text = f"Does it very well.\n\n{long}\n\n{long}\n\nArgs:\n  x: The first of two.\n"
    assert make_corpus.opening(text) == ("Does it very well.", long)
    assert make_corpus.opening("Does it very well.\n\nReturns:\n  The first of two.") == (
        "Does it very well.",
    )


def test_a_module_is_in_one_split_and_a_large_one_in_train(make_corpus):
    sizes = {f"module_{size}": size for size in range(1, 41)}
    rows = [
        make_corpus.Row("numpy", module, (f"Sentence {number} of {module}.",))
        for module, size in sizes.items()
        for number in range(size)
    ]
    splits = make_corpus.split_modules(rows, seed=3)
    table = make_corpus.choose_rows(rows, splits, seed=3)
    modules = {split: {row.module for row in table[split]} for split in SPLITS}
    assert sum(map(len, modules.values())) == len(set().union(*modules.values()))
    assert len(table["dev"]) == len(table["test"]) == 150
    assert all(sizes[module] <= 30 for module in modules["dev"] | modules["test"])
    assert splits != make_corpus.split_modules(rows, seed=4)


def test_a_text_with_other_names_is_one_row_and_of_two_libraries_none(make_corpus):
    def docstring(library, text):
        return make_corpus.Docstring(library, "module", "", text)

    rows = make_corpus.make_rows(
        [
            docstring("numpy", "Add one Hermite series to another, which must be as long."),
            docstring("numpy", "Add one Legendre series to another, which must be as long."),
            docstring("keras", "Return the sum of all elements along an axis."),
            docstring("scipy", "Return the sum of all elements along an axis."),
            docstring("scipy", "Return the sum of all elements along the axis of NumPy."),
        ]
    )
    assert [row.label for row in rows] == ["numpy"]


def test_documents_are_cut_at_the_size_and_keep_new_sentences_only(make_corpus):
    def document(name):
        return make_corpus.Document(name, [f"Sentence {name}{number}." for number in range(7)])

    first, second, third = map(document, "abc")
    size = len(make_corpus.format_documents([first]).encode()) + 1
    seen = {first.sentences[0]}
    chosen = make_corpus.choose_documents([first, first, second, third], seen, 2 * size)
    assert chosen == [make_corpus.Document("a", first.sentences[1:]), second]


@pytest.mark.parametrize(
    ("flags", "exit_code", "words"),
    [
        (["--libraries", "numpy"], 2, "--output_dir"),
        (["--output_dir=out", "--libraries", "pandas"], 2, "'pandas'"),
        (["--output_dir=out", "--max_megabytes=0"], 2, "--max_megabytes: got 0.0, expected more"),
        ([f"--output_dir={SCRIPT}", "--libraries", "numpy"], 1, "--output_dir: "),
    ],
)
def test_a_mistake_gives_one_line_and_no_traceback(flags, exit_code, words):
    result = run_script(*flags)
    assert result.returncode == exit_code
    assert words in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
