"""The example of docs/keras.md, from a pre-trained folder to a served model."""

import pathlib
import runpy

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.conversion import save_hugging_face
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.helpers import tiny_config
from tests.tasks.animals import write_rows, write_vocabulary

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "keras" / "classify.py"


@pytest.mark.slow
def test_example_trains_saves_and_serves(tmp_path, monkeypatch, capsys):
    write_vocabulary(tmp_path / "vocabulary.model")
    for name, count, seed in (("train", 64, 1), ("dev", 16, 2)):
        write_rows(tmp_path / f"{name}.tsv", count, seed)
        rows = [line.split("\t") for line in (tmp_path / f"{name}.tsv").read_text().splitlines()]
        lines = ["label,text", *(f"{int(label == 'plant')},{text}" for text, label in rows[1:])]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    config = tiny_config(vocab_size=50, num_hidden_layers=1)
    save_hugging_face(AlbertPretrainer(AlbertEncoder(config)), str(tmp_path / "pretrained"))

    names = ("pretrained", "vocabulary.model", "train.csv", "dev.csv", "output")
    monkeypatch.setattr("sys.argv", ["classify.py", *(str(tmp_path / name) for name in names)])
    with pytest.warns(UserWarning, match="head/dense/kernel.*; initialised randomly"):
        runpy.run_path(str(EXAMPLE))
    printed = capsys.readouterr().out
    assert "'accuracy':" in printed

    texts = tf.constant(["the old cat", "a rose"])
    model = keras.models.load_model(tmp_path / "output" / "classifier.keras")
    served = tf.saved_model.load(str(tmp_path / "output" / "1"))
    np.testing.assert_allclose(served.serve(texts), model(texts), atol=1e-5)
