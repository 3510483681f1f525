"""KerasHub's models: small ones in their layout, and in `make test-parity` their own."""

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.conversion import load_model
from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.common import find_init_model
from albert_tf.tasks.conversion import ConversionOptions, run
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions
from albert_tf.tokenization import AlbertTokenizer
from tests.checkpoints.keras_hub_layout import (
    HEAD,
    backbone_config,
    h5_bytes,
    in_task,
    keras_hub_name,
    model_outputs,
    model_tensors,
    task_config,
    write_archive,
    write_preset,
)
from tests.helpers import random_inputs, tiny_config
from tests.tokenization.conftest import train_model

# Masked positions, (B, M).
POSITIONS = np.array([[0, 3], [5, 2], [1, 4]], np.int32)
CONFIG = tiny_config(num_hidden_layers=2)
TENSORS = model_tensors()
BACKBONE = {keras_hub_name(name): t for name, t in TENSORS.items() if HEAD not in name}
MASKED_LM = {keras_hub_name(name): t for name, t in TENSORS.items() if HEAD in name}
RNG = np.random.default_rng(5)
CLASSIFIER = {
    "layers/dense/vars/0": RNG.normal(size=(48, 3)).astype(np.float32),
    "layers/dense/vars/1": RNG.normal(size=3).astype(np.float32),
}
# What files hold in addition to weights.
NO_WEIGHTS = {
    "optimizer/vars/0": np.int64(3),
    "layers/dropout/seed_generator/seed_generator_state": np.zeros(2, np.uint32),
}


@pytest.fixture(scope="module")
def expected():
    return model_outputs(TENSORS, random_inputs(), POSITIONS, CONFIG.num_hidden_layers)


@pytest.fixture
def preset(tmp_path):
    return write_preset(tmp_path / "preset", BACKBONE)


