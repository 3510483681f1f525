import unicodedata

import pytest

from albert_tf.tokenization.basic_tokenization import (
    split_words,
)
from tests.helpers import assert_agrees, shared_path
from tests.parity.tokenization import compare_characters


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


def test_kinds_of_characters_equal_the_original():
    assert_agrees(compare_characters(shared_path("golden")))
