"""The pieces that stand for no text, in each kind of vocabulary."""

from typing import NamedTuple


class SpecialPieces(NamedTuple):
    """The pieces that stand for no text; in ALBERT's published vocabulary they have the ids 0 to 4."""

    pad: str
    unk: str
    cls: str
    sep: str
    mask: str


SENTENCEPIECE = SpecialPieces("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE = SpecialPieces("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
