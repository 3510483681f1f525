import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.optimization import AdamWeightDecay, Lamb, PolynomialDecayWithWarmup
from tests.optimization.numpy_reference import run


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb])
@pytest.mark.parametrize("start", [0, 2])
def test_a_clipped_run_equals_a_slow_reference(optimizer_class, start):
    rng = np.random.default_rng(0)
    initial = {
        "kernel": rng.normal(size=(3, 5)),
        "bias": rng.normal(size=(7,)),
        "layer_norm_gamma": rng.normal(size=(4,)),
        "table": np.zeros((6, 2)),  # its trust ratio is 1 at first
    }
    # Some steps are clipped, some are not.
    gradients = [
        {name: scale * rng.normal(size=value.shape) for name, value in initial.items()}
        for scale in (0.01, 3.0, 0.05, 0.0, 1.0, 0.02, 0.4, 5.0)
    ]
    schedule = {"peak": 0.1, "steps": 10, "warmup": 3, "power": 0.5, "start": start}
    optimizer = optimizer_class(PolynomialDecayWithWarmup(*schedule.values()))
    variables = [keras.Variable(value, name=name) for name, value in initial.items()]
    for gradient in gradients:
        clipped, _ = tf.clip_by_global_norm([np.float32(g) for g in gradient.values()], 1.0)
        optimizer.apply(clipped, variables)
    expected = run(initial, gradients, schedule, lamb=optimizer_class is Lamb)
    for variable in variables:
        np.testing.assert_allclose(
            variable, expected[variable.path], rtol=0, atol=2e-6, err_msg=variable.path
        )
        assert np.abs(variable - initial[variable.path]).max() > 0.01


def test_lamb_moves_a_variable_of_norm_zero():
    variable = keras.Variable(np.zeros((2, 3), np.float32), name="kernel")
    Lamb(0.1).apply([np.ones((2, 3), np.float32)], [variable])
    assert np.isfinite(variable.numpy()).all()
    assert (variable.numpy() < 0).all()


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb])
def test_config_gives_the_optimizer_back(optimizer_class):
    schedule = PolynomialDecayWithWarmup(0.1, 100, 10, power=2.0, start_warmup_step=3)
    optimizer = optimizer_class(
        schedule, weight_decay_rate=0.2, exclude=["gamma"], global_clipnorm=1.0
    )
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert copy.get_config() == optimizer.get_config()
    assert copy.exclude == ("gamma",)


def test_rate_rises_to_the_decays_line_and_falls_to_zero():
    schedule = PolynomialDecayWithWarmup(0.5, num_train_steps=20, num_warmup_steps=5)
    rates = [float(schedule(step)) for step in range(25)]
    np.testing.assert_allclose(rates[:5], [0.0, 0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    # The decay runs under the warm-up.
    np.testing.assert_allclose(rates[5], 0.5 * 15 / 20, rtol=1e-6)
    assert rates[20:] == [0.0] * 5


def test_decay_of_keras_is_refused():
    with pytest.raises(ValueError, match="expected weight_decay_rate"):
        Lamb(0.1, weight_decay=0.01)
