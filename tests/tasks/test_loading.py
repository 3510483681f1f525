"""`albert_tf.load`: a trained model in Python predicts what the scripts write."""

import concurrent.futures
import copy
import csv
import dataclasses
import json
import os
import pathlib
import pickle
import random
import re
import select
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf import files
from albert_tf.conversion import save_model, save_tf1_checkpoint
from albert_tf.errors import InputError
from albert_tf.kinds import Classification, MultiLabel, Regression, TokenClassification
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from tests.checkpoints.layouts import original_tensors, write_original
from tests.helpers import (
    assert_same_weights,
    change_json,
    change_kind,
    refused,
    write_wordpiece,
)
from tests.tasks.animals import pair_files, write_vocabulary

# As a DataFrame of pandas does, it yields the names of its columns.
FRAME = type("Frame", (list,), {"columns": ("text",)})(["text"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((b"A fine film.",), "^text_a: expected a string or a list of strings; received bytes$"),
        ((7,), "^text_a: expected a string or a list of strings; received int$"),
        (({"a": 1},), "^text_a: expected a string or a list of strings; received dict$"),
        ((np.array("a"),), "^text_a: expected a string or a list of strings; received ndarray$"),
        (({"a"},), "^text_a: expected a string or a list of strings; received set$"),
        ((FRAME,), "^text_a: expected a string or a list of strings; received Frame$"),
        ((["a", 7],), r"^text_a\[1\]: expected a string; received int$"),
        (("a", "b", "c"), "^predict: too many positional arguments; expected text_a, text_b$"),
        ((["a"],), "^text_b: missing; the model was trained on pairs of texts$"),
        ((["a", "b"], ["c"]), "^expected as many of text_a and text_b; received 2 and 1$"),
    ],
)
def test_refuses_what_is_no_list_of_texts(loaded, texts, message):
    with refused(message):
        loaded.predict(*texts)


@pytest.fixture(scope="module")
def loaded(trained):
    return albert_tf.load(trained)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_copies_predict_the_same(loaded, copied):
    texts = ["A fine film.", "A bad one."]
    expected, received = loaded.predict(texts, texts), copied(loaded).predict(texts, texts)
    assert received.label == expected.label
    np.testing.assert_array_equal(received.probabilities, expected.probabilities)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_a_copy_is_found_from_another_directory(trained, tmp_path, monkeypatch, copied):
    monkeypatch.chdir(pathlib.Path(trained).parent)
    model = albert_tf.load(pathlib.Path(trained).name)
    monkeypatch.chdir(tmp_path)
    assert copied(model).source == str(trained)
    assert copied(copied(model)).labels == model.labels


def test_a_folder_is_read_once(trained, monkeypatch, eagerly):
    read, opened = files.read_chunks, []

    def note(path):
        yield from read(path)
        opened.append(os.path.basename(path))  # unless the first bytes were enough

    monkeypatch.setattr(files, "read_chunks", note)
    # The weights are read to check their sum, and to load them.
    once = {"config.json": 1, "model.safetensors": 2}
    albert_tf.load(trained)
    assert {name: opened.count(name) for name in once} == once
    opened.clear()
    albert_tf.AlbertClassifier.from_preset(trained)
    assert {name: opened.count(name) for name in once} == once


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.predict("A fine film.", "A bad one."),
        lambda model: model.embed(["A fine film."], normalize=True),
        lambda model: model.model,
        lambda model: albert_tf.load(model.source),
    ],
)
def test_a_fork_says_what_to_do(loaded, call):
    received, sent = os.pipe()
    child = os.fork()
    if not child:
        try:
            call(loaded)
        except InputError as error:
            os.write(sent, str(error).encode())
        finally:
            os._exit(0)
    try:
        assert select.select([received], [], [], 60)[0]
        message = os.read(received, 1000).decode()
        assert re.match(r"(albert_tf\.)?load.*: this process is a fork .*'spawn'$", message)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_users_random_numbers_stay(trained, data, eagerly):
    def states():
        numpy_state = np.random.get_state()[1].tolist()
        return random.getstate(), numpy_state, csv.field_size_limit()

    before = states()
    model = albert_tf.load(trained)
    model.embed("a rose", normalize=True)
    model.evaluate(pair_files(data)["dev_file"])
    assert states() == before


