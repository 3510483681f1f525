import itertools

import numpy as np
import pytest

from albert_tf.data.features import encode_examples, pair_lengths
from albert_tf.data.input_pipeline import make_batch
from albert_tf.data.tsv import Example
from albert_tf.errors import FlagError
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.parity.features import FILE_JOBS, JOBS, compare_file, compare_job, compare_pairs
from tests.data.test_glue import read_original_job
from tests.helpers import assert_agrees, shared_path


class NumberTokenizer:
    """Its texts are the ids."""

    cls_id, sep_id = 2, 3

    def encode_batch(self, texts):
        return [[int(word) for word in text.split()] for text in texts]


def number_text(count, first=10):
    return " ".join(str(first + index) for index in range(count))


@pytest.fixture(scope="module")
def tokenizer():
    return AlbertTokenizer(str(shared_path("data/sentencepiece/30k-clean.model")), lower_case=True)


@pytest.mark.parametrize("job_name", JOBS)
def test_features_equal_the_original_ones(tokenizer, job_name):
    assert_agrees(compare_job(shared_path("golden"), tokenizer, job_name))


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("job_name", FILE_JOBS)
def test_ids_of_raw_files_equal_the_original_ones(job_name, lower_case):
    _, examples = read_original_job(job_name)
    model_file = str(shared_path("data/sentencepiece/30k-clean.model"))
    tokenizer = AlbertTokenizer(model_file, lower_case)
    assert_agrees(compare_file(shared_path("golden"), tokenizer, job_name, examples))


def test_pairs_around_the_limit_equal_the_original_ones(tokenizer, monkeypatch):
    normalize = "albert_tf.tokenization.sentencepiece_tokenizer.normalize_text"
    monkeypatch.setattr(normalize, lambda text, lower_case: text)
    assert_agrees(compare_pairs(shared_path("golden"), tokenizer))


def test_layout_of_single_texts_and_pairs():
    examples = [
        Example("single", "11 12 13", None, "b"),
        Example("pair", "11 12", "21", "a"),
        Example("empty second", "11", "", "b"),
    ]
    features = encode_examples(examples, ["a", "b"], NumberTokenizer(), 9)
    assert features.input_ids.tolist() == [2, 11, 12, 13, 3, 2, 11, 12, 3, 21, 3, 2, 11, 3]
    assert features.lengths.tolist() == [5, 6, 3]
    assert features.first_lengths.tolist() == [5, 4, 3]
    assert features.label_ids.tolist() == [1, 0, 1]
    assert {
        array.dtype for array in (features.input_ids, features.lengths, features.label_ids)
    } == {np.dtype(np.int32)}


def test_examples_without_labels_have_no_label_ids():
    features = encode_examples([Example("test-1", "11")], ["a", "b"], NumberTokenizer(), 9)
    assert features.label_ids is None
    assert "label_ids" not in make_batch(features, np.array([0]))


def test_single_text_keeps_its_front():
    features = encode_examples([Example("0", number_text(50))], [], NumberTokenizer(), 7)
    assert features.input_ids.tolist() == [2, 10, 11, 12, 13, 14, 3]


def test_empty_second_text_leaves_its_room_to_the_first():
    features = encode_examples([Example("0", number_text(50), "")], [], NumberTokenizer(), 7)
    assert features.input_ids.tolist() == [2, 10, 11, 12, 13, 14, 3]
    assert features.first_lengths.tolist() == [7]


def test_many_examples_are_encoded_block_by_block_in_order(monkeypatch):
    examples = [Example(str(row), str(10 + row)) for row in range(11)]
    whole = encode_examples(examples, [], NumberTokenizer(), 9)
    monkeypatch.setattr("albert_tf.data.features._EXAMPLES_AT_ONCE", 4)
    blocks = encode_examples(examples, [], NumberTokenizer(), 9)
    np.testing.assert_array_equal(blocks.input_ids, whole.input_ids)
    assert blocks.input_ids[1::3].tolist() == list(range(10, 21))


def test_length_without_room_for_a_pair_is_refused():
    with pytest.raises(FlagError, match=r"--max_seq_length=4: expected at least 5"):
        encode_examples([Example("0", "11")], [], NumberTokenizer(), 4)


def test_pair_lengths_are_those_of_dropping_one_token_at_a_time():
    for length_a, length_b, budget in itertools.product(range(14), range(14), range(14)):
        kept_a, kept_b = length_a, length_b
        while kept_a + kept_b > budget:
            if kept_a > kept_b:
                kept_a -= 1
            else:
                kept_b -= 1
        assert pair_lengths(length_a, length_b, budget) == (kept_a, kept_b)
