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
    config = tiny_config(max_position_embeddings=12, initializer_range=0.5)
    return AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)


def score_by_hand(model, ids):
    total = 0.0
    for index, piece in enumerate(ids):
        masked = [2, *ids, 3]
        masked[1 + index] = 4
        inputs = {
            "input_ids": np.array([masked]),
            "masked_lm_positions": np.array([[1 + index]]),
        }
        total += tf.nn.log_softmax(model(inputs)["masked_lm_logits"][0, 0])[piece].numpy()
    return total


def test_scores_are_those_of_one_masked_piece_at_a_time(model):
    texts = ["abc", "zyxwvutsrq", "", "hello", "b"]
    scores = pseudo_log_likelihoods(model, Letters(), texts, batch_size=4)
    expected = [score_by_hand(model, ids) for ids in Letters().encode_batch(texts)]
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    assert scores[2] == 0
    assert len(set(scores)) == len(scores)


def test_too_long_a_text_is_named(model):
    with pytest.raises(InputError, match="'abcdefghijk': 11 pieces; expected at most 10"):
        pseudo_log_likelihoods(model, Letters(), ["a", "abcdefghijk"])
