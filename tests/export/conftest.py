"""One tiny classifier in its exported forms, for all tests of this folder."""

import functools

import numpy as np
import pytest

from albert_tf.export import export_classifier
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tokenization import AlbertTokenizer, train_vocabulary
from tests.export.cpp_client import Client
from tests.export.kinds import export, make_model
from tests.export.samples import LABELS, MAX_SEQ_LENGTH, VOCAB_SIZE, WORDS
from tests.helpers import tiny_config


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "words.model")
    rng = np.random.default_rng(0)
    sentences = [" ".join(rng.choice(WORDS, 12)) for _ in range(300)]
    train_vocabulary(sentences, path, vocab_size=VOCAB_SIZE)
    return AlbertTokenizer(path)


@pytest.fixture(scope="session")
def model():
    encoder = AlbertEncoder(tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=1), seed=1)
    return AlbertClassifier(encoder, num_classes=3, seed=2)


@pytest.fixture(scope="session")
def exported(tmp_path_factory, model, tokenizer):
    """The folders of the ids model and of the text model, which takes pairs."""
    export_dir = str(tmp_path_factory.mktemp("exported"))
    return export_classifier(model, LABELS, tokenizer, export_dir, MAX_SEQ_LENGTH, pairs=True)


@pytest.fixture(scope="session")
def exported_kind(tmp_path_factory, tokenizer):
    """A function from a kind of model to the model and the folders of its SavedModels."""

    @functools.cache
    def model_and_paths(kind):
        model = make_model(kind)
        folder = str(tmp_path_factory.mktemp(kind))
        return model, export(kind, model, tokenizer, folder, "saved_model")

    return model_and_paths


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """The C++ client, built; for slow tests."""
    return Client(tmp_path_factory.mktemp("cpp_client"))
