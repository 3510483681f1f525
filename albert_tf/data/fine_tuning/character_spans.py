"""Reads the spans of a text that a row gives by their characters.

Spans of a text that are learnt have no character in common, so of those that overlap the longest counts.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from albert_tf.data.fine_tuning.examples import check_label, label_name
from albert_tf.data.fine_tuning.tags import Span
from albert_tf.errors import InputError, warn

# White space differs between a text and the `text` of its spans: Label Studio has that from a browser,
# which joins spaces, and writes ends of lines as a backslash and an n.
_SPACES = re.compile(r"\s|\\n")


class OddSpan(NamedTuple):
    """A span that does not count."""

    place: str  # of its row
    span: Span
    is_twice: bool  # whether it stands there twice; otherwise a longer one has characters of it


def read_spans(
    place: str, text: str, values: Sequence[Any], labels: Sequence[str] | None
) -> tuple[tuple[Span, ...], list[OddSpan]]:
    """Returns the spans of a text without a common character, the longest ones, and the others.

    Args:
        place: that of the row, for messages.
        text: the text.
        values: objects with `start`, `end` and `label`, or lists of the three.
        labels: those that exist; None accepts all.
    """
    spans = [_read_span(place, text, value, labels) for value in values]
    kept: list[Span] = []
    odd = []
    # Of spans of one length the first counts and, where they are alike, the one that is written first.
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        crossed = [other for other in kept if span.start < other.end and other.start < span.end]
        if crossed:
            odd.append(OddSpan(place, span, is_twice=crossed == [span]))
        else:
            kept.append(span)
    return tuple(sorted(kept)), odd


def warn_of_odd_spans(odd: Sequence[OddSpan]) -> None:
    """Counts the spans that stand twice, and those that overlap others."""
    what = {
        True: "spans that stand twice and count once",
        False: "spans that overlap a longer or an earlier one and are left out",
    }
    for is_twice, which in what.items():
        found = [each for each in odd if each.is_twice == is_twice]
        if found:
            place, span, _ = found[0]
            limits = f"{span.start} to {span.end} ('{span.label}')"
            warn(f"{place}: {which}: {len(found)}, such as {limits}")


def _read_span(place: str, text: str, value: Any, labels: Sequence[str] | None) -> Span:
    parts = value
    if isinstance(value, dict):
        # Of doccano: `start_offset` and `end_offset`; of Label Studio: `labels`, a list of one.
        parts = [value.get(name, value.get(f"{name}_offset")) for name in Span._fields]
        if isinstance(names := value.get("labels"), list) and len(names) == 1:
            parts[-1] = names[0]
    if not isinstance(parts, list) or [type(part) for part in parts] != [int, int, str]:
        raise InputError(
            f"{place}: received the span {shown(value)}; expected an object with the whole numbers "
            "'start' and 'end' and a 'label', or a list of the three"
        )
    span = Span(*parts)
    if not 0 <= span.start < span.end <= len(text):
        raise InputError(
            f"{place}: received the span {span.start} to {span.end}; expected at least one character of "
            f"the text, which has {len(text)} code points"
        )
    part = text[span.start : span.end]
    said = value.get("text") if isinstance(value, dict) else None
    if isinstance(said, str) and _SPACES.sub("", said) != _SPACES.sub("", part):
        raise InputError(
            f"{place}: the span {span.start} to {span.end} is {shown(part)}, and its 'text' is "
            f"{shown(said)}; expected offsets that count code points, as in Python, not UTF-16 or bytes"
        )
    if not part.strip():
        raise InputError(
            f"{place}: the span {span.start} to {span.end} is {shown(part)}; expected a visible one"
        )
    label = label_name(span.label, labels or ())
    check_label(place, label, labels)
    start = span.start + len(part) - len(part.lstrip())
    return Span(start, start + len(part.strip()), label)


def shown(value: Any) -> str:
    """Returns a value as messages show it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
