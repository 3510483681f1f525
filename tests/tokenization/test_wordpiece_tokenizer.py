import json

import pytest
import tensorflow as tf

from albert_tf.tokenization import WordPieceTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from tests.helpers import refused

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def make_tokenizer(tmp_path):
    def make(lines, lower_case=True, line_end="\n") -> WordPieceTokenizer:
        vocab_file = tmp_path / "vocab.txt"
        vocab_file.write_bytes(line_end.join(lines).encode("utf-8"))
        return WordPieceTokenizer(str(vocab_file), lower_case)

    return make


def test_offsets_are_the_original_spelling(make_tokenizer):
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokenizer = make_tokenizer([*SPECIAL, *letters, "##s", "##fe", "ca", ".", "中"])
    text = "\tCafe\u0301s.. É 中?\u00ad x\x00 ΣΑΣ"
    ids, spans = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    spelled = ["Ca", "fe\u0301", "s", ".", ".", "É", "中", "?\u00ad", "x\x00", "ΣΑΣ"]
    assert [text[start:end] for start, end in spans] == spelled
    assert tokenizer.encode_with_offsets(" \x00") == ([], [])


def test_ids_are_those_of_googles_code_where_hugging_faces_differ(make_tokenizer):
    assert make_tokenizer([*SPECIAL, "σας", "σασ"]).tokenize("ΣΑΣ") == ["σας"]


def test_ids_are_the_numbers_of_lines(make_tokenizer):
    lines = [*SPECIAL, "one", "one", "", " two\tfields", "a b", "\u3000", "三", "b"]
    tokenizer = make_tokenizer(lines, line_end="\r\n")
    assert tokenizer.pieces == [*SPECIAL, " ", "one", " ", "two", "a b", " ", "三", "b"]
    assert tokenizer.encode("one two 三 a b") == [6, 8, 11, 1, 12]
    ids = make_graph_tokenizer(tokenizer)(tf.constant(["one two 三 a b"])).to_list()
    assert ids == [[6, 8, 11, 1, 12]]
    # The same line of a `tokenizer.json` has no piece, or one with the number of its line.
    saved = json.loads(hugging_face_files(tokenizer, 64)["tokenizer.json"])
    assert saved["model"]["vocab"]["三"] == 11
    assert " " not in saved["model"]["vocab"]


def test_special_ids_are_looked_up(make_tokenizer):
    tokenizer = make_tokenizer(["a", *reversed(SPECIAL), "##b"])
    assert (tokenizer.mask_id, tokenizer.pad_id) == (1, 5)
    assert tokenizer.ordinary_ids.tolist() == [0, 6]
    assert tokenizer.word_start.tolist() == [True] * 6 + [False]


@pytest.mark.parametrize("missing", SPECIAL)
def test_a_missing_special_piece_is_named(make_tokenizer, missing):
    with refused(rf"vocab\.txt: the vocabulary has no piece '\{missing}'"):
        make_tokenizer([piece for piece in [*SPECIAL, "a"] if piece != missing])


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_bytes(b"[PAD]\n[UNK]\ncaf\xe9\n")
    with refused(r"vocab\.txt, line 3: byte 4 is 0xe9"):
        WordPieceTokenizer(str(vocab_file))
    with refused(r"absent\.txt: cannot be read"):
        WordPieceTokenizer(str(tmp_path / "absent.txt"))
