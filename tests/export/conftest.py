"""A tiny model of each kind and its exported forms, for all tests of this folder."""

import functools

import pytest

from albert_tf.tokenization import AlbertTokenizer
from tests.export.cpp_client import Client
from tests.export.kinds import export_kind, make_model, write_vocabulary
from tests.export.runtimes import need


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "words.model")
    return AlbertTokenizer(str(path))


@pytest.fixture(scope="session")
def exported_kind(tmp_path_factory, tokenizer):
    """A function from a kind of model, and a form, to the model and the folders of its files."""
    model_of = functools.cache(make_model)

    @functools.cache
    def export_once(kind, form):
        need(form)
        folder = str(tmp_path_factory.mktemp(kind))
        return model_of(kind), export_kind(kind, model_of(kind), tokenizer, folder, form)

    return lambda kind, form="saved_model": export_once(kind, form)


@pytest.fixture(scope="session")
def model(exported_kind):
    return exported_kind("classifier")[0]


@pytest.fixture(scope="session")
def exported(exported_kind):
    """The folders of the classifier's ids model and text model, which takes pairs."""
    return exported_kind("classifier")[1]


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """The C++ client, built; for slow tests."""
    return Client(tmp_path_factory.mktemp("cpp_client"))
