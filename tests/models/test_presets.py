"""`from_preset`: sizes with random weights, folders with theirs."""

import dataclasses

import pytest

from albert_tf.config import PRESETS
from albert_tf.conversion import save_hugging_face
from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.training.checkpoint_manager import save_checkpoint
from tests.helpers import assert_same_weights, tiny_config

CONFIG = tiny_config(num_hidden_layers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pre-trained model, and its folder."""
    model = AlbertPretrainer(AlbertEncoder(CONFIG, seed=1), seed=2)
    path = tmp_path_factory.mktemp("pretrained") / "folder"
    save_hugging_face(model, str(path))
    return model, path


def test_a_size_has_random_weights_and_says_so(monkeypatch):
    monkeypatch.setitem(PRESETS, "tiny", dataclasses.asdict(CONFIG))
    message = r"^AlbertEncoder\.from_preset\('tiny'\): a size without weights; all of them are init"
    with pytest.warns(UserWarning, match=message):
        encoder = AlbertEncoder.from_preset("tiny", seed=3)
    assert encoder.config == CONFIG
    with pytest.warns(
        UserWarning, match=r"^AlbertClassifier\.from_preset\('tiny'\): a size without"
    ):
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
    save_hugging_face(trained, str(tmp_path / "hugging_face"))
    save_checkpoint(trained, str(tmp_path / "ours" / "ckpt-3"))
    CONFIG.to_json_file(str(tmp_path / "ours" / "albert_config.json"))
    for name in ("hugging_face", "ours"):
        restored = AlbertClassifier.from_preset(tmp_path / name)
        assert restored.num_classes == 5
        assert_same_weights(restored, trained)
    _, pretrained = folder
    message = r"^AlbertClassifier\.from_preset\(.*\): num_classes: expected a number, as the folder"
    with pytest.raises(InputError, match=message):
        AlbertClassifier.from_preset(pretrained)
