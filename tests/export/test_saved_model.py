import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError, StoppedError
from albert_tf.export import export
from albert_tf.export.version_folders import encoder_assets
from albert_tf.tokenization import AlbertTokenizer
from tests.export.kinds import SINGLE_TEXTS
from tests.export.runtimes import run_in_session, run_loaded
from tests.export.samples import (
    LABELS,
    TEXTS,
    VOCAB_SIZE,
    WORDS,
    expected_of_texts,
)
from tests.helpers import random_inputs


def text_inputs():
    texts_a, texts_b = zip(*TEXTS, strict=True)
    return {"text_a": texts_a, "text_b": texts_b}


@pytest.mark.parametrize("run", [run_loaded, run_in_session])
def test_ids_model_gives_the_models_numbers(exported, model, run):
    inputs = random_inputs(vocab_size=50)
    outputs = run(exported["ids"], inputs)
    logits = model(inputs).numpy()
    np.testing.assert_allclose(outputs["logits"], logits, rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs["probabilities"].sum(axis=1), 1.0, rtol=1e-6)
    labels = [LABELS[index].encode() for index in logits.argmax(axis=1)]
    assert outputs["label"].tolist() == labels


@pytest.mark.parametrize("run", [run_loaded, run_in_session])
def test_text_model_gives_the_models_numbers(exported, model, tokenizer, run):
    outputs = run(exported["text"], text_inputs())
    expected = expected_of_texts(model, tokenizer)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)


def test_text_model_computes_no_padding(exported, model, tokenizer):
    loaded = tf.saved_model.load(exported["text"])
    embedding = model.encoder.embedding.word_embeddings
    (table,) = (weight for weight in loaded.weights if weight.shape == embedding.shape)
    # Outputs at padding positions become a part of every answer.
    table.assign(np.where(np.arange(VOCAB_SIZE)[:, None] == tokenizer.pad_id, np.nan, embedding))
    texts = {name: tf.constant(column) for name, column in text_inputs().items()}
    outputs = loaded.signatures["serving_default"](**texts)
    assert np.isfinite(outputs["probabilities"]).all()


def test_assets_have_the_labels(exported):
    for path in exported.values():
        labels = pathlib.Path(path, "assets", "labels.txt").read_text().splitlines()
        assert tuple(labels) == LABELS


def test_only_the_text_model_has_batching_parameters(exported):
    paths = {name: pathlib.Path(path) for name, path in exported.items()}
    parameters = (paths["text"] / "batching_params.pbtxt").read_text()
    assert "max_execution_batch_size { value: 32 }" in parameters
    assert not (paths["ids"] / "batching_params.pbtxt").exists()


@pytest.mark.slow
def test_ids_model_needs_tensorflow_alone(exported):
    program = (
        "import sys, tensorflow as tf\n"
        f"model = tf.saved_model.load({exported['ids']!r})\n"
        "ids = tf.ones((1, 5), tf.int32)\n"
        "classify = model.signatures['serving_default']\n"
        "print(classify(input_ids=ids, input_mask=ids, segment_ids=0 * ids)['label'][0].numpy())\n"
        "print({'albert_tf', 'tensorflow_text', 'sentencepiece'} & set(sys.modules))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/"
    )
    label, modules = result.stdout.splitlines()
    assert label in {f"b'{name}'" for name in LABELS}
    assert modules == "set()"


def test_text_model_answers_any_bytes(exported):
    strange = [b"\xff\xfe", b"a\x00b", b"", " ".join(WORDS * 2000).encode(), "🙂‍↔️".encode()]
    inputs = {"text_a": strange, "text_b": strange[::-1]}
    assert np.isfinite(run_loaded(exported["text"], inputs)["probabilities"]).all()


def test_assets_have_the_vocabulary_as_it_was_read(tmp_path, model, tokenizer):
    copy = tmp_path / "copy.model"
    copy.write_bytes(tokenizer.vocabulary)
    read = AlbertTokenizer(str(copy))
    copy.unlink()
    assets = encoder_assets(model.encoder.config, read)
    assert assets["vocabulary.model"] == tokenizer.vocabulary


def test_each_export_is_a_new_version_of_which_both_forms_appear_or_none(
    tmp_path, model, tokenizer, monkeypatch
):
    refused = "none"

    def save(module, path, **arguments):
        if refused in path:
            raise OSError("No space left on device")
        pathlib.Path(path).mkdir()

    def export_again():
        export(model, SINGLE_TEXTS, tokenizer, str(tmp_path))

    monkeypatch.setattr(tf.saved_model, "save", save)
    (tmp_path / "ids" / "9").mkdir(parents=True)
    export_again()
    refused = "/text/"
    with pytest.raises(StoppedError, match="text/11: cannot be written: No space left"):
        export_again()
    assert sorted(path.name for path in (tmp_path / "ids").iterdir()) == ["10", "9"]
    assert [path.name for path in (tmp_path / "text").iterdir()] == ["10"]


def test_names_a_folder_that_cannot_be_made(tmp_path, model, tokenizer):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        export(model, SINGLE_TEXTS, tokenizer, str(tmp_path / "file"))
