"""What a run notes of its options: the same if it is stopped, and no path."""

import json
import os
import pathlib
import shutil

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_model
from albert_tf.model_folder import list_states, read_own
from albert_tf.models import AlbertEncoder
from albert_tf.options.resolution import Resolution
from albert_tf.sources import find_model
from albert_tf.tasks import pretraining_run
from albert_tf.tasks.fine_tuning import run as fine_tuning
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.noted_options import note_options
from tests.tasks import animals, language


def save_init(data, folder, vocabulary):
    """Writes a model with its vocabulary, whose name is not the one that a run's folder has."""
    config = AlbertConfig.from_json_file(str(data / "albert_config.json"))
    save_model(AlbertEncoder(config, seed=1), str(folder))
    if vocabulary:
        shutil.copy(data / vocabulary, folder / vocabulary)
    return str(folder)


def classifier_options(data, language_data, folder, out):
    del language_data
    init = save_init(data, folder / "encoder", "words.model")
    changes = {"albert_config_file": None, "spm_model_file": None, "init_checkpoint": init}
    changes |= {"export_dir": str(out / "exported"), "num_train_steps": 2}
    return animals.make_options(data, out, **changes, save_checkpoints_steps=1)


def config_options(data, language_data, folder, out):
    """Without a model to start from, but with a dev set of the training file."""
    del language_data, folder
    changes = {"dev_file": None, "num_train_steps": 2, "learning_rate": None}
    return animals.make_options(data, out, **changes, save_checkpoints_steps=1)


def pretraining_options(data, language_data, folder, out):
    del data
    init = save_init(language_data, folder / "pre", None)
    changes = {"albert_config_file": None, "init_checkpoint": init, "num_train_steps": 2}
    changes |= {"save_checkpoints_steps": 1, "max_eval_steps": 1}
    changes["input_file"] = (str(language_data / "train*.tfrecord"),)
    changes["vocab_file"] = str(language_data / "vocab.txt")
    return language.make_options(language_data, out, **changes)


def notes_of(out):
    """Returns the options in both folders, as text, since their order counts."""
    return [json.dumps(read_own(str(out / name))["options"]) for name in ("best", "state")]


@pytest.mark.parametrize(
    ("run", "make"),
    [
        (fine_tuning.run, classifier_options),
        (fine_tuning.run, config_options),
        (pretraining_run.run, pretraining_options),
    ],
)
def test_a_resumed_run_notes_the_same_and_no_path(
    run, make, data, language_data, tmp_path, eagerly
):
    out = tmp_path / "out"
    options = make(data, language_data, tmp_path, out)
    run(options)
    before = notes_of(out)
    shutil.rmtree(out / "best")
    pathlib.Path(list_states(str(out / "state"))[-1]).unlink()
    # A resumed run needs nothing of the model that it began with.
    if options.init_checkpoint:
        shutil.rmtree(options.init_checkpoint)
    run(options)
    assert notes_of(out) == before
    for path in [*out.rglob("*.json"), *out.rglob("README.md")]:
        if path.name != "records.json":  # what a resumed run need not count again
            text = path.read_text()
            for place in (tmp_path, data, language_data, os.getcwd(), os.path.expanduser("~")):
                assert f"{place}{os.sep}" not in text


@pytest.mark.parametrize(
    ("given", "noted"),
    [
        ("small_en", "small_en"),
        ("hf://owner/name@main", "hf://owner/name@main"),
        ("owner/name", "owner/name"),
        ("https://host/albert.tar.gz", "https://host/albert.tar.gz"),
        ("here/run", "run"),
        ("here/run/", "run"),
        ("/home/someone/model.ckpt-best", "model.ckpt-best"),
        ("gs://bucket/models/base", "base"),
        (".", "."),
    ],
)
def test_names_of_models_are_noted_as_they_are_given(tmp_path, monkeypatch, given, noted):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "run").mkdir(parents=True)
    options = FineTuningOptions(
        task_name="classification",
        train_file="/data/train.tsv",
        do_train=True,
        output_dir="/runs/out",
        init_checkpoint=given,
    )
    values = Resolution(options)
    values.replace("init_checkpoint", find_model("small_en"))
    values.add("model", {"vocab_file": "/models/vocab.txt"})
    notes = note_options(values, {})
    assert notes["init_checkpoint"] == noted
    assert (notes["train_file"], notes["vocab_file"]) == ("train.tsv", "vocab.txt")
    assert "output_dir" not in notes
    assert "/" not in json.dumps(notes).replace(noted, "")
    # What was noted first stays, where nothing is left of the model.
    resumed = note_options(values, {"init_checkpoint": "first", "train_file": "other.tsv"})
    assert (resumed["init_checkpoint"], resumed["train_file"]) == ("first", "train.tsv")
