import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf.optimization import (
    AdamWeightDecay,
    Lamb,
    PolynomialDecayWithWarmup,
    WeightDecayOptimizer,
)


def run(initial, gradients, schedule, lamb, bias_correction):
    """Returns variables after an update with each step's gradients, clipped to global norm 1.

    A slow reference in float64 NumPy, one variable at a time, written from the formulas.
    """
    variables = dict(initial)
    m = {name: np.zeros_like(value) for name, value in initial.items()}
    v = {name: np.zeros_like(value) for name, value in initial.items()}
    for step, at_step in enumerate(gradients):
        rate = learning_rate(step, **schedule)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in at_step.values()))
        for name, gradient in at_step.items():
            gradient = gradient / max(norm, 1.0)
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            sums = (1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)) if bias_correction else (1, 1)
            update = m[name] / sums[0] / (np.sqrt(v[name] / sums[1]) + 1e-6)
            if "layer_norm" in name or "bias" in name:
                variables[name] = variables[name] - rate * update
                continue
            update += 0.01 * variables[name]
            sizes = np.linalg.norm(variables[name]), np.linalg.norm(update)
            ratio = sizes[0] / sizes[1] if lamb and all(sizes) else 1.0
            variables[name] = variables[name] - rate * ratio * update
    return variables


def learning_rate(step, peak, steps, warmup, power, start):
    """Returns the rate of the update that follows `step` updates."""
    if step < start + warmup:
        return peak * max(step - start, 0) / warmup
    return peak * (1 - min(step, steps) / steps) ** power


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb])
@pytest.mark.parametrize(("start", "bias_correction"), [(0, False), (2, False), (0, True)])
def test_a_clipped_run_equals_a_slow_reference(optimizer_class, start, bias_correction):
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
    # After the last of six steps the rate stays 0.
    schedule = {"peak": 0.1, "steps": 6, "warmup": 3, "power": 0.5, "start": start}
    schedule_object = PolynomialDecayWithWarmup(*schedule.values())
    optimizer = optimizer_class(schedule_object, bias_correction=bias_correction)
    variables = [keras.Variable(value, name=name) for name, value in initial.items()]
    for gradient in gradients:
        clipped, _ = tf.clip_by_global_norm([np.float32(g) for g in gradient.values()], 1.0)
        optimizer.apply(clipped, variables)
    expected = run(initial, gradients, schedule, optimizer_class is Lamb, bias_correction)
    for variable in variables:
        path = variable.path
        np.testing.assert_allclose(variable, expected[path], rtol=0, atol=2e-6, err_msg=path)
        assert np.abs(variable - initial[variable.path]).max() > 0.01


class Lion(WeightDecayOptimizer):
    """Lion (Chen et al. 2023, https://arxiv.org/abs/2302.06675), as an example of another optimizer.

    Decay, exclusions, dense gradients and the refusal of Keras's own decay are those of the base.
    """

    MOMENTS = ("m",)

    def __init__(self, learning_rate, beta_1=0.9, beta_2=0.99, name="lion", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def direction(self, gradient, m):
        direction = ops.sign(self.beta_1 * m + (1.0 - self.beta_1) * gradient)
        self.assign(m, self.beta_2 * m + (1.0 - self.beta_2) * gradient)
        return direction

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2}


def test_another_optimizer_has_a_direction_and_its_own_moments():
    rng = np.random.default_rng(0)
    initial = {"kernel": rng.normal(size=(3, 5)), "bias": rng.normal(size=(7,))}
    variables = [keras.Variable(value, name=name) for name, value in initial.items()]
    optimizer = Lion(0.01)
    expected, moments = [*initial.values()], [0.0, 0.0]
    for _ in range(4):
        gradients = [rng.normal(size=value.shape) for value in expected]
        optimizer.apply([tf.constant(g, tf.float32) for g in gradients], variables)
        for index, (gradient, decay) in enumerate(zip(gradients, (0.01, 0.0), strict=True)):
            update = np.sign(0.9 * moments[index] + 0.1 * gradient) + decay * expected[index]
            moments[index] = 0.99 * moments[index] + 0.01 * gradient
            expected[index] = expected[index] - 0.01 * update
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable, value, rtol=0, atol=2e-6)
    kept = {variable.path: variable.numpy() for variable in optimizer.variables}
    assert kept.keys() == {"lion/iteration", "lion/learning_rate", "lion/kernel_m", "lion/bias_m"}
    np.testing.assert_allclose(kept["lion/kernel_m"], moments[0], rtol=0, atol=2e-6)


