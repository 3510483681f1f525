import itertools

import numpy as np
import pytest

from albert_tf.conversion import save_model
from benchmarks import layer_similarity as similarity
from benchmarks.layer_similarity import LayerSimilarityOptions
from tests.benchmarks.samples import cells_of, write_pretrained
from tests.helpers import refused
from tests.tokenization.conftest import make_sentences


def changes_by_hand(encoder, input_ids):
    outputs = encoder({"input_ids": input_ids})
    embedding = outputs["embedding_output"]
    states = [encoder.embedding.projection(embedding), *outputs["encoder_outputs"]]
    distances, degrees = [], []
    for before, after in itertools.pairwise(states):
        before, after = np.asarray(before, float), np.asarray(after, float)
        distances.append(np.linalg.norm(after - before, axis=-1).mean())
        norms = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
        degrees.append(np.degrees(np.arccos((before * after).sum(-1) / norms)).mean())
    return distances, degrees


def test_two_checkpoints_of_two_formats(tmp_path, capsys):
    shared = write_pretrained(tmp_path / "shared")
    write_pretrained(tmp_path / "unshared", sharing="none", num_hidden_groups=1)
    save_model(shared, str(tmp_path / "theirs"))
    vocabulary = tmp_path / "shared" / "spiece.model"
    (tmp_path / "text.txt").write_text("\n".join(make_sentences()))
    options = LayerSimilarityOptions(
        init_checkpoint=(str(tmp_path / "theirs"), str(tmp_path / "unshared" / "best")),
        labels=("shared", "unshared"),
        spm_model_file=str(vocabulary),
        input_file=(str(tmp_path / "*.txt"),),
        output_file=str(tmp_path / "figure.png"),
        max_seq_length=16,
        num_sequences=20,
    )
    similarity._main(options)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    lines = cells_of(out)[:4]
    assert lines[0][1::2] == ["shared: L2 distance", "unshared: L2 distance"]

    checkpoint = similarity.CheckpointOptions(init_checkpoint=options.init_checkpoint[1])
    _, tokenizer = similarity.load_pretrained(checkpoint)
    input_ids = similarity.read_sequences(options.input_file, tokenizer, 16, 20)
    assert input_ids.shape == (20, 16)
    assert set(input_ids[:, 0]) == {tokenizer.cls_id}
    assert set(input_ids[:, -1]) == {tokenizer.sep_id}
    expected = changes_by_hand(shared.encoder, input_ids)
    for layer, cells in enumerate(lines[2:]):
        assert cells[0] == str(1 + layer)
        received = [float(cell) for cell in cells[1:3]]
        assert received == pytest.approx([of[layer] for of in expected], abs=0.006)

    with refused("expected at least 100000, for one sequence"):
        similarity.read_sequences(options.input_file, tokenizer, 100_002, 1)
