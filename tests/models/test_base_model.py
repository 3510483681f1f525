"""What Keras does with every model: training, saving, export; and which inputs a model refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from albert_tf.optimization import AdamWeightDecay, Lamb
from tests.export.runtimes import run_in_session
from tests.helpers import random_inputs, slow_except, tiny_config

HEADS = {
    "pretrainer": lambda encoder: AlbertPretrainer(encoder, seed=2),
    "classifier": lambda encoder: AlbertClassifier(encoder, num_classes=2, dropout=0.0, seed=2),
    "multiple_choice": lambda encoder: AlbertMultipleChoice(encoder, dropout=0.0, seed=2),
    "token_classifier": lambda encoder: AlbertTokenClassifier(
        encoder, num_classes=3, dropout=0.0, seed=2
    ),
    "span_labeler": lambda encoder: AlbertSpanLabeler(encoder, seed=2),
    "conditional_span_labeler": lambda encoder: AlbertConditionalSpanLabeler(
        encoder, dropout=0.0, seed=2
    ),
}
MODELS = {"encoder": lambda encoder: encoder, **HEADS}


def make_model(name):
    config = tiny_config(num_hidden_layers=1, initializer_range=0.2)
    return MODELS[name](AlbertEncoder(config, seed=1))


def make_inputs(name, batch_size=4, length=11):
    """Returns the inputs of a model: of two choices a row for multiple choice."""
    if name == "multiple_choice":
        flat = random_inputs(2 * batch_size, length)
        return {key: ids.reshape(batch_size, 2, length) for key, ids in flat.items()}
    inputs = random_inputs(batch_size, length)
    if name == "pretrainer":
        positions = np.random.default_rng(0).integers(0, length, (batch_size, 3), np.int32)
        inputs["masked_lm_positions"] = positions
    return inputs


def exported_outputs(outputs):
    """Returns by name, as arrays, the outputs that an exported model has."""
    named = outputs if isinstance(outputs, dict) else {"logits": outputs}
    return {key: np.array(x) for key, x in named.items() if not isinstance(x, list)}


def labels_and_losses(name, batch_size):
    """Returns labels and losses, each for the outputs of a model that is trained."""
    classes = np.arange(batch_size) % 2
    from_logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def from_log_probs(positions, log_probs):
        return -tf.gather(log_probs, tf.cast(positions[:, 0], tf.int32), batch_dims=1)

    if name == "pretrainer":
        masked = np.tile(np.arange(3), (batch_size, 1))
        labels = {"masked_lm_logits": masked, "sentence_order_logits": classes}
        return labels, dict.fromkeys(labels, from_logits)
    if name == "token_classifier":
        return np.tile(np.arange(11) % 3, (batch_size, 1)), from_logits
    if name == "span_labeler":
        labels = {"start_logits": classes, "end_logits": classes + 3}
        return labels, dict.fromkeys(labels, from_logits)
    if name == "conditional_span_labeler":
        # A token of the passage in every row.
        starts = np.full((batch_size, 1), 3)
        labels = {"start_log_probs": starts, "end_log_probs": starts}
        return labels, dict.fromkeys(labels, from_log_probs)
    return classes, from_logits


def assert_same_kernels(model, other, without_gradient=()):
    """Compares all weights except biases and those named: LAMB scales a rounding error up."""
    for weight, expected in zip(model.weights, other.weights, strict=True):
        if "bias" not in weight.path and weight.path not in without_gradient:
            np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-4, err_msg=weight.path)


@pytest.mark.parametrize("name", slow_except(HEADS, "pretrainer"))
def test_keras_fit_equals_updates_with_dense_gradients(name):
    inputs = make_inputs(name)
    labels, losses = labels_and_losses(name, 4)
    if name == "conditional_span_labeler":
        inputs["start_positions"] = labels["start_log_probs"][:, 0]
    fitted, expected = make_model(name), make_model(name)
    fitted.compile(Lamb(1e-2), losses)
    history = fitted.fit(inputs, labels, batch_size=4, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]

    expected.compile(loss=losses)
    optimizer = Lamb(1e-2)
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = expected.compute_loss(inputs, labels, expected(inputs, training=True))
        gradients = tape.gradient(loss, expected.trainable_variables)
        dense = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        optimizer.apply(dense, expected.trainable_variables)
    # The last layer norm's offset shifts the logits of all positions alike, so a span's loss has no
    # gradient there.
    shifts = [
        variable.path
        for variable, gradient in zip(expected.trainable_variables, dense, strict=True)
        if "beta" in variable.path and np.abs(gradient).max() < 1e-6
    ]
    assert len(shifts) == name.endswith("span_labeler")
    assert_same_kernels(fitted, expected, without_gradient=shifts)


@pytest.mark.slow
def test_keras_fit_learns_the_same_eagerly_and_compiled():
    batches = tf.data.Dataset.from_tensors((make_inputs("classifier"), np.arange(4) % 2))
    losses = []
    for options in ({}, {"run_eagerly": True}, {"jit_compile": True}):
        model = make_model("classifier")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(AdamWeightDecay(1e-2), loss, **options)
        losses.append(model.fit(batches, epochs=2, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses, losses[:1] * 3, rtol=1e-5)


@pytest.mark.slow  # a collective of Keras's that fails leaves none for later tests of the process
def test_keras_fit_on_two_replicas_equals_one():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results = []
    for scope in (strategy.scope(), tf.distribute.get_strategy().scope()):
        with scope:
            model = make_model("classifier")
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(Lamb(1e-2), loss)
        model.fit(make_inputs("classifier"), np.arange(4) % 2, epochs=2, verbose=0)
        results.append(model)
    assert_same_kernels(*results)


@pytest.mark.parametrize("name", slow_except(MODELS, "pretrainer", "conditional_span_labeler"))
def test_keras_export_gives_the_models_numbers(name, tmp_path):
    model = make_model(name)
    path = str(tmp_path / "exported")
    model.export(path, verbose=False)
    for batch_size, length in ((4, 11), (2, 33)):
        inputs = make_inputs(name, batch_size, length)
        expected = exported_outputs(model(inputs))
        # As TensorFlow Serving loads it.
        outputs = run_in_session(path, inputs)
        assert set(outputs) == set(expected)
        for key, output in outputs.items():
            np.testing.assert_allclose(output, expected[key], rtol=0, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name", slow_except(MODELS, "classifier"))
@pytest.mark.parametrize("form", ["onnx", "openvino", "litert"])
def test_keras_exports_other_formats(name, form, tmp_path):
    model = make_model(name)
    run = {"onnx": _export_onnx, "openvino": _export_openvino, "litert": _export_litert}[form](
        model, tmp_path
    )
    for batch_size, length in ((4, 11), (2, 33)):
        inputs = make_inputs(name, batch_size, length)
        expected = exported_outputs(model(inputs))
        outputs = run(inputs)
        assert set(outputs) == set(expected)
        for key, output in outputs.items():
            np.testing.assert_allclose(output, expected[key], rtol=0, atol=1e-5, err_msg=key)


def _export_onnx(model, folder):
    pytest.importorskip("tf2onnx", reason="needs tf2onnx")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    path = str(folder / "model.onnx")
    model.export(path, format="onnx", verbose=False)
    session = runtime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


def _export_openvino(model, folder):
    openvino = pytest.importorskip("openvino", reason="needs openvino; `make test-parity` has it")
    path = str(folder / "model.xml")
    model.export(path, format="openvino", verbose=False)
    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs):
        # An output may also have the name of the operation that computes it, such as `dense/MatMul:0`.
        return {
            name: value
            for output, value in compiled(inputs).items()
            for name in output.get_names()
            if ":" not in name
        }

    return run


def _export_litert(model, folder):
    runtime = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="needs ai_edge_litert; `make test-parity` has it"
    )
    path = str(folder / "model.tflite")
    model.export(path, format="litert", verbose=False)
    # It has TensorFlow Lite's own operators alone.
    run = runtime.Interpreter(path).get_signature_runner()
    return lambda inputs: run(**inputs)


def test_keras_export_takes_a_signature(tmp_path):
    model = make_model("classifier")
    path = str(tmp_path / "exported")
    spec = keras.InputSpec(shape=(None, 11), dtype="int64")
    model.export(path, verbose=False, input_signature=[{"input_ids": spec}])
    ids = make_inputs("classifier")["input_ids"].astype(np.int64)
    outputs = run_in_session(path, {"input_ids": ids})
    np.testing.assert_allclose(outputs["logits"], model({"input_ids": ids}), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", slow_except(MODELS, "encoder", "conditional_span_labeler"))
def test_summary_shows_the_shape_of_every_layer(name, tmp_path):
    model = make_model(name)
    model.save(tmp_path / "model.keras")
    lines = []
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        each.summary(print_fn=lambda text, **_: lines.append(text))
        ranks = keras.tree.map_shape_structure(len, each.compute_output_shape(each.input_shapes))
        outputs = each(make_inputs(name))
        assert ranks == keras.tree.map_structure(lambda output: len(output.shape), outputs)
    assert "None" in "".join(lines)
    assert "?" not in "".join(lines)


@pytest.mark.parametrize("name", HEADS)
def test_outputs_of_a_functional_model_have_their_own_dtypes(name):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), dtype="mixed_bfloat16")
    model = MODELS[name](encoder)
    symbols = {
        key: keras.Input(shape[1:], dtype="int32") for key, shape in model.input_shapes.items()
    }
    dtypes = {x.dtype for x in keras.tree.flatten(model(symbols))}
    assert dtypes == {x.dtype.name for x in keras.tree.flatten(model(make_inputs(name)))}
    clone = keras.models.clone_model(model)
    assert [weight.shape for weight in clone.weights] == [weight.shape for weight in model.weights]


IDS = random_inputs()["input_ids"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"input_ids": IDS, "attention_mask": IDS, "token_type_ids": IDS, "position_ids": IDS},
            r"^AlbertClassifier: unknown input attention_mask \(expected input_mask\), "
            r"token_type_ids \(expected segment_ids\), "
            r"position_ids \(leave it out, positions count from 0\); "
            "the inputs are input_ids, input_mask, segment_ids, token_positions$",
        ),
        (
            {"token_ids": IDS, "padding_mask": IDS},
            r"token_ids \(expected input_ids\), padding_mask \(expected input_mask\)",
        ),
        (IDS, r"expected a dictionary of input_ids, .*; received int32 \(3, 11\)$"),
        ([IDS, IDS], "expected a dictionary of input_ids, .*; received list$"),
        ({"input_mask": IDS}, "input_ids is missing; received input_mask$"),
        (
            {"input_ids": IDS.astype(np.float32)},
            r"input_ids: expected int \(B, S\), received float32 \(3, 11\)$",
        ),
        ({"input_ids": IDS[0]}, r"input_ids: expected int \(B, S\), received int32 \(11,\)$"),
        ({"input_ids": IDS.tolist()}, r"input_ids: expected int \(B, S\), received list$"),
        (
            {"input_ids": tf.ragged.constant([[1, 2], [3]])},
            r"input_ids: expected int \(B, S\), received RaggedTensor$",
        ),
        (
            {"input_ids": IDS, "input_mask": IDS[:1]},
            r"input_mask: expected int \(B=3, S=11\), received int32 \(1, 11\)$",
        ),
        (random_inputs(length=65), "sequence length 65 is greater than max_position_embeddings 64"),
    ],
)
def test_inputs_that_are_refused(inputs, message):
    with pytest.raises(InputError, match=message):
        make_model("classifier")(inputs)


def test_inputs_are_refused_with_the_same_line_in_a_graph():
    model = make_model("classifier")
    inputs = {"input_ids": IDS, "attention_mask": IDS}
    line = r"AlbertClassifier: unknown input attention_mask \(expected input_mask\); the inputs are"
    with pytest.raises(InputError, match=f"^{line}"):
        model.predict(inputs, verbose=0)

    @tf.function
    def predict():
        return model(inputs)

    with pytest.raises(InputError, match=line):
        predict()


@pytest.mark.parametrize(
    ("name", "missing"),
    [("pretrainer", "masked_lm_positions"), ("conditional_span_labeler", "segment_ids")],
)
def test_inputs_that_a_head_needs(name, missing):
    inputs = make_inputs(name)
    del inputs[missing]
    with pytest.raises(InputError, match=f"{missing} is missing; received input_ids, input_mask"):
        make_model(name)(inputs)


def test_training_needs_the_answers_starts():
    with pytest.raises(InputError, match="start_positions is missing; training needs it"):
        make_model("conditional_span_labeler")(random_inputs(), training=True)


def test_a_batch_is_passed_whole_with_its_labels():
    model, inputs = make_model("classifier"), make_inputs("classifier")
    outputs = model({**inputs, "label_ids": np.zeros(4, np.int32)})
    np.testing.assert_array_equal(outputs, model(inputs))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64"])
def test_ids_may_be_integers_of_any_size(dtype):
    model, inputs = make_model("pretrainer"), make_inputs("pretrainer", batch_size=30)
    outputs = model({name: ids.astype(dtype) for name, ids in inputs.items()})
    for name, expected in model(inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
def test_a_mask_may_be_bool_or_float(dtype):
    model, inputs = make_model("classifier"), make_inputs("classifier")
    mask = inputs["input_mask"].astype(dtype)
    np.testing.assert_array_equal(model({**inputs, "input_mask": mask}), model(inputs))


def test_a_config_instead_of_an_encoder_is_named():
    message = (
        "^encoder: expected an AlbertEncoder, received AlbertConfig; `AlbertClassifier.from_enc"
    )
    with pytest.raises(InputError, match=message):
        AlbertClassifier(tiny_config(), num_classes=2)