def test_another_optimizer_takes_no_argument_that_it_would_ignore():
    with pytest.raises(ValueError, match="epsilon"):
        Lion(0.1, epsilon=1e-6)


@pytest.mark.parametrize(
    ("optimizer_class", "own"),
    [
        (AdamWeightDecay, {"bias_correction": True, "epsilon": 1e-5}),
        (Lamb, {"bias_correction": True}),
        (Lion, {"beta_2": 0.9}),
    ],
)
def test_config_gives_the_optimizer_back(optimizer_class, own):
    more = {"power": 2.0, "start_warmup_step": 3, "decay_steps": 7}
    schedule = PolynomialDecayWithWarmup(0.1, 100, 10, **more)
    more = {"weight_decay_rate": 0.2, "exclude": ["gamma"], "global_clipnorm": 1.0}
    optimizer = optimizer_class(schedule, **more, **own)
    stored = keras.saving.serialize_keras_object(optimizer)
    classes = {optimizer_class.__name__: optimizer_class}
    copy = keras.saving.deserialize_keras_object(stored, custom_objects=classes)
    assert copy.get_config() == optimizer.get_config()
    assert copy.get_config().items() >= own.items()
    assert copy.exclude == ("gamma",)


def test_rate_stays_at_its_peak_until_the_decay():
    schedule = PolynomialDecayWithWarmup(0.5, 20, 5, decay_steps=4)
    rates = [float(schedule(step)) for step in range(22)]
    np.testing.assert_allclose(rates[:5], [0.0, 0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    assert rates[5:17] == [0.5] * 12
    np.testing.assert_allclose(rates[17:], [0.375, 0.25, 0.125, 0.0, 0.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("optimizer_class", "compiled", "options"),
    [
        (AdamWeightDecay, False, {}),
        (Lamb, True, {"clipnorm": 0.5}),
        (AdamWeightDecay, False, {"clipvalue": 0.05}),
        (Lamb, True, {"global_clipnorm": 0.5}),
        (AdamWeightDecay, False, {"loss_scale_factor": 8.0}),
        (Lamb, False, {"gradient_accumulation_steps": 2}),
        (AdamWeightDecay, False, {"use_ema": True, "ema_overwrite_frequency": 1}),
        (Lion, True, {"clipnorm": 0.5}),
    ],
)
def test_a_sparse_gradient_counts_as_the_dense_one(optimizer_class, compiled, options):
    rng = np.random.default_rng(0)
    values, rows = rng.normal(size=(7, 3)), np.array([4, 1, 4, 4, 0])
    results = []
    for make in (lambda slices: slices, tf.convert_to_tensor):
        table = keras.Variable(values, dtype="float32", name="table")
        bias = keras.Variable(np.ones(2), dtype="float32", name="bias")
        optimizer = optimizer_class(0.1, **options)
        optimizer.build([table, bias])

        @tf.function(jit_compile=compiled)
        def update(scale, make=make, optimizer=optimizer):
            updates = scale * tf.reshape(tf.range(15.0), (5, 3))
            optimizer.apply([make(tf.IndexedSlices(updates, rows, (7, 3))), scale * tf.ones(2)])

        for scale in (0.1, 1.0, -0.3, 0.2):
            update(tf.constant(scale))
        results.append([table.numpy(), bias.numpy()])
    for sparse, dense in zip(*results, strict=True):
        np.testing.assert_allclose(sparse, dense, rtol=1e-5)
    assert np.abs(results[0][0] - values).max() > 0.01


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb, Lion])
def test_variables_are_excluded_from_decay_as_keras_does_it(optimizer_class):
    variables = [keras.Variable(np.ones(3), name=name) for name in ("table", "kernel", "scale")]
    optimizer = optimizer_class(0.1, exclude="scale")
    optimizer.exclude_from_weight_decay(var_list=variables[:1])
    optimizer.apply([np.zeros(3, np.float32)] * 3, variables)
    assert [float(variable.numpy()[0]) < 1 for variable in variables] == [False, True, False]
    assert optimizer_class.from_config(optimizer.get_config()).exclude == ("scale", "^table$")
    with pytest.raises(ValueError, match="before the optimizer is built"):
        optimizer.exclude_from_weight_decay(var_names=["kernel"])
    optimizer = optimizer_class(0.1, exclude=["scale"])
    optimizer.exclude_from_weight_decay(var_names="kernel")
    assert optimizer.exclude == ("scale", "kernel")


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb, Lion])
def test_decay_of_keras_is_refused(optimizer_class):
    with pytest.raises(ValueError, match="expected weight_decay_rate"):
        optimizer_class(0.1, weight_decay=0.01)
