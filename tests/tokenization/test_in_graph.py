"""The tokenizers in a graph return the ids and offsets of those in Python, for any text."""

import itertools
import json
import sys
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, train_vocabulary
from albert_tf.tokenization.graph_normalization import GraphNormalizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.lower_case import to_lower
from albert_tf.tokenization.sentencepiece_characters import classify_characters
from tests.helpers import shared_path, slow_except, write_wordpiece
from tests.tokenization.conftest import train_model

TEXTS = [
    "",
    "  ",
    "The old keeper\twalks,\u00a0again.\n",
    "Élève naïve ﬁne ½ ①②③ ｆｕｌｌ",
    "39, 1,000, a5, and 7,5,",
    "ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ' ΑΣ'Α 1Σ ΑΣΣ. ΑΣ\u00adΣ ΑΣ\0 ΑΣ\0Α ΑΣ中Σ",
    "İstanbul IJ ẞ ǅ",
    "nul\0 stays \x85 \x1c \u2028 end\ufeff",
    "[CLS] <pad> ▁the ▁",
    "한국어 中文 ไทย हिन्दी العربية 😀 \U000e0100 \U00030000",
    # For WordPiece
    "Hello, World! don't a_b$3 ##ing [CLS] [UNK]",
    "Żółć \u0130stanbul \u0308 Été,Île Straße",
    "中文ab字 \uf900\U0002f800 한국어 ひらがな",
    "nul\0l zero\u200bwidth\ufffd line\u2028end \U000f0000 \u0378",
    # Marks that are no accents, which NFD sorts by their classes.
    "a\U0001d165\u302e\ua953 \u302e\ua953 \U0001d165",
    *("x" * length for length in (100, 199, 200, 201, 800, 801)),
    *("é中"[n] * length for n in (0, 1) for length in (67, 200, 201)),
]
LETTERS = "abcdefghijklmnopqrstuvwxyzßéÉΣσςαABC0123456789абвгд中国人ひら한국กขकख"
# One with a blank line's " ", one that no word can reach, one of other characters only.
UNUSUAL = ["", "##", "a b", "\u0308", "##\u0301"]


def in_graph(tokenizer):
    """Returns the tokenizer in a graph: a function from lines to ids and, if it has them, offsets."""
    graph_tokenizer = make_graph_tokenizer(tokenizer)
    return tf.function(
        getattr(graph_tokenizer, "tokenize_with_offsets", lambda lines: (graph_tokenizer(lines),)),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )


@pytest.fixture(scope="module", params=["albert", "accents", "wordpiece", "wordpiece, cased"])
def pair(request, small_tokenizer, accents_file, tmp_path_factory):
    """A tokenizer in Python and in a graph."""
    if request.param == "albert":
        return small_tokenizer, in_graph(small_tokenizer)
    if request.param == "accents":
        tokenizer = AlbertTokenizer(accents_file)
        return tokenizer, in_graph(tokenizer)
    letters = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    words = ["hello", "##ing", "un", "##able", "the", "of", "and", "str", "##ss", *"!,'#"]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path = write_wordpiece(path, [*letters, *words, *UNUSUAL, ""])
    tokenizer = WordPieceTokenizer(path, lower_case="cased" not in request.param)
    return tokenizer, in_graph(tokenizer)


def assert_same(pair, lines):
    """Compares ids and offsets of every line, text or bytes, and counts other, equally probable splits.

    The SentencePiece in tensorflow_text and Python's can choose different ones.
    """
    tokenizer, tokenize = pair
    ids, *offsets = (tensor.to_list() for tensor in tokenize(tf.constant(lines, tf.string)))
    assert len(ids) == len(lines)
    ties = 0
    for number, line in enumerate(lines):
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        expected_ids, expected_spans = tokenizer.encode_with_offsets(text)
        if ids[number] == expected_ids:
            if offsets:
                spans = list(zip(*(of[number] for of in offsets), strict=True))
                assert spans == expected_spans, repr(text)
            continue
        assert isinstance(tokenizer, AlbertTokenizer), repr(text)
        ties += 1
        model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.vocabulary)
        sums = [sum(model.get_score(of)) for of in (ids[number], expected_ids)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-6), repr(text)
    return ties


