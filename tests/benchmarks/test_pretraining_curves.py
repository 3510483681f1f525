import keras
import numpy as np
import pytest

from albert_tf.optimization import Lamb, PolynomialDecayWithWarmup
from benchmarks import pretraining_curves as benchmark
from benchmarks.pretraining_curves import OURS
from tests.benchmarks.samples import cells_of

THEIRS, GATHERED = "transformers", "transformers gathered"


def points(losses, minutes):
    same = {"masked_lm_accuracy": 0.125, "sentence_order_accuracy": 0.5}
    return [
        {"step": 10 * number, "minutes": minute, "masked_lm_loss": loss, **same}
        for number, (loss, minute) in enumerate(zip(losses, minutes, strict=True))
    ]


def test_curves_are_compared_at_equal_minutes():
    curves = {OURS: points([9.0, 5.0], [0, 8]), THEIRS: points([9.0, 7.0, 6.0], [0, 6, 12])}
    assert benchmark.at(curves[THEIRS], 3.0)["masked_lm_loss"] == 8.0
    rows = cells_of(benchmark.table({"tiny": curves}))
    assert len(rows) == 2 + 3 * 2
    assert rows[-1] == [*("tiny", THEIRS, "8.0", "13", "6.667", "785.8", "12.5%", "50.0%")]


def test_missed_goals_are_named():
    curves = {OURS: points([9.0, 5.0], [0, 8]), GATHERED: points([9.0, 4.9], [0, 8])}
    (miss,) = benchmark.find_misses({"tiny": curves})
    assert miss == f"tiny: {GATHERED} has a loss as low as ours"


def test_lamb_and_schedule_of_the_other_program_are_ours():
    torch = pytest.importorskip("torch")
    from benchmarks.torch_pretraining import Lamb as TorchLamb
    from benchmarks.torch_pretraining import learning_rate

    schedule = PolynomialDecayWithWarmup(0.3, num_train_steps=50, num_warmup_steps=7)
    rates = [learning_rate(step, 0.3, 50, 7) for step in range(51)]
    np.testing.assert_allclose(rates, [float(schedule(step)) for step in range(51)], atol=1e-7)
    rng = np.random.default_rng(3)
    # A matrix, one that starts at 0, and two without decay and trust ratio.
    start = {
        "kernel": rng.normal(size=(5, 7)),
        "zero": np.zeros(6),
        "LayerNorm.weight": rng.normal(size=7),
        "bias": rng.normal(size=5),
    }
    paths = {"LayerNorm.weight": "layer_norm_gamma"}
    ours = [
        keras.Variable(value, name=paths.get(name, name), dtype="float32")
        for name, value in start.items()
    ]
    theirs = {
        name: torch.nn.Parameter(torch.tensor(value, dtype=torch.float32))
        for name, value in start.items()
    }
    our_lamb, their_lamb = Lamb(0.01), TorchLamb(theirs.items())
    for _ in range(4):
        gradients = [rng.normal(size=value.shape).astype(np.float32) for value in start.values()]
        our_lamb.apply(gradients, ours)
        for parameter, gradient in zip(theirs.values(), gradients, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        their_lamb.step(0.01)
    for variable, parameter in zip(ours, theirs.values(), strict=True):
        expected = parameter.detach().numpy()
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-6)
