"""What is compared of an answer: its tokens, by SQuAD's rules, or by MLQA's for the answer's language.

Both put a text into lower case and drop punctuation, articles and extra white space. MLQA's rules
(Lewis et al. 2020, https://arxiv.org/abs/1910.07475) know the punctuation and the articles of each
language, and make a token of each Chinese character, as Chinese has no spaces between words. They follow
`mlqa_evaluation_v1.py`. For Japanese, which MLQA lacks, kana are tokens of their own, too.
"""

import functools
import re
import string
import sys
import unicodedata
from typing import NamedTuple


class AnswerRule(NamedTuple):
    """What of an answer is no token, and which characters are tokens by themselves.

    Attributes:
        articles: regular expression of the words to drop; empty for none.
        characters: regular expression of the tokens of one character; empty for none.
        all_punctuation: whether all of Unicode is dropped, or ASCII's alone.
    """

    articles: str = ""
    characters: str = ""
    all_punctuation: bool = True


_ENGLISH = r"\b(a|an|the)\b"
_GERMAN = r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"
_CHINESE = "[\u4e00-\u9fa5]"
# Kanji, also rare ones and 々, 〆, 〇, and kana.
_JAPANESE = "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9f]"

# Name of the rules, as the flag has it -> the rules; those of MLQA have the codes of languages.
ANSWER_RULES = {
    # The scripts keep the quotation marks, dashes and full stops of other languages.
    "squad": AnswerRule(_ENGLISH, all_punctuation=False),
    # Theirs has an alternative that never matches.
    "ar": AnswerRule("ال"),
    "de": AnswerRule(_GERMAN),
    "en": AnswerRule(_ENGLISH),
    "es": AnswerRule(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "hi": AnswerRule(),
    "ja": AnswerRule(characters=_JAPANESE),
    "vi": AnswerRule(r"\b(của|là|cái|chiếc|những)\b"),
    "zh": AnswerRule(characters=_CHINESE),
}


def normalize_answer(text: str, rules: str = "squad") -> str:
    """Returns the tokens of an answer with single spaces between them, by one of `ANSWER_RULES`."""
    rule = ANSWER_RULES[rules]
    plain = text.lower().translate(_without_punctuation(rule.all_punctuation))
    if rule.articles:
        plain = re.sub(rule.articles, " ", plain)
    if rule.characters:
        plain = re.sub(rule.characters, r" \g<0> ", plain)
    return " ".join(plain.split())


@functools.cache
def _without_punctuation(is_all: bool) -> dict[int, None]:
    points = range(sys.maxunicode + 1) if is_all else ()
    marks = (chr(point) for point in points if unicodedata.category(chr(point)).startswith("P"))
    return dict.fromkeys(map(ord, (*marks, *string.punctuation)))
