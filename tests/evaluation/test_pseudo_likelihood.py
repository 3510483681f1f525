import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.evaluation.pseudo_likelihood import pseudo_log_likelihoods
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.helpers import tiny_config


class Letters:
    """A tokenizer with a piece for each letter."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)

    def encode_batch(self, texts):
        return [[ord(letter) - ord("a") + 5 for letter in text] for text in texts]


@pytest.fixture(scope="module")
def model():
    # Large weights, so that probabilities differ.
    config = tiny_config(num_hidden_layers=1, max_position_embeddings=12, initializer_range=0.5)
    return AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)


def score_by_hand(model, ids):
    count = len(ids)
    masked = np.tile([2, *ids, 3], (count, 1))
    positions = 1 + np.arange(count)[:, None]
    np.put_along_axis(masked, positions, 4, axis=1)
    inputs = {"input_ids": masked, "masked_lm_positions": positions}
    log_probs = tf.nn.log_softmax(model(inputs)["masked_lm_logits"][:, 0])
    return sum(log_probs[row, piece].numpy() for row, piece in enumerate(ids))


def test_scores_are_those_of_one_masked_piece_at_a_time(model):
    texts = ["abc", "zyxwvutsrq", "", "b"]
    scores = pseudo_log_likelihoods(model, Letters(), texts, batch_size=4)
    expected = [score_by_hand(model, ids) for ids in Letters().encode_batch(texts) if ids]
    np.testing.assert_allclose(scores[[0, 1, 3]], expected, rtol=1e-4)
    assert scores[2] == 0
    assert len(set(scores)) == len(scores)


def test_too_long_a_text_is_named(model):
    with pytest.raises(InputError, match="'abcdefghijk': 11 pieces; expected at most 10"):
        pseudo_log_likelihoods(model, Letters(), ["a", "abcdefghijk"])