def test_threads_share_a_model(loaded):
    texts = ["the old cat", "a rose", "a tree", "the big oak"] * 5
    expected = [loaded.predict(text, text).probabilities for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        received = list(threads.map(lambda text: loaded.predict(text, text).probabilities, texts))
    np.testing.assert_array_equal(received, expected)


def test_paths_may_begin_in_the_home(trained, data, tmp_path, monkeypatch, eagerly):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").symlink_to(trained)
    (tmp_path / "data").symlink_to(data)
    model = albert_tf.load("~/x")
    assert pickle.loads(pickle.dumps(model)).source == str(tmp_path / "x")
    dev = pathlib.Path(pair_files(data)["dev_file"])
    assert model.evaluate(f"~/data/{dev.name}") == model.evaluate(dev)
    assert albert_tf.AlbertEncoder.from_preset("~/x").config == model.model.config
    model.model.config.to_json_file("~/config.json")
    assert albert_tf.read_config("~/config.json") == model.model.config
    assert albert_tf.AlbertTokenizer("~/x/best/spiece.model").pieces == model.tokenizer.pieces
    with refused(f"={tmp_path}/x: holds the checkpoints of a run"):
        albert_tf.fine_tune("~/x", f"~/data/{dev.name}", output_dir="~/x", kind="regression")


def test_modules_of_tensorflow_hub(loaded, tmp_path, eagerly):
    encoder, tokenizer = loaded.model.encoder, loaded.tokenizer
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "30k-clean.model").write_bytes(tokenizer.vocabulary)
    (tmp_path / "assets" / "30k-clean.vocab").write_text("for people")
    encoder.config.to_json_file(str(tmp_path / "assets" / "albert_config.json"))
    (tmp_path / "variables").mkdir()
    write_original(tmp_path / "variables" / "variables", original_tensors(encoder))
    texts = ["A fine film.", "A bad one."]
    received = albert_tf.load(tmp_path).predict(texts)
    np.testing.assert_array_equal(received, loaded.embed(texts))


