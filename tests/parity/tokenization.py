"""Normalised text, pieces and ids."""

import pathlib
import tempfile
from collections.abc import Sequence

from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.sentencepiece_tokenizer import normalize_text
from albert_tf.tokenization.wordpiece_tokenizer import (
    is_chinese,
    is_control,
    is_punctuation,
    split_words,
)
from tests.parity.difference import Difference, count_unequal
from tests.parity.original import read_json

# Key in the reference data -> whether text is lower-cased.
CASES = {"lower": True, "cased": False}


def read_lines(golden_dir: pathlib.Path) -> list[dict]:
    """Reads the lines with what the original makes of them."""
    return read_json(golden_dir / "tokenization" / "sentencepiece.json")["lines"]


def compare_normalization(golden_dir: pathlib.Path, key: str) -> list[Difference]:
    """Compares normalised lines; `key` is one of `CASES`."""
    lines = read_lines(golden_dir)
    normalized = [normalize_text(line["text"], CASES[key]) for line in lines]
    return [count_unequal("normalisation", key, normalized, [line[key] for line in lines])]


def compare_sentencepiece(
    golden_dir: pathlib.Path, tokenizer: AlbertTokenizer, key: str
) -> list[Difference]:
    """Compares pieces and ids; `key` is `raw` for a tokenizer that does not normalise."""
    lines = read_lines(golden_dir)
    return _compare_pieces_and_ids(
        f"SentencePiece, {key}",
        tokenizer,
        [line["text"] for line in lines],
        [line[f"pieces_{key}"] for line in lines],
        [line[f"ids_{key}"] for line in lines],
    )


def compare_graph(
    golden_dir: pathlib.Path, tokenizer: AlbertTokenizer, key: str
) -> list[Difference]:
    """Compares the ids of the tokenizer in the graph; arguments as for `compare_sentencepiece`."""
    lines = read_lines(golden_dir)
    ids = make_graph_tokenizer(tokenizer)([line["text"] for line in lines]).to_list()
    return [
        count_unequal("in the graph", f"ids, {key}", ids, [line[f"ids_{key}"] for line in lines])
    ]


def digit_comma_model(golden_dir: pathlib.Path) -> str:
    """Returns the path, below the public data, of the vocabulary of `compare_digit_commas`."""
    return read_json(golden_dir / "tokenization" / "sentencepiece_digit_comma.json")["model"]


def compare_digit_commas(golden_dir: pathlib.Path, tokenizer: AlbertTokenizer) -> list[Difference]:
    """Compares pieces and ids of a vocabulary with pieces such as `0,` inside words."""
    golden = read_json(golden_dir / "tokenization" / "sentencepiece_digit_comma.json")
    lines = golden["lines"]
    return _compare_pieces_and_ids(
        "SentencePiece, digits and commas",
        tokenizer,
        [line["text"] for line in lines],
        [line["pieces"] for line in lines],
        [line["ids"] for line in lines],
    )


def compare_wordpiece(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares the vocabulary, words, pieces and ids of WordPiece."""
    golden = read_json(golden_dir / "tokenization" / "wordpiece.json")
    cases = golden["cases"]
    with tempfile.TemporaryDirectory() as folder:
        vocab_file = pathlib.Path(folder) / "vocab.txt"
        vocab_file.write_bytes(golden["vocab_txt"].encode())
        tokenizers = {
            lower_case: WordPieceTokenizer(str(vocab_file), lower_case)
            for lower_case in (True, False)
        }
    vocabulary = list(golden["vocab"])
    words = [split_words(case["text"], case["do_lower_case"]) for case in cases]
    pieces = [tokenizers[case["do_lower_case"]].tokenize(case["text"]) for case in cases]
    ids = [tokenizers[case["do_lower_case"]].encode(case["text"]) for case in cases]
    part = "WordPiece"
    return [
        count_unequal(part, "vocabulary", tokenizers[True].pieces, vocabulary),
        count_unequal(part, "words", words, [case["basic"] for case in cases]),
        count_unequal(part, "pieces", pieces, [case["pieces"] for case in cases]),
        count_unequal(part, "ids", ids, [case["ids"] for case in cases]),
    ]


def compare_characters(golden_dir: pathlib.Path) -> list[Difference]:
    """Compares which characters are control, punctuation and Chinese."""
    golden = read_json(golden_dir / "tokenization" / "characters.json")
    kinds = {
        "control": is_control,
        "punctuation": is_punctuation,
        "chinese": is_chinese,
    }
    characters = [chr(code_point) for code_point in golden["code_points"]]
    return [
        count_unequal(
            "characters",
            kind,
            [int(is_kind(char)) for char in characters],
            list(map(int, golden[kind])),
        )
        for kind, is_kind in kinds.items()
    ]


def _compare_pieces_and_ids(
    part: str,
    tokenizer: AlbertTokenizer,
    texts: Sequence[str],
    pieces: Sequence[list[str]],
    ids: Sequence[list[int]],
) -> list[Difference]:
    return [
        count_unequal(part, "pieces", [tokenizer.tokenize(text) for text in texts], pieces),
        count_unequal(part, "ids", [tokenizer.encode(text) for text in texts], ids),
        count_unequal(part, "ids of a batch", tokenizer.encode_batch(texts), ids),
    ]
