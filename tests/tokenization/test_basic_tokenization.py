import json
import unicodedata

import pytest

from albert_tf.tokenization.basic_tokenization import (
    is_chinese,
    is_control,
    is_punctuation,
    is_whitespace,
    split_words,
)
from tests.helpers import shared_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\u3000", []),
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("don't a_b$3", ["don", "'", "t", "a", "_", "b", "$", "3"]),
        ("Żółć \u0130", ["zołc", "i"]),
        ("中文ab字", ["中", "文", "ab", "字"]),
        ("한국어 ひらがな", ["한국어", "ひらかな"]),
        ("nul\0l zero\u200bwidth\ufffd", ["null", "zerowidth"]),
        ("line\u2028end", ["line", "end"]),
        ("\u0308", []),
    ],
)
def test_words_in_lower_case(text, expected):
    words = split_words(text, lower_case=True)
    assert [unicodedata.normalize("NFC", word) for word in words] == expected


def test_case_and_accents_stay_where_asked():
    assert split_words("Été,Île", lower_case=False) == ["Été", ",", "Île"]


def test_equals_the_original():
    path = shared_path("golden/tokenization/wordpiece.json")
    for case in json.loads(path.read_bytes())["cases"]:
        assert split_words(case["text"], case["do_lower_case"]) == case["basic"]


@pytest.mark.parametrize(
    ("key", "is_of_kind"),
    [
        ("whitespace", is_whitespace),
        ("control", is_control),
        ("punctuation", is_punctuation),
        ("chinese", is_chinese),
    ],
)
def test_kinds_of_characters_equal_the_original(key, is_of_kind):
    golden = json.loads(shared_path("golden/tokenization/characters.json").read_bytes())
    found = [int(is_of_kind(chr(code_point))) for code_point in golden["code_points"]]
    assert found == [int(flag) for flag in golden[key]]
