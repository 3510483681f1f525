"""Makes the text of the quick start from what every machine that runs it has installed.

The quick start shows the whole job on real English without a download, so it reads Python's own
documentation (`pydoc_data.topics`) and the docstrings of Python and other installed libraries. The
fine-tuning task comes from the same text: which library does this docstring come from?

Three decisions shape the files:

* Source files are parsed with `ast`, never imported: that is fast and has no side effects.
* A module is in one split only. The functions of a module share their phrases, so a split by
  function would reward memory of them instead of language.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pydoc_data.topics import topics as python_topics
from typing import Any, NoReturn

from prose import opening, sentences

# Label, which is the name its version is known by, and package. Python is its standard library.
LIBRARIES = {
    "keras": "keras",
    "matplotlib": "matplotlib",
    "numpy": "numpy",
    "python": None,
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "tensorflow": "tensorflow",
}
# Tests, generated code, and code of others, whose docstrings would carry the wrong label.
SKIPPED_FOLDERS = re.compile(
    r"__pycache__|_api|_external|_tf_keras|_vendor|array_api_compat|array_api_extra|cobyqa|"
    r"(dist|site)-packages|distutils|ensurepip|externals|idlelib|lib2to3|pydoc_data|pyprima|"
    r"tests?|testing|turtledemo"
)
SKIPPED_FILES = re.compile(r"(test_.*|.*_tests?|conftest|.*_pb2)\.py")
SKIPPED_MODULES = "tensorflow.python.keras."  # an old copy of Keras

MIN_DOCUMENT_SENTENCES = 6
MIN_ROW_WORDS = 8
# Rows of each label. All of keras and numpy, the smallest, fit in; the others are cut, so that the
# majority class stays near one in seven.
MAX_ROWS = {"train": 1000, "dev": 150, "test": 150}
# A module with more rows remains in train, so that a held-out split covers many topics.
MAX_HELD_OUT_MODULE_ROWS = 30
HELD_OUT_TOPICS = 0.1

# A row that names a library would give its label away.
LIBRARY_NAME = re.compile(
    r"(?<![a-z0-9])(c?python|keras|matplotlib|mpl|np|numpy|plt|pylab|pyplot|scikits?|scipy|sklearn|"
    r"tensorflow|tf)(?![a-z0-9])",
    re.IGNORECASE,
)
NAME_OR_NUMBER = re.compile(r"\W*\b\w*[A-Z0-9]\w*")


@dataclasses.dataclass(frozen=True)
class Docstring:
    """One docstring.

    Attributes:
        library: its label.
        module: its label and the path of the file in the library, with dots.
        owner: name of the class or function at the top level of the module that it belongs to;
            empty for the docstring of the module.
        text: as it stands in the source.
    """

    library: str
    module: str
    owner: str
    text: str


@dataclasses.dataclass(frozen=True)
class Row:
    """One example of the fine-tuning task.

    Attributes:
        label: the library.
        module: where the docstring comes from.
        sentences: the opening of the docstring.
    """

    label: str
    module: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """What the model reads."""
        return " ".join(self.sentences)


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
                yield from read_module(library, module, path.read_bytes())


def library_folder(library: str) -> pathlib.Path:
    """Returns the folder with the source files of an installed library."""
    package = LIBRARIES[library]
    if package is None:
        return pathlib.Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        fail(f"{library} is not installed; expected what requirements.txt lists")
    return pathlib.Path(spec.submodule_search_locations[0])


def read_module(library: str, module: str, source: bytes) -> Iterator[Docstring]:
    """Yields the docstrings of a source file: of the module, then of its classes and functions."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of the libraries' source, e.g. old escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a template, or a file for another version of Python
        return
    for owner, node in walk_definitions(tree, ""):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield Docstring(library, module, owner, text)


