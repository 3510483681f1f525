"""What fine-tuning makes of examples: ids, mask, segments and label."""

from collections.abc import Mapping

import numpy as np

from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.data.fine_tuning.examples import Example, ScoreRange
from albert_tf.data.fine_tuning.features import Features, encode_choices, encode_examples
from albert_tf.data.fine_tuning.race import examples_of_article
from tests.helpers import shared_path
from tests.parity.difference import Difference, count_unequal
from tests.parity.original import official_tokenizer, read_json, without_normalization

JOBS = (
    *("cola_dev", "cola_test", "sst-2_dev", "sst-2_test", "mrpc_dev", "mrpc_test", "sts-b_dev"),
    *("sts-b_test", "rte_dev", "rte_test", "wnli_dev", "wnli_test", "qnli_dev", "qnli_test"),
    *("ax_test", "mnli_train", "mnli_dev", "mnli_test", "qqp_dev"),
)
LENGTHS = (32, 128)
_INPUTS = ("input_ids", "input_mask", "segment_ids")


def compare_job(job_name: str) -> list[Difference]:
    job = read_json("finetune_features/glue.json")[job_name]
    texts = read_json("finetune_features/glue_texts.json")[job_name]
    golden = np.load(shared_path("golden/finetune_features/glue.npz"))
    labels = ScoreRange() if job["label_list"] == [None] else job["label_list"]
    examples = [
        Example(guid, text_a, text_b, str(label))
        for guid, (text_a, text_b), label in zip(job["guid"], texts, job["label"], strict=True)
    ]
    received, expected = [], []
    for length in LENGTHS:
        batch = _padded(encode_examples(examples, labels, official_tokenizer(), length), length)
        received += _rows(batch)
        names = {name: name for name in _INPUTS} | {"label_ids": "label_id"}
        expected += _rows({name: golden[f"{job_name}/{length}/{names[name]}"] for name in batch})
    return [count_unequal("GLUE features", received, expected)]


def compare_pairs() -> list[Difference]:
    """Compares pairs around the length limit.

    The original normalises when it reads a file, and these texts were given past that.
    """
    golden = read_json("finetune_features/pairs_length16.json")
    examples = [Example(str(i), a, b, "0") for i, (a, b) in enumerate(golden["cases"])]
    with without_normalization():
        features = encode_examples(examples, ["0", "1"], official_tokenizer(), 16)
    batch = _padded(features, 16)
    received = _rows({name: batch[name] for name in _INPUTS})
    expected = _rows({name: np.array(golden[name]) for name in _INPUTS})
    return [count_unequal("pairs around the limit", received, expected)]


def compare_race() -> list[Difference]:
    """Compares the features of an article of RACE: blanks, long questions, cut passages."""
    golden = read_json("finetune_features/race_own.json")
    labels = ("A", "B", "C", "D")
    examples = examples_of_article("race_own.json", golden["all_txt_line"], labels, "dev")
    lengths = golden["max_seq_length"], golden["max_qa_length"]
    features = encode_choices(examples, labels, official_tokenizer(), *lengths)
    received = _rows(_padded(features, golden["max_seq_length"]))
    names = {name: name for name in _INPUTS} | {"label_ids": "label"}
    expected = _rows({name: np.array(golden[key]) for name, key in names.items()})
    return [count_unequal("RACE features", received, expected)]


def _padded(features: Features, length: int) -> dict[str, np.ndarray]:
    """Returns all examples as one batch of a given length, as the original has them."""
    batch = make_batch(features, np.arange(len(features)))
    for name in _INPUTS:
        missing = length - batch[name].shape[-1]
        batch[name] = np.pad(batch[name], [(0, 0)] * (batch[name].ndim - 1) + [(0, missing)])
    return batch


def _rows(batch: Mapping[str, np.ndarray]) -> list[dict[str, list]]:
    """Returns a batch as its examples."""
    count = len(batch["input_ids"])
    return [{name: array[row].tolist() for name, array in batch.items()} for row in range(count)]
