"""The one letter whose lower case depends on its neighbours: Σ becomes ς at the end of a word, else σ.

A table of characters cannot say this, so the tokenizers write ς before they apply their tables. A sigma
ends a word if it follows a cased letter and does not precede one; characters such as an apostrophe do not
count (the Unicode standard, section 3.13). Python's own lower-casing decides.
"""

import functools
from collections.abc import Callable

from albert_tf.tokenization.characters import character_class, characters_of_unicode

SIGMA, FINAL_SIGMA = "Σ", "ς"
# Those that NFKD turns into Σ, and Σ.
CAPITAL_SIGMAS = "ΣϹ𝚺𝛴𝜮𝝨𝞢"


def write_final_sigmas(text: str, clean: Callable[[str], str]) -> str:
    """Replaces each capital sigma that ends a word with ς, and other ones with σ.

    `clean` turns text into that which is lower-cased, with one Σ for each capital sigma.
    """
    if not any(sigma in text for sigma in CAPITAL_SIGMAS):
        return text
    cleaned = clean(text)
    # Lower-casing decomposed text never changes the number of characters.
    pairs = zip(cleaned, cleaned.lower(), strict=True)
    lowered = iter([lower for char, lower in pairs if char == SIGMA])
    return "".join(next(lowered) if char in CAPITAL_SIGMAS else char for char in text)


@functools.cache
def final_sigma_pattern(clean: Callable[[str], str]) -> str:
    r"""Returns the same rule as a pattern for RE2 and PCRE, to be replaced with `\1ς\2`.

    `clean` returns what a character is when text is lower-cased: another one, several or none.
    """

    def is_final(before: str, after: str) -> bool:
        return f"{before}{SIGMA}{after}".lower()[len(before.lower())] == FINAL_SIGMA

    def ends_cased(char: str) -> bool:
        return is_final("1" + char, "")

    def starts_cased(char: str) -> bool:
        return not is_final("A", char)

    def is_skipped(char: str) -> bool:
        return is_final("A" + char, "") and not ends_cased(char)

    def may_count(block: str) -> bool:
        # Between A and the sigma, a character that is neither cased nor skipped ends the word.
        probes = f"1A{f'{SIGMA}1A'.join(block)}{SIGMA}"
        return FINAL_SIGMA in probes.lower() or clean(block) != block

    cleaned = {char: clean(char) for char in characters_of_unicode(may_count)}
    before, after, skipped = (
        character_class(char for char, text in cleaned.items() if test(text))
        for test in (ends_cased, starts_cased, is_skipped)
    )
    sigmas = character_class(char for char in CAPITAL_SIGMAS if clean(char) == SIGMA)
    other = f"[^{after[1:-1]}{skipped[1:-1]}]"
    return f"({before}{skipped}*){sigmas}({skipped}*(?:{other}|$))"
