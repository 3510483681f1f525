from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import computed_batches
from albert_tf.losses import (
    ClassificationLoss,
    MaskedLM,
    Mean,
    PretrainingLoss,
    SpanLoss,
    batch_loss,
)
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer, AlbertSpanLabeler
from albert_tf.models.inputs import Input
from albert_tf.optimization import AdamWeightDecay, Lamb, PolynomialDecayWithWarmup
from albert_tf.training import Trainer, make_strategy
from tests.helpers import (
    random_inputs,
    random_pretraining_batches,
    refused,
    slow_except,
    tiny_config,
)


def make_lamb():
    return Lamb(PolynomialDecayWithWarmup(0.02, 30, 4))


def make_trainer(
    strategy_name,
    seed=5,
    loss=None,
    options=None,
    model_class=AlbertPretrainer,
    make_optimizer=make_lamb,
    **config,
):
    """Makes a trainer of a pre-training; `options` are the trainer's."""
    loss, options = loss or PretrainingLoss(), options or {}
    strategy = make_strategy(strategy_name)
    with strategy.scope():
        config = tiny_config(num_hidden_layers=1, **config)
        model = model_class(AlbertEncoder(config, seed=1), seed=2)
        optimizer = make_optimizer()
    return Trainer(model, loss, optimizer, strategy, seed, **options)


def make_classifier_trainer(strategy_name):
    strategy = make_strategy(strategy_name)
    with strategy.scope():
        model = AlbertClassifier(AlbertEncoder(tiny_config(num_hidden_layers=1), seed=1), 3, seed=2)
        optimizer = Lamb(0.1)
    return Trainer(model, ClassificationLoss(), optimizer, strategy, seed=1)


def train(trainer, batches):
    count = int(batches.cardinality())
    means = trainer.train_steps(trainer.distribute(batches), count)
    columns = {name: (total / weight).numpy() for name, (total, weight) in means.items()}
    return [{name: values[step] for name, values in columns.items()} for step in range(count)]


def column(history, name):
    return np.array([means[name] for means in history])


@pytest.fixture(scope="module")
def plain():
    """Batches, and the history and the weights of a trainer that has trained with them."""
    batches = random_pretraining_batches(8)
    trainer = make_trainer("one_device")
    return batches, train(trainer, batches), trainer.model.get_weights()


SPLITTING = [("mirrored", 1, False), ("one_device", 4, False), ("mirrored", 2, False)]
SPLITTING += [("one_device", 1, True), ("one_device", 2, True), ("mirrored", 2, True)]


