import unicodedata

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.characters import characters_of_unicode
from albert_tf.tokenization.final_sigma import CAPITAL_SIGMAS, SIGMA
from albert_tf.tokenization.normalization import normalize_text, without_marks
from tests.tokenization.conftest import train_model

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


def test_the_characters_that_become_a_capital_sigma():
    becoming = filter(lambda char: SIGMA in without_marks(char), characters_of_unicode())
    assert set(becoming) == set(CAPITAL_SIGMAS)
    assert {without_marks(char) for char in CAPITAL_SIGMAS} == {SIGMA}


@pytest.fixture(scope="module", params=["published", "nfkc", "identity"])
def models(request, official_model_file, tmp_path_factory):
    """The vocabulary as it is, and tokenizers that normalise with it, by `lower_case`."""
    path = official_model_file
    if request.param != "published":
        path = tmp_path_factory.mktemp("model") / "small.model"
        path.write_bytes(train_model(normalization_rule_name=request.param))
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return model, {
        lower_case: AlbertTokenizer(str(path), lower_case) for lower_case in (True, False)
    }


# Greek, Hangul in pieces and as a whole, halves of pairs, what has several parts, blanks.
HARD_CHARACTERS = (
    "aΣσςϹ𝚺Ι'.:1ʰ\u00ad\u0345 \u2003\x1c¨½ﷺﬁİ℃ⓐéÉ\u0301\u0327\0\ud83d\u200b\ufeff"
    "한하각ㅎㅏㄴㅋㅠ\u1112\u1161\u11ab\uffbe\uffc2ガｶﾞか\u3099\u0bc6\u0bbeกำำ"
)


@pytest.mark.parametrize("lower_case", [True, False], ids=["lower", "cased"])
@pytest.mark.parametrize(
    "texts", [texts, st.text(HARD_CHARACTERS, max_size=12)], ids=["any", "hard"]
)
def test_a_model_with_normalisation_splits_text_like_normalised_text(models, texts, lower_case):
    model, tokenizers = models

    @settings(deadline=None, derandomize=True, max_examples=1000)
    @given(texts)
    @example("ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ' ΑΣ'Α 1Σ ΑΣΣ. ΑΣ\u00adΣ ΑΣ\0 ㎏Σ \u0301ΑΣ")
    def check(text):
        expected = model.decode(model.encode(normalize_text(text, lower_case)))
        tokenizer = tokenizers[lower_case]
        assert tokenizer.decode(tokenizer.encode(text)) == expected

    check()


@pytest.mark.parametrize("symbol", ["É", "e a", "\u200b", "ab", "한", "\u0bca"])
def test_symbols_of_the_user_are_found_in_normalised_text(tmp_path, symbol):
    path = tmp_path / "symbols.model"
    path.write_bytes(train_model(user_defined_symbols=[symbol]))
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = AlbertTokenizer(str(path))
    for text in (
        symbol,
        symbol.upper(),
        f"x{symbol}\u0301é {unicodedata.normalize('NFD', symbol)}",
    ):
        assert tokenizer.encode(text) == model.encode(normalize_text(text, True))


def test_extra_white_space_is_dropped_even_if_the_model_keeps_it(tmp_path):
    path = tmp_path / "spaces.model"
    path.write_bytes(train_model(remove_extra_whitespaces=False))
    tokenizer = AlbertTokenizer(str(path))
    assert tokenizer.encode("  the \u2003 old¨\n") == tokenizer.encode("the old")
