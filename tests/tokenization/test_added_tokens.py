"""Added tokens are cut out of texts as the library tokenizers does it, on all roads."""

import importlib.util
import json
import pickle
import shutil

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.model_folder import ModelFolder
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags
from tests.helpers import post_processor, refused, write_wordpiece

has_library = importlib.util.find_spec("tokenizers") is not None
LETTERS = "abcdeioυσς19é\u0301新冠vEs"
PIECES = ["[unused1]", "the", "covid", *LETTERS, *"[]-<>", *(f"##{x}" for x in LETTERS)]
# The added tokens, and whether each is found in normalised text.
TOKENS = {
    **{"covid": True, "Covid-19": True, "新冠": True, "co": True, "Σ.": True, "é": True},
    **{"[E1]": False, "[unused1]": False, "<e>": False, "Eva": False, ">": False, "the": False},
}
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*TOKENS, *map(str.lower, TOKENS), *map(str.upper, TOKENS)]),
        st.sampled_from(
            [
                "the ",
                "t\xadhe",
                " ",
                "\t",
                "ovid",
                "c o",
                "新 冠",
                "e\u0301",
                "\u0301",
                "\xad",
                "ΑΣ",
            ]
        ),
        st.text("aceEdivo[]1<>-. \1\3\2Σ新", max_size=4),
    ),
    max_size=6,
).map("".join)


def as_json(vocabulary, tokens, lower_case):
    """Returns the `tokenizer.json` that transformers writes of a BERT."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    found = {**dict.fromkeys(special, False), **tokens}
    first = len(vocabulary)
    new = [token for token in found if token not in vocabulary]
    ids = {**vocabulary, **{token: first + place for place, token in enumerate(new)}}
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    added = [
        {"id": ids[name], "content": name, **flags, "normalized": is_normalized, "special": False}
        for name, is_normalized in sorted(found.items(), key=lambda item: ids[item[0]])
    ]
    normalizer = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    return {
        **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": added},
        "normalizer": {"type": "BertNormalizer", "lowercase": lower_case, **normalizer},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": post_processor([*vocabulary]),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {**model, "max_input_chars_per_word": 100, "vocab": vocabulary},
    }


def make_folder(folder, tokens, lower_case=True):
    """Writes a vocabulary and a `tokenizer.json` with added tokens, and returns the vocabulary's path."""
    path = write_wordpiece(folder / "vocab.txt", PIECES)
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = {piece: id_ for id_, piece in enumerate(pieces)}
    content = as_json(vocabulary, tokens, lower_case)
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[True, False])
def tokenizer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("added")
    return WordPieceTokenizer(make_folder(folder, TOKENS, request.param), request.param)


def reload(tokenizer, folder):
    """Returns the tokenizer of the files that a folder of ours has, and these files."""
    contents = hugging_face_files(tokenizer, 512)
    (folder / "vocab.txt").write_bytes(contents["vocab.txt"])
    return WordPieceTokenizer(str(folder / "vocab.txt"), tokenizer.lower_case), contents


