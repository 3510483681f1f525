"""Encoders of TF Hub: small ones of their layout, and ones that their library exports.

The library pins its TensorFlow, so the slow test needs an environment of its own: `make test-hub`.
"""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import tf_hub
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.checkpoints.tensor_files import write_checkpoint
from albert_tf.conversion import load_model
from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.conversion import ConversionOptions, run
from tests.checkpoints.test_tf1 import original_tensors
from tests.conversion.hub_layout import HEAD, export, hub_outputs, hub_tensors, save
from tests.helpers import random_inputs, tiny_config

# Masked positions, (B, M).
POSITIONS = np.array([[0, 3], [5, 2], [1, 4]], np.int32)
VARIABLES = "variables/variables"


def assert_same_outputs(pretrainer, theirs):
    inputs = random_inputs()
    ours = pretrainer.encoder(inputs)
    pairs = {name: (ours[name], theirs[name]) for name in ("sequence_output", "pooled_output")}
    pairs["mlm_logits"] = (
        pretrainer({**inputs, "masked_lm_positions": POSITIONS})["masked_lm_logits"],
        theirs["mlm_logits"],
    )
    layers = zip(ours["encoder_outputs"], theirs["encoder_outputs"], strict=True)
    pairs.update({f"layer {number}": pair for number, pair in enumerate(layers)})
    for name, (first, second) in pairs.items():
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("embedding", [16, 48])
def test_outputs_are_the_librarys(tmp_path, embedding):
    tensors = hub_tensors(embedding)
    path = export(tmp_path / "hub", tensors)
    model, report = load_model(tiny_config(embedding_size=embedding), path)
    assert isinstance(model, AlbertPretrainer)
    assert model.sentence_order_head is None
    assert len(report.read) == len(tensors)
    assert report.unexpected == report.optimizer == ()
    assert_same_outputs(model, hub_outputs(tensors, random_inputs(), POSITIONS))


def test_encoder_alone_leaves_the_head(tmp_path):
    tensors = hub_tensors()
    path = export(tmp_path / "hub", tensors)
    classifier = AlbertClassifier(AlbertEncoder(tiny_config()), num_classes=3)
    report = load_checkpoint(classifier.encoder, path)
    assert len(report.read) == 25
    assert len(report.unexpected) == 5
    assert f"read 25 variables from {path}/{VARIABLES} (TF Hub)" in report.summary()
    np.testing.assert_array_equal(
        classifier.encoder.pooler.dense.kernel, tensors["pooler_transform/kernel"]
    )


def test_export_without_a_head_is_an_encoder(tmp_path):
    tensors = {name: t for name, t in hub_tensors().items() if HEAD not in name}
    path = export(tmp_path / "hub", tensors)
    model, report = load_model(tiny_config(), path)
    assert isinstance(model, AlbertEncoder)
    assert report.unexpected == ()
    pretrainer = AlbertPretrainer(AlbertEncoder(tiny_config()))
    of_heads = {w.path for w in pretrainer.weights if w.path.startswith("albert_pretrainer/")}
    assert set(load_checkpoint(pretrainer, path).missing) == of_heads


def test_names_of_older_releases_load(tmp_path):
    tensors = hub_tensors()
    older = {
        name.replace("self_attention/attention_output", "self_attention_output").replace(
            "bert/cls", "cls"
        ): value
        for name, value in tensors.items()
    }
    assert set(older) != set(tensors)
    model, _ = load_model(tiny_config(), export(tmp_path / "hub", older))
    assert_same_outputs(model, hub_outputs(tensors, random_inputs(), POSITIONS))


