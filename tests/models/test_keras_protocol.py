"""What Keras users do with every model: compile, fit, evaluate, predict, save, clone; LoRA; quantize."""

import functools
import warnings
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf import losses
from albert_tf.backends import BACKEND
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.export.exported_weights import make_exported_weights, reading
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.optimization import AdamWeightDecay, Lamb
from albert_tf.training import make_strategy
from tests.helpers import needs_tensorflow, refused, slow_except, tiny_config
from tests.models.test_base_model import HEADS, make_inputs, make_model

ROWS = 4
CLASSES = np.arange(ROWS) % 2
# A token of the passage in every row.
POSITIONS = np.full(ROWS, 3)
# The labels of all models, by the names of the scripts' features.
FEATURES = {
    "label_ids": CLASSES,
    "start_positions": POSITIONS,
    "end_positions": POSITIONS,
    "is_impossible": CLASSES,
    "masked_lm_ids": np.tile(np.arange(3), (ROWS, 1)),
    "masked_lm_weights": np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]], np.float32),
    "next_sentence_labels": CLASSES[:, None],
}
# Of 11 tokens each, the last one without a label.
TOKEN_CLASSES = np.append(np.arange(ROWS * 11 - 1) % 3, -1).reshape(ROWS, 11)
ENDS = ("start", "end")
CROSSENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

# With TensorFlow tracing takes most of the time; another test compiles.
EAGERLY = {"run_eagerly": BACKEND == "tensorflow", "jit_compile": False}


class Recipe(NamedTuple):
    """A recipe of docs/keras.md: arguments of `compile`; of features, the labels and sample weights."""

    arguments: dict
    loss: object  # the scripts'
    labels: Callable = lambda features: features["label_ids"]
    weights: Callable = lambda features: None


RECIPES = {
    "classifier": Recipe({"loss": CROSSENTROPY}, losses.ClassificationLoss()),
    "regressor": Recipe(
        {"loss": keras.losses.MeanSquaredError()},
        losses.RegressionLoss(),
        lambda features: features["label_ids"].astype(np.float32),
    ),
    "multiple_choice": Recipe({"loss": CROSSENTROPY}, losses.ClassificationLoss()),
    "token_classifier": Recipe(
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)},
        losses.TokenClassificationLoss(),
    ),
    "span_labeler": Recipe(
        {
            "loss": {f"{end}_logits": CROSSENTROPY for end in ENDS},
            "loss_weights": {f"{end}_logits": 0.5 for end in ENDS},
        },
        losses.SpanLoss(),
        lambda features: {f"{end}_logits": features[f"{end}_positions"] for end in ENDS},
    ),
    "conditional_span_labeler": Recipe(
        {
            "loss": {
                **{f"{end}_log_probs": CROSSENTROPY for end in ENDS},
                "cls_logits": keras.losses.BinaryCrossentropy(from_logits=True),
            },
            "loss_weights": {"start_log_probs": 0.5, "end_log_probs": 0.5, "cls_logits": 0.5},
        },
        losses.ConditionalSpanLoss(),
        lambda features: {
            **{f"{end}_log_probs": features[f"{end}_positions"] for end in ENDS},
            "cls_logits": features["is_impossible"].astype(np.float32),
        },
    ),
    "pretrainer": Recipe(
        {
            "loss": {
                "masked_lm_logits": keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction="mean_with_sample_weight"
                ),
                "sentence_order_logits": CROSSENTROPY,
            }
        },
        losses.PretrainingLoss(),
        lambda features: {
            "masked_lm_logits": features["masked_lm_ids"],
            "sentence_order_logits": features["next_sentence_labels"][:, 0],
        },
        lambda features: {
            "masked_lm_logits": features["masked_lm_weights"],
            "sentence_order_logits": np.ones(ROWS, np.float32),
        },
    ),
}


def make(name):
    if name != "regressor":
        return make_model(name)
    config = tiny_config(num_hidden_layers=1, initializer_range=0.2)
    return AlbertClassifier(AlbertEncoder(config, seed=1), num_classes=1, dropout=0.0, seed=2)


def inputs_of(name):
    inputs = make_inputs(name, ROWS)
    if name == "conditional_span_labeler":
        inputs["start_positions"] = POSITIONS.astype(np.int32)
    return inputs