def walk_definitions(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Yields (owner, node) of a module, its classes and functions and, within classes, theirs."""
    yield owner, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from walk_definitions(child, owner or child.name)


# ---- from sentences to rows and documents


def make_rows(docstrings: Iterable[Docstring]) -> list[Row]:
    """Returns a row for each docstring with enough to read and no name of a library.

    Docstrings are inherited, re-exported and adapted a lot, often with no change but of names and
    numbers. A text is one row, and none where two libraries have it.
    """
    rows: dict[str, list[Row]] = collections.defaultdict(list)
    for docstring in docstrings:
        row = Row(docstring.library, docstring.module, opening(docstring.text))
        if len(row.text.split()) >= MIN_ROW_WORDS and not LIBRARY_NAME.search(row.text):
            rows[NAME_OR_NUMBER.sub("", row.text)].append(row)
    return [same[0] for same in rows.values() if len({row.label for row in same}) == 1]


def split_modules(rows: Iterable[Row], seed: int) -> dict[str, str]:
    """Returns the split of each module that has rows.

    Dev and test take modules by lot until they have their rows of a label; train has the rest.
    """
    sizes: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for row in rows:
        sizes[row.label][row.module] += 1
    splits = {}
    for modules in sizes.values():
        filled: collections.Counter = collections.Counter()
        for module in sorted(modules, key=lot(seed)):
            splits[module] = "train"
            if modules[module] <= MAX_HELD_OUT_MODULE_ROWS:
                open_splits = (name for name in ("dev", "test") if filled[name] < MAX_ROWS[name])
                splits[module] = next(open_splits, "train")
            filled[splits[module]] += modules[module]
    return splits


def choose_rows(rows: Iterable[Row], splits: dict[str, str], seed: int) -> dict[str, list[Row]]:
    """Returns the rows of each split in random order, at most `MAX_ROWS` of each label."""
    chosen: dict[str, list[Row]] = {split: [] for split in MAX_ROWS}
    counts: collections.Counter = collections.Counter()
    draw = lot(seed)
    for row in sorted(rows, key=lambda row: draw(row.text)):
        split = splits[row.module]
        if counts[split, row.label] < MAX_ROWS[split]:
            counts[split, row.label] += 1
            chosen[split].append(row)
    return chosen


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


def lot(seed: int) -> Callable[[str], bytes]:
    """Returns a sort key that puts texts into an order drawn by `seed`, whatever else is sorted."""
    return lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest()


# ---- files


def make_corpus(
    output_dir: pathlib.Path, libraries: Sequence[str], seed: int, max_megabytes: float
) -> None:
    """Chooses and writes the rows and the documents.

    Args:
        output_dir: where the files go.
        libraries: labels of the task, out of `LIBRARIES`.
        seed: draws the splits and the order.
        max_megabytes: size of `corpus.txt` and of `corpus_dev.txt` at most.
    """
    docstrings = [docstring for library in libraries for docstring in read_library(library)]
    rows = make_rows(docstrings)
    for library in libraries:
        if not any(row.label == library for row in rows):
            fail(f"no docstrings in {library_folder(library)}; expected the source of {library}")
    splits = split_modules(rows, seed)
    table = choose_rows(rows, splits, seed)

    draw = lot(seed)
    topics = sorted(read_topics(), key=lambda topic: draw(topic.module))
    for topic in topics[: round(HELD_OUT_TOPICS * len(topics))]:
        splits[topic.module] = "dev"
    documents: dict[str, list[Document]] = {split: [] for split in MAX_ROWS}
    for document in itertools.chain(topics, make_documents(docstrings)):
        documents[splits.get(document.module, "train")].append(document)
    for of_split in documents.values():
        of_split.sort(key=lambda document: draw(document.module))
    seen: set[str] = set()
    dev = choose_documents(documents["dev"], seen, max_megabytes * 1e6)
    seen.update(text for row in table["dev"] + table["test"] for text in row.sentences)
    train = choose_documents(documents["train"], seen, max_megabytes * 1e6)

    versions = {library: version(library) for library in libraries}
    corpus = {"corpus": train, "corpus_dev": dev}
    write_files(output_dir, corpus, table, {"seed": seed, "versions": versions})


def write_files(
    output_dir: pathlib.Path,
    corpus: dict[str, list[Document]],
    table: dict[str, list[Row]],
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
        writer = csv.writer(lines, "excel-tab", lineterminator="\n")
        writer.writerows([("label", "text_a"), *((row.label, row.text) for row in rows)])
        write_text(output_dir / f"{split}.tsv", lines.getvalue())
        stats |= {split: dict(sorted(collections.Counter(row.label for row in rows).items()))}
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
        help=f"labels of the task; default: {' '.join(LIBRARIES)}",
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
