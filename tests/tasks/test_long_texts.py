"""Texts longer than the model: their windows together decide, on every road."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.fine_tuning.data import read_data
from albert_tf.tokenization import AlbertTokenizer
from tests.helpers import refused
from tests.tasks.animals import OTHERS, complete, make_options, pair_files

LENGTH = 10
FILLER = " ".join(OTHERS)
TEXTS = ["cat", f"{FILLER} oak", f"the {FILLER} {FILLER} big hen", FILLER]
TARGETS = {
    "classification": ["animal", "plant", "animal", "plant"],
    "regression": [1.0, 2.0, 3.0, 4.0],
    "multi_label": ["animal", "plant", "animal|plant", "plant"],
}


def average(model, text):
    """Returns the mean of the outputs for the parts of a text, which are equally long but for a token."""
    ids = model.tokenizer.encode(text)
    parts = np.array_split(np.array(ids), max(1, -(-len(ids) // (LENGTH - 2))))
    ends = model.tokenizer.cls_id, model.tokenizer.sep_id
    # NumPy makes the first parts longer, the windows the last ones.
    lengths = sorted(map(len, parts))
    starts = np.cumsum([0, *lengths])
    windows = [[ends[0], *ids[a:b], ends[1]] for a, b in itertools.pairwise(starts)]
    outputs = [model.model({"input_ids": np.array([window])}) for window in windows]
    return np.mean(outputs, axis=0)[0]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow) if kind != "classification" else kind
        for kind in TARGETS
    ],
)
def test_outputs_of_windows_are_averaged(data, trained, tmp_path, kind, eagerly, capsys):
    rows = [
        {"text": text, "label": label} for text, label in zip(TEXTS, TARGETS[kind], strict=True)
    ]
    model = albert_tf.fine_tune(
        str(trained / "best"),
        rows * 4,
        kind=kind,
        output_dir=tmp_path / "out",
        long_texts="windows",
        max_seq_length=LENGTH,
        num_train_steps=2,
        train_batch_size=4,
        dev_fraction=0.0,
        reset_head=True,
    )
    assert "truncated" not in capsys.readouterr().out
    best = tmp_path / "out" / "best"
    config = json.loads((best / "config.json").read_text())
    limit = json.loads((best / "tokenizer_config.json").read_text())["model_max_length"]
    assert limit == config["max_position_embeddings"]  # not LENGTH: windows read whole texts
    texts = [*TEXTS, "a b " * 50]
    expected = np.array([average(model, text) for text in texts])
    received = model.predict(texts)
    exported = tf.saved_model.load(model.export(tmp_path / "exported")["text"])
    served = exported.signatures["serving_default"](text_a=tf.constant(texts))
    if kind == "regression":
        values = received.score, served["score"].numpy()
        expected = expected[:, 0]
    else:
        values = received.probabilities, served["probabilities"].numpy()
        expected = tf.nn.softmax(expected) if kind == "classification" else tf.sigmoid(expected)
    for of_road in values:
        np.testing.assert_allclose(of_road, expected, atol=1e-5)


@pytest.mark.parametrize("pairs", [False, True])
def test_share_of_truncated_texts_is_said(data, tmp_path, capsys, pairs):
    files = pair_files(data) if pairs else {"dev_file": None}
    only_train = {"do_eval": False, "dev_fraction": 0.0}
    options = complete(make_options(data, tmp_path, **files, **only_train, max_seq_length=5))
    read_data(options, AlbertTokenizer(str(data / "words.model")))
    printed = capsys.readouterr().out
    assert "texts are longer than --max_seq_length=5 and are truncated" in printed
    assert ("truncated; --long_texts=windows reads all" in printed) == (not pairs)


def test_pairs_have_no_windows(data, tmp_path):
    options = complete(make_options(data, tmp_path, **pair_files(data), long_texts="windows"))
    with refused(r"^long_texts=windows: expected single texts; .* has pairs"):
        read_data(options, AlbertTokenizer(str(data / "words.model")))
