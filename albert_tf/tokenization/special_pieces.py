"""The pieces that stand for no text, by the names that the published vocabularies give them."""

from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.errors import InputError


class SpecialPieces(NamedTuple):
    """A name for each role; the order is that of the ids 0 to 4 in ALBERT's published vocabulary."""

    pad: str
    unk: str
    cls: str
    sep: str
    mask: str


SENTENCEPIECE = SpecialPieces("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE = SpecialPieces("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def find_special_ids(
    pieces: Sequence[str], names: SpecialPieces, vocabulary_file: str
) -> tuple[int, int, int, int, int]:
    """Returns the ids of the special pieces, in the order of `SpecialPieces`.

    Raises:
        InputError: the vocabulary lacks one of them.
    """
    for name in names:
        if name not in pieces:
            raise InputError(
                f"{vocabulary_file}: the vocabulary has no piece '{name}'; it needs {', '.join(names)}"
            )
    return tuple(pieces.index(name) for name in names)
