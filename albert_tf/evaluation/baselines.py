"""What a model has to be better than: the most frequent label, and a bag of words.

The bag of words is a linear model of TF-IDF of words and pairs of neighbouring words. Where most of the
text is in no word, as in scripts without spaces or in emoji, it is one of characters and pairs of them.
Words are numbered by a hash, so that a file of arrays, without the words themselves, is enough to use it
later.
"""

import dataclasses
import functools
import io
import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization.word_starts import joins_words

# Inverse of the strength of the regularisation, as usual for TF-IDF.
_C = 10.0
# Hashes are below, and there are at most so many coefficients.
_MAX_HASHES, _MAX_COEFFICIENTS = 1 << 20, 1 << 24
# More rows hardly make it better, and would take longer than seconds.
_MAX_ROWS = 50_000
_GROUPS = 20
# One run of the solver for each label takes time in proportion to rows times labels: a quarter of a
# minute for so many. Beyond, naive Bayes takes seconds for any number of labels.
_MAX_SOLVED = 2_500_000
# Those of scikit-learn's vectorizers.
_WORD = re.compile(r"\b\w\w+\b")
# Texts by which words or characters are chosen.
_MEASURED = 1000

# The names of both.
MOST_FREQUENT, BAG_OF_WORDS = "most_frequent_label", "bag_of_words"