@pytest.mark.parametrize(("strategy", "parts", "jit"), slow_except(SPLITTING, SPLITTING[2]))
def test_step_does_not_depend_on_splitting_or_compilation(plain, strategy, parts, jit, monkeypatch):
    batches, alone, weights = plain
    options = {"accumulate_steps": parts, "jit_compile": jit}
    trainer = make_trainer(strategy, options=options)
    assert make_strategy("mirrored").num_replicas_in_sync == 2
    all_reduce, calls = tf.distribute.ReplicaContext.all_reduce, []

    def count(self, *arguments):
        calls.append(arguments)
        return all_reduce(self, *arguments)

    monkeypatch.setattr(tf.distribute.ReplicaContext, "all_reduce", count)
    monkeypatch.setattr(tf.distribute.MirroredStrategy, "reduce", None, raising=False)
    together = train(trainer, batches)
    # Replicas wait for each other twice a step.
    assert len(calls) == 2 * trainer.strategy.num_replicas_in_sync
    # The gradients are clipped, or this would not see where that happens.
    assert (column(alone, "gradient_norm") > 1.0).any()
    for name in ("masked_lm_loss", "sentence_order_loss", "gradient_norm"):
        np.testing.assert_allclose(column(together, name), column(alone, name), rtol=1e-5)
    for first, second in zip(weights, trainer.model.get_weights(), strict=True):
        np.testing.assert_allclose(second, first, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_replicas_drop_different_units():
    half = next(iter(random_pretraining_batches(1, batch_size=4)))
    batch = {name: tf.concat([value, value], axis=0) for name, value in half.items()}
    dataset = tf.data.Dataset.from_tensors(batch)

    class SpyingLoss(PretrainingLoss):
        def metrics(self, batch, outputs_of_part):
            means = super().metrics(batch, outputs_of_part)
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            total, weight = means["masked_lm_loss"]
            for index in range(2):
                mine = tf.cast(replica == index, tf.float32)
                means[f"of_replica_{index}"] = (total * mine, weight * mine)
            return means

    trainer = make_trainer("mirrored", loss=SpyingLoss(), hidden_dropout_prob=0.5)
    losses = train(trainer, dataset)[0]
    assert losses["of_replica_0"] != losses["of_replica_1"]


# tests/training/test_loop.py resumes a run with dropout.
@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_dropout_is_a_function_of_seed_and_step(strategy):
    batches = random_pretraining_batches(3)
    trainers = [make_trainer(strategy, seed, hidden_dropout_prob=0.3) for seed in (5, 5, 6)]
    histories = [train(trainer, batches) for trainer in trainers]
    losses = [column(history, "masked_lm_loss") for history in histories]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert (np.abs(losses[0] - losses[2]) > 1e-5).all()


def loss_and_norm(model, loss, batch):
    """Computes the loss and the norm of its gradient one operation after the other."""
    with tf.GradientTape() as tape:
        total = batch_loss(loss, batch, model(batch, training=True))
    gradients = filter(lambda g: g is not None, tape.gradient(total, model.trainable_variables))
    return total, tf.linalg.global_norm(list(map(tf.convert_to_tensor, gradients)))


def test_gradient_of_the_word_table_is_clipped_by_its_true_norm(plain):
    batches, history, _ = plain
    model, batch = make_trainer("one_device").model, next(iter(batches))
    _, expected = loss_and_norm(model, PretrainingLoss(), batch)
    np.testing.assert_allclose(history[0]["gradient_norm"], expected, rtol=1e-5)


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_evaluation_counts_every_row_once(strategy):
    trainer = make_trainer(strategy)
    rows = random_pretraining_batches(3).unbatch()
    # The last batch of 24 rows in fives is not full, and one replica gets less of it.
    in_fives = trainer.evaluate(rows.batch(5))
    at_once = trainer.evaluate(rows.batch(24))
    for name, value in at_once.items():
        np.testing.assert_allclose(in_fives[name], value, rtol=1e-5)


def test_variable_that_the_loss_does_not_reach_stays(eagerly):
    loss = PretrainingLoss([MaskedLM()])
    trainer = make_trainer("one_device", loss=loss)
    kernel = trainer.model.encoder.pooler.dense.kernel
    before = kernel.numpy()
    train(trainer, random_pretraining_batches(2))
    np.testing.assert_array_equal(kernel, before)


class CountedLoss(PretrainingLoss):
    """Knows how often it was computed or traced."""

    count = 0

    def metrics(self, batch, outputs):
        self.count += 1
        return super().metrics(batch, outputs)


def test_eager_updates_are_those_of_the_graph_and_trace_none(plain, eagerly):
    batches, history, _ = plain
    loss = CountedLoss()
    received = train(make_trainer("one_device", loss=loss), batches.take(2))
    assert loss.count == 2
    for name in ("masked_lm_loss", "sentence_order_loss", "gradient_norm"):
        expected = column(history[:2], name)
        np.testing.assert_allclose(column(received, name), expected, rtol=1e-5)


class SeeingPretrainer(AlbertPretrainer):
    """A model whose `INPUTS` name two labels."""

    INPUTS: ClassVar = {
        **AlbertPretrainer.INPUTS,
        "masked_lm_ids": Input("BM", exported=False),
        "masked_lm_weights": Input("BM", exported=False),
    }

    def call(self, inputs, training=None):
        outputs = super().call(inputs, training=training)
        if "masked_lm_ids" not in inputs:
            return outputs
        shown = tf.cast(inputs["masked_lm_ids"] * inputs["masked_lm_weights"], tf.float32)
        return {**outputs, "shown": shown, "has_others": "next_sentence_labels" in inputs}


class LossOfSeen(PretrainingLoss):
    def metrics(self, batch, outputs):
        shown = tf.reduce_sum(outputs["shown"])
        means = {"shown": Mean(shown, tf.ones([])), **super().metrics(batch, outputs)}
        assert not outputs["has_others"]
        return means


def test_model_sees_the_labels_that_its_inputs_name(eagerly):
    trainer = make_trainer("one_device", loss=LossOfSeen(), model_class=SeeingPretrainer)
    model = trainer.model
    batches = random_pretraining_batches(1)
    (batch,) = batches.as_numpy_iterator()
    expected = (batch["masked_lm_ids"] * batch["masked_lm_weights"]).sum()
    assert train(trainer, batches)[0]["shown"] == trainer.evaluate(batches)["shown"] == expected
    assert not {"masked_lm_ids", "masked_lm_weights"} & set(model.input_shapes)
    positions = np.array([[1], [2], [3]], np.int32)
    assert "masked_lm_logits" in model({**random_inputs(), "masked_lm_positions": positions})


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (
            Lamb(0.1, clipnorm=2.0),
            "Lamb has clipnorm=2.0, .* expected none, as .* clips the global",
        ),
        (Lamb(0.1, global_clipnorm=2.0), "Lamb has global_clipnorm=2.0, .* expected none, as "),
        (Lamb(0.1, clipvalue=0.5), "Lamb has clipvalue=0.5, .* expected none, as "),
        (AdamWeightDecay(0.1, use_ema=True), "AdamWeightDecay has use_ema=True, .* model.fit"),
        (Lamb(0.1, gradient_accumulation_steps=2), "_steps=2, .* expected accumulate_steps of the"),
        (Lamb(0.1, loss_scale_factor=8.0), "loss_scale_factor=8.0, .* expected mixed_bfloat16"),
        (
            keras.optimizers.AdamW(0.1),
            "AdamW has weight_decay=0.004, .* expected weight_decay_rate",
        ),
        (keras.optimizers.LossScaleOptimizer(Lamb(0.1)), "LossScaleOptimizer does more than its "),
        (keras.optimizers.Nadam(0.1), "Nadam does more than its update_step"),
    ],
)
def test_optimizer_whose_settings_would_be_ignored_is_refused(optimizer, message):
    model = AlbertPretrainer(AlbertEncoder(tiny_config(num_hidden_layers=1)))
    with refused(f"^optimizer: .*{message}"):
        Trainer(model, PretrainingLoss(), optimizer, make_strategy("one_device"), seed=1)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("regularizer", keras.regularizers.L2()), ("constraint", keras.constraints.NonNeg())],
)
def test_variable_with_a_setting_that_would_be_ignored_is_refused(setting, value):
    class OwnModel(AlbertPretrainer):
        def _build_layers(self):
            super()._build_layers()
            self.own = keras.layers.Dense(2, name="own", **{f"kernel_{setting}": value})
            self.own.build((None, 48))

    with refused(f"^'albert_pretrainer/own/kernel' has a {setting}, which would have no effect"):
        make_trainer("one_device", model_class=OwnModel)


