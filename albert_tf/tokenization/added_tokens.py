"""Added tokens: pieces that are cut out of a text before its words are split, as in Hugging Face's files.

A token is cut out wherever it stands, also within a word, the longest one first: of the text as it is or,
if the token is `normalized`, of the normalised text. What stands between two tokens is split by itself.
Spaces beside a token, which `lstrip` and `rstrip` are about, never count in a WordPiece vocabulary.

Which they are, the lines of the vocabulary note; see `wordpiece_lines`.
"""

import re
from collections.abc import Iterable, Iterator

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenization.bert_words import clean_text, is_dropped, space_words
from albert_tf.tokenization.interface import CONTINUATION_MARK
from albert_tf.tokenization.wordpiece_lines import NORMALIZED, RAW

_MAX_LENGTH = 60  # with its accents apart, a marked token is a word that is not too long


class AddedTokens:
    """The added tokens of a WordPiece vocabulary, and how they are found in a text.

    Attributes:
        raw: those that are cut out of the text as it is, and their ids.
        normalized: those that are cut out of normalised text, as they are there, and their ids.
        num_spelled: how many pieces, in the order of their ids, words may also be split into: all but
            added tokens at the end. A token in the midst is a piece like others where it is not cut out:
            `the`, cut out of text as it is, is a piece of `The`.

    Raises:
        InputError: a token cannot be found in a text, or two are alike there.
    """

    def __init__(self, content: bytes, path: str, lower_case: bool):
        self.raw: dict[str, int] = {}
        self.normalized: dict[str, int] = {}
        for number, line in files.decode_lines([content], path, files.decode_strictly):
            token, _, note = line.partition("\t")
            if note not in (NORMALIZED, RAW):
                continue
            normal = clean_text(token, lower_case)
            is_word = token.split() == [token] and normal.split() == [normal]
            if not is_word or any(map(is_dropped, token)) or len(token) > _MAX_LENGTH:
                raise InputError(
                    f"{path}: the added token {token!r} is not supported; expected at most "
                    f"{_MAX_LENGTH} characters, of which none is white space or dropped"
                )
            group = self.normalized if note == NORMALIZED else self.raw
            key = normal if note == NORMALIZED else token
            alike = {clean_text(other, lower_case) for other in group}
            if normal in alike or token.startswith(CONTINUATION_MARK):
                raise InputError(
                    f"{path}: the added token {token!r} is another piece's text, or continues a word; "
                    "expected tokens that differ in more than case and accents"
                )
            group[key] = number - 1
        self.num_spelled = number
        while self.num_spelled - 1 in self.ids:
            self.num_spelled -= 1
        self._lower_case = lower_case
        self._of_words = {space_words(token, False): id_ for token, id_ in self.normalized.items()}
        self._raw = re.compile(f"({alternatives(self.raw)})") if self.raw else None
        found = alternatives(self._of_words)
        # Otherwise a word, up to the next token.
        self._words = re.compile(rf"{found}|(?:(?!{found})\S)+" if found else r"\S+")

    @property
    def ids(self) -> frozenset[int]:
        """The ids of all of them."""
        return frozenset((*self.raw.values(), *self.normalized.values()))

    def cut(self, text: str) -> Iterator[tuple[int, str, int | None]]:
        """Yields the parts of a text between and at raw tokens: its start, the part, a token's id."""
        start = 0
        for part in self._raw.split(text) if self._raw else (text,):
            if part:
                yield start, part, self.raw.get(part)
            start += len(part)

    def words(self, spaced: str) -> Iterator[tuple[str, int, int, int | None]]:
        """Yields the words and tokens of what `space_words` returns: itself, start, end, a token's id."""
        for found in self._words.finditer(spaced):
            yield found[0], found.start(), found.end(), self._of_words.get(found[0])


def alternatives(tokens: Iterable[str]) -> str:
    """Returns a regular expression, also of RE2, for the longest of some tokens; "" without any."""
    return "|".join(map(re.escape, sorted(tokens, key=len, reverse=True)))
