"""The lines of a `vocab.txt`: the number of a line is the id of its piece.

So it is in google-research/bert and in transformers. google-research/albert counts pieces instead, which
gives other ids after a blank or a repeated line.
"""

from albert_tf import files

# The piece of lines that no text becomes: a blank one, or one that a later line repeats.
UNREACHED = " "


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
