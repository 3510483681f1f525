"""`albert_tf.load`: a trained model in Python predicts what the scripts write."""

import json
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion import save_hugging_face
from albert_tf.errors import InputError
from albert_tf.kinds import Regression
from tests.helpers import change_json, write_wordpiece
from tests.tasks.animals import write_vocabulary

# As a DataFrame of pandas does, it yields the names of its columns.
FRAME = type("Frame", (list,), {"columns": ("text",)})(["text"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((b"A fine film.",), "^text_a: expected a string or a list of strings; received bytes$"),
        ((7,), "^text_a: expected a string or a list of strings; received int$"),
        (({"a": 1},), "^text_a: expected a string or a list of strings; received dict$"),
        (({"a"},), "^text_a: expected a string or a list of strings; received set$"),
        ((FRAME,), "^text_a: expected a string or a list of strings; received Frame$"),
        ((["a", 7],), r"^text_a\[1\]: expected a string; received int$"),
        (([],), "^text_a: expected at least one string; received none$"),
        ((["a", "b"], ["c"]), "^expected as many of text_a and text_b; received 2 and 1$"),
    ],
)
def test_refuses_what_is_no_list_of_texts(loaded, texts, message):
    with pytest.raises(InputError, match=message):
        loaded.predict(*texts)


@pytest.fixture(scope="module")
def loaded(trained):
    return albert_tf.load(trained)


@pytest.fixture
def write_hugging_face(loaded, tmp_path):
    """Writes a model as a Hugging Face folder, with the vocabulary of `loaded`."""

    def write(model, **details):
        folder = str(tmp_path / "hugging_face")
        vocabulary = {"spiece.model": loaded.tokenizer.vocabulary}
        save_hugging_face(model, folder, **details, more_files=vocabulary)
        return folder

    return write


def test_a_hugging_face_classifier_predicts_the_same(loaded, write_hugging_face):
    theirs = albert_tf.load(write_hugging_face(loaded.model, labels=loaded.labels))
    assert theirs.labels == loaded.labels
    texts_a, texts_b = ["the old cat", "a rose"], ["a tree", ""]
    received, expected = (model.predict(texts_a, texts_b) for model in (theirs, loaded))
    assert received.label == expected.label
    np.testing.assert_allclose(received.probabilities, expected.probabilities, atol=1e-6)
    # The folder does not say that it was trained on pairs.
    assert theirs.evaluate([{"text": "the old cat", "label": "animal"}])["accuracy"] in (0, 1)


def test_other_hugging_face_folders(loaded, write_hugging_face, tmp_path):
    def load(model, **details):
        shutil.rmtree(tmp_path / "hugging_face", ignore_errors=True)
        return albert_tf.load(write_hugging_face(model, **details))

    encoder = loaded.model.encoder
    regression = albert_tf.AlbertClassifier(encoder, num_classes=1)
    assert isinstance(load(regression, problem_type="regression").kind, Regression)
    scores = albert_tf.AlbertClassifier(encoder, num_classes=3)
    with pytest.raises(InputError, match="predicts 3 scores; only one can be read"):
        load(scores, problem_type="regression")
    assert load(albert_tf.AlbertClassifier(encoder, num_classes=2)).labels == ("LABEL_0", "LABEL_1")
    width = encoder.config.hidden_size
    assert load(encoder).predict(["a rose", "the cat"]).shape == (2, width)
    pretrainer = load(albert_tf.AlbertPretrainer(encoder, sentence_head=False))
    assert len(pretrainer.fill_mask("the [MASK]", top_k=3)[0]) == 3
    with pytest.raises(InputError, match=r"^load\(.*\): holds an AlbertMultipleChoice; only enc"):
        load(albert_tf.AlbertMultipleChoice(encoder))
    answers = load(albert_tf.AlbertSpanLabeler(encoder)).predict("which", "the old cat")
    assert answers.answer == ["the old cat"[answers.start[0] : answers.end[0]]] != [""]
    labeller = load(loaded.model, problem_type="multi_label_classification")
    labels, probabilities = labeller.predict(["a rose", "the cat"])
    assert labels == [
        tuple(name for name, one in zip(labeller.labels, row, strict=True) if one >= 0.5)
        for row in probabilities
    ]
    tagger = albert_tf.AlbertTokenClassifier(encoder, num_classes=3)
    assert load(tagger, labels=("O", "B-X", "I-X")).labels == ("X",)
    with pytest.raises(InputError, match=r"labels: received 'LABEL_0'; expected O, or B-, I-"):
        load(tagger)
    load(encoder)
    folder = tmp_path / "hugging_face"
    (folder / "tokenizer_config.json").write_text('{"keep_accents": true}')
    with pytest.raises(InputError, match=r"key 'keep_accents' is True; with do_lower_case True on"):
        albert_tf.load(folder)
    tokenizer = albert_tf.AlbertTokenizer.from_preset(folder, lower_case=True)
    assert albert_tf.load(folder, tokenizer).tokenizer is tokenizer
    (folder / "spiece.model").unlink()
    with pytest.raises(InputError, match=r"holds no vocabulary; pass tok"):
        albert_tf.load(folder)
    tokenizer = albert_tf.WordPieceTokenizer(write_wordpiece(tmp_path / "vocab.txt", []))
    with pytest.raises(InputError, match=r"vocab\.txt has 5 pieces; .*config\.json says vocab"):
        albert_tf.load(folder, tokenizer=tokenizer)


