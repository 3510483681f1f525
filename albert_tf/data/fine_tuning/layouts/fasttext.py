"""The files of fastText: labels with a prefix before the text of each line."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from albert_tf.errors import InputError

# How a file begins, perhaps with a byte-order mark.
FASTTEXT_START = rb"(\xef\xbb\xbf)?__label__\S+[ \t]+\S"
_LABEL = "__label__"
_LABELS = re.compile(rf"((?:{_LABEL}\S+\s+)+)(?=\S)")


def read_fasttext(path: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    """Yields the number of each line that is not empty, and its text and labels."""
    for number, line in lines:
        line = line.strip()
        if not line:
            continue
        labels = _LABELS.match(line)
        text = line[labels.end() :] if labels else ""
        if not labels or any(word.startswith(_LABEL) for word in text.split()):
            raise InputError(
                f"{path}, line {number}: not fastText: expected labels such as {_LABEL}yes, and after "
                "them a text"
            )
        names = [word.removeprefix(_LABEL) for word in labels[1].split()]
        yield number, {"text": text, "label": names}