def test_optimizer_of_keras_without_such_settings_trains():
    trainer = make_trainer("one_device", make_optimizer=lambda: keras.optimizers.Adam(0.01))
    losses = column(train(trainer, random_pretraining_batches(1).repeat(5)), "masked_lm_loss")
    assert losses[4] < losses[0]


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_predictions_are_in_the_order_of_the_rows(strategy):
    trainer = make_classifier_trainer(strategy)
    inputs = random_inputs(batch_size=7)
    # The last batch has one row, and one of two replicas nothing to do.
    batches = tf.data.Dataset.from_tensor_slices(inputs).batch(3)
    received = np.concatenate(list(trainer.predict_batches(batches)))
    np.testing.assert_allclose(received, trainer.model(inputs), rtol=0, atol=1e-5)


def test_a_batch_without_a_pipeline_has_the_same_predictions():
    trainer = make_classifier_trainer("one_device")
    inputs = random_inputs(batch_size=5)
    batches = tf.data.Dataset.from_tensor_slices(inputs).batch(5)
    (expected,) = trainer.predict_batches(batches)
    np.testing.assert_array_equal(trainer.predict_batch(inputs, batches.element_spec), expected)


class LossOfInfiniteGradient(PretrainingLoss):
    """At step 2, whose number the trainer has."""

    def total(self, means, weights):
        return super().total(means, weights) / self.steps_from_2()

    def steps_from_2(self):
        return tf.abs(tf.cast(self.trainer.optimizer.iterations, tf.float32) - 2.0)


