"""Windows are the original's, and an answer's place leads from the passage to tokens and back."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import evaluation_batches
from albert_tf.data.fine_tuning.squad_questions import Answer, SquadExample, read_squad
from albert_tf.data.fine_tuning.squad_windows import encode_windows
from albert_tf.data.fine_tuning.windows import cut_windows
from albert_tf.tokenization.in_graph import TokensWithOffsets
from tests.data.squad_file import WordTokenizer, make_examples, make_windows, word_id
from tests.helpers import shared_path
from tests.parity.windows import GOLDEN_SETS, our_windows

# 9 words; the rule leaves room for 4 of them next to a question of 2.
PASSAGE = " The  first ship left\tin May , later ones followed "
RULE = (9, 3, 2)  # max_seq_length, doc_stride, max_query_length


def make(text, context=PASSAGE, question="which ship ?", rule=RULE, is_impossible=False):
    answers = () if text is None else (Answer(text, context.find(text)),)
    example = SquadExample("id", question, context, answers, is_impossible)
    return make_windows([example], WordTokenizer(), rule)


def spell(*words):
    return [word_id(word) for word in words]


def test_all_departures_from_the_original():
    """What the comparison leaves out: first pieces, and a passage that the original gives up on."""
    golden_set = GOLDEN_SETS["quirks_eval_features"]
    folder = shared_path("golden/squad")
    examples = read_squad(str(folder / f"{golden_set.questions}.json"))
    windows = our_windows(golden_set)
    assert [window.example_index for window in windows] == list(range(15))  # 12 is the Korean one

    golden = np.load(folder / f"{golden_set.features}.npz")
    different = set()
    kept = [window for window in windows if window.example_index != 12]
    for row, window in enumerate(kept):
        place = window.question_length
        ours = int(window.token_starts[place]), int(window.token_ends[place])
        start, last = (golden[f"tok_{end}_to_orig_index"][row, 0] for end in ("start", "end"))
        if ours != (start, last + 1):
            context = examples[window.example_index].context
            different.add((context[start : last + 1], context[slice(*ours)]))
    assert different == {("  Leading", "Leading"), ("中", "")}


def test_a_long_question_keeps_its_front_and_an_empty_one_takes_no_room():
    question = "word " * 1000
    (window,) = make("ship", question=question, rule=(384, 128, 64))
    assert window.question_length == 66
    assert window.input_ids[1:65].tolist() == spell("word") * 64
    window, *_ = make("ship", question="")
    assert window.input_ids.tolist() == [2, 3, *spell(*PASSAGE.split()[:6]), 3]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("first ship", "first ship"),
        ("irst shi", "first ship"),  # inside pieces: the pieces around it
        (" ship ", "ship left"),  # the white space after a word is the next one's
        ("followed ", "followed"),  # that after the last is no one's
        (" The", "The"),
        (PASSAGE, PASSAGE.strip()),
    ],
)
def test_answer_spans_the_pieces_that_hold_it(text, found):
    (window,) = make(text, rule=(64, 32, 8))
    span = window.token_starts[window.start_position], window.token_ends[window.end_position]
    assert PASSAGE[slice(*span)].strip() == found


def test_most_context_is_by_the_originals_measure():
    """A last window that is 127 tokens shorter loses tokens with a little less context elsewhere."""
    length, size, stride = 257, 256, 128
    starts = np.array([0, stride])
    ends = np.array([size, length])
    tokens = np.arange(length)
    contexts = np.minimum(tokens - starts[:, None], ends[:, None] - 1 - tokens)
    scores = np.where(contexts >= 0, contexts + 0.01 * (ends - starts)[:, None], -1)
    best = scores.argmax(axis=0)
    places = tf.RaggedTensor.from_tensor(tokens[None])
    passage = TokensWithOffsets(tf.cast(places, tf.int32), places, places + 1)
    _, cut, _ = cut_windows(passage, 2, 3, size + 2, stride)
    windows, positions = np.nonzero(cut.token_is_max_context)
    assert windows.tolist() == best[cut.token_starts.numpy()[windows, positions]].tolist()
    assert len(windows) == length


SMALL = (13, 4, 3)


def test_prediction_batches_match_their_passages():
    """A stand-in for a model's output, the first character of each token, comes back with its window."""
    windows = encode_windows(make_examples(57), WordTokenizer(), *SMALL)
    dataset, order = evaluation_batches(windows, 7)
    first, rows = 0, []
    for batch in dataset.as_numpy_iterator():
        count, length = batch["input_ids"].shape
        passages = windows.passages(order[first : first + count], length)
        first += count
        assert {array.shape[0] for array in passages} == {count}
        is_passage = passages.token_ends > 0
        segments = batch["segment_ids"]
        assert (is_passage.sum(axis=1) == segments.sum(axis=1) - 1).all()
        assert (segments[is_passage] == 1).all()
        assert not is_passage[batch["input_mask"] == 0].any()
        assert not passages.token_is_max_context[~is_passage].any()
        rows += passages.token_starts.max(axis=1).tolist()
    ends = np.cumsum(windows.lengths)
    expected = [part.max() for part in np.split(windows.token_starts, ends[:-1])]
    assert rows == [expected[row] for row in order]
