"""Words that become pieces of a vocabulary, `--add_pieces`."""

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenization.interface import Tokenizer


def add_pieces(tokenizer: Tokenizer, path: str) -> Tokenizer:
    """Returns a tokenizer that has the words of a file, one per line, as pieces.

    Words that are pieces already, also those of an earlier line, stay what they are.

    Raises:
        InputError: the file cannot be read, or a line is no word to the tokenizer.
    """
    former: dict[str, tuple[int, ...]] = {}
    known = {*tokenizer.pieces}
    for number, line in files.decode_lines(files.read_chunks(path), path, files.decode_strictly):
        if not line.strip():
            continue
        piece = tokenizer.piece_of(line)
        if piece is None:
            raise InputError(
                f"{path}, line {number}: {line.strip()!r} is no word to the tokenizer, which makes "
                f"{' '.join(tokenizer.tokenize(line))!r} of it; expected a word per line"
            )
        if piece not in known:
            former[piece] = tuple(tokenizer.encode(line))
            known.add(piece)
    if not former:
        return tokenizer
    grown = tokenizer.with_pieces([*former])
    grown.former_ids = (*tokenizer.former_ids, *former.values())
    return grown
