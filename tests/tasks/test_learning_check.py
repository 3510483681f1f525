import math

import numpy as np
import pytest

from albert_tf.tasks.pretraining_run import LearningCheck, unigram_entropy


def make_batches(vocab_size, count=50):
    rng = np.random.default_rng(0)
    for _ in range(count):
        ids = rng.integers(vocab_size, size=(32, 7))
        weights = np.ones((32, 7), np.float32)
        # Padding, which does not count.
        ids[:, 5:], weights[:, 5:] = 0, 0.0
        yield {"masked_lm_ids": ids, "masked_lm_weights": weights}


def test_entropy_of_uniform_pieces():
    # Without the correction for unseen pieces it would be 0.02 lower.
    assert unigram_entropy(make_batches(300)) == pytest.approx(math.log(300), abs=3e-3)


@pytest.mark.parametrize(("loss", "warns"), [(5.8, True), (5.65, True), (5.5, False)])
def test_warns_once_if_the_loss_is_that_of_the_frequencies(loss, warns, capsys):
    check = LearningCheck(make_batches(300), warmup_steps=100)
    check(1199, {"train_masked_lm_loss": 6.0})
    check(1200, {"eval_masked_lm_loss": 6.0})
    assert not capsys.readouterr().err
    check(1200, {"train_masked_lm_loss": loss})
    check(1300, {"train_masked_lm_loss": 6.0})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == warns
    if warns:
        assert lines[0].startswith(
            f"warning: after 1200 updates the masked-LM loss is {loss:.2f}. "
        )
        assert "has 5.70" in lines[0]
