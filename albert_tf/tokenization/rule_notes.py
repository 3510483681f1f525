"""What the folder of a model notes of the rules that normalise its texts.

A model knows the texts that it was trained on, after normalisation by the rules of that time. Under other
rules it would get other ids without a word. So its folder notes what the rules make of samples of each
class of characters, as digests, and a folder with other ones is refused.

The samples are characters of Unicode 3.2: later versions, and so those of later Pythons, do not change
what becomes of these.
"""

import collections
import functools
import hashlib
import itertools
import unicodedata
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.model_folder import OWN
from albert_tf.options import check_layout
from albert_tf.tokenization.bert_words import split_words
from albert_tf.tokenization.normalization import normalize_text

# First letter of a category of Unicode -> the name of its characters.
_CLASSES = {
    "L": "letters",
    "M": "marks",
    "N": "numbers",
    "P": "punctuation",
    "S": "symbols",
    "Z": "separators",
    "C": "control characters",
}
# Not all: the ideographs and syllables of a block are alike.
_SAMPLED = (
    range(0x3000),
    range(0x4E00, 0x4E10),
    range(0xAC00, 0xAC20),
    range(0xF900, 0x10000),
)
_FINAL_SIGMAS = "ΟΔΟΣ ΣΟΦΟΣ, ΑΣ'Α Σ"
_DIGEST_LENGTH = 16
_LAYOUT = {"keep_accents": bool, "rules": dict.fromkeys(_CLASSES.values(), str)}


def note_rules(is_wordpiece: bool, lower_case: bool, keep_accents: bool) -> dict[str, Any]:
    """Returns the note of the present rules, in a form for JSON.

    `keep_accents` is that of a SentencePiece vocabulary.
    """
    return {"keep_accents": keep_accents, "rules": _digests(is_wordpiece, lower_case, keep_accents)}


def check_rules(path: str, values: Mapping[str, Any], is_wordpiece: bool, lower_case: bool) -> None:
    """Raises an `InputError` if the `tokenizer_config.json` at a path notes other rules than ours.

    One without a note, as others write it, is of no known rules.
    """
    if OWN not in values:
        return
    noted = values[OWN]
    check_layout(value=noted, layout=_LAYOUT, path=path, place=OWN)
    expected = _digests(is_wordpiece, lower_case, noted["keep_accents"])
    changed = [name for name, digest in expected.items() if noted["rules"][name] != digest]
    if changed:
        raise InputError(
            f"{path}: key '{OWN}' notes other rules for {', '.join(changed)} than this version of "
            "albert_tf has, so the model would get other ids; expected the version that wrote it; "
            f"--do_lower_case={str(lower_case).lower()} takes the rules of this version anyway"
        )


@functools.cache
def _digests(is_wordpiece: bool, lower_case: bool, keep_accents: bool) -> dict[str, str]:
    """Returns a digest of what becomes of the samples of each class."""

    def normalize(text: str) -> str:
        if is_wordpiece:
            return " ".join(split_words(text, lower_case))
        return normalize_text(text, lower_case, keep_accents)

    return {
        name: hashlib.sha256(normalize(text).encode()).hexdigest()[:_DIGEST_LENGTH]
        for name, text in _samples().items()
    }


@functools.cache
def _samples() -> Mapping[str, str]:
    """Returns texts with the characters of each class: alone, and inside a word."""
    samples = collections.defaultdict(list)
    for char in map(chr, itertools.chain(*_SAMPLED)):
        category = unicodedata.ucd_3_2_0.category(char)
        if category != "Cn":  # unassigned
            samples[_CLASSES[category[0]]].append(f"{char} a{char}a")
    samples[_CLASSES["L"]].append(_FINAL_SIGMAS)
    return {name: " ".join(samples[name]) for name in _CLASSES.values()}
