"""Texts with labelled spans, made of the docstrings of installed libraries.

Names in docstrings are marked up as code, and the source says whether they name a parameter of the
documented function, a function, or a class. So their places in the text without markup are known. Names
of libraries are known as they are. Source files are parsed, never imported.
"""

import ast
import dataclasses
import hashlib
import importlib.util
import inspect
import json
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from albert_tf import files
from albert_tf.errors import InputError

PACKAGES = ("keras", "matplotlib", "numpy", "scipy", "sklearn")
LABELS = ("CLASS", "FUNCTION", "LIBRARY", "PARAMETER")

# Of ten modules, one is in dev. The functions of a module share phrases, so no module is in both.
_DEV_SHARE = 0.1
_MAX_CHARACTERS = 300
_MIN_WORDS = 6

_SKIPPED_FOLDERS = {"tests", "_vendored", "extern", "externals", "__pycache__"}
_LIBRARY = re.compile(
    r"(?<![\w./-])(?:Keras|NumPy|Numpy|SciPy|Scipy|Matplotlib|TensorFlow|Tensorflow|PyTorch|JAX|pandas|"
    r"scikit-learn|sklearn|keras|matplotlib|numpy|scipy|tensorflow)(?![\w/-]|\.\w)"
)
# `x`, ``x``, :func:`x`, :func:`~package.x`
_CODE = re.compile(r"(?::[\w:]+:)?(``?)[~!.]?([^`]+)\1_?")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
# Tables, lists, formulas and code are no prose.
_NO_PROSE = re.compile(r"^[ \t]|^[-*+.>|=~]|[-=~^]{3}|>>>|::|[\\{}|$]|https?:", re.MULTILINE)
_PROSE = re.compile(r"[A-Z`:].*[.!?]", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Docstring:
    """One docstring.

    Attributes:
        module: path of its file in the package.
        text: as it stands in the source.
        parameters: names of the parameters that it describes.
    """

    module: str
    text: str
    parameters: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Names:
    """The names that a package defines."""

    functions: frozenset[str]
    classes: frozenset[str]


def read_package(package: str) -> tuple[list[Docstring], Names]:
    """Reads the docstrings of a package, ordered by file, and the names that it defines.

    Raises:
        InputError: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{package} is not installed; expected the packages of requirements.txt")
    root = pathlib.Path(spec.submodule_search_locations[0])
    docstrings, functions, classes = [], set(), set()
    for path in sorted(root.rglob("*.py")):
        module = f"{package}/{path.relative_to(root)}"
        if _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts):
            continue
        with warnings.catch_warnings(action="ignore"):  # of old escapes in the source
            tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.add(node.name)
                parameters = _parameters(node)
            elif isinstance(node, ast.ClassDef):
                classes.add(node.name)
                parameters = _parameters_of_class(node)
            else:
                continue
            if text := ast.get_docstring(node, clean=False):
                docstrings.append(Docstring(module, text, frozenset(parameters)))
    return docstrings, Names(frozenset(functions), frozenset(classes))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = node.args
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return {argument.arg for argument in listed} - {"self", "cls"}


def _parameters_of_class(node: ast.ClassDef) -> set[str]:
    constructors = (each for each in node.body if isinstance(each, ast.FunctionDef))
    return {name for each in constructors if each.name == "__init__" for name in _parameters(each)}


def paragraphs(docstring: str) -> Iterator[str]:
    """Yields the paragraphs of a docstring that read as text, each as one line, with their markup."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        text = " ".join(part.split())
        fits = len(text) <= _MAX_CHARACTERS and len(text.split()) >= _MIN_WORDS
        if fits and not _NO_PROSE.search(part) and _PROSE.fullmatch(text):
            yield text


def label_names(
    text: str, parameters: Iterable[str], names: Names
) -> tuple[str, list[tuple[int, int, str]]]:
    """Returns a paragraph without its markup, and the spans (start, end, label) of the names in it.

    Args:
        text: the paragraph.
        parameters: names of the parameters of the documented function.
        names: the names that the package defines.
    """
    plain, spans, end = "", [], 0
    for code in _CODE.finditer(text):
        plain += text[end : code.start()]
        name = _NAME.match(code[2])
        if name and code[2][name.end() :] in ("", "()"):
            label = _label_of(name[0], parameters, names)
            if label:
                spans.append((len(plain), len(plain) + len(name[0]), label))
        plain += code[2]
        end = code.end()
    plain += text[end:]
    taken = list(spans)
    for library in _LIBRARY.finditer(plain):
        if all(library.end() <= start or library.start() >= stop for start, stop, _ in taken):
            spans.append((library.start(), library.end(), "LIBRARY"))
    return plain, sorted(spans)


def _label_of(name: str, parameters: Iterable[str], names: Names) -> str | None:
    last = name.rpartition(".")[2]
    if name in parameters:
        return "PARAMETER"
    if last in names.classes:
        return "CLASS"
    return "FUNCTION" if last in names.functions else None


def make_rows(packages: Sequence[str]) -> dict[str, list[dict]]:
    """Returns the rows of `train` and `dev`, in an order that does not depend on the packages'.

    A row has the keys `text` and `spans` of a file for `--task_name=token_classification`. Texts without
    a name are left out, and a text is one row.
    """
    rows: dict[str, dict[str, dict]] = {"train": {}, "dev": {}}
    seen = set()
    for package in packages:
        docstrings, names = read_package(package)
        for docstring in docstrings:
            split = "dev" if _draw(docstring.module) < _DEV_SHARE else "train"
            for paragraph in paragraphs(docstring.text):
                text, spans = label_names(paragraph, docstring.parameters, names)
                if spans and text not in seen:
                    seen.add(text)
                    keys = ("start", "end", "label")
                    as_objects = [dict(zip(keys, span, strict=True)) for span in spans]
                    rows[split][text] = {"text": text, "spans": as_objects}
    return {
        split: [of_split[text] for text in sorted(of_split, key=_draw)]
        for split, of_split in rows.items()
    }


def _draw(text: str) -> float:
    """Returns a number from 0 to 1 that a text decides."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


def write_rows(folder: str, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Writes `train.jsonl` and `dev.jsonl` to a folder, and returns their paths by split."""
    files.make_directory(folder)
    paths = {}
    for split, rows in make_rows(packages).items():
        paths[split] = str(pathlib.Path(folder).absolute() / f"{split}.jsonl")
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        files.write_text(paths[split], "".join(lines))
    return paths
