import pathlib
import tempfile

from albert_tf.tokenization import AlbertTokenizer, Tokenizer, WordPieceTokenizer
from albert_tf.tokenization.bert_words import (
    is_chinese,
    is_control,
    is_punctuation,
    split_words,
)
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.normalization import normalize_text
from tests.helpers import shared_path
from tests.parity.difference import Difference, count_unequal
from tests.parity.original import official_tokenizer, read_json, without_normalization

# Key in the reference data -> whether text is lower-cased; raw text is not normalised.
CASES = {"lower": True, "cased": False, "raw": True}


def read_lines() -> list[dict]:
    """Reads the lines with what the original makes of them."""
    return read_json("tokenization/sentencepiece.json")["lines"]


def compare_sentencepiece(key: str) -> list[Difference]:
    """Compares normalised lines, pieces, ids, and the ids of the tokenizer in a graph."""
    tokenizer, lines = official_tokenizer(CASES[key]), read_lines()
    texts = [line["text"] for line in lines]
    ids = [line[f"ids_{key}"] for line in lines]
    part = f"SentencePiece, {key}"
    if key == "raw":
        with without_normalization():
            return _compare_pieces_and_ids(part, tokenizer, texts, lines, f"_{key}")
    normalized = [normalize_text(text, CASES[key]) for text in texts]
    in_graph = make_graph_tokenizer(tokenizer)(texts).to_list()
    return [
        count_unequal(f"{part}, normalised", normalized, [line[key] for line in lines]),
        *_compare_pieces_and_ids(part, tokenizer, texts, lines, f"_{key}"),
        count_unequal(f"{part}, in a graph", in_graph, ids),
    ]


def compare_digit_commas() -> list[Difference]:
    """Compares pieces and ids of a vocabulary with pieces such as `0,` inside words."""
    golden = read_json("tokenization/sentencepiece_digit_comma.json")
    tokenizer = AlbertTokenizer(str(shared_path(f"data/{golden['model']}")))
    texts = [line["text"] for line in golden["lines"]]
    return _compare_pieces_and_ids("digits and commas", tokenizer, texts, golden["lines"])


def compare_wordpiece() -> list[Difference]:
    """Compares the vocabulary, words, pieces and ids of WordPiece, and ids in a graph."""
    golden = read_json("tokenization/wordpiece.json")
    differences = []
    for lower_case in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            vocab_file = pathlib.Path(folder) / "vocab.txt"
            # google-research/albert counts pieces, where others and we count lines (docs/fidelity.md).
            vocab_file.write_text("".join(f"{piece}\n" for piece in golden["vocab"]))
            tokenizer = WordPieceTokenizer(str(vocab_file), lower_case)
        cases = [case for case in golden["cases"] if case["do_lower_case"] == lower_case]
        texts, ids = ([case[key] for case in cases] for key in ("text", "ids"))
        words = [split_words(text, lower_case) for text in texts]
        in_graph = make_graph_tokenizer(tokenizer)(texts).to_list()
        differences += [
            count_unequal("WordPiece, vocabulary", tokenizer.pieces, list(golden["vocab"])),
            count_unequal("WordPiece, words", words, [case["basic"] for case in cases]),
            *_compare_pieces_and_ids("WordPiece", tokenizer, texts, cases),
            count_unequal("WordPiece, in a graph", in_graph, ids),
        ]
    return differences


def compare_characters() -> list[Difference]:
    """Compares which characters are control, punctuation and Chinese."""
    golden = read_json("tokenization/characters.json")
    characters = [chr(code_point) for code_point in golden["code_points"]]
    kinds = {"control": is_control, "punctuation": is_punctuation, "chinese": is_chinese}
    return [
        count_unequal("characters", list(map(is_kind, characters)), list(map(bool, golden[kind])))
        for kind, is_kind in kinds.items()
    ]


def _compare_pieces_and_ids(
    part: str, tokenizer: Tokenizer, texts: list[str], lines: list[dict], key: str = ""
) -> list[Difference]:
    pieces, ids = ([line[f"{name}{key}"] for line in lines] for name in ("pieces", "ids"))
    return [
        count_unequal(f"{part}, pieces", [tokenizer.tokenize(text) for text in texts], pieces),
        count_unequal(f"{part}, ids", [tokenizer.encode(text) for text in texts], ids),
        count_unequal(f"{part}, ids of a batch", tokenizer.encode_batch(texts), ids),
    ]
