import keras
import numpy as np
import pytest

from albert_tf.optimization import AdamWeightDecay, Lamb, PolynomialDecayWithWarmup


def numpy_update(weight, gradient, m, v, rate, lamb, decay=0.01):
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * gradient**2
    update = m / (np.sqrt(v) + 1e-6) + decay * weight
    if lamb:
        norms = np.linalg.norm(weight), np.linalg.norm(update)
        rate *= norms[0] / norms[1] if all(norms) else 1.0
    return weight - rate * update, m, v


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb])
def test_updates_equal_the_formula(optimizer_class):
    rng = np.random.default_rng(0)
    kernel, gamma = rng.normal(size=(3, 5)), rng.normal(size=(7,))
    variables = [
        keras.Variable(kernel, name="kernel"),
        keras.Variable(gamma, name="layer_norm_gamma"),
    ]
    optimizer = optimizer_class(0.1)
    is_lamb = optimizer_class is Lamb
    kernel_state, gamma_state = (kernel, 0.0, 0.0), (gamma, 0.0, 0.0)
    for _ in range(4):
        gradients = [rng.normal(size=(3, 5)), rng.normal(size=(7,))]
        optimizer.apply([np.float32(g) for g in gradients], variables)
        kernel_state = numpy_update(
            kernel_state[0], gradients[0], *kernel_state[1:], rate=0.1, lamb=is_lamb
        )
        gamma_state = numpy_update(
            gamma_state[0], gradients[1], *gamma_state[1:], rate=0.1, lamb=False, decay=0.0
        )
    np.testing.assert_allclose(variables[0], kernel_state[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variables[1], gamma_state[0], rtol=1e-5, atol=1e-6)


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
