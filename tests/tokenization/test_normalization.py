import itertools
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.tokenization.normalization import normalize_text, original_spans

texts = st.text(st.characters(codec="utf-8"))


def test_half_a_pair_becomes_the_replacement_character():
    assert normalize_text("half \ud83d pair", lower_case=True) == "half \ufffd pair"


@settings(deadline=None)
@given(texts)
@example("a ¨ b")
@example("Σ ΑΣ")
def test_no_mark_no_capital_no_line_end_is_left(text):
    normalized = normalize_text(text, lower_case=True)
    assert not any(unicodedata.combining(char) for char in normalized)
    assert normalized == normalized.lower()
    assert len(normalized.splitlines()) <= 1
    normalized.encode("utf-8")
    # A second time changes nothing but spaces.
    assert normalize_text(normalized, lower_case=True) == " ".join(normalized.split())


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" \t", []),
        ("  ab", ["a", "b"]),
        ("a \n\u2003b  ", ["a", " \n\u2003", "b"]),
        ("e\u0301\u0327t\u0301 u", ["e\u0301\u0327", "t\u0301", " ", "u"]),
        ("\u0301a", ["a"]),
        ("a \u0301 b", ["a", " \u0301", " ", "b"]),
        ("½ﬁ", ["½", "½", "½", "ﬁ", "ﬁ"]),
        ("한", ["한"] * 3),
        ("x\ud83dy", ["x", "\ud83d", "y"]),
    ],
)
def test_where_characters_come_from(text, parts):
    assert [text[start:end] for start, end in original_spans(text)] == parts


@settings(deadline=None)
@given(texts)
@example("İΣ ¨ \x1c\x85")
def test_every_character_comes_from_somewhere(text):
    for lower_case, keep_accents in itertools.product([True, False], repeat=2):
        spans = original_spans(text, lower_case, keep_accents)
        assert len(spans) == len(normalize_text(text, lower_case, keep_accents))
        assert all(0 <= start < end <= len(text.rstrip()) for start, end in spans)
        distinct = sorted(set(spans))
        assert spans == sorted(spans)
        # From the first to the end of the text without a gap.
        assert [start for start, _ in distinct[1:]] == [end for _, end in distinct[:-1]]
