"""Makes the text of the quick start from what every machine that runs it has installed.

The quick start shows the whole job on real English without a download, so it reads Python's own
documentation (`pydoc_data.topics`) and the docstrings of Python and other installed libraries. The
fine-tuning task comes from the same sentences: which of them have a slip, such as `is` for `are`?

Three decisions shape the files:

* Source files are parsed with `ast`, never imported: that is fast and has no side effects.
* A module is in one split only, because its functions share their phrases.
* Every line is a sentence that reads as English; `prose.py` finds them.

It needs the standard library alone, so it runs from a clone in which nothing of ours is installed.
"""

import argparse
import ast
import collections
import csv
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import io
import itertools
import json
import os
import pathlib
import platform
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pydoc_data.topics import topics as python_topics
from typing import Any, NoReturn

from prose import sentences

# The name its version is known by, and package. Python is its standard library.
LIBRARIES = {
    "keras": "keras",
    "matplotlib": "matplotlib",
    "numpy": "numpy",
    "python": None,
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "tensorflow": "tensorflow",
}
# Tests, generated code, and copies of others.
SKIPPED_FOLDERS = re.compile(
    r"__pycache__|_api|_external|_tf_keras|_vendor|array_api_compat|array_api_extra|cobyqa|"
    r"(dist|site)-packages|distutils|ensurepip|externals|idlelib|lib2to3|pydoc_data|pyprima|"
    r"tests?|testing|turtledemo"
)
SKIPPED_FILES = re.compile(r"(test_.*|.*_tests?|conftest|.*_pb2)\.py")
SKIPPED_MODULES = "tensorflow.python.keras."  # an old copy of Keras

MIN_DOCUMENT_SENTENCES = 6
HELD_OUT = 0.1  # share of the modules, of dev and of test

# Words of which one is often written for the other.
CONFUSED = (("a", "an"), ("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"))
CONFUSED += (("this", "these"),)
REPLACEMENTS = {first: second for pair in CONFUSED for first, second in (pair, pair[::-1])}
ROW_WORDS = range(8, 31)
MAX_ROWS = {"train": 6000, "dev": 1000, "test": 2000}


@dataclasses.dataclass(frozen=True)
class Docstring:
    """One docstring.

    Attributes:
        module: library and path of the file in it, with dots.
        owner: name of the class or function at the top level of the module that it belongs to;
            empty for the docstring of the module.
        text: as it stands in the source.
    """

    module: str
    owner: str
    text: str


@dataclasses.dataclass(frozen=True)
class Document:
    """Sentences that belong together, in order.

    Attributes:
        module: where they come from.
        sentences: one line of the corpus each.
    """

    module: str
    sentences: Sequence[str]


# ---- from installed libraries to docstrings


def read_library(library: str) -> Iterator[Docstring]:
    """Yields the docstrings of a library, ordered by file and by place in the file."""
    root = library_folder(library)
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not SKIPPED_FOLDERS.fullmatch(name))
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            module = ".".join([library, *path.relative_to(root).with_suffix("").parts])
            skipped = SKIPPED_FILES.fullmatch(name) or module.startswith(SKIPPED_MODULES)
            if path.suffix == ".py" and not skipped:
                yield from read_module(module, path.read_bytes())


def library_folder(library: str) -> pathlib.Path:
    """Returns the folder with the source files of an installed library."""
    package = LIBRARIES[library]
    if package is None:
        return pathlib.Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        fail(f"{library} is not installed; expected what requirements.txt lists")
    return pathlib.Path(spec.submodule_search_locations[0])


def read_module(module: str, source: bytes) -> Iterator[Docstring]:
    """Yields the docstrings of a source file: of the module, then of its classes and functions."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of the libraries' source, e.g. old escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a template, or a file for another version of Python
        return
    for owner, node in walk_definitions(tree, ""):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield Docstring(module, owner, text)


def walk_definitions(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Yields (owner, node) of a module, its classes and functions and, within classes, theirs."""
    yield owner, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from walk_definitions(child, owner or child.name)


# ---- from docstrings to documents and rows


def make_documents(docstrings: Iterable[Docstring]) -> Iterator[Document]:
    """Yields a document for each class or long function, and one for the rest of each module."""
    for module, in_module in itertools.groupby(docstrings, key=lambda docstring: docstring.module):
        rest = []
        for owner, members in itertools.groupby(in_module, key=lambda docstring: docstring.owner):
            found = [sentence for member in members for sentence in sentences(member.text)]
            if owner and len(found) >= MIN_DOCUMENT_SENTENCES:
                yield Document(module, found)
            else:
                rest += found
        yield Document(module, rest)


def read_topics() -> Iterator[Document]:
    """Yields the topics of Python's documentation, each a document and a module of its own."""
    for name, text in python_topics.items():
        yield Document(f"topics.{name}", sentences(text))


def choose_documents(
    documents: Iterable[Document], seen: set[str], max_bytes: float
) -> list[Document]:
    """Returns documents without the sentences in `seen`, and adds theirs to it.

    Much is said in many docstrings ("A name for the operation."): a sentence is kept once.
    """
    chosen = []
    for document in documents:
        fresh = [sentence for sentence in dict.fromkeys(document.sentences) if sentence not in seen]
        size = sum(len(sentence.encode()) + 1 for sentence in fresh) + 1
        if len(fresh) >= MIN_DOCUMENT_SENTENCES and size <= max_bytes:
            max_bytes -= size
            seen.update(fresh)
            chosen.append(Document(document.module, fresh))
    return chosen