def test_trained_folder_without_its_vocabulary(loaded, classifier, tmp_path):
    (classifier / "vocabulary.model").unlink()
    with pytest.raises(InputError, match=r"holds no vocabulary; pass tok"):
        albert_tf.load(classifier)
    with pytest.raises(InputError, match=r"^load\(.*\): tokenizer: expected an Alb.* received str"):
        albert_tf.load(classifier, "vocabulary.model")
    texts = ["the old cat", "a rose"], ["a tree", ""]
    received = albert_tf.load(classifier, loaded.tokenizer).predict(*texts)
    np.testing.assert_array_equal(received.probabilities, loaded.predict(*texts).probabilities)
    write_vocabulary(tmp_path / "other.model", seed=1)
    other = albert_tf.AlbertTokenizer(str(tmp_path / "other.model"))
    with pytest.raises(InputError, match=r"was trained with another vocabulary than .*other\.mod"):
        albert_tf.load(classifier, other)


def test_refuses_folders_without_a_model(tmp_path, exported):
    with pytest.raises(InputError, match=r"^load\('.*missing'\): no such folder$"):
        albert_tf.load(tmp_path / "missing")
    with pytest.raises(InputError, match=r"task\.json'\): is a file; expected a folder$"):
        albert_tf.load(exported / "ids" / "1" / "assets" / "task.json")
    with pytest.raises(InputError, match=r"^load\('.*'\): holds no trained model; expected"):
        albert_tf.load(tmp_path)
    version = shutil.copytree(exported / "ids" / "1", tmp_path / "1")
    (version / "assets" / "task.json").unlink()
    with pytest.raises(InputError, match=r"lacks task\.json, which describes the head"):
        albert_tf.load(version)


OF_REGRESSION = {"kind": "regression", "class_weights": None, "weights": None}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("task.json", {"kind": "ordinal"}, r"unknown kind 'ordinal'; expected classification, reg"),
        ("task.json", {"kind": None}, "expected an object with the key 'kind', as --do_train wri"),
        ("task.json", {**OF_REGRESSION, "labels": 7}, "labels=7: expected tuple"),
        ("task.json", {"max_seq_length": "64"}, r"max_seq_length='64': expected int$"),
        ("task.json", {"max_seq_length": 4}, r"max_seq_length=4: expected at least 5$"),
        ("task.json", {"pairs": 1}, r"pairs=1: expected bool$"),
        ("task.json", {"max_seq_lenght": 64}, r"unknown key 'max_seq_lenght'; expected task_name"),
        ("task.json", {"labels": ["plant", "plant"]}, "labels: received 'plant' twice"),
        ("run_options.json", {"do_lower_case": None}, "lacks 'do_lower_case', which"),
        ("run_options.json", {"do_lower_case": 1}, "do_lower_case=1: expected bool"),
        ("run_options.json", {"sha256": 7}, "expected an object in braces"),
    ],
)
def test_damaged_descriptions_are_one_line(classifier, name, changes, message):
    change_json(classifier / "run_options.json", sha256={})
    change_json(classifier / name, **changes)
    with pytest.raises(InputError, match=rf"{name}: {message}"):
        albert_tf.load(classifier)


@pytest.mark.parametrize("name", ["task.json", "albert_config.json", "vocabulary.model"])
def test_changed_descriptions_are_refused(classifier, exported, tmp_path, name):
    version = shutil.copytree(exported / "ids" / "1", tmp_path / "1")
    for folder, model in ((classifier, classifier), (version / "assets", version)):
        (folder / name).write_bytes((folder / name).read_bytes() + b" ")
        message = rf"{name}: has the SHA-256 \w{{64}}; run_options\.json next to it says \w{{64}}"
        with pytest.raises(InputError, match=message):
            albert_tf.load(model)


def test_refuses_what_a_newer_version_wrote(classifier):
    path = classifier / "run_options.json"
    assert json.loads(path.read_text())["albert_tf_version"] == albert_tf.__version__
    change_json(path, albert_tf_version="10.2.0")
    message = r"run_options\.json: written by albert_tf 10\.2\.0, which is newer than this one, "
    with pytest.raises(InputError, match=message):
        albert_tf.load(classifier)
