import itertools
import json
import os
import subprocess
import sys
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.tokenization import AlbertTokenizer, train_vocabulary
from albert_tf.tokenization.characters import classify_characters
from albert_tf.tokenization.graph_normalization import GraphNormalizer
from albert_tf.tokenization.in_graph import GraphAlbertTokenizer
from tests.helpers import assert_agrees, shared_path
from tests.parity.tokenization import compare_graph, read_lines
from tests.tokenization.conftest import train_model

TEXTS = [
    "",
    "  ",
    "The old keeper\twalks,\u00a0again.\n",
    "Élève naïve ﬁne ½ ①②③ ｆｕｌｌ",
    "39, 1,000, a5, and 7,5,",
    "ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ' ΑΣ'Α 1Σ ΑΣΣ. ΑΣ\u00adΣ",
    "İstanbul IJ ẞ ǅ",
    "nul\0 stays \x85 \x1c \u2028 end\ufeff",
    "[CLS] <pad> ▁the ▁",
    "한국어 中文 ไทย हिन्दी العربية 😀 \U000e0100 \U00030000",
]


def as_function(tokenizer: AlbertTokenizer) -> tf.types.experimental.PolymorphicFunction:
    return tf.function(
        GraphAlbertTokenizer(tokenizer).tokenize_with_offsets,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )


def assert_same(tokenizer, tokenize, lines):
    """Compares ids and offsets of every line, text or bytes, and counts other, equally probable splits.

    The SentencePiece in tensorflow_text and Python's can choose different ones.
    """
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.serialized_model)
    ties = 0
    received = rows_of(tokenize(tf.constant(lines, tf.string)))
    for line, (ids, spans) in zip(lines, received, strict=True):
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        expected_ids, expected_spans = tokenizer.encode_with_offsets(text)
        if ids == expected_ids:
            assert spans == expected_spans, repr(text)
            continue
        ties += 1
        scores, expected_scores = model.get_score(ids), model.get_score(expected_ids)
        assert sum(scores) == pytest.approx(sum(expected_scores), rel=1e-6), repr(text)
    return ties


def rows_of(tokens):
    """Returns (ids, [(start, end), ...]) of each line, as `encode_with_offsets` does."""
    ids, starts, ends = (tensor.to_list() for tensor in tokens)
    return [
        (ids_of_row, list(zip(*offsets, strict=True)))
        for ids_of_row, *offsets in zip(ids, starts, ends, strict=True)
    ]


@pytest.fixture(scope="module")
def graph_tokenize(small_tokenizer):
    return as_function(small_tokenizer)


def test_the_same_ids_and_offsets(small_tokenizer, graph_tokenize):
    tokens = graph_tokenize(TEXTS)
    assert [tensor.dtype for tensor in tokens] == [tf.int32, tf.int64, tf.int64]
    assert assert_same(small_tokenizer, graph_tokenize, TEXTS) == 0
    assert rows_of(graph_tokenize(tf.constant([], tf.string))) == []


def test_call_returns_the_ids_only(small_tokenizer):
    ids = GraphAlbertTokenizer(small_tokenizer)(tf.constant(TEXTS))
    assert ids.to_list() == small_tokenizer.encode_batch(TEXTS)


def test_a_model_that_does_not_collapse_spaces_itself(tmp_path):
    model_file = tmp_path / "spaces.model"
    model_file.write_bytes(train_model(remove_extra_whitespaces=False))
    tokenizer = AlbertTokenizer(str(model_file))
    texts = [" the  old ", "\u2028the\x1c\told", "the¨ ¨old"]
    assert_same(tokenizer, as_function(tokenizer), texts)


@pytest.mark.parametrize(
    "texts",
    [
        st.lists(st.text(st.characters(codec="utf-8"))),
        # Where offsets move, and where sigma depends on its neighbours.
        st.lists(st.text("ab5½ﬁé\u0301\u0327¨ \u2003\x1c, 中", max_size=12), min_size=20),
        st.lists(st.text("aΣσς'.:1 \u00ad\u0345ʰ", max_size=9), min_size=20),
    ],
    ids=["any", "offsets", "sigma"],
)
def test_the_same_for_any_text(small_tokenizer, graph_tokenize, texts):
    @settings(deadline=None, derandomize=True, max_examples=40)
    @given(texts)
    def check(texts):
        assert_same(small_tokenizer, graph_tokenize, texts)

    check()


