"""The WordPiece tokenizer in a graph returns the ids of the one in Python, for any text."""

import itertools
import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.tokenization import WordPieceTokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from tests.helpers import shared_path, write_wordpiece
from tests.parity.original import read_json
from tests.tokenization.test_in_graph import REAL_TEXTS, read_real_lines

LETTERS = "abcdefghijklmnopqrstuvwxyzßéÉΣσςαABC0123456789абвгд中国人한국ひらกขकख"
# Unusual pieces: one with a blank line's " ", one that no word can reach, one of other characters only.
UNUSUAL = ["", "##", "a b", "\u0308", "##\u0301"]
TEXTS = [
    "",
    " \n\u3000",
    "Hello, World! don't a_b$3 ##ing [CLS] [UNK]",
    "Żółć \u0130stanbul \u0308 Été,Île Straße",
    "中文ab字 \uf900\U0002f800 한국어 ひらがな",
    "nul\0l zero\u200bwidth\ufffd line\u2028end \U000f0000 \u0378",
    "ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ' ΑΣ'Α ΑΣ\u00adΣ ΑΣ\0 ΑΣ\0Α ΑΣ中Σ",
    # Marks that are no accents, which NFD sorts by their classes.
    "a\U0001d165\u302e\ua953 \u302e\ua953 \U0001d165",
    *("x" * length for length in (100, 199, 200, 201, 800, 801)),
    *("é中"[n] * length for n in (0, 1) for length in (67, 200, 201)),
]


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizers(request, tmp_path_factory):
    """The tokenizer in Python and as a graph."""
    letters = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    words = ["hello", "##ing", "un", "##able", "the", "of", "and", "str", "##ss", *"!,'#"]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path = write_wordpiece(path, [*letters, *words, *UNUSUAL, ""])
    tokenizer = WordPieceTokenizer(path, lower_case=request.param)
    graph_tokenizer = make_graph_tokenizer(tokenizer)
    function = tf.function(graph_tokenizer, input_signature=[tf.TensorSpec([None], tf.string)])
    return tokenizer, function


def assert_same(tokenizers, lines):
    tokenizer, graph_tokenize = tokenizers
    texts = [line.decode("utf-8", "replace") if isinstance(line, bytes) else line for line in lines]
    received = graph_tokenize(tf.constant(lines, tf.string)).to_list()
    for text, ids, expected in zip(texts, received, tokenizer.encode_batch(texts), strict=True):
        assert ids == expected, repr(text)


def test_same_ids(tokenizers):
    assert_same(tokenizers, TEXTS)
    assert_same(tokenizers, [])


@pytest.mark.parametrize(
    "lines",
    [
        st.lists(st.text(st.characters(codec="utf-8"))),
        st.lists(st.binary()),
        # Where sigma depends on its neighbours.
        st.lists(st.text("aΣσς'.:1 \u00ad\u0345ʰ\0中", max_size=9), min_size=20),
    ],
    ids=["text", "bytes", "sigma"],
)
def test_same_ids_for_any_lines(tokenizers, lines):
    @settings(deadline=None, derandomize=True, max_examples=30)
    @given(lines)
    @example([b"\xff\xfe the old", b"cut \xe4\xb8", b"half \xed\xa0\x80 pair", b"\xe4\xc2\xa0s"])
    def check(lines):
        assert_same(tokenizers, lines)

    check()


def test_same_ids_for_every_character_that_changes(tokenizers):
    characters = map(chr, itertools.chain(range(0xD800), range(0xE000, sys.maxunicode + 1)))
    changing = [
        char
        for char in characters
        if char.isspace()
        or char.lower() != char
        or unicodedata.category(char) in ("Cc", "Cf")
        or unicodedata.category(char)[0] in "PM"
        or not unicodedata.is_normalized("NFD", char)
    ]
    assert len(changing) > 15_000
    assert_same(tokenizers, [f"ΑΣ{char}b{char}Σ c" for char in changing])


def test_same_ids_for_real_lines(tokenizers):
    lines = [line for relative in REAL_TEXTS for line in read_real_lines(relative)[:300]]
    assert_same(tokenizers, lines)


def test_same_ids_as_the_original(tmp_path):
    golden = read_json(shared_path("golden") / "tokenization" / "wordpiece.json")
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_bytes(golden["vocab_txt"].encode())
    for lower_case in (True, False):
        cases = [case for case in golden["cases"] if case["do_lower_case"] == lower_case]
        tokenize = make_graph_tokenizer(WordPieceTokenizer(str(vocab_file), lower_case))
        ids = tokenize(tf.constant([case["text"] for case in cases])).to_list()
        assert ids == [case["ids"] for case in cases]


def test_max_ids_keeps_the_front(tokenizers):
    tokenizer, _ = tokenizers
    texts = [*TEXTS, "the unable " * 1000]
    ids = make_graph_tokenizer(tokenizer)(tf.constant(texts), max_ids=7).to_list()
    assert ids == [ids[:7] for ids in tokenizer.encode_batch(texts)]