def test_converts_to_the_originals_names(tmp_path, capsys):
    path = export(tmp_path / "hub", hub_tensors())
    tiny_config().to_json_file(str(tmp_path / "albert_config.json"))
    options = ConversionOptions(
        init_checkpoint=path,
        albert_config_file=str(tmp_path / "albert_config.json"),
        output_checkpoint=str(tmp_path / "out" / "model.ckpt-best"),
        to="tf1",
    )
    run(options)
    shown = capsys.readouterr().out
    assert "transformer/self_attention/query/kernel" in shown
    assert "its outputs differ by at most" in shown
    first, _ = load_model(tiny_config(), path)
    second, _ = load_model(tiny_config(), options.output_checkpoint)
    for ours, theirs in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_saved_model_of_tensorflow_1_has_names_for_keys(tmp_path):
    tensors = original_tensors()
    write_checkpoint(str(tmp_path / "variables" / "variables"), tensors)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    _, report = load_model(tiny_config(), str(tmp_path))
    assert report.format == "TensorFlow 1, the original's names"
    assert report.unexpected == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_attention_heads": 6},
            r"num_attention_heads is 6; expected 4, as '.*query/bias' has shape \(4, 12\)",
        ),
        (
            {"sharing": "none"},
            "the config has sharing 'none' and 1 groups of 1 blocks; expected sharing 'all' and one",
        ),
        ({"inner_group_num": 2}, "the config has sharing 'all' and 1 groups of 2 blocks"),
        ({"num_hidden_groups": 3}, "the config has sharing 'all' and 3 groups of 1 blocks"),
        (
            {"hidden_size": 64, "embedding_size": 17},
            r"'word_embeddings/embeddings' has shape \(97, 16\); the model's .* \(97, 17\)",
        ),
        (
            {"hidden_size": 64},
            r"'embedding_projection/kernel' has shape \(16, 48\); the model's .* \(16, 64\)",
        ),
        (
            {"embedding_size": 48},
            r"'word_embeddings/embeddings' has shape \(97, 16\); .* \(97, 48\)",
        ),
    ],
)
def test_config_of_another_model_is_refused_and_changes_nothing(tmp_path, changes, message):
    path = export(tmp_path / "hub", hub_tensors())
    encoder = AlbertEncoder(tiny_config(**changes))
    before = encoder.get_weights()
    with pytest.raises(InputError, match=f"^{path}/{VARIABLES}.*: {message}"):
        load_checkpoint(encoder, path)
    for first, second in zip(before, encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_heads_of_another_size_are_named_with_all_axes(tmp_path):
    tensors = hub_tensors()
    name = "transformer/self_attention/key/kernel"
    tensors[name] = np.zeros((48, 4, 11), np.float32)
    path = export(tmp_path / "hub", tensors)
    with pytest.raises(InputError, match=rf"'{name}' has shape \(48, 4, 11\); .* \(48, 48\)"):
        load_checkpoint(AlbertEncoder(tiny_config()), path)


def test_missing_variable_is_named(tmp_path):
    tensors = hub_tensors()
    del tensors["pooler_transform/kernel"]
    path = export(tmp_path / "hub", tensors)
    with pytest.raises(InputError, match="'pooler_transform/kernel' is not in it; the model's"):
        load_checkpoint(AlbertEncoder(tiny_config()), path)


def test_variables_of_one_name_count_as_missing(tmp_path):
    tensors = hub_tensors()
    variables = [tf.Variable(value, name=name) for name, value in tensors.items()]
    again = tf.Variable(tensors["pooler_transform/bias"], name="pooler_transform/bias")
    path = save(tmp_path / "hub", variables=[*variables, again])
    with pytest.raises(InputError, match="'pooler_transform/bias' is not in it"):
        load_checkpoint(AlbertEncoder(tiny_config()), path)


@pytest.mark.parametrize("kind", ["pretrainer", "classifier"])
def test_heads_that_hub_lacks_are_initialised_randomly(tmp_path, kind):
    path = export(tmp_path / "hub", hub_tensors())
    encoder = AlbertEncoder(tiny_config())
    model = AlbertPretrainer(encoder) if kind == "pretrainer" else AlbertClassifier(encoder, 3)
    kept = load_checkpoint(model, path).missing
    assert len(kept) == 2
    assert all("head/dense/" in name for name in kept)


@pytest.mark.parametrize(
    ("names", "shown"), [(["dense/bias"], "dense/bias"), (["w", "w"], "nothing")]
)
def test_saved_model_of_something_else_is_refused(tmp_path, names, shown):
    variables = [tf.Variable(tf.zeros(3), name=name) for name in names]
    path = save(tmp_path / "other", variables=variables)
    with pytest.raises(InputError, match=f"holds '{shown}'; expected .* TF Hub; "):
        load_checkpoint(AlbertEncoder(tiny_config()), path)


@pytest.mark.parametrize("length", [0, 100, 1000])
@pytest.mark.parametrize("file", ["variables.index", "variables.data-00000-of-00001"])
def test_truncated_variables_are_refused_in_one_line(tmp_path, file, length):
    path = export(tmp_path / "hub", hub_tensors())
    cut = tmp_path / "hub" / "variables" / file
    cut.write_bytes(cut.read_bytes()[:length])
    with pytest.raises(InputError, match=f"{path}/{VARIABLES}: the checkpoint is dam") as caught:
        load_checkpoint(AlbertEncoder(tiny_config()), path)
    assert "\n" not in str(caught.value)


def test_saved_model_without_variables_is_refused(tmp_path):
    path = export(tmp_path / "hub", hub_tensors())
    shutil.rmtree(tmp_path / "hub" / "variables")
    with pytest.raises(InputError, match="there is no such checkpoint"):
        load_checkpoint(AlbertEncoder(tiny_config()), path)


def export_with_the_library(folder, tensors, embedding):
    """Has tf-models-official export an encoder with its masked-LM head and these weights."""
    from official.modeling import tf_utils
    from official.nlp.configs import encoders
    from official.nlp.modeling import models
    from official.nlp.tools import export_tfhub_lib

    sizes = encoders.AlbertEncoderConfig(
        vocab_size=97,
        embedding_width=embedding,
        hidden_size=48,
        num_layers=5,
        num_attention_heads=4,
        intermediate_size=80,
        max_position_embeddings=64,
    )
    config = encoders.EncoderConfig(type="albert", albert=sizes)
    pretrainer = models.BertPretrainerV2(
        encoders.build_encoder(config), mlm_activation=tf_utils.get_activation("gelu")
    )
    pretrainer(pretrainer.inputs)
    for variable in pretrainer.variables:
        variable.assign(tensors[variable.name.removesuffix(":0")])
    checkpoint = tf.train.Checkpoint(**pretrainer.checkpoint_items).save(str(folder / "ckpt"))
    (folder / "vocabulary.model").write_bytes(b"stands for a vocabulary")
    export_tfhub_lib.export_model(
        str(folder / "hub"),
        encoder_config=config,
        model_checkpoint_path=checkpoint,
        with_mlm=True,
        sp_model_file=str(folder / "vocabulary.model"),
    )
    return str(folder / "hub")


@pytest.mark.slow
@pytest.mark.parametrize("embedding", [16, 48])
def test_export_of_the_library_itself(tmp_path, embedding):
    pytest.importorskip("official.nlp", reason="needs tf-models-official")
    tensors = hub_tensors(embedding)
    path = export_with_the_library(tmp_path, tensors, embedding)
    model, report = load_model(tiny_config(embedding_size=embedding), path)
    assert report.unexpected == report.optimizer == ()
    inputs = random_inputs()
    saved = tf.saved_model.load(path)
    theirs = saved.mlm(
        {
            "input_word_ids": tf.constant(inputs["input_ids"]),
            "input_mask": tf.constant(inputs["input_mask"]),
            "input_type_ids": tf.constant(inputs["segment_ids"]),
            "masked_lm_positions": tf.constant(POSITIONS),
        }
    )
    assert_same_outputs(model, theirs)
    # So that the small exports of this file stand for the library's.
    small = tf_hub.open_saved_model(export(tmp_path / "small", tensors))
    assert tf_hub.open_saved_model(path).shapes == small.shapes
    keys = [
        set(tf.train.load_checkpoint(f"{folder}/{VARIABLES}").get_variable_to_shape_map())
        for folder in (path, tmp_path / "small")
    ]
    assert keys[0] == keys[1]