# Known and unknown, dropped before SentencePiece and by it, parts of others, and one that becomes 18.
UNITS = [
    *("a", "the ", "9,", "x", "Σ", "ΑΣ", "\u0301", "e\u0301", "İ", " ", "\u2003\t", "¨", "▁"),
    *(
        "\x00",
        "🙂",
        "か",
        "か\u3099",
        "한",
        "\u1112\u1161",
        "\u0bc6",
        "\u0bc6\u0bbe",
        "漢",
        "ﷺ",
        "⑽",
    ),
    *("\u00ad", "\u200b", "\u200d", "\ufeff", "\ufffd", "\x01", "\U000e0100"),
]
LONG_TEXTS = st.lists(
    st.tuples(st.sampled_from(UNITS), st.sampled_from([1, 1, 2, 9, 300])), max_size=6
).map(lambda parts: "".join(unit * count for unit, count in parts))


@pytest.fixture(
    scope="module",
    params=[
        {},
        pytest.param(
            {"normalization_rule_name": "nmt_nfkc", "user_defined_symbols": ["\u0bca", "한"]},
            marks=pytest.mark.slow,
        ),
        {"normalization_rule_name": "identity", "split_by_whitespace": False},
        pytest.param({"user_defined_symbols": ["e a", "\u200b"]}, marks=pytest.mark.slow),
        {"byte_fallback": True, "vocab_size": 450},
    ],
    ids=["small", "composed", "identity", "symbols", "bytes"],
)
def any_tokenizer(request, small_tokenizer, tmp_path_factory):
    if not request.param:
        return small_tokenizer
    model_file = tmp_path_factory.mktemp("vocabulary") / "other.model"
    model_file.write_bytes(train_model(**request.param))
    return AlbertTokenizer(str(model_file))


def test_long_texts(any_tokenizer):
    graph_tokenizer = GraphAlbertTokenizer(any_tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(lines):
        return graph_tokenizer.tokenize_with_offsets(lines), graph_tokenizer(lines, max_ids=7)

    @settings(deadline=None, derandomize=True, max_examples=20)
    @given(st.lists(LONG_TEXTS, min_size=3, max_size=4))
    def check(texts):
        tokens, fronts = tokenize(texts)
        assert_same(any_tokenizer, lambda lines: tokens, texts)
        assert fronts.to_list() == [ids[:7] for ids in tokens.ids.to_list()]

    check()


@pytest.mark.parametrize("unit", ["\0", "🙂", "かな", "한", "Ж\u0301", "ไ", "\0\u0301Σ"])
def test_sentencepiece_never_gets_many_unknown_characters(tmp_path, unit):
    model_file = tmp_path / "latin.model"
    train_vocabulary(["the old keeper of lights walks along windy shores"] * 9, str(model_file), 35)
    model = model_file.read_bytes()
    normalize = GraphNormalizer(True, classify_characters(model, True))
    normalized = (
        normalize(tf.constant(["the " + unit * 100_000 + " keeper"])).text[0].numpy().decode()
    )
    assert normalized.startswith("the ")
    assert normalized.endswith(" keeper")
    assert len(normalized) < 300


@pytest.mark.parametrize("unit", ["wow ", "ﷺ", "½ "])
def test_only_the_needed_words_are_looked_at(small_tokenizer, unit):
    normalize = GraphNormalizer(True, classify_characters(small_tokenizer.serialized_model, True))
    text = tf.constant([unit * 100_000, "", "wow"])
    normalized = normalize(text, max_pieces=7).text.numpy()
    assert 7 <= len(normalized[0].split()) <= 30
    assert normalized[1:].tolist() == [b"", b"wow"]


def test_every_character_that_normalisation_knows(small_tokenizer, graph_tokenize):
    known = [
        char
        for char in map(chr, itertools.chain(range(0xD800), range(0xE000, sys.maxunicode + 1)))
        if char.isspace()
        or char.lower() != char
        or unicodedata.combining(char)
        or not unicodedata.is_normalized("NFKD", char)
    ]
    assert_same(small_tokenizer, graph_tokenize, [f"ΑΣ{char}b{char} c" for char in known])


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.binary()))
@example([b"\xff\xfe the old", b"cut \xe4\xb8", b"half \xed\xa0\x80 pair", b"\xe4\xc2\xa0s"])
def test_malformed_bytes(small_tokenizer, graph_tokenize, lines):
    assert_same(small_tokenizer, graph_tokenize, lines)


