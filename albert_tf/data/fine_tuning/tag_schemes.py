"""The schemes in which files tag words: each is recognised, and read as BIO or BIOES.

`tags.py` says what these two are. A scheme has prefixes, and a spelling of prefix and label. Tags without
prefixes are the labels of words: with `O` among them each run of words is a span, as entities are;
otherwise each word has a class, as parts of speech are.
"""

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.data.fine_tuning.examples import check_label
from albert_tf.data.fine_tuning.tags import OUTSIDE, Scheme, split_tag, split_valid_tag
from albert_tf.errors import InputError

# Prefixes of other schemes -> those of BIOES.
_BIOES = {"L": "E", "U": "S", "M": "I", "W": "S"}
# Prefix of one of these schemes alone -> its name.
_NAMES = {"L": "BILOU", "U": "BILOU", "W": "BMEWO", "M": "BMES", "E": "BIOES", "S": "BIOES"}
_PREFIX = "(?P<prefix>[BIESLUMW])"
# An example -> how prefix and label are written, in upper or lower case; the first is the usual one.
_SPELLINGS = {
    "B-PER": re.compile(f"{_PREFIX}-(?P<label>.+)", re.IGNORECASE),
    "B_PER": re.compile(f"{_PREFIX}_(?P<label>.+)", re.IGNORECASE),
    "PER-B": re.compile(f"(?P<label>.+)-{_PREFIX}", re.IGNORECASE),
    "PER_B": re.compile(f"(?P<label>.+)_{_PREFIX}", re.IGNORECASE),
}
# What is rather a tag of such a scheme than a label without prefix.
_LIKE_PREFIXED = re.compile(r"[BIESLUMW]-.*|[bi]-.+|[BIbi]_.+|.+[-_][BI]")
# Prefixes that may stand alone, if there is one label.
_BARE = tuple(map(frozenset, ("BI", "BIES", "BILU", "BMES", "BMEW")))


class ReadTags(NamedTuple):
    """The tags of some texts.

    Attributes:
        name: what messages call the scheme of the file.
        scheme: that of `texts`.
        texts: the tags of each text, or the classes.
        has_classes: whether each word has a class of its own; otherwise tags stand for spans.
    """

    name: str
    scheme: Scheme
    texts: list[Sequence[str]]
    has_classes: bool


def read_tags(texts: Sequence[Sequence[str]], has_classes: bool | None = None) -> ReadTags:
    """Recognises the scheme of the tags of some texts, and translates them.

    In BILOU, L is BIOES's E and U its S; in BMES, M is its I, and in BMEWO W its S. In IOB1 a span begins
    with I unless it follows one of the same label, and in IO always. Prefixes alone have the label
    `SPAN`. What is no tag of the scheme of others stays as it is, for `check_tags`.

    Args:
        texts: the tags of each text.
        has_classes: whether the tags are classes of words; None if they are to tell.
    """
    tags = {tag for text in texts for tag in text}
    labels = {tag for tag in tags if tag not in (OUTSIDE, OUTSIDE.lower())}
    is_bare = any(labels <= letters for letters in _BARE) and bool(labels & {"B", "I"})
    spelling = _find_spelling(labels)
    has_prefixes = is_bare or spelling is not None or any(map(_LIKE_PREFIXED.fullmatch, labels))
    if has_classes is None:
        has_classes = bool(labels) and labels == tags and not has_prefixes
    if has_classes:
        return ReadTags("classes of words", "BIO", list(texts), has_classes=True)
    example = spelling or _most_used(labels)
    tag_of = {tag: _spell_usually(tag, example) for tag in tags}
    more = ""
    if is_bare:
        tag_of = {tag: f"{tag}-SPAN" if tag in labels else OUTSIDE for tag in tags}
        more = " without labels"
    elif labels and not has_prefixes:
        tag_of = {tag: f"I-{tag}" if tag in labels else OUTSIDE for tag in tags}
        more = " without prefixes"
    elif any(tag != usual for tag, usual in tag_of.items()):
        more = f", spelled like {min(tag for tag, usual in tag_of.items() if tag != usual)}"
    name, read = _to_bio([[tag_of[tag] for tag in text] for text in texts])
    scheme: Scheme = "BIOES" if name in _NAMES.values() else "BIO"
    return ReadTags(name + more, scheme, read, has_classes=False)


