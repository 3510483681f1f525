"""The batches that each candidate makes of a task's real rows, and the few of them that are timed.

A step takes as long as its batch is long, so the timed batches have to be as long as all of an epoch are:
the batches of a whole epoch are put in order of their length and cut into parts of one size, and of each
part the batch is taken that is nearest to the part's mean length. Few batches, whose parts would be of
different sizes, are timed all.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.features import Features
    from albert_tf.tokenization import Tokenizer

Batch = Mapping[str, np.ndarray]
Activity = Literal["training", "prediction"]
# How texts come into batches, and what these are padded to.
#   pipeline: `albert_tf.data.fine_tuning.batches`: at random, for prediction of similar length; to little
#     more than the longest.
#   fixed: the same rows, all to the greatest length.
#   trainer: to the longest, as transformers' `DataCollatorWithPadding` does, in the order of its Trainer
#     unless told otherwise: in training at random, in prediction that of the rows.
#   grouped: to the longest, in the Trainer's other order, `train_sampling_strategy="group_by_length"`:
#     pools of 50 batches at random, each of them in order of length; in prediction too.
Batching = Literal["pipeline", "fixed", "trainer", "grouped"]

_SEED = 12345
# Of transformers, `get_length_grouped_indices`: batches in a pool, at most.
_GROUPED_POOL = 50
_SPLITS = {"training": "train", "prediction": "dev"}


def read_features(
    data_dir: str, task_name: str, activity: Activity, tokenizer: "Tokenizer", max_seq_length: int
) -> "Features":
    """Returns the rows of a classification task of GLUE: the training set, or dev to predict."""
    from albert_tf.data.fine_tuning.features import encode_examples
    from albert_tf.data.fine_tuning.task_table import find_task

    task, split = find_task(task_name), _SPLITS[activity]
    examples = task.sets[split][""].read(data_dir, split, task.labels)
    return encode_examples(examples, task.labels, tokenizer, max_seq_length)


def epoch(
    features: "Features", activity: Activity, batching: Batching, batch_size: int, fixed_length: int
) -> list[Batch]:
    """Returns the batches of one pass over the rows; `fixed` pads to `fixed_length`.

    Training leaves out what fills no batch; prediction has a smaller last one.
    """
    from albert_tf.data.fine_tuning.batches import evaluation_batches, make_batch, training_batches

    if batching in ("trainer", "grouped"):
        plan = _plan(features.example_lengths, activity, batching, batch_size)
        longest = features.example_lengths
        return [make_batch(features, rows, int(longest[rows].max())) for rows in plan]
    length = fixed_length if batching == "fixed" else None
    if activity == "prediction":
        dataset, _ = evaluation_batches(features, batch_size, length)
    else:
        dataset = training_batches(features, batch_size, _SEED, fixed_length=length)
        dataset = dataset.take(len(features) // batch_size)
    return list(dataset.as_numpy_iterator())


def _plan(
    lengths: np.ndarray, activity: Activity, batching: Batching, batch_size: int
) -> Iterator[np.ndarray]:
    """Yields the rows of each batch, as users of transformers make them."""
    rows = np.random.default_rng(_SEED).permutation(len(lengths))
    if batching == "trainer" and activity == "prediction":
        rows = np.arange(len(lengths))
    if batching == "grouped":
        pool = min(_GROUPED_POOL, max(1, len(rows) // (4 * batch_size))) * batch_size
        pools = [rows[start : start + pool] for start in range(0, len(rows), pool)]
        rows = np.concatenate([part[np.argsort(-lengths[part], kind="stable")] for part in pools])
    if activity == "training":
        rows = rows[: len(rows) // batch_size * batch_size]
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]


class Sample(NamedTuple):
    """Batches that stand for those of an epoch, and which part of all its positions is padding."""

    batches: list[Batch]
    padding: float


def sample(batches: Sequence[Batch], count: int) -> Sample:
    """Returns `count` batches of an epoch whose lengths are spread as those of all.

    One is enough where all have one length; of at most twice as many, all are timed.
    """
    lengths = np.array([batch["input_ids"].shape[-1] for batch in batches])
    positions = sum(batch["input_mask"].size for batch in batches)
    padding = 1.0 - sum(int(batch["input_mask"].sum()) for batch in batches) / positions
    if len(set(lengths)) == 1:
        return Sample([batches[0]], padding)
    if len(batches) <= 2 * count:
        return Sample(list(batches), padding)
    chosen = []
    for part in np.array_split(np.argsort(lengths, kind="stable"), count):
        distances = np.abs(lengths[part] - lengths[part].mean())
        chosen.append(batches[part[distances.argmin()]])
    return Sample(chosen, padding)


def save(folder: str, name: str, batches: Sequence[Batch]) -> str:
    """Writes a candidate's batches for its worker to read, and returns the file."""
    path = f"{folder}/{name}.pickle"
    with open(path, "wb") as file:
        pickle.dump(batches, file)
    return path