class TextModel(tf.Module):
    """Stands for an exported model: text in, ids and offsets out."""

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        self.graph_tokenizer = GraphAlbertTokenizer(tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        tokens = self.graph_tokenizer.tokenize_with_offsets(text)
        return {
            name: tensor.to_tensor(default_value=-1) for name, tensor in tokens._asdict().items()
        }


SERVE = """
import json, sys
import tensorflow as tf, tensorflow_text
folder, texts = sys.argv[1], json.loads(sys.argv[2])
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    signature = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def["serve"]
    ids = session.run(signature.outputs["ids"].name, {signature.inputs["text"].name: texts})
print(json.dumps(ids.tolist()))
"""


@pytest.mark.slow
def test_a_saved_model_gives_the_same_ids(tmp_path, small_tokenizer):
    model = TextModel(small_tokenizer)
    tf.saved_model.save(model, str(tmp_path), signatures={"serve": model.serve})
    loaded = tf.saved_model.load(str(tmp_path))
    served = loaded.signatures["serve"](tf.constant(TEXTS))["ids"]
    assert _rows(served.numpy().tolist()) == small_tokenizer.encode_batch(TEXTS)

    # As TF Serving loads it: through a session, in a process without our code, and where the
    # locale says that the lower case of I is ı.
    result = subprocess.run(
        [sys.executable, "-c", SERVE, str(tmp_path), json.dumps(TEXTS)],
        env=os.environ | {"LC_ALL": "tr_TR.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=True,
        text=True,
    )
    rows = json.loads(result.stdout.splitlines()[-1])
    assert _rows(rows) == small_tokenizer.encode_batch(TEXTS)


def _rows(padded: list[list[int]]) -> list[list[int]]:
    return [[id_ for id_ in row if id_ != -1] for row in padded]


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def official(request, official_model_file):
    tokenizer = AlbertTokenizer(official_model_file, lower_case=request.param)
    return tokenizer, as_function(tokenizer)


def test_equals_the_original(official):
    tokenizer, _ = official
    key = "lower" if tokenizer.lower_case else "cased"
    assert_agrees(compare_graph(shared_path("golden"), tokenizer, key))


def test_offsets_of_the_golden_lines(official):
    tokenizer, graph_tokenize = official
    lines = read_lines(shared_path("golden"))
    ties = assert_same(tokenizer, graph_tokenize, [line["text"] for line in lines])
    assert ties == 0


@pytest.mark.parametrize(
    "lines_per_file", [200, pytest.param(1600, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_the_same_ids_and_offsets_of_real_lines(official, lines_per_file):
    tokenizer, graph_tokenize = official
    lines = [line for path in REAL_TEXTS for line in read_real_lines(path)[:lines_per_file]]
    assert len(lines) >= min(10_000, 8 * lines_per_file)
    ties = assert_same(tokenizer, graph_tokenize, lines)
    assert ties <= 1


REAL_TEXTS = [
    "glue/CoLA/dev.tsv",
    "glue/SST-2/dev.tsv",
    "squad/dev-v2.0-half.json",
    "squad/xquad.zh.json",
    "squad/xquad.ar.json",
    "squad/xquad.hi.json",
    "squad/xquad.de.json",
    "text/british_fiction/Sterne_Tristram.txt",
    "text/peps/pep-3131.rst",
]


def read_real_lines(relative: str) -> list[str]:
    text = shared_path(f"data/{relative}").read_bytes().decode("utf-8", errors="replace")
    if relative.endswith(".json"):
        text = "\n".join(_contexts(json.loads(text)))
    return text.split("\n")[:1600]


def _contexts(squad: dict) -> list[str]:
    paragraphs = [paragraph for article in squad["data"] for paragraph in article["paragraphs"]]
    questions = [qa["question"] for paragraph in paragraphs for qa in paragraph["qas"]]
    return [paragraph["context"] for paragraph in paragraphs] + questions