def test_a_padded_word_table_has_no_more_pieces(loaded, write_hugging_face, eagerly):
    size = -(-loaded.tokenizer.vocab_size // 64) * 64
    config = dataclasses.replace(loaded.model.config, vocab_size=size)
    assert loaded.tokenizer.vocab_size < size
    model = albert_tf.AlbertPretrainer(albert_tf.AlbertEncoder(config))
    received = albert_tf.load(write_hugging_face(model))
    assert received.predict(["a rose"]).shape == (1, config.hidden_size)
    filled = received.fill_mask("the [MASK]", loaded.tokenizer.vocab_size)[0]
    assert sum(each.probability for each in filled) == pytest.approx(1)


def test_what_was_not_loaded_from_a_folder_is_not_pickled(loaded):
    with pytest.raises(pickle.PicklingError, match="has no folder to load it from"):
        pickle.dumps(loaded.make_embedder())


@pytest.mark.parametrize("name", ["AlbertClassifier", "AlbertMultipleChoice"])
def test_one_output_of_tensorflow_1_may_be_a_score_or_that_of_a_choice(
    loaded, name, tmp_path, eagerly
):
    number = {"num_classes": 1} if name == "AlbertClassifier" else {}
    model = getattr(albert_tf, name)(loaded.model.encoder, **number)
    theirs = tmp_path / "archive"
    theirs.mkdir()
    (theirs / "30k-clean.model").write_bytes(loaded.tokenizer.vocabulary)
    model.config.to_json_file(str(theirs / "albert_config.json"))
    save_tf1_checkpoint(model, str(theirs / "model.ckpt-best"))
    message = "model.ckpt-best: its head has one output, .*=hugging_face, .*MultipleChoice.from_pre"
    with refused(message):
        albert_tf.load(theirs)
    # What the message says.
    if name == "AlbertMultipleChoice":
        assert_same_weights(albert_tf.AlbertMultipleChoice.from_preset(theirs), model)
        return
    output = str(tmp_path / "converted")
    convert(
        ConversionOptions(init_checkpoint=str(theirs), to="hugging_face", output_checkpoint=output)
    )
    assert isinstance(albert_tf.load(output).kind, Regression)


def test_one_output_of_our_own_folder_is_a_score(loaded, tmp_path, eagerly):
    config = dataclasses.replace(loaded.model.config, sharing="attention")
    model = albert_tf.AlbertClassifier(albert_tf.AlbertEncoder(config), num_classes=1)
    vocabulary = {"spiece.model": loaded.tokenizer.vocabulary}
    save_model(model, str(tmp_path / "ours"), contents=vocabulary)
    assert isinstance(albert_tf.load(tmp_path / "ours").kind, Regression)


@pytest.fixture
def write_hugging_face(loaded, tmp_path):
    """Writes a model as a Hugging Face folder, with the vocabulary of `loaded`."""

    def write(model, **details):
        folder = str(tmp_path / "hugging_face")
        vocabulary = {"spiece.model": loaded.tokenizer.vocabulary}
        save_model(model, folder, **details, contents=vocabulary)
        # As others write it.
        change_json(tmp_path / "hugging_face" / "config.json", albert_tf=None)
        return folder

    return write


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (
            ["pre_classifier.weight", "predictions.bias"],
            "holds 'pre_classifier.weight', weights of ",
        ),
        (["predictions.dense.weight", "qa_outputs.weight"], ""),
    ],
)
def test_weights_of_no_known_head_are_named(
    loaded, write_hugging_face, names, named, capsys, eagerly
):
    folder = write_hugging_face(albert_tf.AlbertClassifier(loaded.model.encoder, num_classes=2))
    path = f"{folder}/model.safetensors"
    more = {name: np.ones((3,), np.float32) for name in names}
    save_file({**load_file(path), **more}, path, {"format": "pt"})
    albert_tf.load(folder)
    said = capsys.readouterr().err
    assert said.startswith(f"warning: {folder}: {named}") if named else not said