class InfiniteLoss(LossOfInfiniteGradient):
    """Its gradient is finite."""

    def total(self, means, weights):
        return PretrainingLoss.total(self, means, weights) + 1.0 / self.steps_from_2()


NOT_FINITE = [
    (LossOfInfiniteGradient, "mirrored", False),
    (InfiniteLoss, "one_device", False),
    (LossOfInfiniteGradient, "one_device", True),
    (LossOfInfiniteGradient, "mirrored", True),
]


@pytest.mark.parametrize(("loss", "strategy", "jit"), slow_except(NOT_FINITE, NOT_FINITE[1]))
def test_step_whose_loss_or_gradient_is_not_finite_is_skipped(loss, strategy, jit):
    loss, options = loss(), {"jit_compile": jit}
    trainer = loss.trainer = make_trainer(strategy, loss=loss, options=options)
    weights, skipped = [], []
    batches = trainer.distribute(random_pretraining_batches(4))
    for _ in range(4):
        means = trainer.train_steps(batches, 1)
        weights.append([variable.numpy() for variable in trainer.optimizer.variables[2:]])
        weights[-1] += trainer.model.get_weights()
        skipped.append(means["skipped_updates"][0].numpy().item())
        reported = tf.math.divide_no_nan(*means["masked_lm_loss"]).numpy().item()
        assert np.isfinite(reported)
    assert [number > 0 for number in skipped] == [False, False, True, False]
    assert trainer.step == 4
    for before, after in zip(weights[1], weights[2], strict=True):
        np.testing.assert_array_equal(before, after)
    assert any((before != after).any() for before, after in zip(*weights[2:], strict=True))


def test_compiled_updates_do_not_depend_on_their_number_in_a_call():
    trainer = make_trainer("one_device", options={"jit_compile": True})
    batches = random_pretraining_batches(trainer.steps_per_call + 2)
    start = {path: variable.numpy() for path, variable in trainer.state.items()}
    losses = column(train(trainer, batches), "masked_lm_loss")
    weights = trainer.model.get_weights()
    for path, variable in trainer.state.items():
        variable.assign(start[path])
    iterator = trainer.distribute(batches)
    counts = (1, 2, trainer.steps_per_call - 1)
    means = [trainer.train_steps(iterator, count)["masked_lm_loss"] for count in counts]
    np.testing.assert_allclose(
        np.concatenate([total / weight for total, weight in means]), losses, rtol=1e-6
    )
    for variable, weight in zip(trainer.model.weights, weights, strict=True):
        np.testing.assert_allclose(variable, weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model_class", "loss", "options"),
    [
        (AlbertClassifier, ClassificationLoss(), {"num_classes": 2, "dropout": 0.0}),
        pytest.param(AlbertSpanLabeler, SpanLoss(), {}, marks=pytest.mark.slow),
    ],
)
def test_padding_changes_nothing_where_lengths_vary(model_class, loss, options):
    inputs = random_inputs(4)
    labels = {
        "label_ids": np.array([0, 1, 1, 0], np.int32),
        "start_positions": np.array([2, 0, 1, 4], np.int32),
        "end_positions": np.array([3, 0, 1, 4], np.int32),
    }

    def batch_of(padding):
        return {name: np.pad(x, [(0, 0), (0, padding)]) for name, x in inputs.items()} | labels

    strategy = make_strategy("one_device")
    with strategy.scope():
        encoder = AlbertEncoder(tiny_config(num_hidden_layers=1), seed=1)
        model, optimizer = model_class(encoder, seed=2, **options), Lamb(0.0)
    trainer = Trainer(model, loss, optimizer, strategy, seed=5)
    signature = dict.fromkeys(inputs, tf.TensorSpec((4, None), tf.int32))
    signature |= dict.fromkeys(labels, tf.TensorSpec((4,), tf.int32))
    plan = tf.data.Dataset.from_tensor_slices([0, 6])
    means = trainer.train_steps(trainer.distribute(computed_batches(plan, batch_of, signature)), 2)
    unpadded, padded = np.array([np.divide(*means[name]) for name in ("loss", "gradient_norm")]).T
    np.testing.assert_allclose(padded, unpadded, rtol=1e-5)
    if model_class is AlbertClassifier:  # a span's loss counts padding, whose outputs are undefined
        np.testing.assert_allclose(unpadded, loss_and_norm(model, loss, batch_of(0)), rtol=1e-5)
