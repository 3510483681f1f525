"""From a docstring to sentences that read as English.

A few regular expressions find the sentences, and text as regular as this needs no more. What they
cannot place (tables, code, formulas, headings) is dropped, because a lost sentence costs less than a
broken one.
"""

import inspect
import itertools
import re
from collections.abc import Iterator

MAX_WORDS = 60

FENCED_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^.*\n[ \t]*([-=~*^\"])\1{2,}[ \t]*$", re.MULTILINE)
# A directive whose content is no prose; the others are admonitions and notes on versions.
HIDING_DIRECTIVE = re.compile(
    r"\.\. (?!attention|deprecated|important|note|tip|versionadded|versionchanged|warning)"
)
CODE = re.compile(r"\.\.\.|[|+$%@#!]|[\w.\[\], ]+ [-+*/]?= |[-=~^*_#]{3}")
# What comes before the text of an item: an admonition, a bullet, a number, a field's name.
MARKER = re.compile(
    r"\.\. \w+:: ?[\d.]*\s*|"
    r"(?:[-*+•o] +|\(?\d+[.)] +|:\w+[^:]*: +|\*{0,2}[`'\"]*[\w.]+[`'\"]*(?: \([^)]*\))?: +)(?=\S)"
)
MARKUP = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # [x](address); :func:`~package.x`; `x`, ``x``, :role:`x <y>`; *x*, **x**
        (r"!?\[([^\]]+)\]\([^)]*\)", r"\1"),
        (r"(?::[\w:+-]+:)?`~(?:[^`]*\.)?([^`]*)`", r"\1"),
        (r"(?::[\w:+-]+:)?(``?)\.?([^`]*?)(?: ?<[^`>]*>)?\1_{0,2}", r"\2"),
        (r"(?<![\w*])(\*\*?)([^*\s](?:[^*]*[^*\s])?)\1(?![\w*])", r"\2"),
        (r"\s+", " "),
        (r" ([,.;:])(?= |$)", r"\1"),
    )
]
ABBREVIATIONS = ("al", "approx", "cf", "Eq", "e.g", "etc", "Fig", "i.e", "No", "resp", "vs")
SENTENCE_END = re.compile(
    "(?= )"  # first, because it rules out most places
    + "".join(rf"(?<!\b{re.escape(abbreviation)}\.)" for abbreviation in ABBREVIATIONS)
    + r"(?<!\b[A-Z]\.)(?:(?<=[.!?])|(?<=[.!?][\"')])) +(?=[\"'(]?[A-Z])"
)
SENTENCE = re.compile(r"[\"'(]?[A-Z].*[.!?][\"')]*")
WORD = re.compile(r"[\"'(]*[^\W\d_]+(?:['-][^\W\d_]+)*[\"')]*[,.;:!?]*[\"')]*")
NO_PROSE = re.compile(
    r"[\\{}|<>$^@~]|\]_|https?:| [=*/+%] |--|\.\.|::|sphx_|\b(?:[Mm]achine|[Aa]uto)[ -]?[Gg]enerated"
    r"|^(?:If|When) [^,]*$"  # "If the shapes differ." explains an exception and has no main clause
)


def sentences(docstring: str) -> list[str]:
    """Returns the sentences of a docstring that read as English, without markup."""
    texts = [strip_markup(item) for item in items(docstring)]
    if texts and texts[0][-1:].isalnum():
        texts[0] += "."  # a summary line, whose full stop many leave out
    return [part for text in texts for part in SENTENCE_END.split(text) if is_prose(part)]


def items(docstring: str) -> Iterator[str]:
    """Yields the paragraphs, list items and descriptions of fields, each as one line.

    A line starts an item where it has a marker or another indentation than the line before it; the
    later lines of an item with a marker may be indented more.
    """
    text = HEADING.sub("", FENCED_CODE.sub("", inspect.cleandoc(docstring)))
    item: list[str] = []
    width, marked = 0, False
    for line_width, line in itertools.chain(without_code(text), [(0, "")]):
        marker = MARKER.match(line)
        deeper = line_width > width and not marked
        if item and (not line or marker or deeper or line_width < width):
            yield " ".join(item)
            item = []
        if not item:
            marked = marker is not None
        if line:
            item.append(line[marker.end() :] if marker else line)
        width = line_width


def without_code(text: str) -> Iterator[tuple[int, str]]:
    """Yields (indentation, stripped line) of a text, in which lines of code become empty."""
    hidden_width = None  # what is indented more than this belongs to a literal block or directive
    in_session = False  # `>>>` and what it prints, up to an empty line
    for line in text.splitlines():
        stripped = line.strip()
        width = len(line) - len(line.lstrip())
        if not stripped:
            in_session = False
        elif hidden_width is not None and width > hidden_width:
            stripped = ""
        else:
            hides = stripped.endswith("::") or HIDING_DIRECTIVE.match(stripped)
            hidden_width = width if hides else None
            in_session = in_session or stripped.startswith(">>>")
            if hides or in_session or CODE.match(stripped):
                stripped = ""
        yield width, stripped


def strip_markup(text: str) -> str:
    """Returns a text without the marks of reST and Markdown, with single spaces."""
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()


def is_prose(text: str) -> bool:
    """Whether a text is a whole sentence, most of it English words."""
    words = text.split()
    return (
        4 <= len(words) <= MAX_WORDS
        and SENTENCE.fullmatch(text) is not None
        and NO_PROSE.search(text) is None
        and text.count("(") == text.count(")")
        and sum(WORD.fullmatch(word) is not None for word in words) >= 0.8 * len(words)
    )
