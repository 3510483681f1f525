"""Windows in the graph are those of training."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.squad_questions import SquadExample
from albert_tf.data.fine_tuning.squad_windows import WindowConfig
from albert_tf.export.graph_windows import cut_windows
from albert_tf.tokenization.in_graph import TokensWithOffsets
from tests.data.squad_file import WordTokenizer, make_windows

CLS, SEP = WordTokenizer.cls_id, WordTokenizer.sep_id


def in_graph(examples, config):
    """Cuts what the tokenizer of training gives."""
    tokenizer = WordTokenizer()
    tokens = [tokenizer.encode_with_offsets(example.context) for example in examples]
    ragged = [
        tf.ragged.constant(rows, dtype, ragged_rank=1)
        for rows, dtype in (
            ([ids for ids, _ in tokens], tf.int32),
            ([[start for start, _ in spans] for _, spans in tokens], tf.int64),
            ([[end for _, end in spans] for _, spans in tokens], tf.int64),
        )
    ]
    questions = tokenizer.encode_batch([example.question for example in examples])
    return cut_windows(
        TokensWithOffsets(*ragged),
        CLS,
        SEP,
        config,
        tf.ragged.constant(questions, tf.int32, ragged_rank=1)[:, : config.max_query_length],
    )


@pytest.mark.parametrize(
    "config", [WindowConfig(23, 5, 6), WindowConfig(13, 1, 6), WindowConfig(17, 90, 2)]
)
def test_same_windows_as_in_training(config):
    rng = np.random.default_rng(7)
    examples = [
        SquadExample(
            id=str(index),
            question=" ".join(["who?"] * rng.integers(0, 9)),
            context=" ".join(f"w{number}" for number in range(length)) + "  ",
        )
        for index, length in enumerate([1, 2, 7, 8, 9, 13, 14, 15, 40, *rng.integers(1, 70, 12)])
    ]
    expected = make_windows(examples, WordTokenizer(), config)
    windows = in_graph(examples, config)
    assert windows.examples.numpy().tolist() == [window.example_index for window in expected]
    for row, window in enumerate(expected):
        length = len(window.input_ids)
        arrays = {
            "input_ids": window.input_ids,
            "input_mask": np.ones(length),
            "segment_ids": np.arange(length) >= window.question_length,
        }
        for name, values in arrays.items():
            received = windows.inputs[name][row].numpy()
            np.testing.assert_array_equal(received[:length], values)
            assert not received[length:].any()
        is_passage = window.token_ends > 0
        for name in ("token_starts", "token_ends"):
            received = getattr(windows, name)[row].numpy()
            np.testing.assert_array_equal(received[:length], getattr(window, name))
        best = windows.is_max_context[row].numpy()[:length]
        np.testing.assert_array_equal(best[is_passage], window.token_is_max_context[is_passage])


def test_empty_passages_have_one_window():
    examples = [SquadExample("a", "who ?", ""), SquadExample("b", "", " ")]
    windows = in_graph(examples, WindowConfig(13, 5, 6))
    assert windows.inputs["input_ids"].numpy().tolist() == [
        [CLS, *WordTokenizer().encode_batch(["who ?"])[0], SEP, SEP],
        [CLS, SEP, SEP, 0, 0],
    ]
    assert not windows.token_ends.numpy().any()
