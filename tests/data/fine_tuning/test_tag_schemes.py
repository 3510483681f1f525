"""The schemes of tags in files give the same spans, and the scores of seqeval; others are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES

from albert_tf.data.fine_tuning.tag_schemes import read_tags
from albert_tf.data.fine_tuning.tagged_text import read_tagged
from albert_tf.evaluation.labelled_spans import ScoredSpan, score_entities
from tests.data.fine_tuning.forms import FORMS, in_form
from tests.helpers import refused

# What each scheme writes for a span's first word, further ones, last one, and its only one.
PREFIXES = {
    **{"BIO": "BIIB", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES", "BMEWO": "BMEW"},
    **{"IO": "IIII", "plain": "IIII"},
}
SPELLINGS = ("{0}-{1}", "{0}_{1}", "{1}-{0}", "{1}_{0}")
LABELS = st.sampled_from(["X", "Y-z"])
SPANS = st.lists(st.tuples(LABELS | st.none(), st.integers(1, 4)), min_size=1, max_size=6)


def tags_of(spans, scheme, spelling=SPELLINGS[0]):
    tags, before = [], None
    for label, length in spans:
        if not label:
            prefixes = ""
        elif scheme == "IOB1":
            prefixes = ["B" if label == before else "I", *"I" * (length - 1)]
        else:
            first, inner, last, only = PREFIXES[scheme]
            prefixes = only if length == 1 else [first, *inner * (length - 2), last]
        if not label:
            tags += ["O"] * length
        elif scheme == "plain":
            tags += [label] * length
        else:
            tags += [spelling.format(prefix, label) for prefix in prefixes]
        before = label
    return tags


def joined(spans):
    """Returns spans as schemes without a sign for a beginning have them."""
    found = []
    for label, length in spans:
        if found and found[-1][0] == label:
            length += found.pop()[1]
        found.append((label, length))
    return found


def read(tags, labels=("X", "Y-z"), has_classes=False):
    row = {"tokens": ["word"] * len(tags), "ner_tags": tags}
    return read_tagged([row], "dev", labels, has_classes)


@settings(deadline=None, derandomize=True)
@given(SPANS, st.sampled_from(SPELLINGS), st.booleans())
def test_all_schemes_of_tags_give_the_same_spans(spans, spelling, in_lower_case):
    expected = read(tags_of(spans, "BIO"))
    for scheme in ("BIO", "BIOES", "BILOU", "BMES", "BMEWO", "IOB1"):
        assert read(tags_of(spans, scheme)) == expected
        written = tags_of(spans, scheme, spelling)
        if not {tag[0] for tag in tags_of(spans, scheme)} & {*"BI"}:
            continue  # rather labels such as "e-mail"
        if in_lower_case:
            parts = [tag.partition("-") for tag in tags_of(spans, scheme)]
            written = [
                spelling.format(prefix.lower(), label) if label else "o"
                for prefix, _, label in parts
            ]
        assert read(written) == expected
    expected = read(tags_of(joined(spans), "BIO"))
    for scheme in ("IO", "plain"):
        assert read(tags_of(spans, scheme)) == expected


@settings(deadline=None, derandomize=True)
@given(SPANS)
def test_prefixes_alone_are_spans_of_one_label(spans):
    spans = [(label and "SPAN", length) for label, length in spans]
    expected = read(tags_of(spans, "BIO"), None)
    for scheme in ("BIO", "BIOES", "BILOU", "BMES", "BMEWO"):
        tags = [tag.partition("-")[0] for tag in tags_of(spans, scheme)]
        if {*tags} & {*"BI"}:
            assert read(tags, None) == expected


# What seqeval calls each scheme, and its prefixes there.
SEQEVAL = {
    **{"BIO": (IOB2, {}), "BIOES": (IOBES, {}), "BILOU": (BILOU, {}), "IOB1": (IOB1, {})},
    **{"BMES": (IOBES, {"M": "I"}), "BMEWO": (IOBES, {"M": "I", "W": "S"}), "IO": (IOB1, {})},
}


def cut(spans, count):
    """Returns the spans of the first words, and words in no span up to a number of words."""
    found = []
    for label, length in [*spans, (None, count)]:
        length = min(length, count - sum(length for _, length in found))
        found += [(label, length)] * (length > 0)
    return found


@pytest.mark.parametrize("scheme", [*SEQEVAL, "plain"])
@settings(deadline=None, derandomize=True, max_examples=40)
@given(SPANS, SPANS, st.integers(3, 12))
def test_scores_are_those_of_seqeval(scheme, true, made, count):
    sides = [tags_of(cut(spans, count), scheme) for spans in (true, made)]
    if {"O"} in ({*sides[0]}, {*sides[1]}):  # which no scheme of seqeval's reads
        return
    rows = [{"tokens": ["word"] * count, "ner_tags": tags} for tags in sides]
    text, other = read_tagged(rows, "dev", ["X", "Y-z"], has_classes=False)
    predicted = [ScoredSpan(*span, 0.5) for span in other.spans]
    scores = score_entities([text], [predicted], ["X", "Y-z"])
    theirs, prefixes = SEQEVAL["IO" if scheme == "plain" else scheme]
    if scheme == "plain":
        sides = [tags_of(cut(spans, count), "IO") for spans in (true, made)]
    in_theirs = [
        ["O" if tag == "O" else prefixes.get(tag[0], tag[0]) + tag[1:] for tag in tags]
        for tags in sides
    ]
    report = classification_report(
        *([tags] for tags in in_theirs),
        output_dict=True,
        mode="strict",
        scheme=theirs,
        zero_division=0,
    )
    for label, score in scores.items():
        expected = [report[label][key] for key in ("precision", "recall", "f1-score", "support")]
        assert list(score) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tags", "name", "has_classes"),
    [
        ("B-X I-X O", "BIO", False),
        ("O O", "BIO", False),
        ("o b-x", "BIO, spelled like b-x", False),
        ("B-X E-X O", "BIOES", False),
        ("S-X", "BIOES", False),
        ("X-B X-M X-E O", "BMES, spelled like X-B", False),
        ("B_W B_W", "BIO, spelled like B_W", False),
        ("X X O Y", "IO without prefixes", False),
        ("e-mail s-video O", "IO without prefixes", False),
        ("B M E S", "BMES without labels", False),
        ("DET NOUN PUNCT", "classes of words", True),
        (", -LRB- PRP$ ``", "classes of words", True),
    ],
)
def test_schemes_are_recognised(tags, name, has_classes):
    assert read_tags([tags.split()])[::3] == (name, has_classes)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("B-X X O", "unknown tag 'X'"),
        ("B_X I_X X O", "unknown tag 'X'"),
        ("X-B X-I X-Q O", "unknown tag 'X-Q'"),
        ("B-", "unknown tag 'B-'"),
        ("DET NOUN B-X", "unknown tag 'DET'"),
        ("B-X M-X O", "received the tag O after I-X; expected I-X or E-X"),
        ("b-X O i-X", "received the tag I-X after O; expected B-X"),
    ],
)
def test_tags_that_are_nearly_of_a_scheme_are_refused(tags, message):
    with refused(r"dev\[0\]: " + message):
        read(tags.split(), None, has_classes=None)


def test_classes_of_a_model_are_those_of_its_files():
    (text,) = read(["O", "X", "X"], ["O", "X"], has_classes=True)
    assert [span.label for span in text.spans] == ["O", "X", "X"]
    (text,) = read(["X", "X"], ["X"], has_classes=False)
    assert len(text.spans) == 1
    with refused(r"dev\[0\]: unknown label 'O'; expected 'X'"):
        read(["O", "X"], ["X"], has_classes=True)


WORDS = st.text(
    st.characters(codec="utf-8", categories=["L", "P", "S", "N"]), min_size=1, max_size=4
)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(SPANS, min_size=1, max_size=3), st.sampled_from([*PREFIXES, "classes"]), st.data())
def test_the_same_rows_are_the_same_texts(tmp_path_factory, texts, scheme, data):
    folder = tmp_path_factory.mktemp("rows")
    rows = []
    for spans in texts:
        count = sum(length for _, length in spans)
        words = data.draw(st.lists(WORDS, min_size=count, max_size=count))
        tags = [f"C{len(word)}" for word in words]
        rows.append(
            {"tokens": words, "tags": tags_of(spans, scheme) if scheme != "classes" else tags}
        )
    lines = [
        "".join(f"{word}\t{tag}\n" for word, tag in zip(*row.values(), strict=True)) for row in rows
    ]
    (folder / "a.conll").write_text("\n".join(lines), encoding="utf-8")

    def texts_of(source):
        read = read_tagged(source, "train", None)
        return [(text.text_a, text.spans, text.words, text.has_classes) for text in read]

    expected = texts_of(rows)
    assert texts_of(str(folder / "a.conll")) == expected
    for form in FORMS:
        assert texts_of(in_form(form, rows, folder)) == expected
