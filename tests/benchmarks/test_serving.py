import importlib.util

import numpy as np
import pytest

from albert_tf.tokenization.character_tables import characters_of_unicode
from albert_tf.tokenization.normalization import normalize_text
from benchmarks.harness import Round
from benchmarks.serving import __main__ as benchmark
from benchmarks.serving.__main__ import Difference, Result, compare, measure
from benchmarks.serving.candidates import (
    CANDIDATES,
    LABELS,
    MAX_SEQ_LENGTH,
    OURS,
    VOCABULARY,
    Answers,
    normalize,
)
from tests.export.kinds import VOCAB_SIZE, WORDS, write_vocabulary
from tests.helpers import tiny_config

TEXTS = [
    "the old man , and the sea .",
    "A CAT ran",
    "naïve dog",
    *(" ".join(WORDS[first:]) for first in range(12)),
    " ".join(WORDS * 20),
]


# Ours splits "9,999," where SentencePiece alone does not.
SPLIT_ALIKE = [text.replace("9,999", "").replace("times,", "") for text in TEXTS]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / VOCABULARY)


def make_answers(*probabilities):
    rows = np.array([[1 - one, one] for one in probabilities], np.float32)
    return Answers([LABELS[int(one > 0.5)] for one in probabilities], rows)


def make_result(*seconds_of_rounds):
    rounds = [Round(one, 2 * one, 345.0) for one in seconds_of_rounds]
    return Result((7.5, 1.25), [make_answers(0.1, 0.8)], [0.010, 0.020] * len(rounds), rounds)


def test_other_runtimes_get_texts_normalized_by_our_rule():
    characters = "".join(characters_of_unicode()).encode("utf-8", "ignore").decode()
    blocks = (characters[start : start + 256] for start in range(0, len(characters), 256))
    for text in ["  ΟΔΟΣ ΣΟΦΟΣ, ΑΣ'Α\n", *blocks]:
        assert normalize(text) == normalize_text(text, lower_case=True)


def test_missed_goals_are_named():
    results = {
        OURS: make_result(1.0, 10.0, 1.0),
        "transformers": make_result(1.4, 14.0, 2.0),
        "transformers torch.compile": make_result(0.9, 9.0, 2.0),
        "ONNX Runtime": make_result(1.1, 11.0, 0.1),
    }
    same = Difference(0, 0.0)
    differences = dict.fromkeys(results, same)
    (miss,) = benchmark.find_misses("fp32", results, differences)
    assert miss.endswith("is 0.90 times as fast as transformers torch.compile; the goal is 1.00")
    del results["ONNX Runtime"]
    assert len(list(benchmark.find_misses("bf16", results, differences))) == 2


def test_other_answers_are_named():
    results = {OURS: make_result(1.0)}
    far, other, near = Difference(0, 0.01), Difference(3, 1e-6), Difference(0, 1e-6)
    differences = {"far": far, "other": other, "near": near}
    misses = list(benchmark.find_misses("fp32", results, differences))
    assert [miss.split()[1] for miss in misses] == ["far", "other"]
    assert not list(benchmark.find_misses("bf16", results, differences))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_candidates_answer_alike(vocabulary, tmp_path):
    config = tiny_config(vocab_size=VOCAB_SIZE, max_position_embeddings=MAX_SEQ_LENGTH)
    names = [
        name
        for name, candidate in CANDIDATES.items()
        if all(importlib.util.find_spec(package) for package in candidate.packages)
    ]
    benchmark.write_folder(config, SPLIT_ALIKE, names, ["fp32"], str(tmp_path), str(vocabulary))
    results = measure(str(tmp_path), names, "fp32", rounds=1, num_threads=2)
    for result in results.values():
        assert compare(result, results[OURS].answers[0]).probability < 1e-5
        assert len(result.latencies) == len(SPLIT_ALIKE)
        assert 0 < result.start[1] < result.start[0]
