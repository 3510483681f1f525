"""What fine-tuning makes of examples: ids, mask, segments and label."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import Features, encode_choices, encode_examples
from albert_tf.data.fine_tuning.race import examples_of_article
from albert_tf.data.fine_tuning.tsv import Example, Scores
from albert_tf.tokenization import AlbertTokenizer
from tests.parity.difference import Difference, count_unequal
from tests.parity.original import read_json

JOBS = (
    *("cola_dev", "cola_test", "sst-2_dev", "sst-2_test", "mrpc_dev", "mrpc_test", "sts-b_dev"),
    *("sts-b_test", "rte_dev", "rte_test", "wnli_dev", "wnli_test", "qnli_dev", "qnli_test"),
    *("ax_test", "mnli_train", "mnli_dev", "mnli_test", "qqp_dev"),
)
# The jobs whose examples are also read from the task's file.
FILE_JOBS = ("cola_dev", "cola_test", "sst-2_dev", "sst-2_test")
LENGTHS = (32, 128)
_INPUTS = ("input_ids", "input_mask", "segment_ids")


def compare_job(
    golden_dir: pathlib.Path, tokenizer: AlbertTokenizer, job_name: str
) -> list[Difference]:
    """Compares the features of one task's examples, at two lengths."""
    folder = golden_dir / "finetune_features"
    job = read_json(folder / "glue.json")[job_name]
    texts = read_json(folder / "glue_texts.json")[job_name]
    golden = np.load(folder / "glue.npz")
    labels = Scores() if job["label_list"] == [None] else job["label_list"]
    examples = [
        Example(guid, text_a, text_b, str(label))
        for guid, (text_a, text_b), label in zip(job["guid"], texts, job["label"], strict=True)
    ]
    received, expected = [], []
    for length in LENGTHS:
        batch = _padded(encode_examples(examples, labels, tokenizer, length), length)
        received += _rows(batch)
        names = {name: name for name in _INPUTS} | {"label_ids": "label_id"}
        expected += _rows({name: golden[f"{job_name}/{length}/{names[name]}"] for name in batch})
    return [count_unequal("GLUE features", job_name, received, expected)]


def compare_file(
    golden_dir: pathlib.Path, tokenizer: AlbertTokenizer, job_name: str, examples: Sequence[Example]
) -> list[Difference]:
    """Compares the ids of examples that were read from a task's file."""
    folder = golden_dir / "finetune_features"
    job = read_json(folder / "glue.json")[job_name]
    suffix = "" if tokenizer.lower_case else "_do_lower_case_false"
    expected = np.load(folder / "glue.npz")[f"{job_name}/32/input_ids{suffix}"].tolist()
    chosen = [examples[index] for index in job["example_index"]]
    received = _padded(encode_examples(chosen, job["label_list"], tokenizer, 32), 32)["input_ids"]
    return [count_unequal("GLUE files", job_name, received.tolist(), expected)]


def compare_pairs(golden_dir: pathlib.Path, tokenizer: AlbertTokenizer) -> list[Difference]:
    """Compares pairs around the length limit, by a tokenizer that does not normalise.

    The original normalises when it reads a file, and these texts were given past that.
    """
    golden = read_json(golden_dir / "finetune_features" / "pairs_length16.json")
    examples = [Example(str(i), a, b, "0") for i, (a, b) in enumerate(golden["cases"])]
    batch = _padded(encode_examples(examples, ["0", "1"], tokenizer, 16), 16)
    received = _rows({name: batch[name] for name in _INPUTS})
    expected = _rows({name: np.array(golden[name]) for name in _INPUTS})
    return [count_unequal("GLUE features", "pairs around the limit", received, expected)]


def compare_race(golden_dir: pathlib.Path, tokenizer: AlbertTokenizer) -> list[Difference]:
    """Compares the features of an article of RACE: blanks, long questions, cut passages."""
    golden = read_json(golden_dir / "finetune_features" / "race_own.json")
    labels = ("A", "B", "C", "D")
    examples = examples_of_article("race_own.json", golden["all_txt_line"], labels, "dev")
    lengths = golden["max_seq_length"], golden["max_qa_length"]
    features = encode_choices(examples, labels, tokenizer, *lengths)
    received = _rows(_padded(features, golden["max_seq_length"]))
    names = {name: name for name in _INPUTS} | {"label_ids": "label"}
    expected = _rows({name: np.array(golden[key]) for name, key in names.items()})
    return [count_unequal("RACE features", "an article", received, expected)]


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