@dataclasses.dataclass(frozen=True)
class Baselines:
    """Both baselines of a training set with k classes, labels of sets, choices, or one score."""

    constant: np.ndarray  # logits of the labels' frequencies, or the mean score, float (k,)
    num_hashes: np.ndarray  # int ()
    hashes: np.ndarray  # those of the training set, int (W,)
    idf: np.ndarray  # inverse document frequencies, float (W,)
    coefficients: np.ndarray  # float (W, k)
    intercepts: np.ndarray  # float (k,)
    by_character: np.ndarray  # whether the "words" are characters, bool ()

    @classmethod
    def fit(
        cls,
        texts: Sequence[Sequence[str]],
        targets: np.ndarray,
        are_scores: bool,
        weights: np.ndarray,
        seed: int,
    ) -> "Baselines":
        """Fits them to n rows of a text, or of k texts to choose from.

        Args:
            texts: the rows.
            targets: float (n, k), 0 or 1 unless they are scores.
            are_scores: whether the targets are scores.
            weights: what each row counts, float (n,).
            seed: of the choice of rows, if there are many, and of the solver.
        """
        rows = np.random.default_rng(seed).permutation(len(texts))[:_MAX_ROWS]
        choices = len(texts[0])
        fitted, weights = targets[rows], np.repeat(weights[rows], choices)
        if choices > 1:
            fitted = fitted.reshape(-1, 1)
        num_hashes = min(_MAX_HASHES, _MAX_COEFFICIENTS // fitted.shape[1])
        chosen = [text for row in rows for text in texts[row]]
        by_character = _has_few_words(chosen[:_MEASURED])
        counts = _count(chosen, num_hashes, by_character)
        # A text without any word has one that no text has.
        hashes = np.unique(np.append(counts.indices, num_hashes))
        documents = np.bincount(counts.indices, minlength=num_hashes + 1)[hashes]
        idf = np.log((1 + counts.shape[0]) / (1 + documents)) + 1  # as in scikit-learn
        words = _weigh(counts, hashes, idf)
        if are_scores or fitted.size <= _MAX_SOLVED:
            coefficients, intercepts = _solve(
                words, targets=fitted, are_scores=are_scores, weights=weights, seed=seed
            )
        else:
            coefficients, intercepts = _fit_naive_bayes(words, fitted, weights)
        constant = targets.mean(axis=0)
        if not are_scores:
            constant = np.clip(constant, 1e-6, 1 - 1e-6)
            constant = np.log(constant / (1 - constant))
        return cls(
            constant.astype(np.float32),
            np.array(num_hashes),
            hashes,
            idf.astype(np.float32),
            coefficients.T,
            intercepts,
            np.array(by_character),
        )

    def predict(self, texts: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """Returns the predictions of each for n rows: logits or scores, float32 (n, k)."""
        rows = [text for row in texts for text in row]
        counts = _count(rows, int(self.num_hashes), bool(self.by_character))
        words = _weigh(counts, self.hashes, self.idf)
        scores = (words @ self.coefficients + self.intercepts).astype(np.float32)
        constant = np.tile(self.constant, (len(texts), 1))
        return {MOST_FREQUENT: constant, BAG_OF_WORDS: scores.reshape(constant.shape)}

    @classmethod
    def from_bytes(cls, content: bytes) -> "Baselines":
        """Reads what `to_bytes` returned."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(**arrays)

    def to_bytes(self) -> bytes:
        """Returns the content of a file with them, in NumPy's format .npz."""
        content = io.BytesIO()
        np.savez(content, **vars(self))
        return content.getvalue()


def _has_few_words(texts: Sequence[str]) -> bool:
    """Returns whether most visible characters are in no word of two letters between spaces."""
    joins = functools.cache(joins_words)
    visible = sum(not char.isspace() for text in texts for char in text)
    words = itertools.chain.from_iterable(map(_WORD.findall, texts))
    return 2 * sum(joins(char) for word in words for char in word) < visible


def _count(texts: Sequence[str], num_hashes: int, by_character: bool) -> sparse.csr_array:
    """Counts words, or characters, and pairs of them, int (n, num_hashes + 1)."""
    # It takes a second to import.
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        analyzer="char" if by_character else "word",
        token_pattern=_WORD.pattern,
        ngram_range=(1, 2),
        n_features=num_hashes,
        alternate_sign=False,
        norm=None,
    )
    counts = sparse.csr_array(vectorizer.transform(texts))
    counts.resize(len(texts), num_hashes + 1)
    return counts


def _weigh(counts: sparse.csr_array, hashes: np.ndarray, idf: np.ndarray) -> sparse.csr_array:
    """Returns the TF-IDF of known words, with rows of length 1."""
    from sklearn.preprocessing import normalize

    return sparse.csr_array(normalize(counts[:, hashes].multiply(idf)))


def _solve(
    words: sparse.csr_array, targets: np.ndarray, are_scores: bool, weights: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns coefficients (k, W) and intercepts (k,) of a linear model for each column of targets."""
    fit = _fit_scores if are_scores else _fit_labels
    shown = Progress("bag of words", "labels", targets.shape[1], delay=SECONDS_WITHOUT_PROGRESS)
    columns = []
    with shown:
        for column in targets.T:
            columns.append(fit(words, column, weights, seed))
            shown.update()
    coefficients, intercepts = zip(*columns, strict=True)
    return np.array(coefficients, np.float32), np.array(intercepts, np.float32)


def _fit_naive_bayes(
    words: sparse.csr_array, targets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the log odds of words in the rows of a label and in the others, with shares of one label.

    The sums are those of one product of sparse matrices. The frequencies of the labels are left out, as
    in scikit-learn's `ComplementNB`: beside the few words of a row they would decide.
    """
    weighted = sparse.csr_array(targets * weights[:, None])
    inside = (weighted.T @ words).toarray().astype(np.float32)
    outside = (weights @ words)[None].astype(np.float32) - inside
    odds = _log_shares(inside)
    odds -= _log_shares(outside)
    return odds, np.zeros(targets.shape[1], np.float32)


def _log_shares(sums: np.ndarray) -> np.ndarray:
    """Returns the logarithms of the shares of words, of which none is 0."""
    sums = np.maximum(sums, 0) + 1
    return np.log(sums / sums.sum(axis=1, keepdims=True))


def _fit_labels(
    words: sparse.csr_array, column: np.ndarray, weights: np.ndarray, seed: int
) -> tuple[np.ndarray, float]:
    from sklearn.linear_model import LogisticRegression

    if np.ptp(column) == 0:
        return np.zeros(words.shape[1]), 10.0 if column[0] else -10.0
    # Solved in the dual it takes a tenth of a second for 10,000 rows, where L-BFGS takes seconds.
    model = LogisticRegression(
        C=_C, solver="liblinear", dual=True, tol=0.01, max_iter=1000, random_state=seed % 2**32
    )
    model.fit(words, column, weights)
    return model.coef_[0], model.intercept_[0]


def _fit_scores(
    words: sparse.csr_array, column: np.ndarray, weights: np.ndarray, seed: int
) -> tuple[np.ndarray, float]:
    from sklearn.linear_model import Ridge

    model = Ridge().fit(words, column, weights)
    return model.coef_, model.intercept_


def standard_error(statistic: Callable[[np.ndarray], float], count: int, seed: int) -> float:
    """Estimates the standard error of a statistic of `count` > 1 rows, by a jackknife of groups.

    `statistic` is called with some rows, int. See Efron and Tibshirani 1993, chapter 11.
    """
    groups = min(_GROUPS, count)
    group_of_row = np.random.default_rng(seed).permutation(count) % groups
    values = [statistic(np.flatnonzero(group_of_row != group)) for group in range(groups)]
    return float(np.sqrt((groups - 1) * np.var(values)))