def assert_encodes(encoder, expected):
    received = encoder(random_inputs())
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(received[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["preset", "keras", "weights"])
def test_a_backbone_in_every_form(tmp_path, expected, kind):
    tensors = {**BACKBONE, **NO_WEIGHTS}
    if kind == "preset":
        path = write_preset(tmp_path / "preset", tensors)
    elif kind == "keras":
        path = write_archive(tmp_path / "model.keras", tensors, backbone_config())
    else:
        path = str(tmp_path / "model.weights.h5")
        (tmp_path / "model.weights.h5").write_bytes(h5_bytes(tensors))
    model, report = load_model(CONFIG, path)
    assert isinstance(model, AlbertEncoder)
    assert report.format_name == "keras_hub"
    assert len(report.read) == len(BACKBONE)
    assert report.missing == report.unexpected == ()
    assert len(report.optimizer) == 2
    if kind == "preset":
        assert_encodes(model, expected)


def test_a_classifier(tmp_path, expected):
    tensors = {**in_task(BACKBONE), **CLASSIFIER, **NO_WEIGHTS}
    config = task_config("AlbertTextClassifier", num_classes=3)
    path = write_archive(tmp_path / "model.keras", tensors, config)
    model, report = load_model(CONFIG, path)
    assert len(report.read) == len(BACKBONE) + 2
    assert report.unexpected == ()
    kernel, bias = CLASSIFIER.values()
    logits = expected["pooled_output"] @ kernel + bias
    np.testing.assert_allclose(model(random_inputs()), logits, rtol=0, atol=1e-5)


def test_a_masked_lm(tmp_path, expected):
    path = write_preset(tmp_path / "preset", BACKBONE, {**MASKED_LM, **NO_WEIGHTS})
    model, report = load_model(CONFIG, path)
    assert isinstance(model, AlbertPretrainer)
    assert len(report.read) == len(TENSORS)
    assert report.unexpected == ()
    received = model({**random_inputs(), "masked_lm_positions": POSITIONS})["masked_lm_logits"]
    np.testing.assert_allclose(received, expected["mlm_logits"], rtol=0, atol=1e-5)


def test_groups_and_inner_layers(tmp_path):
    config = tiny_config(num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
    rng = np.random.default_rng(0)
    expected, tensors = {}, {}
    for name, tensor in model_tensors().items():
        blocks = range(4) if name.startswith("transformer/") else range(1)
        for block in blocks if HEAD not in name else ():
            value = rng.normal(size=tensor.shape).astype(np.float32)
            tensors[keras_hub_name(name, block)] = value
            expected[name, block] = value
    groups = backbone_config(num_layers=4, num_groups=2, num_inner_repetitions=2)
    path = write_preset(tmp_path / "preset", tensors, config=groups)
    assert read_config(f"{path}/config.json").inner_group_num == 2
    encoder, report = load_model(config, path)
    assert report.unexpected == ()
    assert encoder.block_order == [0, 1, 0, 1, 2, 3, 2, 3]
    for index, block in enumerate(encoder.blocks):
        key = expected["transformer/self_attention/key/kernel", index].reshape(48, 48)
        output = expected["transformer/output/bias", index]
        weights = {weight.path.split("/", 2)[2]: weight for weight in block.weights}
        group, inner = divmod(index, 2)
        np.testing.assert_array_equal(weights[f"attention_{group}_{inner}/key/kernel"], key)
        np.testing.assert_array_equal(weights[f"ffn_{group}_{inner}/output/bias"], output)


def test_from_preset(tmp_path, expected):
    path = write_preset(tmp_path / "classifier", BACKBONE, CLASSIFIER)
    classifier = AlbertClassifier.from_preset(path)
    assert classifier.num_classes == 3
    assert classifier.encoder.config.hidden_dropout_prob == 0.1
    np.testing.assert_array_equal(classifier.head.dense.bias, CLASSIFIER["layers/dense/vars/1"])
    assert_encodes(AlbertEncoder.from_preset(path), expected)
    with pytest.warns(UserWarning, match="has no albert_pretrainer/.*; initialised randomly"):
        AlbertPretrainer.from_preset(path)


def test_a_preset_is_converted(tmp_path):
    path = write_preset(tmp_path / "preset", BACKBONE, CLASSIFIER)
    options = {"init_checkpoint": path, "output_checkpoint": str(tmp_path / "converted")}
    run(ConversionOptions(**options, to="hugging_face", from_="keras_hub"))
    model, _ = load_model(
        read_config(str(tmp_path / "converted" / "config.json")), options["output_checkpoint"]
    )
    np.testing.assert_array_equal(model.head.dense.bias, CLASSIFIER["layers/dense/vars/1"])


def test_a_classifiers_preset_with_its_vocabulary_is_a_whole_model(tmp_path):
    words = np.random.default_rng(0).normal(0, 0.3, (150, 16)).astype(np.float32)
    tensors = {**BACKBONE, "layers/reversible_embedding/vars/0": words}
    config = backbone_config(vocabulary_size=150)
    path = write_preset(tmp_path / "preset", tensors, CLASSIFIER, config)
    (tmp_path / "preset" / "task.json").write_text(
        json.dumps(task_config("AlbertTextClassifier", num_classes=3))
    )
    assets = tmp_path / "preset" / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    (assets / "vocabulary.spm").write_bytes(train_model())
    loaded = albert_tf.load(path)
    assert loaded.predict(["a day"]).probabilities.shape == (1, 3)
    assert len(AlbertTokenizer.from_preset(path).pieces) == 150
    output = tmp_path / "converted"
    run(ConversionOptions(init_checkpoint=path, to="hugging_face", output_checkpoint=str(output)))
    received, expected = (
        albert_tf.load(folder).predict(["a day"]).probabilities for folder in (output, path)
    )
    np.testing.assert_allclose(received, expected, atol=1e-6)
    options = ClassificationOptions(
        task_name="tsv", train_file="t", do_train=True, init_checkpoint=path, output_dir="out"
    )
    found = find_init_model(options)
    assert found.spm_model_file == str(assets / "vocabulary.spm")
    assert found.albert_config_file == str(tmp_path / "preset" / "config.json")


def test_bfloat16_is_read(tmp_path):
    import h5py

    path = tmp_path / "model.weights.h5"
    halves = {name: tensor.astype(ml_dtypes.bfloat16) for name, tensor in BACKBONE.items()}
    with h5py.File(path, "w") as file:
        for name, tensor in halves.items():
            file.create_dataset(name, data=tensor).attrs["dtype"] = "bfloat16"
    encoder = AlbertEncoder(CONFIG)
    load_checkpoint(encoder, str(path))
    expected = halves["layers/reversible_embedding/vars/0"].astype(np.float32)
    np.testing.assert_array_equal(encoder.embedding.word_embeddings, expected)


def test_another_model_is_refused(tmp_path, preset):
    bert = write_preset(tmp_path / "bert", BACKBONE, config=backbone_config("BertBackbone"))
    message = r"bert/config\.json: class_name is 'BertBackbone'; of KerasHub's models only AlbertB"
    with pytest.raises(InputError, match=message):
        AlbertEncoder.from_preset(bert)
    with pytest.raises(InputError, match=message):
        load_checkpoint(AlbertEncoder(CONFIG), bert)
    without = {name: t for name, t in BACKBONE.items() if "dense_1" not in name}
    (tmp_path / "bert.weights.h5").write_bytes(h5_bytes(without))
    with pytest.raises(InputError, match=r"bert\.weights\.h5: holds another model of KerasHub"):
        load_checkpoint(AlbertEncoder(CONFIG), str(tmp_path / "bert.weights.h5"))
    incomplete = backbone_config()
    del incomplete["config"]["num_heads"]
    path = write_preset(tmp_path / "incomplete", BACKBONE, config=incomplete)
    with pytest.raises(InputError, match=r"config\.json: key 'num_heads' is missing"):
        AlbertEncoder.from_preset(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 4}, r"\(KerasHub\): num_layers is 2 there; .* num_hidden_layers 4"),
        ({"num_attention_heads": 6}, "num_heads is 4 there; .* num_attention_heads 6"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; KerasHub's models have only 'gelu'"),
        ({"sharing": "attention"}, "KerasHub's checkpoints hold whole blocks only"),
        (
            {"num_hidden_layers": 3, "num_hidden_groups": 2},
            "3 layers in 2 groups: KerasHub has no such model",
        ),
    ],
)
def test_another_config_is_refused(preset, changes, message):
    with pytest.raises(InputError, match=message):
        load_checkpoint(AlbertEncoder(dataclasses.replace(CONFIG, **changes)), preset)