def features_of(name):
    return {**FEATURES, "label_ids": TOKEN_CLASSES} if name == "token_classifier" else FEATURES


def run(model, inputs):
    """Returns the outputs as arrays, under every backend."""
    return keras.tree.map_structure(keras.ops.convert_to_numpy, model(inputs))


def assert_same_outputs(received, expected, tolerance=1e-5):
    compare = functools.partial(np.testing.assert_allclose, rtol=0, atol=tolerance)
    keras.tree.map_structure(compare, received, expected)


def compiled(model, name, optimizer=None, **options):
    """Compiles a model by its recipe, and returns labels and sample weights."""
    recipe, features = RECIPES[name], features_of(name)
    model.compile(optimizer or "sgd", **recipe.arguments, **options)
    return recipe.labels(features), recipe.weights(features)


@pytest.mark.parametrize("name", RECIPES)
def test_the_loss_of_keras_is_that_of_the_scripts(name):
    model, inputs = make(name), inputs_of(name)
    labels, weights = compiled(model, name)
    outputs = model(inputs)
    received = model.compute_loss(inputs, labels, outputs, weights)
    batch = {**inputs, **features_of(name)}
    if name == "regressor":
        batch["label_ids"] = labels
    outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
    expected = float(losses.batch_loss(RECIPES[name].loss, batch, outputs))
    assert keras.ops.convert_to_numpy(received) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", slow_except(RECIPES, "classifier", "conditional_span_labeler"))
def test_fit_evaluate_predict_save_and_clone(name, tmp_path):
    model, inputs = make(name), inputs_of(name)
    labels, weights = compiled(model, name, AdamWeightDecay(1e-3), **EAGERLY)
    outputs = run(model, inputs)
    expected = float(model.compute_loss(inputs, labels, outputs, weights))
    evaluated = model.evaluate(inputs, labels, sample_weight=weights, verbose=0, return_dict=True)
    assert evaluated["loss"] == pytest.approx(expected, rel=1e-4)
    assert_same_outputs(model.predict(inputs, verbose=0), outputs)

    stop = keras.callbacks.EarlyStopping(restore_best_weights=True)
    keep = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), save_best_only=True)
    options = {"epochs": 2, "callbacks": [stop, keep], "verbose": 0}
    data = (inputs, labels) if weights is None else (inputs, labels, weights)
    fitted = model.fit(*data[:2], sample_weight=weights, validation_data=data, **options)
    history = fitted.history
    assert history["val_loss"][1] < history["val_loss"][0]

    trained = run(model, inputs)
    restored = keras.models.load_model(tmp_path / "best.keras")
    assert_same_outputs(run(restored, inputs), trained)
    assert isinstance(restored.optimizer, AdamWeightDecay)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert_same_outputs(run(clone, inputs), trained)


@pytest.mark.slow  # a collective of Keras's that fails leaves none for later tests of the process
def test_keras_fit_on_two_replicas_equals_one():
    strategy = make_strategy("mirrored")  # a second one would number its collectives alike
    results = []
    for scope in (strategy.scope(), tf.distribute.get_strategy().scope()):
        with scope:
            model = make_model("classifier")
            model.compile(Lamb(1e-2), CROSSENTROPY)
        model.fit(make_inputs("classifier"), CLASSES, epochs=2, verbose=0)
        results.append(model)
    for weight, expected in zip(*(model.weights for model in results), strict=True):
        if "bias" not in weight.path:  # LAMB scales a rounding error up
            np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-4, err_msg=weight.path)


