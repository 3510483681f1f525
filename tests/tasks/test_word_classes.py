"""Words with classes, such as parts of speech: trained, measured, predicted, exported."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import load
from albert_tf.tasks.fine_tuning.run import run
from tests.helpers import refused
from tests.tasks import names

CLASSES = {"the": "DET", "of": "ADP", "with": "ADP", ",": "PUNCT"}


def write_classes(path, count, seed, last=""):
    """Writes the words of `names`; those that are no nouns have one class each."""
    rng, lines = np.random.default_rng(seed), ["# classes of words", ""]
    for number in range(count):
        text, _ = names.make_text(rng)
        words = text.replace(",", " ,").split()
        lines += [
            f"# id {number} domain=en",
            *(f"{word} _ {CLASSES.get(word, 'NOUN')}" for word in words),
            "",
        ]
    path.write_text("\n".join([*lines, last]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    names.write_data(folder)
    for name, count, seed in (("train", 200, 1), ("dev", 30, 2)):
        write_classes(folder / f"{name}.conll", count, seed)
    more = {"num_train_steps": 60, "export_dir": str(folder / "exported"), "do_eval": True}
    options = names.make_options(folder, str(folder / "out"), **more)
    return folder, run(options)


def test_accuracy_is_the_share_of_words_with_the_right_class(trained):
    folder, metrics = trained
    assert set(metrics) == {"accuracy", "loss"}
    lines = (folder / "out" / "eval_predictions.conll").read_text().split("\n")
    rows = [line.split() for line in lines if line]
    assert {true for _, true, _ in rows} == {"ADP", "DET", "NOUN", "PUNCT"}
    share = np.mean([true == predicted for _, true, predicted in rows])
    assert 0.7 < metrics["accuracy"] == pytest.approx(share)
    scores = (folder / "out" / "entity_scores.tsv").read_text()
    assert scores.splitlines()[-1].split("\t")[-1] == str(len(rows))
    # A file with few classes is read as the training file was, whatever its tags look like.
    few = write_classes(folder / "few.conll", 0, 0, "the _ DET\nof _ DET")
    assert load(folder / "out").evaluate(few)["accuracy"] in (0, 0.5, 1)
    with refused("few.conll, line 4: unknown label 'O'; expected 'ADP', 'DET'"):
        load(folder / "out").evaluate(
            write_classes(folder / "few.conll", 0, 0, "the _ DET\nof _ O")
        )


def test_predictions_have_a_class_for_each_word(trained):
    folder, _ = trained
    model = load(folder / "out")
    assert model.labels == ("ADP", "DET", "NOUN", "PUNCT")
    (words,) = model.predict([["see", "open-cv", ",", "\u200b"]])
    assert [word.word for word in words] == ["see", "open-cv", ",", "\u200b"]
    assert words[-1][1:] == ("O", 1.0)
    assert {word.tag for word in words[:-1]} <= {*model.labels}
    text = "the mean of open cv, with"
    (spans,) = model.predict([text])
    assert [text[span.start : span.end] for span in spans] == [
        "the",
        "mean",
        "of",
        "open",
        "cv",
        ",",
        "with",
    ]
    find = tf.saved_model.load(str(folder / "exported" / "text" / "1")).signatures[
        "serving_default"
    ]
    found = find(text=tf.constant([text]))
    assert [label.decode() for label in found["label"][0].numpy()] == [span.label for span in spans]
    np.testing.assert_allclose(found["score"][0], [span.score for span in spans], atol=1e-4)


def test_a_single_class_is_refused(tmp_path):
    names.write_data(tmp_path)
    write_classes(tmp_path / "train.conll", 0, 0, "the _ DET")
    with refused("train.conll: every word has the class 'DET'; expected two classes or more"):
        run(names.make_options(tmp_path, str(tmp_path / "out")))
