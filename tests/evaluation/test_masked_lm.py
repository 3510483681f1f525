import re
import string

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.evaluation import masked_lm
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.helpers import refused, tiny_config


class Letters:
    """A tokenizer with a piece for each letter, and one before each word."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)
    pieces = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁", *string.ascii_lowercase)
    vocab_size = 32

    def encode(self, text):
        return self.encode_with_offsets(text)[0]

    def encode_with_offsets(self, text):
        ids, spans = [], []
        for word in re.finditer(r"\S+", text):
            for end, letter in enumerate(f"▁{word[0]}", word.start()):
                ids.append(self.pieces.index(letter) if letter in self.pieces else self.unk_id)
                spans.append((end - 1, end))
        return ids, spans

    def encode_batch(self, texts):
        return [self.encode(text) for text in texts]

    def decode(self, ids):
        return "".join(self.pieces[id_] for id_ in ids).replace("▁", " ").strip()


@pytest.fixture(scope="module")
def model():
    # Large weights, so that probabilities differ.
    sizes = {"vocab_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 13}
    config = tiny_config(**sizes, initializer_range=0.5)
    return AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)


def probabilities_by_hand(model, ids, positions):
    inputs = {"input_ids": np.array(ids), "masked_lm_positions": np.array(positions)}
    return tf.nn.softmax(model(inputs)["masked_lm_logits"]).numpy()


def score_by_hand(model, ids):
    masked = [[2, *ids[:index], 4, *ids[index + 1 :], 3] for index in range(len(ids))]
    positions = [[1 + index] for index in range(len(ids))]
    probabilities = probabilities_by_hand(model, masked, positions)[:, 0]
    return sum(np.log(row[piece]) for row, piece in zip(probabilities, ids, strict=True))


def test_scores_are_those_of_one_masked_piece_at_a_time(model):
    texts = ["abc", "zyx wvuts", "", "b"]
    scores = albert_tf.score_sentences(model, Letters(), texts, batch_size=4)
    expected = [score_by_hand(model, Letters().encode(text)) for text in texts if text]
    np.testing.assert_allclose(scores[[0, 1, 3]], expected, rtol=1e-4)
    assert scores[2] == 0
    assert len(set(scores)) == len(scores)
    assert albert_tf.score_sentences(model, Letters(), []).shape == (0,)
    assert albert_tf.score_sentences(model, Letters(), (each for each in ["a"])).shape == (1,)


@pytest.mark.parametrize(("seconds", "line"), [(0.0, "scoring: 2/2 pieces"), (1e6, "")])
def test_long_work_shows_its_progress(model, capsys, monkeypatch, seconds, line):
    monkeypatch.setattr(masked_lm, "SECONDS_WITHOUT_PROGRESS", seconds)
    albert_tf.score_sentences(model, Letters(), ["a"])
    assert capsys.readouterr().err[: len(line) or None] == line


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("ab [MASK] c", [2, 5, 6, 7, 4, 5, 8, 3]),
        # What directly follows a mask begins no word.
        ("[MASK]c [MASK]", [2, 4, 8, 4, 3]),
    ],
)
def test_masks_are_filled_with_the_most_probable_pieces(model, text, ids):
    positions = [index for index, id_ in enumerate(ids) if id_ == 4]
    (expected,) = probabilities_by_hand(model, [ids], [positions])
    filled = albert_tf.fill_mask(model, Letters(), text, top_k=3)
    assert len(filled) == len(positions)
    for of_mask, row in zip(filled, expected, strict=True):
        best = np.argsort(-row)[:3]
        assert [one.piece for one in of_mask] == [Letters.pieces[id_] for id_ in best]
        assert [one.text for one in of_mask] == [Letters().decode([id_]) for id_ in best]
        np.testing.assert_allclose([one.probability for one in of_mask], row[best], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda score, fill: score("ab"), "sentences: expected a list of strings; received a stri"),
        (lambda score, fill: score(["ab", None]), r"sentences\[1\]: expected a string; received N"),
        (lambda score, fill: score(["ab", "abcdefghijk"]), r"sentences\[1\]: 12 pieces; the mod"),
        (lambda score, fill: score(["ab"], batch_size=0), "batch_size=0: expected at least 1"),
        (lambda score, fill: fill(["[MASK]"]), "text: expected a string; received list"),
        (lambda score, fill: fill("ab"), r"text: expected at least one \[MASK\]; received 'ab'"),
        (lambda score, fill: fill("[MASK]" * 12), "text: 12 pieces; the model takes at most 11"),
        (lambda score, fill: fill("[MASK]", top_k=33), "top_k=33: expected 1 to 32"),
    ],
)
def test_wrong_arguments_are_named(model, call, message):
    def score(sentences, **more):
        return albert_tf.score_sentences(model, Letters(), sentences, **more)

    def fill(text, **more):
        return albert_tf.fill_mask(model, Letters(), text, **more)

    with refused(message):
        call(score, fill)


def test_other_models_are_named(model):
    with refused("model: expected an AlbertPretrainer; received AlbertE"):
        albert_tf.score_sentences(model.encoder, Letters(), ["a"])
    with refused("tokenizer: expected an AlbertTokenizer or a "):
        albert_tf.fill_mask(model, "small_en", "[MASK]")
    other = AlbertPretrainer(AlbertEncoder(tiny_config(num_hidden_layers=1)))
    with refused("tokenizer: has 32 pieces; the model has 97"):
        albert_tf.fill_mask(other, Letters(), "[MASK]")
