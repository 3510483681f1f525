"""A model that knows the answers scores 100 on the way from a file of questions to its metrics."""

import numpy as np
import pytest

from albert_tf.data.fine_tuning.squad_questions import read_squad
from albert_tf.data.fine_tuning.squad_windows import WindowConfig
from albert_tf.evaluation.squad_answers import (
    PassageWindows,
    concatenate_spans,
    conditional_spans,
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    simple_spans,
)
from albert_tf.evaluation.squad_metrics import score_answers
from albert_tf.kinds.question_answering import gold_answers
from albert_tf.tokenization import AlbertTokenizer
from tests.data.squad_file import make_windows
from tests.helpers import shared_path, slow_except

LENGTH, BATCH = 384, 512

# Questions whose answer begins or ends within a token, so that no span of tokens is the answer. The
# English vocabulary has one unknown token for a run of characters that it does not know.
ANSWERS_WITHIN_TOKENS = {
    "dev-v2.0-half.json": 0,
    "xquad.ar.json": 175,
    "xquad.de.json": 0,
    "xquad.hi.json": 34,
    "xquad.zh.json": 252,
}


def simple_head(windows, targets):
    """Scores the answer's start and end, or [CLS], above everything else."""
    logits = np.zeros((2, len(targets), LENGTH), np.float32)
    for row, (start, end) in enumerate(targets):
        logits[0, row, start] = logits[1, row, end] = 20 if start else 10
    outputs = {"start_logits": logits[0], "end_logits": logits[1]}
    return simple_spans(windows, outputs, n_best_size=20, max_answer_length=LENGTH)


def conditional_head(windows, targets):
    """Has the answer's start and end, or [CLS], alone in its beam."""
    starts, ends = np.array(targets, np.int32).T[:, :, None]
    scores = np.where(starts > 0, 0, -10).astype(np.float32)
    outputs = {
        **{"start_top_index": starts, "start_top_log_probs": scores},
        **{"end_top_index": ends, "end_top_log_probs": scores},
        "cls_logits": np.where(starts[:, 0] > 0, -1, 1).astype(np.float32),
    }
    return conditional_spans(windows, outputs, max_answer_length=LENGTH)


def pad(windows, name):
    padded = np.zeros((len(windows), LENGTH), np.int32)
    for row, window in enumerate(windows):
        values = getattr(window, name)
        padded[row, : len(values)] = values
    return padded


def find_spans(windows, head):
    """Returns the scored spans of all windows, a batch at a time."""
    parts = []
    for first in range(0, len(windows), BATCH):
        batch = windows[first : first + BATCH]
        names = ("token_starts", "token_ends", "token_is_max_context")
        passages = PassageWindows(
            unique_ids=first + np.arange(len(batch)),
            example_indices=np.array([window.example_index for window in batch]),
            **{name: pad(batch, name) for name in names},
        )
        parts.append(head(passages, [(w.start_position, w.end_position) for w in batch]))
    return concatenate_spans(parts)


def is_within_tokens(example, window):
    """Whether the tokens of the answer hold more than it."""
    answer = example.found_answer
    first, last = window.token_starts[window.start_position], window.token_ends[window.end_position]
    end = answer.start + len(answer.text)
    return bool(example.context[first : answer.start].strip() or example.context[end:last].strip())


@pytest.mark.parametrize("head", [simple_head, conditional_head])
@pytest.mark.parametrize("name", slow_except(ANSWERS_WITHIN_TOKENS, "xquad.de.json"))
def test_oracle(name, head):
    examples = read_squad(str(shared_path(f"data/squad/{name}")))
    model = shared_path("data/sentencepiece/30k-clean.model")
    tokenizer = AlbertTokenizer(str(model), lower_case=True)
    windows = make_windows(examples, tokenizer, WindowConfig(LENGTH))
    answers = rank_answers(
        [example.id for example in examples],
        [example.context for example in examples],
        find_spans(windows, head),
        n_best_size=20,
        version_2_with_negative=True,
    )
    golds = gold_answers(examples)
    predictions = answers.predictions(find_null_threshold(golds, answers))
    scores = score_answers(
        {key: texts or [""] for key, texts in golds.items()}, predictions, version_2=False
    )
    wrong = {key for key, score in scores.exact.items() if score < 1}

    found = {window.example_index: window for window in windows if window.start_position > 0}
    answerable = {index for index, example in enumerate(examples) if example.answers}
    assert found.keys() == answerable  # every answer fits a window
    within = {
        examples[index].id
        for index, window in found.items()
        if is_within_tokens(examples[index], window)
    }
    assert wrong <= within
    assert len(wrong) == ANSWERS_WITHIN_TOKENS[name]
    if not wrong:
        results = evaluate_answers(golds, answers, find_null_threshold(golds, answers))
        assert results["exact"] == results["f1"] == results["HasAns_f1"] == 100.0
