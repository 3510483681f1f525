"""Models by name: folders, and those that come with the package."""

import pathlib

import numpy as np
import pytest

import albert_tf
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.options.resolution import Resolution
from albert_tf.sources import find_model, shipped_names
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.training_run import add_init_model
from albert_tf.tokenization import AlbertTokenizer
from tests.helpers import assert_same_weights, refused

SHIPPED = pathlib.Path(albert_tf.__file__).parent / "pretrained"


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_model_is_complete_and_small(name):
    folder = SHIPPED / name
    names = {path.name for path in folder.iterdir()}
    expected = {
        "README.md",
        "config.json",
        "model.safetensors",
        "spiece.model",
        "tokenizer_config.json",
    }
    if name == "sentences_en":  # also a folder of sentence-transformers
        expected |= {"modules.json", "1_Pooling", "2_Normalize"}
        expected |= {"sentence_bert_config.json", "config_sentence_transformers.json"}
    assert names == expected
    assert (folder / "model.safetensors").stat().st_size < 12e6


def test_small_en_loads_from_python(eagerly):
    loaded = albert_tf.load("small_en")
    assert repr(loaded).startswith("<Loaded pre-training, 2,824,898 parameters, from ")
    fillings = loaded.fill_mask("He is the president of the United [MASK].")
    assert fillings[0][0].text == "states"
    embeddings = loaded.embed(["A text.", "Another."])
    assert embeddings.shape == (2, loaded.model.config.hidden_size)
    pretrainer = AlbertPretrainer.from_preset("small_en")
    assert_same_weights(pretrainer, loaded.model)
    with pytest.warns(UserWarning, match="has no albert_classifier/head/dense/kernel, "):
        AlbertClassifier.from_preset("small_en", num_classes=3)
    encoder = AlbertEncoder(loaded.model.config)
    assert albert_tf.load_checkpoint(encoder, "small_en").missing == ()
    tokenizer = AlbertTokenizer.from_preset("small_en")
    assert tokenizer.vocabulary_sha256 == loaded.tokenizer.vocabulary_sha256
    assert tokenizer.tokenize("The World") == ["▁the", "▁world"]


def test_small_en_starts_a_training():
    options = FineTuningOptions(
        task_name="classification",
        train_file="train.tsv",
        init_checkpoint="small_en",
        do_train=True,
        output_dir="out",
    )
    values = Resolution(options)
    add_init_model(values, None)
    assert values["albert_config_file"] == str(SHIPPED / "small_en" / "config.json")
    assert values["spm_model_file"] == str(SHIPPED / "small_en" / "spiece.model")


def test_a_folder_of_that_name_comes_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small_en").mkdir()
    assert find_model("small_en") == "./small_en"
    assert "'small_en' is a folder here" in capsys.readouterr().err
    assert find_model("./small_en") == "./small_en"
    assert capsys.readouterr().err == ""


def test_a_file_system_that_cannot_be_read_is_named():
    with refused(r"^s3://bucket/model: cannot be read: File system scheme"):
        find_model("s3://bucket/model")


def test_sentences_en_embeds_by_meaning(eagerly):
    loaded = albert_tf.load("sentences_en")
    texts = ["Where is my parcel?", "My package has not arrived.", "The cat sleeps."]
    vectors = loaded.embed(texts)
    assert vectors.shape == (3, loaded.model.config.hidden_size)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    similarities = vectors @ vectors.T
    assert similarities[0, 1] > 0.3 > max(similarities[0, 2], similarities[1, 2])
    long = " ".join(["word"] * 200)
    front = " ".join(["word"] * 126)  # and [CLS] and [SEP]
    np.testing.assert_allclose(*loaded.embed([long, front]), atol=1e-5)
    with pytest.warns(UserWarning, match="has no albert_classifier/head/dense/kernel, "):
        AlbertClassifier.from_preset("sentences_en", num_classes=3)


def test_an_unknown_name_says_what_it_could_be():
    message = (
        r"'no_such_model' is neither a folder or checkpoint, nor a model .*"
        r"\(medium_en, sentences_en, small_en\)"
    )
    for load in (albert_tf.load, AlbertEncoder.from_preset, AlbertTokenizer.from_preset):
        with refused(message) as error:
            load("no_such_model")
        is_model = load == AlbertEncoder.from_preset
        assert ("; sizes, with random weights, are base_v1, " in str(error.value)) == is_model