def test_all_roads_give_the_ids_of_the_library(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    again, contents = reload(tokenizer, folder)
    assert again.vocabulary_sha256 == tokenizer.vocabulary_sha256
    assert again.pieces == tokenizer.pieces
    graph = make_graph_tokenizer(pickle.loads(pickle.dumps(tokenizer)))
    in_graph = tf.function(graph, input_signature=[tf.TensorSpec([None], tf.string)])
    theirs = []
    if has_library:
        import tokenizers

        original = f"{tokenizer.vocabulary_file.removesuffix('vocab.txt')}tokenizer.json"
        theirs = [
            tokenizers.Tokenizer.from_file(original),
            tokenizers.Tokenizer.from_str(contents["tokenizer.json"].decode()),
        ]

    @settings(deadline=None, derandomize=True, max_examples=200)
    @given(TEXTS)
    def check(text):
        ids = tokenizer.encode(text)
        assert tokenizer.encode_with_offsets(text)[0] == ids
        assert again.encode(text) == ids
        assert in_graph([text.encode()]).to_list() == [ids]
        assert [tokenizer.pieces[id_] for id_ in ids] == tokenizer.tokenize(text)
        # Their lower case has no final sigma, which the `tokenizer.json` of ours adds.
        for one in theirs[1:] if "Σ" in text else theirs:
            assert one.encode(text, add_special_tokens=False).ids == ids

    check()


def test_offsets_are_the_places_of_tokens(tokenizer):
    text = "the [E1]Covid-19é"
    ids, spans = tokenizer.encode_with_offsets(text)
    found = {
        tokenizer.pieces[id_]: text[slice(*span)] for id_, span in zip(ids, spans, strict=True)
    }
    assert found["[E1]"] == "[E1]"
    assert found["Covid-19"] == "Covid-19"
    assert found["é"] == "é"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"added_tokens.json": {"covid": 9}},
            "added_tokens.json: the file has the token 'covid' with the id 9, which is that of 'a' in",
        ),
        (
            {"added_tokens.json": {"x": 10, "y": 10}},
            "the token 'y' with the id 10, which is that of 'x' in .*; expected 11, the id of its line",
        ),
        (
            {"added_tokens.json": {"a": 10}},
            "the token 'a' with the id 10, which follows 9 in .*; expected 9, the id of its line there",
        ),
        *(
            (
                {"added_tokens.json": {token: 10}},
                "has the token .*, which no line of a vocabulary can",
            )
            for token in ("\t", "a\tb", "\n", "a\nb", "\ud800")
        ),
        (
            {"added_tokens.json": {"a": 9, "new": 70}},
            "the token 'new' with the id 70, which follows",
        ),
        (
            {"special_tokens_map.json": {"additional_special_tokens": ["[E1]"]}},
            r"key 'additional_special_tokens' has the token '\[E1\]', whose id no file says; exp",
        ),
        (
            {
                "added_tokens.json": {"[E1]": 10},
                "tokenizer_config.json": {"added_tokens_decoder": {"11": {"content": "[E1]"}}},
            },
            r"has the token '\[E1\]', and another file says it otherwise: ids \[10, 11\]",
        ),
        (
            {
                "tokenizer_config.json": {
                    "added_tokens_decoder": {"10": {"content": "x", "single_word": True}}
                }
            },
            "key 'added_tokens_decoder' has the token 'x', a single_word; expected a token that words",
        ),
        (
            {"added_tokens.json": {"x": -1}},
            "the token 'x' with the id -1, which is no special piece",
        ),
        (
            {"added_tokens.json": {"x": "10"}},
            "the token 'x' with the id 10, which is no special piece",
        ),
        (
            {"added_tokens.json": {"New York": 10}},
            "the added token 'New York' is not supported; exp",
        ),
        (
            {"added_tokens.json": {"Ab": 10, "aB": 11}},
            "the added token 'aB' is another piece's text",
        ),
        ({"added_tokens.json": {"##x": 10}}, "the added token '##x' is another piece's text, or"),
        (
            {"special_tokens_map.json": {"colour": "[E1]"}},
            r"special_tokens_map\.json: key 'colour' is '\[E1\]', and not known",
        ),
        (
            {"tokenizer_config.json": {"never_split": ["x"]}},
            "key 'never_split' has the token 'x', wh",
        ),
    ],
)
def test_tokens_that_are_not_supported_are_named(tmp_path, files, message):
    path = write_wordpiece(tmp_path / "vocab.txt", [*"cdeba"])
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    with refused(message):
        WordPieceTokenizer(path)
    with refused(message):
        vocabulary_flags(ModelFolder(str(tmp_path)))
        WordPieceTokenizer(path)


def test_flags_come_from_the_file_that_says_them(tmp_path):
    path = write_wordpiece(tmp_path / "vocab.txt", [*"ab"])
    (tmp_path / "added_tokens.json").write_text('{"Ab": 7, "[E1]": 8, "Ba": 9}')
    (tmp_path / "special_tokens_map.json").write_text('{"additional_special_tokens": ["[E1]"]}')
    flags = {"9": {"content": "Ba", "normalized": False, "special": False, "lstrip": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": flags}))
    tokenizer = WordPieceTokenizer(path)
    assert (tokenizer.added.normalized, tokenizer.added.raw) == ({"ab": 7}, {"[E1]": 8, "Ba": 9})
    assert tokenizer.vocab_size == 10
    with refused("has added tokens, which are the last pieces; expected a vocabulary without"):
        tokenizer.with_pieces(["x"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("special_tokens_map.json", {"entity_token": "[E1]"}),
        ("special_tokens_map.json", {"entity_token": {"content": "[E1]", "normalized": False}}),
        ("tokenizer_config.json", {"entity_token": "[E1]"}),
        ("tokenizer_config.json", {"model_specific_special_tokens": {"entity_token": "[E1]"}}),
        ("tokenizer_config.json", {"extra_special_tokens": {"entity_token": "[E1]"}}),
    ],
)
def test_the_token_of_a_role_of_the_author_is_cut_out(tmp_path, name, content):
    path = write_wordpiece(tmp_path / "vocab.txt", ["[E1]", *"ab"])
    (tmp_path / name).write_text(json.dumps(content))
    assert vocabulary_flags(ModelFolder(str(tmp_path)))["do_lower_case"] is True
    assert WordPieceTokenizer(path).encode("a [E1] b") == [6, 5, 7]


def test_a_sentencepiece_vocabulary_has_none(tmp_path, small_model_file):
    folder = ModelFolder(str(tmp_path))
    shutil.copy(small_model_file, tmp_path / "spiece.model")
    (tmp_path / "added_tokens.json").write_text('{"covid": 300}')
    with refused(
        "the token 'covid' with the id 300, which is no special piece of spiece.model; added"
    ):
        vocabulary_flags(folder)
    assert AlbertTokenizer(small_model_file).vocab_size