def test_the_same_ids_and_offsets(pair):
    assert assert_same(pair, TEXTS) == 0
    assert assert_same(pair, []) == 0
    dtypes = [tensor.dtype for tensor in pair[1](tf.constant(TEXTS))]
    assert dtypes == [tf.int32, tf.int64, tf.int64][: len(dtypes)]


@pytest.mark.parametrize(
    "lines",
    [
        st.lists(st.text(st.characters(codec="utf-8"))),
        st.lists(st.binary()),
        # Where offsets move, and where sigma depends on its neighbours.
        st.lists(st.text("ab5½ﬁé\u0301\u0327¨ \u2003\x1c, 中", max_size=12), min_size=20),
        st.lists(st.text("aΣσς'.:1 \u00ad\u0345ʰ\0中", max_size=9), min_size=20),
    ],
    ids=["text", "bytes", "offsets", "sigma"],
)
def test_the_same_for_any_lines(pair, lines):
    @settings(deadline=None, derandomize=True, max_examples=30)
    @given(lines)
    @example([b"\xff\xfe the old", b"cut \xe4\xb8", b"half \xed\xa0\x80 pair", b"\xe4\xc2\xa0s"])
    def check(lines):
        assert_same(pair, lines)

    check()


def test_every_character_that_normalisation_changes(pair):
    changing = [
        char
        for char in map(chr, itertools.chain(range(0xD800), range(0xE000, sys.maxunicode + 1)))
        if char.isspace()
        or to_lower(char) != char
        or unicodedata.category(char) in ("Cc", "Cf")
        or unicodedata.category(char)[0] in "PM"
        or not unicodedata.is_normalized("NFKD", char)
    ]
    assert len(changing) > 15_000
    assert_same(pair, [f"ΑΣ{char}b{char}Σ c" for char in changing])


# Known and unknown, dropped before SentencePiece and by it, parts of others, and one that becomes 18.
UNITS = [
    *("a", "the ", "9,", "x", "Σ", "ΑΣ", "\u0301", "e\u0301", "İ", " ", "\u2003\t", "¨", "▁"),
    *("\x00", "🙂", "か", "か\u3099", "한", "\u1112\u1161", "\u0bc6", "\u0bc6\u0bbe"),
    *("漢", "ﷺ", "⑽"),
    *("\u00ad", "\u200b", "\u200d", "\ufeff", "\ufffd", "\x01", "\U000e0100"),
]
LONG_TEXTS = st.lists(
    st.tuples(st.sampled_from(UNITS), st.sampled_from([1, 1, 2, 9, 300])), max_size=6
).map(lambda parts: "".join(unit * count for unit, count in parts))
NFKC = {"normalization_rule_name": "nmt_nfkc", "user_defined_symbols": ["\u0bca", "한"]}


