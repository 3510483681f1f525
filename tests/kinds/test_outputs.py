"""The numbers of predictions: one interpretation of what a model returns, in Python and exported."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.examples import Example
from albert_tf.kinds import Classification
from tests.export.kinds import KINDS, LABELS, OF_NAMES, make_inputs, make_model


@pytest.mark.parametrize("name", KINDS)
def test_what_an_exported_model_returns_holds_what_the_model_returns_as_it_is(name):
    kind, model = OF_NAMES[name], make_model(name)
    returned = model(make_inputs(name))
    read = kind.read_outputs(kind.outputs(returned))
    if isinstance(returned, dict):
        returned = {part: returned[part] for part in read}
    tf.nest.map_structure(np.testing.assert_array_equal, read, returned)


def test_metrics_are_of_the_labels_that_are_predicted():
    kind = Classification(labels=LABELS)
    # In float32 the probabilities of these logits are equal.
    logits = np.array([[0.0, 1e-9, 0.0]], np.float32)
    (label,) = kind.result([], logits).label
    assert kind.measure([Example("", "x", label=label)], logits).metrics["accuracy"] == 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doubtful(Classification):
    """Its probabilities are those of half of the logits."""

    def interpretation(self, logits):
        return super().interpretation(logits / 2)


def test_a_change_of_the_interpretation_reaches_every_road_once():
    kind, model = Doubtful(labels=LABELS), make_model("classifier")
    returned = model(make_inputs("classifier"))
    expected = tf.nn.softmax(returned / 2).numpy()
    exported = kind.outputs(returned)
    loaded = kind.read_outputs(exported).numpy()
    for received in (
        exported["probabilities"],
        kind.result([], returned.numpy()).probabilities,
        kind.result([], loaded).probabilities,
        kind.outputs(loaded)["probabilities"],
    ):
        np.testing.assert_allclose(received, expected, rtol=1e-6)
