"""The rule of lower case, in the three forms in which it is applied.

`to_lower` is the rule. TensorFlow graphs and OpenVINO apply a table of what it makes of each character by
itself; only a capital sigma also depends on its neighbours, so they replace sigmas by patterns. A
`tokenizer.json` has the lower case of its library, and each character where the rule differs from it.

A change of `to_lower` changes all forms, and the note that folders keep of the rules, unless more
characters than sigma depend on their neighbours.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from albert_tf.lazy import LazyModule
from albert_tf.tokenization.character_tables import (
    character_class,
    characters_of_unicode,
    replace_normalizer,
)

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")

# The one letter whose lower case depends on its neighbours: ς ends a word, σ stands elsewhere.
SIGMA, _LOWER_SIGMA, _FINAL_SIGMA = "Σ", "σ", "ς"


def to_lower(text: str) -> str:
    """Returns a text in lower case."""
    return text.lower()


@functools.cache
def final_sigma_pattern(dropped: frozenset[str] = frozenset()) -> str:
    """Returns a pattern for a sigma that ends a word, between two groups that stay.

    Such a sigma follows a cased letter and does not precede one; characters such as an apostrophe do not
    count (the Unicode standard, section 3.13), nor do those `dropped` before letters are lower-cased.
    `to_lower` tells the classes.
    """

    def is_final_after(before: str) -> bool:
        return to_lower(before + SIGMA).endswith(_FINAL_SIGMA)

    def is_cased(char: str) -> bool:
        return is_final_after("1" + char)

    def is_skipped(char: str) -> bool:
        return char in dropped or (is_final_after("A" + char) and not is_cased(char))

    def may_count(block: str) -> bool:
        # Between A and the sigma, a character that is neither cased nor skipped ends the word.
        probes = f"1A{f'{SIGMA}1A'.join(block)}{SIGMA}"
        return _FINAL_SIGMA in to_lower(probes) or not dropped.isdisjoint(block)

    candidates = list(characters_of_unicode(may_count))
    cased, skipped = (character_class(filter(test, candidates)) for test in (is_cased, is_skipped))
    other = f"[^{cased[1:-1]}{skipped[1:-1]}]"
    return f"({cased}{skipped}*){SIGMA}({skipped}*(?:{other}|$))"


def sigma_replacements(
    dropped: frozenset[str] = frozenset(), group: str = "\\"
) -> list[tuple[str, str]]:
    r"""Returns the patterns that lower-case sigmas, in order, and what replaces each.

    `dropped` are as for `final_sigma_pattern`. `group` comes before the number of a group: a backslash in
    RE2, `$` in OpenVINO.
    """
    final = f"{group}1{_FINAL_SIGMA}{group}2"
    return [(final_sigma_pattern(dropped), final), (SIGMA, _LOWER_SIGMA)]


def lower_sigmas(
    characters: "tf.RaggedTensor", dropped: frozenset[str] = frozenset()
) -> "tf.RaggedTensor":
    """Lower-cases the sigmas of lines, int32 (B, None), in a graph; see `final_sigma_pattern`."""

    def lower() -> "tf.Tensor":
        text = tf.strings.unicode_encode(characters, "UTF-8")
        for pattern, new in sigma_replacements(dropped):
            text = tf.strings.regex_replace(text, pattern, new)
        return tf.strings.unicode_decode(text, "UTF-8").values

    # The pattern lists all letters of Unicode, and hardly any text has this one.
    has_sigma = tf.reduce_any(characters.values == ord(SIGMA))
    return characters.with_values(tf.cond(has_sigma, lower, lambda: tf.identity(characters.values)))


def lower_case_normalizers() -> Iterator[dict[str, Any]]:
    """Yields the normalizers of a `tokenizer.json`, whose own lower case has no final sigma."""
    cased = r"[\p{Lu}\p{Ll}\p{Lt}]"
    # Characters without an influence on case (the Unicode standard, section 3.13).
    skipped = r"[\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}:.'·‘’‧․]*"
    yield replace_normalizer(f"(?<={cased}{skipped})Σ(?!{skipped}{cased})", _FINAL_SIGMA)
    # The library applies Unicode's rule, as `str.lower` does.
    for char in characters_of_unicode(lambda block: to_lower(block) != block.lower()):
        if (lower := to_lower(char)) != char.lower():
            yield replace_normalizer(char, lower)
    yield {"type": "Lowercase"}
