import itertools
import pathlib

import pytest

from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.normalization import normalize_text
from tests.helpers import refused
from tests.tokenization.conftest import train_model


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  The old \t keeper\u00a0walks ",
        "Thé o\u0301ld\u0301",
        "ﬁne ½ by 中文",
        "39, 1,000, a5, and £7,5,",
        "\u0301 the¨ ¨old",
    ],
)
def test_offsets_return_the_original_spelling(small_tokenizer, text):
    ids, spans = small_tokenizer.encode_with_offsets(text)
    assert ids == small_tokenizer.encode(text)
    for piece, (start, end) in zip(small_tokenizer.tokenize(text), spans, strict=True):
        assert piece.replace("▁", "") in normalize_text(text[start:end], lower_case=True)
    covered = {index for start, end in spans for index in range(start, end)}
    covered = "".join(text[index] for index in sorted(covered)).strip()
    assert covered == text.strip().lstrip("\u0301 ")


def test_a_word_mark_alone_stands_for_all_white_space_before_the_word(small_tokenizer):
    for text in ("on  中 on", "on \u200b中 on"):
        spans = small_tokenizer.encode_with_offsets(text)[1]
        written = [text[start:end] for start, end in spans]
        assert written[written.index("中") - 1] == text[2:4]


def test_offsets_of_a_split_piece(small_tokenizer):
    text = "a5, £ 39,"
    spans = small_tokenizer.encode_with_offsets(text)[1]
    parts = (text[slice(*span)] for span in spans)
    written = list(zip(small_tokenizer.tokenize(text), parts, strict=True))
    assert written[-2:][1] == (",", ",")
    assert ("5", "5") in written
    assert all(piece.replace("▁", "") == part.strip() for piece, part in written)


def test_the_front_of_a_digit_comma_piece_gets_a_word_mark_even_inside_a_word(small_tokenizer):
    for piece in small_tokenizer.pieces:
        if piece[-1] == "," and piece[-2:-1].isdigit():
            assert piece not in small_tokenizer.tokenize(piece.replace("▁", ""))
    assert "5," in small_tokenizer.pieces
    assert small_tokenizer.tokenize("a5,")[-3:] == ["▁", "5", ","]
    assert small_tokenizer.tokenize("5")[-2:] == ["▁", "5"]


def test_a_split_piece_has_one_word_mark_where_the_model_keeps_extra_spaces(tmp_path):
    model_file = tmp_path / "spaces.model"
    settings = {"remove_extra_whitespaces": False, "user_defined_symbols": ["▁39,"]}
    model_file.write_bytes(train_model(**settings))
    tokenizer = AlbertTokenizer(str(model_file))
    split = tokenizer.digit_comma_splits[tokenizer.pieces.index("▁39,")]
    assert "".join(tokenizer.pieces[id_] for id_ in split) == "▁39,"


def test_which_pieces_start_a_word(tmp_path):
    starting = ["▁the", "▁", *"€£–,'", "'s", "7", "0,", "ω", "é", "<b", "[CLS]", "<unk>"]
    continuing = ["ing", "s", "K", "u.s", "..", "+,"]
    model_file = tmp_path / "word_start.model"
    model_file.write_bytes(train_model(user_defined_symbols=[*starting[:-2], *continuing]))
    tokenizer = AlbertTokenizer(str(model_file))
    starts = dict(zip(tokenizer.pieces, tokenizer.word_start.tolist(), strict=True))
    assert {piece: starts[piece] for piece in starting} == dict.fromkeys(starting, True)
    assert {piece: starts[piece] for piece in continuing} == dict.fromkeys(continuing, False)
    marked = AlbertTokenizer(str(model_file), word_start_rule="sentencepiece")
    starts = set(itertools.compress(marked.pieces, marked.word_start))
    assert starts.intersection([*starting, *continuing]) == {"▁the", "▁", "[CLS]", "<unk>"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: train_model(control_symbols=["[CLS]"]), "the vocabulary has no piece '\\[SEP\\]'"),
        (lambda: train_model()[:-100], "not a SentencePiece model"),
        (lambda: b"the\nold\n", "not a SentencePiece model"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, content, message):
    path = tmp_path / "bad.model"
    if content is not None:
        path.write_bytes(content())
    with refused(rf"bad\.model: {message}"):
        AlbertTokenizer(str(path))


def test_an_unknown_rule_is_named(small_model_file):
    with refused(r"^word_start_rule='all': expected Literal\['original'"):
        AlbertTokenizer(small_model_file, word_start_rule="all")


def test_piece_that_is_no_text_is_named(small_model_file, small_tokenizer, tmp_path):
    piece = max(filter(str.isascii, small_tokenizer.pieces), key=len).encode()
    damaged_piece = piece[:1] + bytes([piece[1] ^ 0x80]) + piece[2:]
    content = pathlib.Path(small_model_file).read_bytes()
    damaged = tmp_path / "damaged.model"
    damaged.write_bytes(content.replace(piece, damaged_piece, 1))
    with refused(r"damaged\.model: the file is damaged: ") as error:
        AlbertTokenizer(str(damaged))
    assert str(error.value).endswith(f"the piece {damaged_piece!r} is not UTF-8")


def test_no_special_piece_is_ordinary_however_the_vocabulary_marks_it(tmp_path):
    symbols = {"control_symbols": ["[CLS]"], "user_defined_symbols": ["[SEP]", "[MASK]", "<x>"]}
    path = tmp_path / "marked.model"
    path.write_bytes(train_model(**symbols))
    tokenizer = AlbertTokenizer(str(path))
    special = {
        tokenizer.pad_id,
        tokenizer.unk_id,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.mask_id,
    }
    assert set(range(tokenizer.vocab_size)) - {*tokenizer.ordinary_ids.tolist()} == special