def is_like_tag(text: str) -> bool:
    """Returns whether a text is a tag of a scheme with prefixes, or nearly one."""
    return text in (OUTSIDE, OUTSIDE.lower()) or bool(_LIKE_PREFIXED.fullmatch(text))


def _find_spelling(labels: set[str]) -> str | None:
    """Returns the example of the spelling of all tags; None if they have none in common."""
    for example, pattern in _SPELLINGS.items():
        matches = [pattern.fullmatch(label) for label in labels]
        prefixes = {match["prefix"] for match in matches if match}
        # "e-mail" and "s-video" are labels, but S-PER is a tag.
        is_usual = example == "B-PER" and all(map(str.isupper, prefixes))
        if matches and all(matches) and (is_usual or prefixes & {*"BIbi"}):
            return example
    return None


def _most_used(labels: set[str]) -> str:
    return max(_SPELLINGS, key=lambda name: sum(map(bool, map(_SPELLINGS[name].fullmatch, labels))))


def _spell_usually(tag: str, example: str) -> str:
    """Returns a tag with a prefix in upper case before its label; what is no such tag as it is."""
    if tag == OUTSIDE.lower():
        return OUTSIDE
    match = _SPELLINGS[example].fullmatch(tag)
    return f"{match['prefix'].upper()}-{match['label']}" if match else tag


def _to_bio(texts: Sequence[Sequence[str]]) -> tuple[str, list[Sequence[str]]]:
    """Returns the name of the scheme of tags in the usual spelling, and the tags in BIO or BIOES."""
    prefixes = {tag[0] for text in texts for tag in text if tag[1:2] == "-"}
    if name := next((name for prefix, name in _NAMES.items() if prefix in prefixes), None):
        return name, [
            [_BIOES.get(tag[0], tag[0]) + tag[1:] if tag[1:2] == "-" else tag for tag in text]
            for text in texts
        ]
    # Whether spans begin with B, I where they might begin with either, or B right behind their like.
    begins = {
        tag[:1] + ("" if before[2:] != tag[2:] else "+")
        for text in texts
        for before, tag in itertools.pairwise((OUTSIDE, *text))
        if tag != OUTSIDE
    }
    if "I" not in begins or "B" in begins:
        return "BIO", list(texts)
    return "IOB1" if "B+" in begins else "IO", [
        [
            "B" + tag[1:] if tag[:2] == "I-" and before[2:] != tag[2:] else tag
            for before, tag in itertools.pairwise((OUTSIDE, *text))
        ]
        for text in texts
    ]


def check_next_tag(scheme: Scheme, before: str, tag: str) -> str | None:
    """Returns which tags may follow `before` if `tag` may not; around a text the tag is `O`."""
    prefix, label = split_valid_tag(tag)
    before_prefix, before_label = split_valid_tag(before)
    inside = ("I", "E") if scheme == "BIOES" else ("I",)
    if before_prefix in (("B", "I") if scheme == "BIOES" else ()):
        if prefix in inside and label == before_label:
            return None
        return f"I-{before_label} or E-{before_label}"
    if prefix not in inside:
        return None
    if scheme == "BIO" and before_label == label:
        return None
    first = f"B-{label} or S-{label}" if scheme == "BIOES" else f"B-{label}"
    return f"{first}, with which a span begins"


def check_tags(
    tags: Sequence[str], places: Sequence[str], scheme: Scheme, labels: Sequence[str] | None
) -> None:
    """Raises an `InputError` if the tags of a text are no sequence of the scheme.

    `places` are where the tags are, for messages; `labels` those that exist, None for any.
    """
    before = OUTSIDE
    for place, tag in zip(places, tags, strict=True):
        parts = split_tag(tag)
        if parts is None:
            raise InputError(
                f"{place}: unknown tag {tag!r:.80}; expected O, or B-, I-, E- or S- before a label"
            )
        if tag != OUTSIDE:
            check_label(place, parts[1], labels)
        if expected := check_next_tag(scheme, before, tag):
            raise InputError(
                f"{place}: received the tag {tag} after {before}; expected {expected} ({scheme})"
            )
        before = tag
    if expected := check_next_tag(scheme, before, OUTSIDE):
        raise InputError(
            f"{places[-1]}: received the tag {before} at the end of a text; expected {expected} after it "
            f"({scheme})"
        )