def test_other_hugging_face_folders(loaded, write_hugging_face, tmp_path, eagerly):
    def load(model, **details):
        shutil.rmtree(tmp_path / "hugging_face", ignore_errors=True)
        return albert_tf.load(write_hugging_face(model, **details))

    encoder = loaded.model.encoder
    regression = albert_tf.AlbertClassifier(encoder, num_classes=1)
    assert isinstance(load(regression, kind=Regression()).kind, Regression)
    scores = albert_tf.AlbertClassifier(encoder, num_classes=3)
    with refused("predicts 3 scores; only one can be read"):
        load(scores, kind=Regression())
    assert load(albert_tf.AlbertClassifier(encoder, num_classes=2)).labels == ("LABEL_0", "LABEL_1")
    width = encoder.config.hidden_size
    assert load(encoder).predict(["a rose", "the cat"]).shape == (2, width)
    pretrainer = load(albert_tf.AlbertPretrainer(encoder, sentence_head=False))
    assert len(pretrainer.fill_mask("the [MASK]", top_k=3)[0]) == 3
    with refused(r"^load\(.*\): holds an AlbertMultipleChoice; only enc"):
        load(albert_tf.AlbertMultipleChoice(encoder))
    answers = load(albert_tf.AlbertSpanLabeler(encoder)).predict("which", "the old cat")
    assert answers.answer == ["the old cat"[answers.start[0] : answers.end[0]]] != [""]
    labeller = load(loaded.model, kind=MultiLabel(labels=loaded.labels))
    labels, probabilities = labeller.predict(["a rose", "the cat"])
    assert labels == [
        tuple(name for name, one in zip(labeller.labels, row, strict=True) if one >= 0.5)
        for row in probabilities
    ]
    tagger = albert_tf.AlbertTokenClassifier(encoder, num_classes=3)
    assert load(tagger, kind=TokenClassification(labels=("O", "B-X", "I-X"))).labels == ("X",)
    classes = load(tagger, kind=TokenClassification(labels=("DET", "NOUN", "VERB")))
    assert classes.kind.metrics == ("accuracy",)
    assert [span.label in classes.labels for span in classes.predict("the cat")[0]] == [True, True]
    with refused(r"labels: received 'LABEL_0'; expected O, or B-, I-"):
        load(tagger)
    load(encoder)
    folder = tmp_path / "hugging_face"
    change_json(folder / "config.json", colour=3)
    with refused(r"config\.json: key 'colour' is 3, and not known: it may change what the"):
        albert_tf.load(folder)
    change_json(folder / "config.json", colour=None)
    (folder / "adapter_config.json").write_text("{}")
    with refused(r"adapter_config\.json: not supported: PEFT adds their weights to the mo"):
        albert_tf.load(folder)
    (folder / "adapter_config.json").unlink()
    (folder / "added_tokens.json").write_text('{"covid": 250}')
    with refused(r"added_tokens\.json: the file has the token 'covid' with the id 250, which"):
        albert_tf.load(folder)
    (folder / "added_tokens.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"remove_space": false}')
    with refused(r"key 'remove_space' is False; only True is supported"):
        albert_tf.load(folder)
    tokenizer = albert_tf.AlbertTokenizer.from_preset(folder, lower_case=True)
    assert albert_tf.load(folder, tokenizer).tokenizer is tokenizer
    (folder / "spiece.model").unlink()
    with refused(r"holds no vocabulary; pass tok"):
        albert_tf.load(folder)
    tokenizer = albert_tf.WordPieceTokenizer(write_wordpiece(tmp_path / "vocab.txt", []))
    with refused(r"vocab\.txt has 5 pieces; .*config\.json says vocab"):
        albert_tf.load(folder, tokenizer=tokenizer)


@pytest.mark.usefixtures("eagerly")
def test_models_of_others_do_not_ask_for_a_second_text(loaded, write_hugging_face, tmp_path):
    encoder = loaded.model.encoder
    theirs = albert_tf.load(write_hugging_face(albert_tf.AlbertClassifier(encoder, 2)))
    signatures = tf.saved_model.load(theirs.export(str(tmp_path / "exported"))["text"]).signatures
    for name, texts in (("serving_default", (["a rose"],)), ("pairs", (["a rose"], ["the cat"]))):
        named = dict(zip(("text_a", "text_b"), map(tf.constant, texts), strict=False))
        received = signatures[name](**named)["probabilities"]
        expected = theirs.predict(*texts).probabilities
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-6)


def test_pairs_need_two_segments(loaded, write_hugging_face):
    config = dataclasses.replace(loaded.model.config, type_vocab_size=1)
    encoder = albert_tf.AlbertEncoder(config, seed=1)
    theirs = albert_tf.load(write_hugging_face(albert_tf.AlbertClassifier(encoder, 2)))
    with refused("text_b: the model was trained on single texts"):
        theirs.predict(["a rose"], ["the cat"])
    shutil.rmtree(theirs.source)
    answers = write_hugging_face(albert_tf.AlbertSpanLabeler(encoder))
    with refused("type_vocab_size 1: the model tells no second text from the first; expected 2"):
        albert_tf.load(answers)
    # As in training, see `tasks.fine_tuning.model`.
    with refused("type_vocab_size 1: the model tells no second text from the first; expected 2"):
        loaded.kind.check_segments(config)


def test_labels_may_be_renamed_in_the_config(loaded, classifier, eagerly):
    path = classifier / "best" / "config.json"
    written = json.loads(path.read_text())
    change_json(path, id2label={"0": "FAUNA", "1": "FLORA"})
    renamed = albert_tf.load(classifier)
    assert renamed.labels == ("FAUNA", "FLORA")
    texts = ["the old cat"], ["a rose"]
    expected = loaded.predict(*texts).probabilities
    np.testing.assert_array_equal(renamed.predict(*texts).probabilities, expected)
    others = {"id2label": {"0": "FAUNA"}}, {"id2label": {"0": "A", "1": "A"}}, {"vocab_size": 3}
    for changes in others:
        path.write_text(json.dumps(written))
        change_json(path, **changes)
        with refused("was changed; expected it as it was written; only the names in id2label may"):
            albert_tf.load(classifier)


