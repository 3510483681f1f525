import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.checkpoints.tensor_files import variables_by_path
from albert_tf.conversion import load_model, save_hugging_face, save_tf1_checkpoint
from albert_tf.errors import InputError
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
from albert_tf.optimization import Lamb
from albert_tf.training.checkpoint_manager import Checkpoints, save_checkpoint
from tests.helpers import tiny_config


@pytest.fixture
def pretrainer():
    return AlbertPretrainer(AlbertEncoder(tiny_config(sharing="attention"), seed=1), seed=2)


def save(model, directory, step=7):
    return Checkpoints(str(directory), variables_by_path(model.weights), 1).save(step)


def test_encoder_is_read_from_a_pretrainers_checkpoint(tmp_path, pretrainer):
    prefix = save(pretrainer, tmp_path)
    classifier = AlbertClassifier(AlbertEncoder(pretrainer.encoder.config, seed=3), num_classes=2)
    for path in (prefix, str(tmp_path)):
        load_checkpoint(classifier.encoder, path)
        for ours, theirs in zip(
            classifier.encoder.weights, pretrainer.encoder.weights, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_weight_of_another_shape_is_named_and_nothing_is_read(tmp_path, pretrainer):
    save(pretrainer, tmp_path)
    wider = AlbertEncoder(tiny_config(sharing="attention", intermediate_size=81), seed=3)
    before = wider.get_weights()
    with pytest.raises(InputError, match=r"ffn_0_0/intermediate/kernel' has shape \(48, 80\).*81"):
        load_checkpoint(wider, str(tmp_path))
    for first, second in zip(before, wider.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


WITH_HEADS = {
    "pretrainer": AlbertPretrainer,
    "classifier": lambda encoder: AlbertClassifier(encoder, num_classes=7),
    "token classifier": lambda encoder: AlbertTokenClassifier(encoder, num_classes=7),
    "embedder": lambda encoder: AlbertEmbedder(encoder, "weighted_layers"),
    "multiple choice": AlbertMultipleChoice,
    "span labeler": AlbertSpanLabeler,
    "conditional span labeler": AlbertConditionalSpanLabeler,
}


@pytest.mark.parametrize(
    ("save_as", "kind"),
    [
        *((save_checkpoint, kind) for kind in WITH_HEADS),
        (save_tf1_checkpoint, "classifier"),
        (save_hugging_face, "span labeler"),
        (save_tf1_checkpoint, "embedder"),
        (save_hugging_face, "embedder"),
    ],
)
def test_missing_heads_are_initialised_randomly(tmp_path, save_as, kind):
    encoder = AlbertEncoder(tiny_config(), seed=1)
    save_as(encoder, str(tmp_path / "theirs"))
    model = WITH_HEADS[kind](AlbertEncoder(tiny_config(), seed=2))
    of_heads = {
        path: variable.numpy()
        for path, variable in variables_by_path(model.weights).items()
        if not path.startswith("albert_encoder/")
    }
    report = load_checkpoint(model, str(tmp_path / "theirs"))
    assert set(report.missing) == set(of_heads)
    assert report.unexpected == ()
    variables = variables_by_path(model.weights)
    for path, value in of_heads.items():
        np.testing.assert_array_equal(variables[path], value)
    for ours, theirs in zip(model.encoder.weights, encoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert f"missing, initialised randomly: {report.missing[0]}" in report.summary()
    with pytest.raises(
        InputError, match=rf"theirs.* \(.*\): lacks {report.missing[0]}[,;] .*training"
    ):
        report.check_complete()
    assert load_checkpoint(model.encoder, str(tmp_path / "theirs")).check_complete() is None


@pytest.mark.parametrize("save_as", [save_checkpoint, save_tf1_checkpoint, save_hugging_face])
def test_one_of_two_heads_is_initialised_randomly(tmp_path, save_as):
    save_as(
        AlbertPretrainer(AlbertEncoder(tiny_config()), sentence_head=False), str(tmp_path / "c")
    )
    model = AlbertPretrainer(AlbertEncoder(tiny_config()))
    report = load_checkpoint(model, str(tmp_path / "c"))
    assert report.missing == (
        "albert_pretrainer/sentence_order_head/dense/kernel",
        "albert_pretrainer/sentence_order_head/dense/bias",
    )


@pytest.mark.parametrize("missing", ["masked_lm_head/output_bias", "encoder/pooler/dense/bias"])
def test_missing_weight_is_named(tmp_path, pretrainer, missing):
    variables = variables_by_path(pretrainer.weights)
    (path,) = (path for path in variables if path.endswith(missing))
    Checkpoints(str(tmp_path), {p: v for p, v in variables.items() if p != path}, 1).save(7)
    with pytest.raises(InputError, match=rf"'{path}' is not in it; the model's '{path}' has shape"):
        load_checkpoint(pretrainer, str(tmp_path))


def test_head_of_another_shape_is_refused(tmp_path):
    encoder = AlbertEncoder(tiny_config())
    save_checkpoint(AlbertClassifier(encoder, num_classes=7), str(tmp_path / "ckpt"))
    with pytest.raises(InputError, match=r"head/dense/kernel' has shape \(48, 7\); .* \(48, 3\)"):
        load_checkpoint(AlbertClassifier(encoder, num_classes=3), str(tmp_path / "ckpt"))


def test_places_without_checkpoint_are_refused(tmp_path, pretrainer):
    with pytest.raises(InputError, match="the folder holds no checkpoint"):
        load_checkpoint(pretrainer, str(tmp_path))
    with pytest.raises(InputError, match="there is no such checkpoint"):
        load_checkpoint(pretrainer, str(tmp_path / "ckpt-3"))


def test_a_trained_folder_means_its_best_checkpoint(tmp_path, pretrainer):
    config = pretrainer.encoder.config
    for seed, name in ((1, "ckpt-9"), (2, "best/ckpt-4")):
        other = AlbertPretrainer(AlbertEncoder(config, seed=seed), seed=seed)
        save_checkpoint(other, str(tmp_path / name))
    config.to_json_file(str(tmp_path / "albert_config.json"))
    best = str(tmp_path / "best" / "ckpt-4")
    assert load_checkpoint(pretrainer, str(tmp_path)).prefix == best
    assert load_model(config, str(tmp_path))[1].prefix == best
    restored = AlbertPretrainer.from_preset(tmp_path)
    for weight, expected in zip(restored.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)
    assert load_checkpoint(pretrainer, str(tmp_path / "ckpt-9")).prefix == str(tmp_path / "ckpt-9")


@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001", ".meta"])
def test_a_file_of_a_checkpoint_means_the_checkpoint(tmp_path, pretrainer, end):
    prefix = save(pretrainer, tmp_path)
    assert load_checkpoint(pretrainer, prefix + end).prefix == prefix
    with pytest.raises(InputError, match="ckpt-3: there is no such checkpoint"):
        load_checkpoint(pretrainer, str(tmp_path / "ckpt-3") + end)


def test_damaged_checkpoint_is_refused(tmp_path, pretrainer):
    prefix = save(pretrainer, tmp_path)
    data = tmp_path / "ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(InputError, match="the checkpoint is damaged"):
        load_checkpoint(pretrainer, prefix)
    (tmp_path / "ckpt-7.index").write_bytes(b"no checkpoint at all" * 10)
    with pytest.raises(InputError, match="the checkpoint is damaged"):
        load_checkpoint(pretrainer, prefix)


def test_checkpoint_of_others_is_refused(tmp_path, pretrainer):
    prefix = tf.train.Checkpoint(step=tf.Variable(1)).write(str(tmp_path / "other"))
    with pytest.raises(
        InputError, match=r"expected .* formats: albert_tf; TensorFlow 1.*; Hugging Face; "
    ):
        load_checkpoint(pretrainer, prefix)


def test_report_counts_what_was_read_and_left(tmp_path, pretrainer):
    optimizer = Lamb(0.1)
    optimizer.build(pretrainer.trainable_variables)
    state = variables_by_path([*pretrainer.weights, *optimizer.variables])
    prefix = Checkpoints(str(tmp_path), state, 1).save(7)
    report = load_checkpoint(AlbertEncoder(pretrainer.encoder.config), prefix)
    assert report.prefix == prefix
    assert {path for path, _ in report.read} == {w.path for w in pretrainer.encoder.weights}
    assert set(report.unexpected) == {
        w.path for w in pretrainer.weights if w.path.startswith("albert_pretrainer/")
    }
    assert {v.path for v in optimizer.variables} < set(report.optimizer)
    assert "\n" not in report.summary()
    assert report.summary().startswith(
        f"read {len(report.read)} variables from {prefix} (albert_tf); not needed by this model: "
        f"{len(report.optimizer)} of the optimizer and {len(report.unexpected)} of other parts: "
    )
    assert "albert_pretrainer/masked_lm_head/output_bias" in report.summary()


def test_encoder_with_more_layers_than_the_model_is_refused(tmp_path):
    save(AlbertEncoder(tiny_config(sharing="none")), tmp_path)
    shallow = AlbertEncoder(tiny_config(sharing="none", num_hidden_layers=4))
    with pytest.raises(InputError, match=r"holds 'albert_encoder/block_4/.* has no place"):
        load_checkpoint(shallow, str(tmp_path))


def test_only_checkpoint_of_a_folder_needs_no_file_that_names_it(tmp_path, pretrainer):
    save_checkpoint(pretrainer, str(tmp_path / "model.ckpt-best"))
    report = load_checkpoint(pretrainer.encoder, str(tmp_path))
    assert report.prefix == str(tmp_path / "model.ckpt-best")
    save_checkpoint(pretrainer, str(tmp_path / "model.ckpt-other"))
    with pytest.raises(
        InputError, match=r"several checkpoints \(model.ckpt-best, model.ckpt-other"
    ):
        load_checkpoint(pretrainer.encoder, str(tmp_path))


@pytest.mark.parametrize("save_as", [save_checkpoint, save_tf1_checkpoint])
def test_a_model_is_made_with_the_heads_that_are_there(tmp_path, save_as):
    encoder = AlbertEncoder(tiny_config(), seed=3)
    for number, model in enumerate(
        [
            encoder,
            AlbertPretrainer(encoder),
            AlbertPretrainer(encoder, sentence_head=False),
            AlbertClassifier(encoder, num_classes=7),
            AlbertSpanLabeler(encoder),
            AlbertSpanLabeler(AlbertEncoder(tiny_config(), with_pooler=False)),
        ]
    ):
        prefix = str(tmp_path / f"ckpt-{number}")
        save_as(model, prefix)
        made, report = load_model(encoder.config, prefix)
        assert type(made) is type(model)
        assert report.unexpected == ()
        for ours, theirs in zip(made.weights, model.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["multiple choice", "token classifier", "embedder"])
def test_model_is_made_from_our_checkpoint(tmp_path, kind):
    model = WITH_HEADS[kind](AlbertEncoder(tiny_config(), seed=3))
    save_checkpoint(model, str(tmp_path / "ckpt"))
    made, report = load_model(model.encoder.config, str(tmp_path / "ckpt"))
    assert type(made) is type(model)
    assert report.unexpected == ()
    for ours, theirs in zip(made.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if kind != "multiple choice":
        with pytest.raises(
            InputError, match=r"^Albert\w+: the original has no model with such hea"
        ):
            save_tf1_checkpoint(model, str(tmp_path / "tf1"))


def test_encoder_without_pooler_leaves_the_pooler(tmp_path, pretrainer):
    prefix = save(pretrainer, tmp_path)
    encoder = AlbertEncoder(pretrainer.encoder.config, with_pooler=False)
    assert "albert_encoder/pooler/dense/bias" in load_checkpoint(encoder, prefix).unexpected


def test_missing_pooler_is_an_error_where_every_model_has_one(tmp_path):
    bare = AlbertEncoder(tiny_config(), with_pooler=False)
    save_tf1_checkpoint(bare, str(tmp_path / "ckpt"))
    with pytest.raises(InputError, match=r"'bert/pooler/dense/kernel' is not in it"):
        load_checkpoint(AlbertEncoder(tiny_config()), str(tmp_path / "ckpt"))


def test_keras_file_is_read_like_a_checkpoint(tmp_path, pretrainer):
    path = str(tmp_path / "model.keras")
    pretrainer.save(path)
    encoder = AlbertEncoder(pretrainer.encoder.config, seed=3)
    assert load_checkpoint(encoder, path).format_name == "albert_tf"
    again, report = load_model(pretrainer.encoder.config, path)
    assert type(again) is type(pretrainer)
    assert report.unexpected == report.missing == ()
    for model, expected in ((encoder, pretrainer.encoder), (again, pretrainer)):
        for received, wanted in zip(model.weights, expected.weights, strict=True):
            np.testing.assert_array_equal(received, wanted)


@pytest.mark.slow
def test_classes_of_a_keras_file_are_known_in_a_fresh_process(tmp_path, pretrainer):
    pretrainer.save(tmp_path / "model.keras")
    pretrainer.encoder.config.to_json_file(str(tmp_path / "config.json"))
    program = """
import albert_tf
encoder = albert_tf.AlbertEncoder(albert_tf.AlbertConfig.from_json_file("config.json"))
print(albert_tf.load_checkpoint(encoder, "model.keras").missing)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[2])},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "()\n"


def test_refuses_a_damaged_keras_file(tmp_path, pretrainer):
    path = tmp_path / "model.keras"
    with pytest.raises(InputError, match=r"^.*model\.keras: there is no such file$"):
        load_checkpoint(pretrainer, str(path))
    pretrainer.save(path)
    content = path.read_bytes()
    for damage in (b"", b"something else", content[: len(content) // 2]):
        path.write_bytes(damage)
        with pytest.raises(InputError, match="cannot be read as a model of Keras") as error:
            load_checkpoint(pretrainer, str(path))
        assert "\n" not in str(error.value)


def test_weights_of_keras_without_their_model_say_what_to_do(tmp_path, pretrainer):
    path = str(tmp_path / "model.weights.h5")
    pretrainer.save_weights(path)
    with pytest.raises(
        InputError, match=r"does not say which model .* model\.save\('model\.keras'"
    ):
        load_checkpoint(pretrainer, path)
