"""What holds for every tokenizer."""

import hashlib
import pathlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.tokenization import AlbertTokenizer, Tokenizer, WordPieceTokenizer
from tests.tokenization.conftest import ALPHABETS, WORDS

TEXTS = ["", " ", "the old keeper", "Keepers, 1,000, lights.", "\n", "nul\0 \ud800 中 ≈", "a\nb"]


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory, small_model_file) -> list[Tokenizer]:
    vocab_file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    pieces = [
        "[PAD]",
        *WORDS,
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *("##s", ",", "1", "0", "##0", "s"),
    ]
    vocab_file.write_text("\n".join([*pieces, *ALPHABETS[0]]), encoding="utf-8")
    return [AlbertTokenizer(small_model_file), WordPieceTokenizer(str(vocab_file))]


def special_ids(tokenizer) -> list[int]:
    return [getattr(tokenizer, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")]


def test_pieces_and_ids_agree(tokenizers):
    for tokenizer in tokenizers:
        assert tokenizer.vocab_size == len(tokenizer.pieces) == len(set(tokenizer.pieces))
        ids = {piece: id_ for id_, piece in enumerate(tokenizer.pieces)}
        for text in TEXTS:
            expected = [ids.get(piece, tokenizer.unk_id) for piece in tokenizer.tokenize(text)]
            assert tokenizer.encode(text) == expected


def test_a_batch_equals_its_texts_one_by_one(tokenizers):
    for tokenizer in tokenizers:
        assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
        assert tokenizer.encode_batch([]) == []


def test_white_space_has_no_pieces(tokenizers):
    for tokenizer in tokenizers:
        assert tokenizer.encode_batch(["", " ", "\n\t", "\u0301"]) == [[], [], [], []]
        assert tokenizer.encode("the\r\nold\u2028ships") == tokenizer.encode("the old ships")


@settings(deadline=None)
@given(st.text("[]<>CLSEPMAKpadunkclsepmask ▁#", max_size=30))
def test_text_never_gives_a_control_piece(tokenizers, text):
    for tokenizer in tokenizers:
        for special in ("[CLS]", "<pad>", "[PAD]", "[SEP] [MASK]", "<unk>"):
            ids = set(tokenizer.encode(special + text))
            assert not ids & (set(special_ids(tokenizer)) - {tokenizer.unk_id})


def test_masks_of_the_vocabulary(tokenizers):
    for tokenizer in tokenizers:
        special = special_ids(tokenizer)
        everything = set(range(tokenizer.vocab_size))
        assert len(set(special)) == 5
        assert tokenizer.ordinary_ids.dtype == np.int32
        assert tokenizer.ordinary_ids.tolist() == sorted(everything - set(special))
        assert tokenizer.word_start.dtype == bool
        assert tokenizer.word_start.shape == (tokenizer.vocab_size,)
        assert tokenizer.word_start[special].all()
        assert not tokenizer.word_start.all()


def test_decoding_gives_the_text_back_without_control_pieces(tokenizers):
    text = "the old keeper counts ships"
    for tokenizer in tokenizers:
        ids = [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id, tokenizer.pad_id]
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(np.array(ids, np.int32)) == text


def test_checksum_is_the_vocabulary_files(tokenizers):
    for tokenizer in tokenizers:
        content = pathlib.Path(tokenizer.vocabulary_file).read_bytes()
        assert tokenizer.vocabulary_sha256 == hashlib.sha256(content).hexdigest()


def test_a_pickled_tokenizer_is_the_same(tokenizers):
    for tokenizer in tokenizers:
        copy = pickle.loads(pickle.dumps(tokenizer))
        assert copy.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
        assert copy.pieces == tokenizer.pieces
        assert copy.vocabulary_sha256 == tokenizer.vocabulary_sha256
        assert (copy.vocabulary_file, copy.lower_case) == (tokenizer.vocabulary_file, True)
