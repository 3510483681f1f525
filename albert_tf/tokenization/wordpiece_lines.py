r"""The lines of a `vocab.txt`: the number of a line is the id of its piece.

So it is in google-research/bert and in transformers. google-research/albert counts pieces instead, which
gives other ids after a blank or a repeated line.

Pieces that are cut out of a text, the added tokens of Hugging Face's files, are noted on their lines,
after a tab: `covid\tadded`, `[E1]\tadded raw`. So the content decides all ids, as that of any vocabulary.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError

# The piece of lines that no text becomes: a blank one, or one that a later line repeats.
UNREACHED = " "
# The notes of added tokens: of those that are cut out of normalised text, and out of text as it is.
NORMALIZED, RAW = "added", "added raw"
# What separates lines, and pieces from notes, and halves of surrogate pairs, which JSON can spell.
_NO_LINE = re.compile(r"[\n\t\ud800-\udfff]")


def pieces_of_lines(content: bytes, path: str) -> list[str]:
    """Returns the piece of each line; of equal lines the last one has it.

    Of a line with tabs the first field counts, as in files with a score beside each piece. A piece with
    white space inside remains, though no word becomes it.

    Raises:
        InputError: a line is not UTF-8.
    """
    lines = files.decode_lines([content], path, files.decode_strictly)
    pieces = [line.strip().partition("\t")[0].strip() for _, line in lines]
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    return [piece if piece and ids[piece] == id_ else UNREACHED for id_, piece in enumerate(pieces)]


class DescribedToken(NamedTuple):
    """What a file says of a token.

    Attributes:
        place: where it says so, for messages.
        content: the token.
        id: its id, if the file says it.
        flags: how it is found, if the file says it.
        is_special: whether the file lists it as a special one.
    """

    place: str
    content: str
    id: int | None
    flags: Mapping[str, Any]
    is_special: bool


def note_tokens(content: bytes, path: str, described: Iterable[DescribedToken]) -> bytes:
    """Returns the content of a `vocab.txt` that has the tokens of the files beside it, with notes.

    Raises:
        InputError: files contradict each other, none says the id of a token, an id is neither that of the
            token's line nor the next one, no line can hold a token, or it is to be found as a whole word
            only.
    """
    groups = itertools.groupby(
        sorted(described, key=lambda one: one.content), key=lambda one: one.content
    )
    pieces = pieces_of_lines(content, path)
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    found = sorted(_agree([*group], ids) for _, group in groups)
    if not found:
        return content
    lines = [line for _, line in files.decode_lines([content], path, files.decode_strictly)]
    for id_, token, note, place in found:
        if id_ != (expected := ids.get(token, len(pieces))):
            taken = (
                f"is that of {pieces[id_]!r}" if id_ < len(pieces) else f"follows {len(pieces) - 1}"
            )
            raise InputError(
                f"{place} with the id {id_}, which {taken} in {path}; expected {expected}, the id of its "
                "line there or the next one"
            )
        pieces[id_:] = [token, *pieces[id_ + 1 :]]
        lines[id_:] = [f"{token}\t{note}", *lines[id_ + 1 :]]
    return "".join(f"{line}\n" for line in lines).encode()


def _agree(group: Sequence[DescribedToken], known: Mapping[str, int]) -> tuple[int, str, str, str]:
    """Returns the id of a token, itself, its note and the first place of it, as all files say them.

    `known` are the ids of the vocabulary.
    """
    place, token = group[0].place, group[0].content
    if _NO_LINE.search(token):
        raise InputError(
            f"{place}, which no line of a vocabulary can hold; expected characters alone"
        )
    flags = [one.flags for one in group if one.flags]
    is_special = any(one.is_special for one in group)
    said = [one.get("normalized", not one.get("special", is_special)) for one in flags]
    notes = {NORMALIZED if is_normalized else RAW for is_normalized in said or [not is_special]}
    ids = {one.id for one in group if one.id is not None}
    if not ids and token in known:
        ids = {known[token]}
    if not ids:
        raise InputError(f"{place}, whose id no file says; expected it in added_tokens.json")
    if len(ids) > 1 or len(notes) > 1:
        raise InputError(
            f"{place}, and another file says it otherwise: ids {sorted(ids)}, notes {sorted(notes)}"
        )
    if any(one.get("single_word") for one in flags):
        raise InputError(f"{place}, a single_word; expected a token that words may have in them")
    return ids.pop(), token, notes.pop(), place
