import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from albert_tf.evaluation import baselines
from albert_tf.evaluation.baselines import BAG_OF_WORDS, MOST_FREQUENT, Baselines, standard_error

WORDS = np.array([f"word{number}" for number in range(60)])


def write_texts(count, seed=1):
    """Returns texts, and a number between 0 and 59 that their words are near to."""
    rng = np.random.default_rng(seed)
    centers = rng.integers(0, 60, count)
    drawn = (centers[:, None] + rng.normal(0, 8, (count, 12)).astype(int)) % 60
    return [" ".join(row) for row in WORDS[drawn]], centers


def fit(texts, targets, are_scores=False, weights=None):
    rows = [[text] for text in texts]
    weights = np.ones(len(texts)) if weights is None else weights
    return Baselines.fit(rows, targets, are_scores, weights, seed=3)


def test_labels_are_those_of_scikit_learn():
    texts, centers = write_texts(600)
    labels = centers // 20
    fitted = fit(texts[:500], np.eye(3)[labels[:500]])
    predicted = fitted.predict([[text] for text in texts[500:]])
    assert (predicted[MOST_FREQUENT].argmax(-1) == np.bincount(labels[:500]).argmax()).all()
    vectorizer = TfidfVectorizer(ngram_range=(1, 2))
    words = vectorizer.fit_transform(texts[:500])
    for label in range(3):
        model = LogisticRegression(C=10, tol=1e-6).fit(words, labels[:500] == label)
        expected = model.decision_function(vectorizer.transform(texts[500:]))
        received = predicted[BAG_OF_WORDS][:, label]
        # liblinear regularises the intercept, too.
        assert np.corrcoef(received, expected)[0, 1] > 0.999
        assert np.abs(received - expected).max() < 0.3


def test_scores_are_those_of_scikit_learn():
    texts, centers = write_texts(300)
    fitted = fit(texts[:200], centers[:200, None].astype(float), are_scores=True)
    predicted = fitted.predict([[text] for text in texts[200:]])
    np.testing.assert_allclose(predicted[MOST_FREQUENT], centers[:200].mean(), rtol=1e-6)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2))
    model = Ridge().fit(vectorizer.fit_transform(texts[:200]), centers[:200])
    expected = model.predict(vectorizer.transform(texts[200:]))
    np.testing.assert_allclose(predicted[BAG_OF_WORDS][:, 0], expected, atol=0.2)


def test_a_file_has_the_same_predictions_and_no_words():
    texts, centers = write_texts(50)
    fitted = fit(texts, np.eye(2)[centers // 30])
    content = fitted.to_bytes()
    assert b"word" not in content
    rows = [[text] for text in [*texts, "", "unknown"]]
    for name, received in Baselines.from_bytes(content).predict(rows).items():
        np.testing.assert_array_equal(received, fitted.predict(rows)[name])


def test_constant_labels_empty_texts_weights_and_many_rows(monkeypatch):
    targets = np.array([[1.0, 0.0], [1.0, 1.0]] * 20)
    fitted = fit([""] * 40, targets)
    assert (fitted.predict([["a"], ["more"]])[BAG_OF_WORDS][:, 0] > 5).all()
    heavy = fit(["same words"] * 40, np.eye(2)[[0, 1] * 20], weights=np.array([9.0, 1.0] * 20))
    assert heavy.predict([["same words"]])[BAG_OF_WORDS].argmax() == 0
    monkeypatch.setattr(baselines, "_MAX_ROWS", 10)
    texts, centers = write_texts(300)
    few = fit(texts, np.eye(2)[centers // 30])
    assert few.hashes.size < fit(texts[:20], np.eye(2)[centers[:20] // 30]).hashes.size


def test_choices_are_scored_by_their_own_words():
    rows = [["a right answer", "the wrong one"], ["some wrong thing", "quite right"]] * 20
    targets = np.eye(2)[[0, 1] * 20]
    fitted = Baselines.fit(rows, targets, False, np.ones(40), seed=3)
    predicted = fitted.predict([["it is wrong", "it is right"], ["right again", "wrong again"]])
    assert predicted[BAG_OF_WORDS].argmax(-1).tolist() == [1, 0]
    assert predicted[MOST_FREQUENT].shape == (2, 2)


def accuracy(texts, labels):
    """Returns that of a bag of words on the second half of some rows."""
    count, half = max(labels) + 1, len(texts) // 2
    fitted = fit(texts[:half], np.eye(count)[labels[:half]])
    predicted = fitted.predict([[text] for text in texts[half:]])[BAG_OF_WORDS]
    return (predicted.argmax(-1) == labels[half:]).mean()


@pytest.mark.parametrize(
    ("letters", "decisive", "length"),
    [
        ("的是在了我有他这中大来上", "好坏", 10),
        ("กขคงจฉชซ", "ดต", 10),
        ("", "37", 1),
        ("😀🎉👍", "😍😡", 3),
    ],
)
def test_where_there_are_no_words_characters_count(letters, decisive, length):
    rng = np.random.default_rng(1)
    labels = np.arange(200) % 2
    rng.shuffle(labels)
    texts = ["".join(rng.choice([*(letters or "3")], length - 1)) + decisive[x] for x in labels]
    assert accuracy(texts, labels) == 1


def test_words_count_wherever_there_are_some():
    labels = np.array([0, 1] * 20)
    # Pairs of characters would tell more of these than words do.
    assert accuracy([f"hat {x} xy, 东西" for x in ("1", "2")] * 20, labels) == 0.5


def test_many_labels_take_one_product(monkeypatch):
    texts, centers = write_texts(600)
    labels = centers // 10
    solved = accuracy(texts, labels)
    monkeypatch.setattr(baselines, "_MAX_SOLVED", 0)
    monkeypatch.setattr(baselines, "_solve", None)
    assert accuracy(texts, labels) > solved - 0.05


@pytest.mark.parametrize("count", [40, 1000])
def test_standard_error_of_a_mean(count):
    rng = np.random.default_rng(1)
    ratios = []
    for seed in range(20):
        values = rng.normal(0, 1, count)
        error = standard_error(lambda rows, values=values: values[rows].mean(), count, seed)
        ratios.append(error / (values.std(ddof=1) / count**0.5))
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)
