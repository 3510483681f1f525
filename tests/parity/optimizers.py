"""Learning rates, and variables after some updates, with gradients given and with real ones."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.optimization import AdamWeightDecay, Lamb, PolynomialDecayWithWarmup
from albert_tf.training.trainer import Trainer
from tests.helpers import shared_path
from tests.parity.difference import Difference, compare_numbers
from tests.parity.original import assign_by_original_name, by_original_name, read_json

SCHEDULES = (
    *("nowarmup", "nowarmup_power2", "official_like", "power05", "power05_start2"),
    *("power1", "start2"),
)
# Name in the reference data -> class and peak of the learning rate.
OPTIMIZERS = {"lamb": (Lamb, 0.02), "adamw": (AdamWeightDecay, 0.002)}
_TRAIN_STEPS, _WARMUP_STEPS = 12, 4
# Of a real run: updates -> allowed difference. The rate of the first update is 0, later ones add up
# rounding.
_ALLOWED_AFTER = {1: 0.0, 2: 2e-6, 4: 1e-5, 12: 1e-4}


def compare_schedule(name: str) -> list[Difference]:
    folder = shared_path("golden/optimizers")
    run = read_json("optimizers/info.json")["learning_rates"][name]
    schedule = PolynomialDecayWithWarmup(
        run["init_lr"],
        run["num_train_steps"],
        run["num_warmup_steps"],
        run["poly_power"],
        run["start_warmup_step"],
    )
    # Wanted departure: the original's rate is negative before the warm-up starts.
    expected = np.maximum(np.load(folder / "learning_rates.npz")[name], 0.0)
    received = np.array([schedule(step) for step in run["global_steps"]])
    return [compare_numbers("learning rates", [(name, received, expected)], atol=1e-9, rtol=1e-6)]


def compare_updates(name: str) -> list[Difference]:
    """Compares variables and moments along 12 updates with gradients that are given."""
    folder = shared_path("golden/optimizers")
    initial = np.load(folder / "synthetic_initial.npz")
    gradients = np.load(folder / "synthetic_gradients.npz")
    expected = np.load(folder / f"synthetic_{name}_variables.npz")
    slots = np.load(folder / f"synthetic_{name}_slots_step12.npz")
    variables = {key: keras.Variable(initial[key], name=_our_name(key)) for key in initial.files}
    optimizer = _make_optimizer(name)
    optimizer.build(list(variables.values()))
    pairs = []
    for step in range(1, _TRAIN_STEPS + 1):
        at_step = [gradients[f"step{step:02d}/{key}"] for key in variables]
        clipped, _ = tf.clip_by_global_norm(at_step, 1.0)
        optimizer.apply([np.asarray(g) for g in clipped], list(variables.values()))
        pairs += [
            (golden_name, variable.numpy(), expected[golden_name])
            for key, variable in variables.items()
            if (golden_name := f"step{step:02d}/{key}") in expected
        ]
    moments = {variable.path: variable for variable in optimizer.variables}
    moment_pairs = [
        (
            f"{key}/adam_{slot}",
            moments[f"{optimizer.name}/{variable.path.replace('/', '_')}_{slot}"],
            slots[f"{key}/adam_{slot}"],
        )
        for key, variable in variables.items()
        for slot in ("m", "v")
    ]
    part = f"{name}, given gradients"
    return [
        compare_numbers(f"{part}, variables", pairs, atol=2e-6),
        compare_numbers(f"{part}, moments", moment_pairs, atol=1e-9, rtol=1e-5),
    ]


def compare_training(name: str) -> list[Difference]:
    """Compares losses and variables along 12 updates of pre-training, with clipping to norm 1."""
    folder = shared_path("golden/optimizers")
    expected = np.load(folder / f"real_{name}_variables.npz")
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(config))
    assign_by_original_name(model, np.load(folder / "real_initial.npz"))
    strategy = tf.distribute.get_strategy()
    trainer = Trainer(model, PretrainingLoss(), _make_optimizer(name), strategy, seed=0)
    part = f"{name}, real gradients"
    batches = _real_batches(folder)
    losses, norms, differences = [], [], []
    for step in range(1, _TRAIN_STEPS + 1):
        batch = batches[(step - 1) % len(batches)]
        means = trainer.train_steps(trainer.distribute(tf.data.Dataset.from_tensors(batch)), 1)
        of_step = (means[f"{name}_loss"] for name in ("masked_lm", "sentence_order"))
        losses.append(sum((total / weight).numpy().item() for total, weight in of_step))
        norms.append(means["gradient_norm"][0].numpy().item())
        if step in _ALLOWED_AFTER:
            pairs = [
                (original, value, expected[f"step{step:02d}/{original}"])
                for original, value in by_original_name(model.weights, model.weights)
            ]
            title = f"{part}, variables after {step}"
            differences.append(compare_numbers(title, pairs, atol=_ALLOWED_AFTER[step]))
    along = [
        ("loss", np.array(losses), expected["losses_mlm_sop_total"][:, 2]),
        ("norm of the gradient", np.array(norms), expected["global_norm_dense"]),
    ]
    return [compare_numbers(f"{part}, losses and norms", along, atol=1e-4), *differences]


def _make_optimizer(name: str) -> keras.optimizers.Optimizer:
    optimizer_class, learning_rate = OPTIMIZERS[name]
    return optimizer_class(PolynomialDecayWithWarmup(learning_rate, _TRAIN_STEPS, _WARMUP_STEPS))


def _our_name(original_name: str) -> str:
    return original_name.replace("/", "_").replace("LayerNorm", "layer_norm")


def _real_batches(folder: pathlib.Path) -> list[dict[str, tf.Tensor]]:
    batches: dict[str, dict[str, tf.Tensor]] = {}
    golden = np.load(folder / "real_batches.npz")
    for path in golden:
        batch, name = path.split("/")
        batches.setdefault(batch, {})[name] = tf.constant(golden[path])
    return [batches[batch] for batch in sorted(batches)]
