"""A model that knows the answers scores 100 on the way from a file of questions to its metrics."""

import itertools

import numpy as np
import pytest

from albert_tf.evaluation.squad_metrics import score_answers
from albert_tf.kinds import QuestionAnswering
from albert_tf.kinds.question_answering import gold_answers
from albert_tf.tokenization import AlbertTokenizer
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


def simple_head(starts, ends):
    """Scores the answer's start and end, or [CLS], above everything else."""
    logits = np.zeros((2, len(starts), LENGTH), np.float32)
    for of_side, positions in zip(logits, (starts, ends), strict=True):
        of_side[np.arange(len(starts)), positions] = np.where(starts > 0, 20, 10)
    return {"start_logits": logits[0], "end_logits": logits[1]}


def conditional_head(starts, ends):
    """Has the answer's start and end, or [CLS], alone in its beam."""
    scores = np.where(starts > 0, 0, -10).astype(np.float32)[:, None]
    return {
        **{"start_top_index": starts[:, None], "start_top_log_probs": scores},
        **{"end_top_index": ends[:, None], "end_top_log_probs": scores},
        "cls_logits": np.where(starts > 0, -1, 1).astype(np.float32),
    }


def is_within_tokens(example, first, last):
    """Whether the tokens of the answer, from one character to another, hold more than it."""
    answer = example.found_answer
    end = answer.start + len(answer.text)
    return bool(example.context[first : answer.start].strip() or example.context[end:last].strip())


CASES = list(itertools.product(ANSWERS_WITHIN_TOKENS, (simple_head, conditional_head)))
FAST = [("xquad.ar.json", conditional_head), ("xquad.de.json", simple_head)]


@pytest.mark.parametrize(("name", "head"), slow_except(CASES, *FAST))
def test_oracle(name, head):
    kind = QuestionAnswering(
        head=head.__name__.removesuffix("_head"),
        version_2_with_negative=True,
        max_seq_length=LENGTH,
        max_answer_length=LENGTH,
    )
    examples = kind.read(str(shared_path(f"data/squad/{name}")), "dev")
    model = shared_path("data/sentencepiece/30k-clean.model")
    windows = kind.encode(examples, AlbertTokenizer(str(model), lower_case=True))
    starts, ends = (windows.labels[f"{side}_positions"] for side in ("start", "end"))
    rows = np.arange(len(windows))
    parts = (rows[first : first + BATCH] for first in range(0, len(rows), BATCH))
    batches = ((part, head(starts[part], ends[part])) for part in parts)
    answers = kind.decode(examples, windows, batches)
    kind = kind.fit(examples, answers)
    predictions = answers.predictions(kind.null_score_diff_threshold)
    golds = {key: texts or [""] for key, texts in gold_answers(examples).items()}
    scores = score_answers(golds, predictions, version_2=False)
    wrong = {key for key, score in scores.exact.items() if score < 1}

    answered = np.flatnonzero(starts > 0)
    indices, passages = windows.example_indices[answered], windows.passages(answered, LENGTH)
    answerable = {index for index, example in enumerate(examples) if example.answers}
    assert set(indices.tolist()) == answerable  # every answer fits a window
    firsts = np.take_along_axis(passages.token_starts, starts[answered, None], axis=1)[:, 0]
    lasts = np.take_along_axis(passages.token_ends, ends[answered, None], axis=1)[:, 0]
    within = {
        examples[index].id
        for index, *span in zip(indices, firsts, lasts, strict=True)
        if is_within_tokens(examples[index], *span)
    }
    assert wrong <= within
    assert len(wrong) == ANSWERS_WITHIN_TOKENS[name]
    if not wrong:
        results = kind.measure(examples, answers).metrics
        assert results["exact"] == results["f1"] == results["HasAns_f1"] == 100.0