@pytest.mark.parametrize(
    "settings_of_model",
    [
        pytest.param(NFKC, id="composed", marks=pytest.mark.slow),
        *slow_except(
            [
                {"user_defined_symbols": ["e a", "\u200b"]},
                {"byte_fallback": True, "vocab_size": 450},
                {"remove_extra_whitespaces": False},
                {"normalization_rule_name": "identity", "split_by_whitespace": False},
                None,
            ],
            *({"normalization_rule_name": "identity", "split_by_whitespace": False}, None),
        ),
    ],
    ids=str,
)
def test_long_texts_and_other_models(settings_of_model, small_tokenizer, tmp_path):
    tokenizer = small_tokenizer
    if settings_of_model:
        (tmp_path / "other.model").write_bytes(train_model(**settings_of_model))
        tokenizer = AlbertTokenizer(str(tmp_path / "other.model"))
    graph_tokenizer = make_graph_tokenizer(tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(lines):
        return graph_tokenizer.tokenize_with_offsets(lines), graph_tokenizer(lines, max_ids=7)

    @settings(deadline=None, derandomize=True, max_examples=20)
    @given(st.lists(LONG_TEXTS, min_size=3, max_size=4))
    @example([" the  old ", "\u2028the\x1c\told", "the¨ ¨old"])
    def check(texts):
        tokens, fronts = tokenize(texts)
        assert_same((tokenizer, lambda lines: tokens), texts)
        assert fronts.to_list() == [ids[:7] for ids in tokens.ids.to_list()]

    check()


def test_max_ids_keeps_the_front(pair):
    tokenizer, _ = pair
    texts = [*TEXTS, "the unable " * 1000]
    ids = make_graph_tokenizer(tokenizer)(tf.constant(texts), max_ids=7).to_list()
    assert ids == [ids[:7] for ids in tokenizer.encode_batch(texts)]


@pytest.mark.parametrize("unit", ["\0", "🙂", "かな", "한", "Ж\u0301", "ไ", "\0\u0301Σ"])
def test_sentencepiece_never_gets_many_unknown_characters(tmp_path, unit):
    model_file = tmp_path / "latin.model"
    train_vocabulary(["the old keeper of lights walks along windy shores"] * 9, str(model_file), 35)
    normalize = GraphNormalizer(True, classify_characters(model_file.read_bytes(), True))
    normalized = normalize(tf.constant(["the " + unit * 100_000 + " keeper"])).text[0].numpy()
    assert normalized.startswith(b"the ")
    assert normalized.endswith(b" keeper")
    assert len(normalized.decode()) < 300


@pytest.mark.parametrize("unit", ["wow ", "ﷺ", "½ "])
def test_only_the_needed_words_are_looked_at(small_tokenizer, unit):
    normalize = GraphNormalizer(True, classify_characters(small_tokenizer.vocabulary, True))
    text = tf.constant([unit * 100_000, "", "wow"])
    normalized = normalize(text, max_pieces=7).text.numpy()
    assert 7 <= len(normalized[0].split()) <= 30
    assert normalized[1:].tolist() == [b"", b"wow"]


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def official(request, official_model_file):
    tokenizer = AlbertTokenizer(official_model_file, lower_case=request.param)
    return tokenizer, in_graph(tokenizer)


REAL_TEXTS = [
    *("glue/CoLA/dev.tsv", "glue/SST-2/dev.tsv", "squad/dev-v2.0-half.json"),
    *(f"squad/xquad.{language}.json" for language in ("zh", "ar", "hi", "de")),
    *("text/british_fiction/Sterne_Tristram.txt", "text/peps/pep-3131.rst"),
]


def read_real_lines(lines_per_file=None, names=REAL_TEXTS):
    for relative in names:
        text = shared_path(f"data/{relative}").read_bytes().decode("utf-8", errors="replace")
        if relative.endswith(".json"):
            paragraphs = [p for article in json.loads(text)["data"] for p in article["paragraphs"]]
            questions = [qa["question"] for paragraph in paragraphs for qa in paragraph["qas"]]
            text = "\n".join([paragraph["context"] for paragraph in paragraphs] + questions)
        yield from text.split("\n")[:lines_per_file]


@pytest.mark.parametrize("lines_per_file", slow_except([120, 1600], 120))
def test_the_same_for_real_lines(official, lines_per_file):
    lines = list(read_real_lines(lines_per_file))
    assert len(lines) >= min(10_000, 8 * lines_per_file)
    assert assert_same(official, lines) <= 1


def test_the_same_for_real_lines_of_small_vocabularies(pair):
    assert_same(pair, list(read_real_lines(80)))
