import shutil

import pytest

from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.tasks import language
from tests.tasks.animals import make_options, pair_files, write_data


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture(scope="session")
def language_data(tmp_path_factory):
    return language.write_data(tmp_path_factory.mktemp("language"))


@pytest.fixture(scope="session")
def trained(data, tmp_path_factory):
    """Folder of a classifier of pairs that has learnt a little; tests only read it."""
    folder = tmp_path_factory.mktemp("trained") / "out"
    run(make_options(data, folder, **pair_files(data), num_train_steps=30))
    return folder


@pytest.fixture
def classifier(trained, tmp_path):
    """A copy of the trained folder that a test may change."""
    return shutil.copytree(trained, tmp_path / "classifier")


@pytest.fixture(scope="session")
def exported(trained, tmp_path_factory):
    export_dir = tmp_path_factory.mktemp("exported")
    run(FineTuningOptions(output_dir=str(trained), export_dir=str(export_dir)))
    return export_dir