def make_rows(lines: Sequence[str], max_rows: int) -> list[tuple[str, str]]:
    """Returns (label, sentence): every other sentence has a slip, a replaced word of `CONFUSED`.

    Args:
        lines: sentences in random order.
        max_rows: number of rows at most.
    """
    known = set(lines)
    rows: list[tuple[str, str]] = []
    for line in lines:
        words = line.split()
        places = [place for place, word in enumerate(words) if word in REPLACEMENTS]
        if places and len(words) in ROW_WORDS and len(rows) < max_rows:
            place = places[len(line) % len(places)]
            words[place] = REPLACEMENTS[words[place]]
            # Some docstrings have slips of their own.
            if (slip := " ".join(words)) not in known:
                rows.append(("slip", slip) if len(rows) % 2 else ("right", line))
    return rows


# ---- files


def make_corpus(
    output_dir: pathlib.Path, libraries: Sequence[str], seed: int, max_megabytes: float
) -> None:
    """Chooses and writes the rows and the documents.

    Args:
        output_dir: where the files go.
        libraries: the libraries to read, out of `LIBRARIES`.
        seed: draws the splits and the order.
        max_megabytes: size of `corpus.txt` and of `corpus_dev.txt` at most.
    """
    documents: dict[str, list[Document]] = collections.defaultdict(list)
    for library in libraries:
        found = list(make_documents(read_library(library)))
        if not found:
            fail(f"no docstrings in {library_folder(library)}; expected the source of {library}")
        for document in found:
            documents[document.module].append(document)
    for topic in read_topics():
        documents[topic.module].append(topic)

    def lot(text: str) -> bytes:
        return hashlib.sha256(f"{seed}:{text}".encode()).digest()

    modules = sorted(documents, key=lot)
    held_out = round(HELD_OUT * len(modules))
    splits = {
        "dev": modules[:held_out],
        "test": modules[held_out : 2 * held_out],
        "train": modules[2 * held_out :],
    }
    seen: set[str] = set()
    chosen, table = {}, {}
    for split, names in splits.items():
        of_split = itertools.chain(*(documents[name] for name in names))
        chosen[split] = choose_documents(of_split, seen, max_megabytes * 1e6)
        lines = itertools.chain(*(document.sentences for document in chosen[split]))
        table[split] = make_rows(sorted(lines, key=lot), MAX_ROWS[split])
    versions = {library: version(library) for library in libraries}
    corpus = {"corpus": chosen["train"], "corpus_dev": chosen["dev"]}
    write_files(output_dir, corpus, table, {"seed": seed, "versions": versions})


def write_files(
    output_dir: pathlib.Path,
    corpus: dict[str, list[Document]],
    table: dict[str, list[tuple[str, str]]],
    stats: dict[str, Any],
) -> None:
    """Writes everything; `stats.json` goes first and comes last, so it vouches for the others."""
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / "stats.json").unlink(missing_ok=True)
    for name, documents in corpus.items():
        write_text(output_dir / f"{name}.txt", format_documents(documents))
        stats |= {name: count(documents)}
    for split, rows in table.items():
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([("label", "text"), *rows])
        write_text(output_dir / f"{split}.csv", lines.getvalue())
        stats |= {split: collections.Counter(label for label, _ in rows)}
    write_text(output_dir / "stats.json", json.dumps(stats, indent=2) + "\n")


def format_documents(documents: Iterable[Document]) -> str:
    """Returns a sentence a line, with an empty line between documents."""
    return "\n".join("\n".join(document.sentences) + "\n" for document in documents)


def count(documents: Sequence[Document]) -> dict[str, int]:
    """Returns the numbers of documents, sentences and words."""
    lines = [sentence for document in documents for sentence in document.sentences]
    words = sum(len(line.split()) for line in lines)
    return {"documents": len(documents), "sentences": len(lines), "words": words}


def version(library: str) -> str:
    """Returns the version of an installed library."""
    return platform.python_version() if library == "python" else importlib.metadata.version(library)


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a file that is complete or absent."""
    incomplete = path.with_name(path.name + ".incomplete")
    incomplete.write_text(text, encoding="utf-8", newline="\n")
    incomplete.replace(path)


def main() -> None:
    """Reads the flags and makes the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--output_dir", type=pathlib.Path, required=True, help="where the files go")
    parser.add_argument("--seed", type=int, default=0, help="of the splits and the order")
    parser.add_argument(
        "--max_megabytes", type=float, default=10.0, help="size of corpus.txt at most"
    )
    parser.add_argument(
        "--libraries",
        nargs="+",
        choices=LIBRARIES,
        default=list(LIBRARIES),
        metavar="LIBRARY",
        help=f"which to read; default: {' '.join(LIBRARIES)}",
    )
    flags = parser.parse_args()
    if not flags.max_megabytes > 0:
        parser.error(f"--max_megabytes: got {flags.max_megabytes}, expected more than 0")
    try:
        make_corpus(flags.output_dir, flags.libraries, flags.seed, flags.max_megabytes)
    except OSError as error:
        fail(f"--output_dir: {error}")


def fail(message: str) -> NoReturn:
    """Ends with exit code 1 and one line."""
    sys.exit(f"make_corpus.py: error: {message}")


if __name__ == "__main__":
    main()
