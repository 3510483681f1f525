"""The encoder and the models with heads against arrays that the original implementation computed."""

import json

import pytest

from tests.helpers import assert_agrees, shared_path, tiny_config
from tests.parity.encoder import CONFIGS, compare_encoder
from tests.parity.heads import (
    compare_classifier,
    compare_conditional_span_labeler,
    compare_multiple_choice,
    compare_pretraining,
    compare_regressor,
    compare_span_labeler,
)


@pytest.mark.parametrize("name", CONFIGS)
def test_encoder_gives_every_layers_output(name):
    assert_agrees(compare_encoder(shared_path("golden"), name))


def test_group_of_each_layer_follows_the_originals_rounding():
    index = json.loads(shared_path("golden/encoder/index.json").read_text())
    # Of up to 48 layers, those cases where floating point gives another group than whole numbers.
    cases = index["group_index"]["differs_from_exact_integer_rule"]
    assert cases
    for case in cases:
        config = tiny_config(num_hidden_layers=case["layers"], num_hidden_groups=case["groups"])
        groups = [config.group_of_layer(layer) for layer in range(case["layers"])]
        assert groups == case["float_rule"]


def test_pretraining_logits_losses_and_gradients():
    assert_agrees(compare_pretraining(shared_path("golden")))


@pytest.mark.parametrize(
    "compare",
    [
        compare_classifier,
        compare_multiple_choice,
        compare_regressor,
        compare_span_labeler,
        compare_conditional_span_labeler,
    ],
)
def test_logits_loss_and_gradients_of_fine_tuning(compare):
    assert_agrees(compare(shared_path("golden")))