@keras.saving.register_keras_serializable()
class Wrapper(keras.Model):
    """A model of a user around an encoder, with a layer that Keras builds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder = AlbertEncoder(tiny_config(num_hidden_layers=1))
        self.dense = keras.layers.Dense(2)

    def call(self, inputs, training=None):
        return self.dense(self.encoder(inputs, training=training)["pooled_output"])


def test_a_model_around_an_encoder_is_saved_whole(tmp_path):
    model, inputs = Wrapper(), inputs_of("classifier")
    outputs = run(model, inputs)
    model.save(tmp_path / "model.keras")
    assert_same_outputs(run(keras.models.load_model(tmp_path / "model.keras"), inputs), outputs)
    if BACKEND == "tensorflow":
        path = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
        other = Wrapper()
        run(other, inputs)
        tf.train.Checkpoint(model=other).restore(path)
        assert_same_outputs(run(other, inputs), outputs)


def test_lists_are_taken_and_texts_are_told_what_makes_ids_of_them():
    model = make_model("classifier")
    model.compile(loss=CROSSENTROPY, run_eagerly=True)
    inputs = make_inputs("classifier", ROWS)
    lists = {name: np.asarray(values).tolist() for name, values in inputs.items()}
    np.testing.assert_array_equal(model.predict(lists, verbose=0), model.predict(inputs, verbose=0))
    loss = model.evaluate(lists, CLASSES.tolist(), verbose=0)
    assert loss == pytest.approx(model.evaluate(inputs, CLASSES, verbose=0))
    model.fit(lists, CLASSES.tolist(), verbose=0)
    with refused(r"lists have different lengths; albert_tf\.Prep"):
        model.predict({"input_ids": [[1, 2], [3]]})
    for call in (model.predict, model.fit, model.evaluate):
        with refused(r"received texts, which albert_tf\.Preprocessor"):
            call(["a text", "another"])


def test_a_frozen_encoder_keeps_its_weights_also_in_mixed_precision():
    model = make_model("classifier", dtype="mixed_bfloat16")
    before = model.encoder.get_weights()
    model.encoder.trainable = False
    assert {weight.path.split("/")[1] for weight in model.trainable_weights} == {"head"}
    model.compile(AdamWeightDecay(1e-3), CROSSENTROPY, **EAGERLY)
    head = model.head.get_weights()[0]
    history = model.fit(make_inputs("classifier"), CLASSES, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert {weight.dtype for weight in model.weights} == {"float32"}
    for weight, expected in zip(model.encoder.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, expected)
    assert (model.head.get_weights()[0] != head).any()
    clone = keras.models.clone_model(model)
    assert [w.path for w in clone.trainable_weights] == [w.path for w in model.trainable_weights]


def enable_lora(model):
    """Adds LoRA to all dense layers, with the product of random matrices."""
    rng = np.random.default_rng(0)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(2)
            layer.lora_kernel_b.assign(rng.normal(0, 0.3, layer.lora_kernel_b.shape))


@pytest.mark.parametrize("name", ["conditional_span_labeler", "pretrainer"])
def test_lora_is_merged_when_it_is_saved(name, tmp_path):
    model, inputs = make(name), inputs_of(name)
    before = run(model, inputs)
    enable_lora(model)
    outputs = run(model, inputs)
    changes = [np.abs(x - y).max() for x, y in zip(outputs.values(), before.values(), strict=True)]
    assert max(changes[:2]) > 0.01

    path = str(tmp_path / "model.keras")
    model.save(path)
    with refused(r"lora_kernel_a: layers with LoRA or"):
        load_checkpoint(model, "small_en")
    merged = keras.models.load_model(path)
    assert_same_outputs(run(merged, inputs), outputs)
    expected = {weight.path for weight in make(name).weights}
    assert {weight.path for weight in merged.weights} == expected


@needs_tensorflow
def test_an_export_with_lora_has_its_numbers(tmp_path):
    model, inputs = make("classifier"), inputs_of("classifier")
    before = model(inputs)
    enable_lora(model)
    outputs = model(inputs)
    assert np.abs(outputs - before).max() > 0.01
    model.export(str(tmp_path / "exported"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    assert_same_outputs(served.serve(inputs), {"logits": outputs})
    # What the scripts' exports store and compute with.
    with reading(model, make_exported_weights(model)):
        assert_same_outputs(model(inputs), outputs, 1e-6)


@pytest.mark.parametrize("name", slow_except(HEADS, "classifier", "conditional_span_labeler"))
def test_quantized_models_give_nearly_the_same_numbers(name):
    model, inputs = make(name), inputs_of(name)
    expected = run(model, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras names the layers that it leaves as they are
        model.quantize("int8")
    with refused("a quantized model cannot be saved; save it before"):
        model.get_config()
    outputs = run(model, inputs)
    outputs, expected = (x if isinstance(x, dict) else {"": x} for x in (outputs, expected))
    for key in expected:
        if expected[key].dtype == "float32" and "top" not in key:
            difference = np.abs(outputs[key] - expected[key])[expected[key] > -1e29]
            assert 0 < difference.max() < 0.2, key
