import hashlib
import pathlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.tokenization import Tokenizer, WordPieceTokenizer
from tests.helpers import write_wordpiece
from tests.tokenization.conftest import ALPHABETS, WORDS

TEXTS = ["", " ", "the old keeper", "Keepers, 1,000, lights.", "\n", "nul\0 \ud800 中 ≈", "a\nb"]


@pytest.fixture(scope="module", params=["sentencepiece", "wordpiece"])
def tokenizer(request, tmp_path_factory, small_tokenizer) -> Tokenizer:
    if request.param == "sentencepiece":
        return small_tokenizer
    vocab_file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    pieces = [*WORDS, *ALPHABETS[0], "##s", ",", "1", "0", "##0"]
    return WordPieceTokenizer(write_wordpiece(vocab_file, pieces))


def special_ids(tokenizer) -> list[int]:
    return [getattr(tokenizer, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")]


def test_pieces_ids_and_batches_agree(tokenizer):
    assert tokenizer.vocab_size == len(tokenizer.pieces) == len(set(tokenizer.pieces))
    ids = {piece: id_ for id_, piece in enumerate(tokenizer.pieces)}
    expected = [
        [ids.get(piece, tokenizer.unk_id) for piece in tokenizer.tokenize(text)] for text in TEXTS
    ]
    assert [tokenizer.encode(text) for text in TEXTS] == expected
    assert tokenizer.encode_batch(TEXTS) == expected
    assert tokenizer.encode_batch([]) == []


def test_white_space_has_no_pieces(tokenizer):
    assert tokenizer.encode_batch(["", " ", "\n\t", "\u0301"]) == [[], [], [], []]
    assert tokenizer.encode("the\r\nold\u2028ships") == tokenizer.encode("the old ships")


@settings(deadline=None)
@given(st.text("[]<>CLSEPMAKpadunkclsepmask ▁#", max_size=30))
def test_text_never_gives_a_control_piece(tokenizer, text):
    for special in ("[CLS]", "<pad>", "[PAD]", "[SEP] [MASK]", "<unk>"):
        ids = set(tokenizer.encode(special + text))
        assert not ids & (set(special_ids(tokenizer)) - {tokenizer.unk_id})


def test_masks_of_the_vocabulary(tokenizer):
    special = special_ids(tokenizer)
    assert len(set(special)) == 5
    assert tokenizer.ordinary_ids.dtype == np.int32
    others = set(range(tokenizer.vocab_size)) - set(special)
    assert tokenizer.ordinary_ids.tolist() == sorted(others)
    assert tokenizer.word_start.dtype == bool
    assert tokenizer.word_start.shape == (tokenizer.vocab_size,)
    assert tokenizer.word_start[special].all()
    assert not tokenizer.word_start.all()


def test_decoding_gives_the_text_back_without_control_pieces(tokenizer):
    text = "the old keeper counts ships"
    ids = [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id, tokenizer.pad_id]
    assert tokenizer.decode(ids) == tokenizer.decode(np.array(ids, np.int32)) == text


def test_a_pickled_tokenizer_is_the_same(tokenizer):
    content = pathlib.Path(tokenizer.vocabulary_file).read_bytes()
    assert tokenizer.vocabulary_sha256 == hashlib.sha256(content).hexdigest()
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    for name in ("pieces", "vocabulary_sha256", "vocabulary_file", "lower_case"):
        assert getattr(copy, name) == getattr(tokenizer, name)
