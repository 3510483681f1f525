"""What every model has: saving, mixed precision and export of Keras; presets."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest

from albert_tf.config import PRESETS
from albert_tf.conversion import save_model
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEmbedder,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from tests.export.runtimes import need, run_in_session, run_onnx_file
from tests.helpers import assert_same_weights, random_inputs, refused, slow_except, tiny_config

# Class, and arguments besides encoder and seed.
HEADS = {
    "pretrainer": (AlbertPretrainer, {}),
    "classifier": (AlbertClassifier, {"num_classes": 2, "dropout": 0.0}),
    "multiple_choice": (AlbertMultipleChoice, {"dropout": 0.0}),
    "token_classifier": (AlbertTokenClassifier, {"num_classes": 3, "dropout": 0.0}),
    "span_labeler": (AlbertSpanLabeler, {}),
    "conditional_span_labeler": (AlbertConditionalSpanLabeler, {"dropout": 0.0}),
}
MODELS = {**HEADS, "embedder": (AlbertEmbedder, {}), "encoder": None}
CONFIG = tiny_config(num_hidden_layers=1, initializer_range=0.2)


def make_model(name, config=CONFIG, **options):
    encoder = AlbertEncoder(config, seed=1, **options)
    if name == "encoder":
        return encoder
    model_class, arguments = MODELS[name]
    return model_class(encoder, **arguments, seed=2, **options)


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
    convert = keras.ops.convert_to_numpy
    return {key: convert(x) for key, x in named.items() if not isinstance(x, list)}


def _export_saved_model(model, folder):
    model.export(str(folder / "exported"), verbose=False)
    # As TensorFlow Serving loads it.
    return lambda inputs: run_in_session(str(folder / "exported"), inputs)


def _export_onnx(model, folder):
    need("onnx")
    path = folder / "model.onnx"
    model.export(str(path), format="onnx", verbose=False)
    return lambda inputs: run_onnx_file(path, inputs)


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


EXPORTS = {
    **{"saved_model": _export_saved_model, "onnx": _export_onnx},
    **{"openvino": _export_openvino, "litert": _export_litert},
}
FORMS_OF_MODELS = [*itertools.product(EXPORTS, MODELS)]
FAST = {
    ("saved_model", "pretrainer"),
    *((form, "classifier") for form in ("onnx", "openvino", "litert")),
}


@pytest.mark.parametrize(("form", "name"), slow_except(FORMS_OF_MODELS, *FAST))
def test_keras_export_gives_the_models_numbers(form, name, tmp_path):
    model = make_model(name)
    run = EXPORTS[form](model, tmp_path)
    for batch_size, length in ((4, 11), (2, 33)):
        inputs = make_inputs(name, batch_size, length)
        expected = exported_outputs(model(inputs))
        outputs = run(inputs)
        assert set(outputs) == set(expected)
        for key, output in outputs.items():
            np.testing.assert_allclose(output, expected[key], rtol=0, atol=1e-5, err_msg=key)


def test_keras_export_takes_a_signature(tmp_path):
    model = make_model("classifier")
    path = str(tmp_path / "exported")
    spec = keras.InputSpec(shape=(None, 11), dtype="int64")
    model.export(path, verbose=False, input_signature=[{"input_ids": spec}])
    ids = make_inputs("classifier")["input_ids"].astype(np.int64)
    outputs = run_in_session(path, {"input_ids": ids})
    np.testing.assert_allclose(outputs["logits"], model({"input_ids": ids}), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_keras_file_gives_the_model_back(name, tmp_path):
    config, options = CONFIG, {"dtype": "mixed_bfloat16"}
    if name == "encoder":
        config = dataclasses.replace(CONFIG, num_hidden_layers=2, sharing="attention")
        options |= {"with_pooler": False, "remat": True, "use_one_hot_embeddings": True}
    model, inputs = make_model(name, config, **options), make_inputs(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    assert len(loaded.weights) == len(model.weights)
    outputs = model(inputs)
    keras.tree.map_structure(np.testing.assert_array_equal, loaded(inputs), outputs)
    ranks = keras.tree.map_shape_structure(len, loaded.compute_output_shape(loaded.input_shapes))
    assert ranks == keras.tree.map_structure(lambda output: len(output.shape), outputs)
    lines = []
    loaded.summary(print_fn=lambda text, **_: lines.append(text))
    # The shape of every layer is known.
    assert "None" in "".join(lines)
    assert "?" not in "".join(lines)


@pytest.mark.parametrize("name", MODELS)
def test_mixed_precision_stays_near_full_and_outputs_have_their_own_dtypes(name):
    model, inputs = make_model(name, dtype="mixed_bfloat16"), make_inputs(name)
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    outputs, full = model(inputs), exported_outputs(make_model(name)(inputs))
    mixed = exported_outputs(outputs)
    for key in full:
        # The order of the beam depends on rounding.
        if "_top_" not in key:
            seen = full[key] > -1e29
            error = np.abs(mixed[key].astype(np.float32) - full[key])[seen].max()
            # bfloat16's numbers are 0.8 % apart; where they are rounded differs between processors.
            assert error < 0.05 * np.abs(full[key][seen]).max(), key
    shapes = model.input_shapes
    symbols = {key: keras.Input(shape[1:], dtype="int32") for key, shape in shapes.items()}
    dtypes = {x.dtype for x in keras.tree.flatten(model(symbols))}
    assert dtypes == {x.dtype.name for x in keras.tree.flatten(outputs)}
    assert dtypes <= ({"bfloat16"} if name == "encoder" else {"float32", "int32"})
    clone = keras.models.clone_model(model)
    assert [weight.shape for weight in clone.weights] == [weight.shape for weight in model.weights]


@pytest.mark.parametrize("name", ["classifier", "multiple_choice", "token_classifier"])
def test_a_head_has_a_dropout_of_its_own(name):
    model_class, arguments = HEADS[name]
    model = model_class(AlbertEncoder(CONFIG, seed=1), **{**arguments, "dropout": 0.5}, seed=2)
    inputs = make_inputs(name)
    np.testing.assert_array_equal(model(inputs), model(inputs))
    assert (model(inputs, training=True) != model(inputs)).numpy().any()


# `from_preset`: sizes with random weights, folders with theirs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model = AlbertPretrainer(AlbertEncoder(CONFIG, seed=1), seed=2)
    path = tmp_path_factory.mktemp("pretrained") / "folder"
    save_model(model, str(path))
    return model, path


def test_a_size_has_random_weights_and_says_so(monkeypatch):
    monkeypatch.setitem(PRESETS, "tiny", dataclasses.asdict(CONFIG))
    message = r"^AlbertEncoder\.from_preset\('tiny'\): a size without weights; all of them are init"
    with pytest.warns(UserWarning, match=message):
        encoder = AlbertEncoder.from_preset("tiny", seed=3)
    assert encoder.config == CONFIG
    with pytest.warns(UserWarning, match=r"^AlbertClassifier\.from_preset\('tiny'\): a size with"):
        classifier = AlbertClassifier.from_preset("tiny", num_classes=3, seed=3)
    assert_same_weights(classifier.encoder, encoder)
    assert classifier.num_classes == 3


def test_a_folder_has_its_weights(folder):
    model, path = folder
    restored = AlbertPretrainer.from_preset(path)
    assert_same_weights(restored, model)
    assert_same_weights(AlbertEncoder.from_preset(str(path)), model.encoder)
    message = r"has no albert_classifier/head/dense/kernel, albert_classifier/head/dense/bias; init"
    with pytest.warns(UserWarning, match=message):
        classifier = AlbertClassifier.from_preset(path, num_classes=3)
    assert_same_weights(classifier.encoder, model.encoder)


def test_a_classifier_has_as_many_classes_as_in_its_folder(folder, tmp_path):
    trained = AlbertClassifier(AlbertEncoder(CONFIG, seed=1), num_classes=5, seed=2)
    save_model(trained, str(tmp_path / "trained"))
    restored = AlbertClassifier.from_preset(tmp_path / "trained")
    assert restored.num_classes == 5
    assert_same_weights(restored, trained)
    message = r"num_classes=3: the folder's head has 5; reset_head=True initialises a new head$"
    with refused(message):
        AlbertClassifier.from_preset(tmp_path / "trained", num_classes=3)
    anew = AlbertClassifier.from_preset(tmp_path / "trained", reset_head=True, num_classes=3)
    assert anew.num_classes == 3
    assert_same_weights(anew.encoder, trained.encoder)
    _, pretrained = folder
    message = r"^AlbertClassifier\.from_preset\(.*\): num_classes: expected a number, as the folder"
    with refused(message):
        AlbertClassifier.from_preset(pretrained)
