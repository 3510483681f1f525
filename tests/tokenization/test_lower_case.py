"""A change of the rule of lower case reaches every form of the tokenizers, and the notes of folders."""

import functools
import json
import sys
import unicodedata

import pytest
import tensorflow as tf

from albert_tf.model_folder import ModelFolder
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer, lower_case
from albert_tf.tokenization.character_tables import characters_of_unicode
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files, vocabulary_contents
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags
from tests.helpers import ROOT, refused, write_wordpiece
from tests.tokenization.conftest import ALPHABETS
from tests.tokenization.shipped_notes import shipped_notes

# Letters that hardly any text has, and what an invented rule makes of them: two letters, and another one.
INVENTED = {"ƣ": "oi", "ŋ": "n"}
LETTERS = "".join(ALPHABETS)
PIECES = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]


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
def change_rule(monkeypatch):
    """Returns a function that adds the invented rule to the present one."""
    present = lower_case.to_lower

    def changed(text):
        text = present(text)
        for letter, new in INVENTED.items():
            text = text.replace(letter, new)
        return text

    def change():
        for module in _tokenization_modules():
            if hasattr(module, "to_lower"):
                monkeypatch.setattr(module, "to_lower", changed)
        _clear_caches()

    yield change
    monkeypatch.undo()
    _clear_caches()


def _departures():
    """Returns the characters that the rule lower-cases otherwise than Unicode, and what they become."""
    lowered = {char: lower_case.to_lower(char) for char in characters_of_unicode()}
    return {char: lower for char, lower in lowered.items() if lower != char.lower()}


def test_another_rule_is_that_of_python_graph_and_json(tokenizer, change_rule):
    """So is the present one, of which each letter that is not Unicode's is tried, too."""
    change_rule()
    assert {*INVENTED, *"".join(INVENTED).upper()} <= set(_departures())
    texts = ["Straße STRAẞE ΟΔΟΣ"]
    for char, lower in _departures().items():
        texts += [f"la{char}e", f"{char} {char}{char}", f"{char}\u0301 ½{char}"]
        texts += [f"Α{char}Σ {char}Σ {char}Σα Σ{char}", char * 100, char * 101]
        if unicodedata.is_normalized("NFKD", char):  # others are decomposed before
            assert tokenizer.encode(f"la{char}e") == tokenizer.encode(f"la{lower}e")
            assert tokenizer.unk_id not in tokenizer.encode(f"la{char}e")
    expected = [tokenizer.encode(text) for text in texts]
    graph = make_graph_tokenizer(tokenizer)
    assert graph(tf.constant(texts)).to_list() == expected
    content = hugging_face_files(tokenizer, 64)["tokenizer.json"]
    normalizers = json.loads(content)["normalizer"]["normalizers"]
    (place,) = (i for i, one in enumerate(normalizers) if one["type"] == "Lowercase")
    before = [one for one in normalizers[:place] if one["type"] == "Replace"]
    replaced = {one["pattern"].get("Regex"): one["content"] for one in before}
    assert _departures().items() <= replaced.items()
    tokenizers = pytest.importorskip("tokenizers", reason="needs the group parity: tokenizers")
    theirs = tokenizers.Tokenizer.from_str(content.decode())
    received = theirs.encode_batch(texts, add_special_tokens=False)
    assert [encoding.ids for encoding in received] == expected


def _write_folder(folder, tokenizer):
    for name, content in vocabulary_contents(tokenizer).items():
        (folder / name).write_bytes(content)
    return str(folder)


def test_a_folder_with_other_rules_is_refused(tokenizer, tmp_path, change_rule):
    folder = _write_folder(tmp_path, tokenizer)
    assert vocabulary_flags(ModelFolder(folder))["do_lower_case"] is True
    change_rule()
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


def test_shipped_models_note_the_present_rules():
    """`python -m tests.tokenization.shipped_notes` writes the notes after a change of the rules."""
    for path, content in shipped_notes():
        assert path.read_bytes() == content, path


def test_the_rule_stands_once():
    folder = ROOT / "albert_tf" / "tokenization"
    found = {path.name for path in folder.glob("*.py") if ".lower()" in path.read_text()}
    # The second one writes the value of a flag.
    assert found == {"lower_case.py", "rule_notes.py"}