def test_trained_folder_without_its_vocabulary(loaded, classifier, tmp_path, eagerly):
    (classifier / "best" / "spiece.model").unlink()
    (classifier / "best" / "tokenizer.json").unlink()
    with refused(r"holds no vocabulary; pass tok"):
        albert_tf.load(classifier)
    with refused(r"^load\(.*\): tokenizer: expected an Alb.* received str"):
        albert_tf.load(classifier, "spiece.model")
    texts = ["the old cat", "a rose"], ["a tree", ""]
    received = albert_tf.load(classifier, loaded.tokenizer).predict(*texts)
    np.testing.assert_array_equal(received.probabilities, loaded.predict(*texts).probabilities)
    write_vocabulary(tmp_path / "other.model", seed=1)
    other = albert_tf.AlbertTokenizer(str(tmp_path / "other.model"))
    with refused(r"was trained with another vocabulary than .*other\.mod"):
        albert_tf.load(classifier, other)


def test_refuses_folders_without_a_model(tmp_path, exported):
    with refused(r"^load\('.*missing'\): no such folder$"):
        albert_tf.load(tmp_path / "missing")
    with refused(r"config\.json'\): is a file; expected a folder$"):
        albert_tf.load(exported / "ids" / "1" / "assets" / "config.json")
    with refused(r"^load\('.*'\): holds no trained model; expected"):
        albert_tf.load(tmp_path)
    with refused("num_hidden_layers=1: an exported model has a fixed"):
        albert_tf.load(exported, num_hidden_layers=1)
    version = shutil.copytree(exported / "ids" / "1", tmp_path / "1")
    (version / "assets" / "config.json").unlink()
    with refused(r"^load\('.*'\): holds no trained model; expected"):
        albert_tf.load(version)


# Without the fields that only classification has.
OF_REGRESSION = {
    "kind": "regression",
    **dict.fromkeys(
        {field.name for field in dataclasses.fields(Classification)}
        - {field.name for field in dataclasses.fields(Regression)}
    ),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "ordinal"}, r"unknown kind 'ordinal'; expected classification, embedding, multi"),
        ({"kind": None}, "kind is missing, expected a text"),
        ({**OF_REGRESSION, "labels": 7}, "labels=7: expected tuple"),
        ({"max_seq_length": "64"}, r"max_seq_length='64': expected int$"),
        ({"max_seq_length": 4}, r"max_seq_length=4: expected at least 5$"),
        ({"pairs": 1}, r"pairs=1: expected bool$"),
        ({"max_seq_lenght": 64}, r"unknown key 'max_seq_lenght'; expected task_name"),
        ({"labels": ["plant", "plant"]}, "labels: received 'plant' twice"),
    ],
)
def test_kinds_that_cannot_be_are_one_line(classifier, changes, message):
    change_kind(classifier / "best", **changes)
    with refused(rf"config\.json: kind: {message}"):
        albert_tf.load(classifier)


@pytest.mark.parametrize("name", ["config.json", "spiece.model"])
def test_changed_assets_are_refused(exported, tmp_path, name):
    version = shutil.copytree(exported / "ids" / "1", tmp_path / "1")
    path = version / "assets" / name
    path.write_bytes(path.read_bytes().replace(b"animal", b"Animal") + b" ")
    with refused(rf"{name}: (is damaged or was cha|has the SHA-256 \w{{64}})"):
        albert_tf.load(version)


def test_refuses_what_a_newer_version_wrote(classifier):
    path = classifier / "best" / "config.json"
    values = json.loads(path.read_text())
    assert values["albert_tf"]["version"] == albert_tf.__version__
    change_json(path, albert_tf={**values["albert_tf"], "version": "10.2.0"})
    message = r"config\.json: written by albert_tf 10\.2\.0, which is newer than this one, "
    with refused(message):
        albert_tf.load(classifier)
