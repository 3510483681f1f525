"""A shared block can be applied any number of times: `num_hidden_layers` wherever a model is named."""

import json
import pathlib
import pickle
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion import save_model
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.sources import find_model
from albert_tf.tasks import conversion, embedding
from tests.helpers import change_json, refused, tiny_config

TEXTS = ["a good day", "a bad day"]


@pytest.fixture(scope="module")
def shallow():
    return albert_tf.load("medium_en", num_hidden_layers=4)


def test_a_named_model_has_the_depth_that_is_asked_for(shallow, eagerly, capsys):
    assert shallow.model.config.num_hidden_layers == 4
    expected = shallow.embed(TEXTS)
    assert np.abs(expected - albert_tf.load("medium_en").embed(TEXTS)).max() > 0.1
    encoder = AlbertEncoder.from_preset("medium_en", num_hidden_layers=4)
    assert encoder.config == shallow.model.config
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(shallow)).embed(TEXTS), expected)
    assert "trained with" not in capsys.readouterr().err


def test_commands_take_the_depth(shallow, eagerly, tmp_path):
    converted, output = str(tmp_path / "converted"), str(tmp_path / "embeddings.npy")
    asked = {"to": "hugging_face", "output_checkpoint": converted, "num_hidden_layers": 4}
    conversion.run(conversion.ConversionOptions(init_checkpoint="medium_en", **asked))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    asked = {"input_file": str(tmp_path / "texts.txt"), "output_file": output}
    embedding.run(embedding.EmbeddingOptions(model="medium_en", num_hidden_layers=4, **asked))
    for received in (albert_tf.load(converted).embed(TEXTS), np.load(output)):
        np.testing.assert_allclose(received, shallow.embed(TEXTS), atol=1e-5)
    before, after = (
        json.loads((pathlib.Path(folder) / "config.json").read_text())
        for folder in (find_model("medium_en"), converted)
    )
    assert after["num_hidden_layers"] == 4
    for advice in ("recommended_learning_rate", "trained_num_hidden_layers"):
        assert after[advice] == before[advice]


def test_an_untrained_depth_is_said(capsys):
    for number in (3, 5):
        albert_tf.load("medium_en", num_hidden_layers=number)
    AlbertPretrainer.from_preset("small_en", num_hidden_layers=5)
    config = AlbertEncoder.from_preset("small_en").config.with_layers(7)
    albert_tf.load_checkpoint(AlbertEncoder(config), "small_en")
    every = "4, 6, 8, 12"
    assert capsys.readouterr().err.splitlines() == [
        f"warning: num_hidden_layers={number}: the model was trained with {trained}, and is "
        "worse with others until it is trained with them"
        for number, trained in ((3, every), (5, every), (5, "6"), (7, "6"))
    ]


def test_a_model_is_saved_with_the_depths_that_it_draws(tmp_path, capsys):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), trained_num_hidden_layers=(1, 2))
    save_model(AlbertPretrainer(encoder), str(tmp_path / "saved"))
    AlbertEncoder.from_preset(tmp_path / "saved", num_hidden_layers=1)
    assert "trained with" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_hidden_groups": 2},
            "num_hidden_layers=4: expected layers that share all .* num_hidden_groups 2",
        ),
        *(
            (
                {"trained_num_hidden_layers": wrong},
                rf".*/config.json: .* {pattern} is not a list of",
            )
            for wrong, pattern in (("4", "'4'"), (4, "4"), (["4"], r"\['4'\]"))
        ),
    ],
)
def test_a_depth_that_a_config_does_not_allow_is_refused(tmp_path, changes, message):
    folder = shutil.copytree(find_model("medium_en"), tmp_path / "model")
    change_json(folder / "config.json", **changes)
    with refused(rf"^load\('{folder}'\): {message}"):
        albert_tf.load(folder, num_hidden_layers=4)


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("bert_base", 3, "num_hidden_layers=3: expected .* have sharing 'none'"),
        ("medium_en", 0, "num_hidden_layers 0 is not a positive integer"),
        ("medium_en", "4", "num_hidden_layers '4' is not a positive integer"),
        ("medium_en", 10**5, "num_hidden_layers 100000 x .* expected at most 10000"),
    ],
)
def test_a_wrong_depth_is_refused(name, number, message):
    with refused(rf"^AlbertEncoder.from_preset\('{name}'\): {message}"):
        AlbertEncoder.from_preset(name, num_hidden_layers=number)
