"""`convert_checkpoint.py --to=saved_model`."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.conversion import ConversionOptions, run
from albert_tf.tokenization import train_vocabulary
from albert_tf.training.checkpoint_manager import save_checkpoint
from tests.helpers import tiny_config


@pytest.fixture
def encoder(tmp_path):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=1), seed=1)
    encoder.config.to_json_file(str(tmp_path / "albert_config.json"))
    return encoder


@pytest.fixture
def convert(tmp_path):
    """Converts a model."""

    def convert(model, **options):
        checkpoint = str(tmp_path / "ours")
        save_checkpoint(model, checkpoint)
        options = {"output_checkpoint": str(tmp_path / "out"), **options}
        run(ConversionOptions(init_checkpoint=checkpoint, to="saved_model", **options))

    return convert


def versions(folder):
    return {
        path.name: sorted(version.name for version in path.iterdir()) for path in folder.iterdir()
    }


def test_pretrainer_keeps_its_masked_lm_head(tmp_path, encoder, convert, capsys):
    convert(AlbertPretrainer(encoder, seed=2))
    out = tmp_path / "out"
    shown = capsys.readouterr().out.splitlines()
    assert shown[-3] == (
        "not written, as saved_model has no place for them: "
        "albert_pretrainer/sentence_order_head/dense/bias, "
        "albert_pretrainer/sentence_order_head/dense/kernel"
    )
    assert shown[-2] == "no vocabulary, therefore no preprocessor next to the encoder"
    assert shown[-1].startswith(f"wrote {out}; its outputs differ by at most ")
    loaded = tf.saved_model.load(str(out / "encoder" / "1"))
    assert len(loaded.mlm.trainable_variables) == len(encoder.weights) + 5
    ids = {"input_ids": np.array([[2, 9, 7, 3]], np.int32)}
    inputs = {
        "input_word_ids": tf.constant(ids["input_ids"]),
        "input_mask": tf.ones((1, 4), tf.int32),
        "input_type_ids": tf.zeros((1, 4), tf.int32),
    }
    expected = encoder(ids)["pooled_output"]
    np.testing.assert_allclose(loaded(inputs)["pooled_output"], expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_vocabulary_makes_the_preprocessor(tmp_path, encoder, convert):
    vocabulary = tmp_path / "97.model"
    letters = np.random.default_rng(0).integers(ord("a"), ord("z") + 1, (300, 8))
    train_vocabulary(["".join(map(chr, row)) for row in letters], str(vocabulary), vocab_size=97)
    convert(encoder, spm_model_file=str(vocabulary), do_lower_case=False)
    out = tmp_path / "out"
    assert versions(out) == {"encoder": ["1"], "preprocessor": ["1"]}
    asset = out / "encoder" / "1" / "assets" / "97.model"
    assert asset.read_bytes() == vocabulary.read_bytes()
    preprocessor = tf.saved_model.load(str(out / "preprocessor" / "1"))
    small, capitals = preprocessor(["abcd", "ABCD"])["input_word_ids"].numpy()
    # Without lower-casing, capitals are unknown.
    assert 1 in capitals
    assert 1 not in small


@pytest.mark.slow
def test_versions_and_what_goes_without_a_preprocessor(tmp_path, encoder, convert, capsys):
    convert(encoder)
    before = (tmp_path / "out" / "encoder" / "1" / "fingerprint.pb").read_bytes()
    vocabulary = tmp_path / "vocab.txt"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(92))]
    vocabulary.write_text("\n".join(words))
    convert(AlbertClassifier(encoder, num_classes=3), vocab_file=str(vocabulary))
    shown = capsys.readouterr().out
    assert shown.count("no vocabulary, therefore no preprocessor") == 1
    assert "no place for them: albert_classifier/head/dense/bias, albert_classifier/h" in shown
    assert versions(tmp_path / "out") == {"encoder": ["1", "2"], "preprocessor": ["2"]}
    assert (tmp_path / "out" / "encoder" / "1" / "fingerprint.pb").read_bytes() == before
    loaded = tf.saved_model.load(str(tmp_path / "out" / "encoder" / "2"))
    assert loaded.vocab_file.asset_path.numpy().endswith(b"vocab.txt")
    assert len(loaded.trainable_variables) == len(encoder.weights)


def test_outputs_that_are_no_numbers_leave_no_version(tmp_path, encoder, convert, capsys):
    encoder.pooler.dense.bias.assign(np.full(48, np.nan, np.float32))
    with pytest.raises(InputError, match="out: not written: its outputs would differ by nan"):
        convert(encoder)
    assert "wrote" not in capsys.readouterr().out
    assert list((tmp_path / "out" / "encoder").iterdir()) == []


def test_dry_run_writes_nothing(tmp_path, encoder, convert, capsys):
    convert(AlbertPretrainer(encoder), dry_run=True)
    assert not (tmp_path / "out").exists()
    shown = capsys.readouterr().out
    assert "albert_pretrainer/masked_lm_head/output_bias" in shown
    assert "no place for them: albert_pretrainer/sentence_order_head" in shown
