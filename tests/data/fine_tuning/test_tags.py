import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.data.fine_tuning.tag_schemes import check_next_tag
from albert_tf.data.fine_tuning.tags import Span, TagTable, find_spans, make_tags, tag_words
from tests.helpers import refused

TAGS = {
    "BIO": make_tags("XY"),
    "BIOES": ("O", *(f"{prefix}-{x}" for x in "XY" for prefix in "BIES")),
}


# So does the CoNLL evaluation.
@settings(deadline=None)
@given(st.lists(st.sampled_from(TAGS["BIOES"]), min_size=1, max_size=12))
@example(["S-X", "S-X", "B-X", "E-X", "I-X", "B-X", "I-Y", "I-Y", "O", "E-X", "E-X"])
def test_spans_are_those_of_seqeval(tags):
    from seqeval.metrics.sequence_labeling import get_entities

    ids = np.array([TAGS["BIOES"].index(tag) for tag in tags])
    firsts, lasts, labels = find_spans(ids, 0 * ids, TagTable.from_tags(TAGS["BIOES"]))
    found = zip(["XY"[label] for label in labels], firsts.numpy(), lasts.numpy(), strict=True)
    assert list(found) == get_entities(tags)


@pytest.mark.parametrize("scheme", TAGS)
@settings(deadline=None)
@given(st.lists(st.sampled_from(["", "X", "Y"]), min_size=1, max_size=9), st.integers(0, 99))
def test_spans_to_tags_and_back(scheme, labels, seed):
    """Spans of some of the words, each of which has three characters."""
    splits = np.random.default_rng(seed).random(len(labels)) < 0.3
    spans = []
    for number, label in enumerate(labels):
        start, end = 4 * number, 4 * number + 3
        if label and spans and spans[-1][1:] == (start - 1, label) and not splits[number]:
            spans[-1] = spans[-1]._replace(end=end)
        elif label:
            spans.append(Span(start, end, label))
    tags = TAGS[scheme]
    table = TagTable.from_tags(tags)
    starts = 4 * np.arange(len(labels))
    ids = tag_words(starts, starts + 3, spans, table)
    for before, tag in zip([0, *ids], ids, strict=False):
        assert check_next_tag(scheme, tags[before], tags[tag]) is None
    received = [
        Span(4 * first, 4 * last + 3, table.labels[label])
        for first, last, label in zip(*find_spans(ids, 0 * ids, table), strict=True)
    ]
    assert received == spans


def test_a_word_belongs_to_the_last_span_in_it():
    tags = TAGS["BIO"]
    starts, ends = np.array([0, 5, 9]), np.array([4, 8, 12])
    spans = [Span(1, 2, "X"), Span(6, 7, "X"), Span(7, 10, "Y")]
    ids = tag_words(starts, ends, spans, TagTable.from_tags(tags))
    assert [tags[id_] for id_ in ids] == ["B-X", "B-Y", "I-Y"]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["LABEL_0", "LABEL_1"], "received 'LABEL_0'; expected O, or B-, I-, E- or S- before"),
        (["O", "B-"], "received 'B-'"),
        (["B-X", "I-X"], "received no O; expected all tags"),
        (["O", "B-X", "S-X"], "received no E-X, I-X; expected all tags"),
    ],
)
def test_classes_that_are_no_tags(tags, message):
    with refused(message):
        TagTable.from_tags(tags)


def test_classes_of_words_are_tags_of_spans_of_one_word():
    table = TagTable.from_tags(["DET", "NOUN"])
    ids = np.array([1, 1, 0])
    found = [values.numpy().tolist() for values in find_spans(ids, np.array([0, 0, 0]), table)]
    assert found == [[0, 1, 2], [0, 1, 2], [1, 1, 0]]
    starts = 4 * np.arange(4)
    spans = [Span(0, 3, "NOUN"), Span(4, 7, "NOUN"), Span(8, 11, "DET")]
    assert tag_words(starts, starts + 3, spans, table).tolist() == [1, 1, 0, -1]
