import numpy as np
import pytest
from seqeval.metrics import classification_report

from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tags import Span, TagTable, make_tags, tag_words
from albert_tf.data.fine_tuning.windows import Words
from albert_tf.evaluation.labelled_spans import ALL, ScoredSpan, predict_spans, score_entities

TAGS = make_tags(["X", "Y"])


def test_spans_of_words():
    tags = [["B-X", "I-X", "O"], [], ["I-X", "I-Y"]]
    ids = [TAGS.index(tag) for of_text in tags for tag in of_text]
    probabilities = np.full((5, len(TAGS)), 0.01)
    probabilities[range(5), ids] = [0.9, 0.5, 0.6, 0.7, 0.8]
    texts = np.array([0, 0, 0, 2, 2])
    limits = np.array([0, 4, 9, 1, 5]), np.array([3, 8, 12, 4, 6])
    words = Words(np.zeros(5, int), texts, *limits)
    spans = predict_spans(probabilities, words, 3, TagTable.from_tags(TAGS))
    assert spans == [
        [ScoredSpan(0, 8, "X", pytest.approx(0.7))],
        [],
        [ScoredSpan(1, 4, "X", pytest.approx(0.7)), ScoredSpan(5, 6, "Y", pytest.approx(0.8))],
    ]


def test_scores_of_words_are_those_of_seqeval():
    rng = np.random.default_rng(0)
    starts = 3 * np.arange(12)
    table = TagTable.from_tags(TAGS)
    texts, predicted, sides = [], [], ([], [])
    for _ in range(40):
        of_sides = []
        for side in sides:
            limits = np.sort(rng.choice(35, 8, replace=False)).reshape(-1, 2).tolist()
            spans = [Span(*pair, str(rng.choice(["X", "Y"]))) for pair in limits]
            side.append([TAGS[tag] for tag in tag_words(starts, starts + 2, spans, table)])
            of_sides.append(spans)
        words = tuple(zip(starts.tolist(), (starts + 2).tolist(), strict=True))
        texts.append(TaggedText("", " ".join(["ab"] * 12), spans=tuple(of_sides[0]), words=words))
        predicted.append([ScoredSpan(*span, 0.5) for span in of_sides[1]])
    scores = score_entities(texts, predicted, ["X", "Y"])
    report = classification_report(*sides, output_dict=True)
    for label in ("X", "Y", ALL):
        expected = [report[label][name] for name in ("precision", "recall", "f1-score", "support")]
        assert 0 < expected[2] < 1
        assert list(scores[label]) == expected


def test_spans_of_characters_count_if_they_are_equal():
    text = TaggedText("", "ab cd", spans=(Span(0, 2, "X"), Span(3, 5, "X")))
    predicted = [ScoredSpan(*span, 0.5) for span in ((0, 2, "X"), (3, 4, "X"), (0, 2, "Y"))]
    scores = score_entities([text], [predicted], ["X", "Y"])
    assert scores == {"X": (0.5, 0.5, 0.5, 2), "Y": (0, 0, 0, 0), ALL: (1 / 3, 0.5, 0.4, 2)}
    assert score_entities([TaggedText("", "a", spans=())], [[]], ["X"])[ALL].f1 == 0.0
