"""Trainings of a model with more pieces and more positions than the one that they start from."""

import dataclasses
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.growth import Growth, continue_positions
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.conversion import save_model
from albert_tf.model_folder import read_own
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tasks import pretraining_data, pretraining_run
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tasks.pretraining_data_options import PretrainingDataOptions
from albert_tf.tasks.pretraining_options import PretrainingOptions
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer
from albert_tf.tokenization.added_pieces import add_pieces
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from tests.helpers import refused, tiny_config, write_wordpiece
from tests.tasks.animals import OTHERS, make_options, pair_files
from tests.tokenization.conftest import make_sentences

WORDS = "Foxglove\n\noakmoss \nfox\noakmoss\n"
TEXTS = ["a foxglove, under the oakmosses", "the FOXGLOVE sees 9,999, foxes", "foxgloveoakmoss"]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(WORDS)
    return str(path)


@pytest.fixture(params=["sentencepiece", "wordpiece"])
def tokenizer(request, data, tmp_path):
    if request.param == "sentencepiece":
        return AlbertTokenizer(str(data / "words.model"))
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*letters, *(f"##{letter}" for letter in letters), "fox", ",", "9"]
    return WordPieceTokenizer(write_wordpiece(tmp_path / "vocab.txt", pieces))


def test_words_become_pieces(tokenizer, words):
    grown = add_pieces(tokenizer, words)
    count = 3 - (tokenizer.piece_of("fox") in tokenizer.pieces)
    assert grown.vocab_size == tokenizer.vocab_size + count
    assert grown.pieces[: tokenizer.vocab_size] == tokenizer.pieces
    added = [grown.piece_of(word) for word in ("foxglove", "oakmoss", "fox")[:count]]
    assert grown.pieces[-count:] == added
    assert grown.former_ids[0] == tuple(tokenizer.encode("foxglove"))
    for word in ("Foxglove", "oakmoss"):
        assert grown.encode(word) == [grown.pieces.index(grown.piece_of(word))]
    ids = grown.encode(TEXTS[1])
    assert grown.pieces.index(added[0]) in ids
    assert grown.encode("the old cat") == tokenizer.encode("the old cat")
    assert make_graph_tokenizer(grown)(TEXTS).to_list() == grown.encode_batch(TEXTS)
    assert add_pieces(grown, words) is grown


def test_tokenizer_json_has_them(tokenizer, words):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the group parity: tokenizers")
    grown = add_pieces(tokenizer, words)
    content = hugging_face_files(grown, 64)["tokenizer.json"].decode()
    theirs = tokenizers.Tokenizer.from_str(content)
    encoded = theirs.encode_batch(TEXTS, add_special_tokens=False)
    assert [one.ids for one in encoded] == grown.encode_batch(TEXTS)


def test_a_missing_file_is_one_line(tokenizer, tmp_path):
    with refused(r"none\.txt"):
        add_pieces(tokenizer, str(tmp_path / "none.txt"))


@pytest.mark.parametrize("line", ["two words", "12,", "##", "[MASK]"])
def test_other_lines_are_refused(tokenizer, line, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(f"foxglove\n{line}\n")
    if tokenizer.piece_of(line) is not None:
        assert line in ("##", "[MASK]")
        return
    with refused(r"words\.txt, line 2: '.*' is no word to the tokenizer, which makes '.*' of it"):
        add_pieces(tokenizer, str(path))


def test_rows_are_means_and_positions_continued(tmp_path):
    before = tiny_config(initializer_range=0.5)
    old = AlbertPretrainer(AlbertEncoder(before, seed=1), seed=2)
    old.masked_lm_head.output_bias.assign(np.arange(97.0))
    save_model(old, str(tmp_path / "old"))
    after = dataclasses.replace(before, vocab_size=99, max_position_embeddings=150)
    new = AlbertPretrainer(AlbertEncoder(after, seed=3), seed=4)
    load_checkpoint(new, str(tmp_path / "old"), Growth(before, ((7, 8, 9), (96,))))
    for received, expected in (
        (new.encoder.embedding.word_embeddings, old.encoder.embedding.word_embeddings),
        (new.masked_lm_head.output_bias, old.masked_lm_head.output_bias),
    ):
        received, expected = np.asarray(received), np.asarray(expected)
        np.testing.assert_array_equal(received[:97], expected)
        np.testing.assert_allclose(received[97], expected[7:10].mean(axis=0), rtol=1e-6)
        np.testing.assert_array_equal(received[98], expected[96])
    received = np.asarray(new.encoder.embedding.position_embeddings)
    expected = np.asarray(old.encoder.embedding.position_embeddings)
    np.testing.assert_array_equal(received[: len(expected)], expected)
    np.testing.assert_array_equal(received[len(expected) :], continue_positions(expected, 86))
    inputs = {"input_ids": np.array([[2, 5, 6, 3]], np.int32)}
    states = [model.encoder(inputs)["sequence_output"] for model in (old, new)]
    np.testing.assert_allclose(*states, rtol=0, atol=1e-6)


def test_a_path_of_positions_is_continued():
    rng = np.random.default_rng(0)
    # A rotation in six dimensions, whose trained part without the ends is a whole period.
    angles = np.outer(np.arange(164), 2 * np.pi * np.array([1, 3, 5]) / 54)
    axes = np.linalg.qr(rng.normal(size=(16, 6)))[0].T
    path = 3 + np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ axes
    known = path[:64].astype(np.float32)
    known[:2] = known[-8:] = 0  # rows off the path
    received = continue_positions(known, 100)
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, path[64:], rtol=0, atol=1e-4)
    for count in (1, 2, 12):
        assert np.isfinite(continue_positions(known[:count], 3)).all()
    assert continue_positions(known, 0).shape == (0, 16)


