"""A change of the rule of lower case reaches every form of the tokenizers, and the notes of folders."""

import functools
import json
import sys

import pytest
import tensorflow as tf

from albert_tf.model_folder import ModelFolder
from albert_tf.sources import shipped_names
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files, vocabulary_contents
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags
from tests.helpers import ROOT, refused, write_wordpiece

TEXT = "Straße STRAẞE ΟΔΟΣ"
PIECES = [*"straeοδς", *(f"##{letter}" for letter in "straeοδς")]


@pytest.fixture(params=["sentencepiece", "wordpiece"])
def tokenizer(request, tmp_path, small_model_file):
    if request.param == "sentencepiece":
        return AlbertTokenizer(small_model_file)
    return WordPieceTokenizer(write_wordpiece(tmp_path / "vocab.txt", PIECES))


def _tokenization_modules():
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("albert_tf.tokenization.")
    ]


def _clear_caches():
    for module in _tokenization_modules():
        for value in vars(module).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()


@pytest.fixture
def sharp_s_is_two_letters(monkeypatch):
    for module in _tokenization_modules():
        if hasattr(module, "to_lower"):
            monkeypatch.setattr(module, "to_lower", lambda text: text.lower().replace("ß", "ss"))
    _clear_caches()
    yield
    monkeypatch.undo()
    _clear_caches()


def test_another_rule_is_that_of_python_graph_and_json(tokenizer, sharp_s_is_two_letters):
    assert tokenizer.encode(TEXT) == tokenizer.encode("strasse strasse οδος")
    assert tokenizer.unk_id not in tokenizer.encode(TEXT)
    graph = make_graph_tokenizer(tokenizer)
    assert graph(tf.constant([TEXT])).to_list() == [tokenizer.encode(TEXT)]
    content = hugging_face_files(tokenizer, 64)["tokenizer.json"]
    normalizers = json.loads(content)["normalizer"]["normalizers"]
    (place,) = (i for i, one in enumerate(normalizers) if one["type"] == "Lowercase")
    rules = {one["pattern"]["Regex"]: one["content"] for one in normalizers[:place][-2:]}
    assert rules == {"ß": "ss", "ẞ": "ss"}
    tokenizers = pytest.importorskip("tokenizers", reason="needs the group parity: tokenizers")
    theirs = tokenizers.Tokenizer.from_str(content.decode())
    assert theirs.encode(TEXT, add_special_tokens=False).ids == tokenizer.encode(TEXT)


def _write_folder(folder, tokenizer):
    for name, content in vocabulary_contents(tokenizer).items():
        (folder / name).write_bytes(content)
    return str(folder)


def test_a_folder_with_other_rules_is_refused(tokenizer, tmp_path, request):
    folder = _write_folder(tmp_path, tokenizer)
    assert vocabulary_flags(ModelFolder(folder))["do_lower_case"] is True
    request.getfixturevalue("sharp_s_is_two_letters")
    with refused(
        f"^{folder}/tokenizer_config.json: key 'albert_tf' notes other rules for letters than this "
        "version .*; expected the version that wrote it; --do_lower_case=true takes the rules"
    ):
        vocabulary_flags(ModelFolder(folder))
    assert vocabulary_flags(ModelFolder(folder), lower_case=True)["do_lower_case"] is True
    # It keeps case, so the rule does not matter.
    cased = type(tokenizer)(tokenizer.vocabulary_file, lower_case=False)
    folder = _write_folder(tmp_path, cased)
    assert vocabulary_flags(ModelFolder(folder))["do_lower_case"] is False


def test_a_folder_without_a_note_is_read_and_a_damaged_note_is_named(tmp_path, small_tokenizer):
    folder = _write_folder(tmp_path, small_tokenizer)
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"do_lower_case": true, "albert_tf": {"keep_accents": false}}')
    with refused(f"^{path}: albert_tf.rules is missing"):
        vocabulary_flags(ModelFolder(folder))
    path.write_text('{"do_lower_case": true}')
    assert vocabulary_flags(ModelFolder(folder))["do_lower_case"] is True


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_models_note_the_present_rules(name):
    folder = ROOT / "albert_tf" / "pretrained" / name
    contents = vocabulary_contents(AlbertTokenizer(str(folder / "spiece.model")))
    assert (folder / "tokenizer_config.json").read_bytes() == contents["tokenizer_config.json"]


def test_the_rule_stands_once():
    folder = ROOT / "albert_tf" / "tokenization"
    found = {path.name for path in folder.glob("*.py") if ".lower()" in path.read_text()}
    # The second one writes the value of a flag.
    assert found == {"lower_case.py", "rule_notes.py"}