def test_missing_and_damaged_weights_are_named(tmp_path):
    def load(tensors):
        path = tmp_path / "model.weights.h5"
        path.write_bytes(tensors if isinstance(tensors, bytes) else h5_bytes(tensors))
        load_checkpoint(AlbertEncoder(CONFIG), str(path))

    missing = {name: t for name, t in BACKBONE.items() if "_feedforward_layer_norm" not in name}
    message = (
        r"h5: 'albert_backbone/transformer_encoder/_feedforward_layer_norm/0' is not in it; the"
    )
    with pytest.raises(InputError, match=message):
        load(missing)
    block = {name.replace("encoder/", "encoder_1/"): t for name, t in BACKBONE.items()}
    with pytest.raises(InputError, match=r"encoder_1/.*for which the model of this config has no"):
        load({**BACKBONE, **block})
    with pytest.raises(InputError, match=r"h5: 'dense/0' is of type int8; a quantized"):
        load({**BACKBONE, "layers/dense/vars/0": np.zeros((16, 48), np.int8)})
    key = keras_hub_name("transformer/self_attention/key/kernel")
    with pytest.raises(InputError, match=r"has shape \(48, 4, 11\); the model's .* \(48, 48\)"):
        load({**BACKBONE, key: np.zeros((48, 4, 11), np.float32)})
    content = h5_bytes(BACKBONE)
    for damaged in (content[:3000], b"", content[: len(content) // 2]):
        with pytest.raises(InputError, match=r"weights\.h5: the file is damaged: ") as error:
            load(damaged)
        assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["AlbertBackbone", "AlbertTextClassifier", "AlbertMaskedLM"])
def test_outputs_are_those_of_keras_hub(tmp_path, kind):
    keras_hub = pytest.importorskip("keras_hub", reason="needs the group parity: keras-hub")
    values = backbone_config(num_layers=4, num_groups=2, num_inner_repetitions=2)["config"]
    backbone = keras_hub.models.AlbertBackbone(**values)
    inputs = random_inputs()
    theirs = {
        "token_ids": inputs["input_ids"],
        "padding_mask": inputs["input_mask"],
        "segment_ids": inputs["segment_ids"],
    }
    model = backbone
    if kind == "AlbertTextClassifier":
        model = keras_hub.models.AlbertTextClassifier(backbone, num_classes=3)
    elif kind == "AlbertMaskedLM":
        model = keras_hub.models.AlbertMaskedLM(backbone)
        # The original's, and ours; theirs has Keras's default there (docs/fidelity.md).
        model.masked_lm_head._intermediate_layer_norm.epsilon = 1e-12
        theirs["mask_positions"] = inputs["masked_lm_positions"] = POSITIONS
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(weight + rng.normal(0, 0.1, weight.shape))
    expected = model(theirs)
    model.save_to_preset(str(tmp_path / "preset"))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    config = read_config(str(tmp_path / "preset" / "config.json"))
    forms = {
        "AlbertBackbone": ("preset", "model.weights.h5"),
        "AlbertTextClassifier": ("preset", "model.keras"),
        "AlbertMaskedLM": ("preset", "model.weights.h5"),
    }
    for name in forms[kind]:
        ours, report = load_model(config, str(tmp_path / name))
        assert report.missing == report.unexpected == ()
        received = ours(inputs)
        if kind == "AlbertBackbone":
            pairs = [(received[key], expected[key]) for key in expected]
        elif kind == "AlbertMaskedLM":
            pairs = [(received["masked_lm_logits"], expected)]
        else:
            pairs = [(received, expected)]
        for first, second in pairs:
            np.testing.assert_allclose(first, second, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_half_precision_of_keras_hub(tmp_path):
    keras_hub = pytest.importorskip("keras_hub", reason="needs the group parity: keras-hub")
    values = {**backbone_config()["config"], "dtype": "bfloat16"}
    backbone = keras_hub.models.AlbertBackbone(**values)
    backbone.save_to_preset(str(tmp_path / "preset"))
    encoder = AlbertEncoder.from_preset(str(tmp_path / "preset"))
    kernel = np.asarray(backbone.pooled_dense.kernel).astype(np.float32)
    np.testing.assert_array_equal(encoder.pooler.dense.kernel, kernel)