@pytest.fixture
def base(data, tmp_path):
    """A folder with a random encoder of 24 positions and the vocabulary of the data."""
    config = tiny_config(vocab_size=50, num_hidden_layers=2, max_position_embeddings=24)
    encoder = AlbertEncoder(config, seed=1)
    contents = {"spiece.model": (data / "words.model").read_bytes()}
    save_model(AlbertPretrainer(encoder, seed=2), str(tmp_path / "base"), contents=contents)
    return str(tmp_path / "base")


@pytest.mark.usefixtures("eagerly")
def test_a_fine_tuning_with_more_pieces_and_positions(data, base, words, tmp_path, capsys):
    out = tmp_path / "out"
    values = {
        **pair_files(data),
        **{"albert_config_file": None, "spm_model_file": None, "init_checkpoint": base},
        **{"add_pieces": words, "max_position_embeddings": 40, "max_seq_length": 40},
        **{"num_train_steps": 2, "warmup_steps": 0, "do_eval": False},
    }
    options = make_options(data, out, **values)
    run(options)
    assert "3 words become pieces, and the vocabulary has 53" in capsys.readouterr().out
    noted = read_own(str(out / "best"))["options"]
    assert (noted["add_pieces"], noted["max_position_embeddings"]) == ("words.txt", 40)
    config = json.loads((out / "best" / "config.json").read_text())
    assert (config["vocab_size"], config["max_position_embeddings"]) == (53, 40)
    loaded = albert_tf.load(out)
    assert loaded.tokenizer.encode("foxglove") == [50]
    loaded.predict(["the foxglove"], ["an oakmoss " * 20])
    # The same command resumes, also without the flags.
    more = dataclasses.replace(options, num_train_steps=3)
    run(more)
    run(dataclasses.replace(more, num_train_steps=4, add_pieces=None, max_position_embeddings=None))
    with refused("max_position_embeddings 40, but --max_position_embeddings says 48"):
        run(dataclasses.replace(more, max_position_embeddings=48))
    (tmp_path / "words.txt").write_text("bluebell\n")
    with refused("--add_pieces: .*words.txt has 1 words that are no pieces of .*'▁bluebell'"):
        run(more)
    evaluated = {"do_train": False, "do_eval": True, "init_checkpoint": None, "add_pieces": None}
    run(dataclasses.replace(more, **evaluated))
    with refused("--max_position_embeddings=20: .*has 24; expected at least as many"):
        run(dataclasses.replace(more, output_dir=str(tmp_path / "new"), max_position_embeddings=20))


@pytest.mark.usefixtures("eagerly")
def test_a_pre_training_with_more_pieces(base, words, tmp_path):
    sentences = [f"{' '.join(OTHERS)} foxglove {line}" for line in make_sentences()[:80]]
    (tmp_path / "text.txt").write_text("\n".join(sentences))
    records = str(tmp_path / "train.tfrecord")
    data = PretrainingDataOptions(
        input_file=(str(tmp_path / "text.txt"),),
        output_file=records,
        model=base,
        add_pieces=words,
        max_seq_length=24,
        max_predictions_per_seq=4,
        num_workers=1,
    )
    pretraining_data.run(data)
    stats = json.loads((tmp_path / "train.stats.json").read_text())
    assert stats["vocab_size"] == 53
    options = PretrainingOptions(
        input_file=(records,),
        output_dir=str(tmp_path / "out"),
        init_checkpoint=base,
        add_pieces=words,
        do_train=True,
        train_batch_size=4,
        num_train_steps=2,
        warmup_steps=1,
        learning_rate=1e-3,
        dropout=0.0,
    )
    pretraining_run.run(options)
    pieces = albert_tf.load(tmp_path / "out").tokenizer.pieces
    assert pieces[-3:] == ["▁foxglove", "▁oakmoss", "▁fox"]
    pretraining_run.run(dataclasses.replace(options, num_train_steps=3))
    with refused("made with a vocabulary of 53 pieces, but .* says vocab_size 50"):
        pretraining_run.run(
            dataclasses.replace(options, add_pieces=None, output_dir=str(tmp_path / "new"))
        )
    with refused("--add_pieces: expected a vocabulary; received --train_vocab"):
        dataclasses.replace(data, train_vocab=True, model=None, spm_model_file="a.model")
