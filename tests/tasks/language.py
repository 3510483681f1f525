"""A language of ten pieces, for pre-training in seconds: pieces count up or down."""

import numpy as np
import tensorflow as tf

from albert_tf.data.records import pretraining_record, unmasked_record, write_records
from albert_tf.options.resolution import Resolution
from albert_tf.tasks.pretraining_options import PretrainingOptions
from albert_tf.tasks.pretraining_records import record_sizes
from albert_tf.tasks.pretraining_run import add_recipe
from albert_tf.tasks.training_run import load_config
from tests.helpers import tiny_config, write_wordpiece

LENGTH, PREDICTIONS = 24, 4


def write_language(path, count, seed, masked=True):
    """Writes records whose pieces count up, or down with label 1."""
    rng = np.random.default_rng(seed)
    spec = pretraining_record(LENGTH, PREDICTIONS) if masked else unmasked_record(LENGTH)
    rows = []
    for _ in range(count):
        ids = (rng.integers(10) + np.arange(LENGTH)) % 10 + 80
        ids[0] = 2
        positions = np.sort(rng.choice(np.arange(1, LENGTH), PREDICTIONS, replace=False))
        label = rng.integers(0, 2, 1)
        if label[0]:
            ids[1:] = ids[1:][::-1].copy()
        shown = ids.copy()
        if masked:
            shown[positions] = 4
        rows.append((shown, positions, ids[positions], label))
    shown, positions, ids, labels = map(np.array, zip(*rows, strict=True))
    columns = {
        "input_ids": shown,
        "input_mask": np.ones_like(shown),
        "segment_ids": np.zeros_like(shown),
        "token_boundary": np.ones_like(shown),
        "masked_lm_positions": positions,
        "masked_lm_ids": ids,
        "masked_lm_weights": np.ones_like(positions),
        "next_sentence_labels": labels,
    }
    write_records(str(path), spec.serialize_batch(columns))


def write_vocabulary(path):
    write_wordpiece(path, (f"word{n}" for n in range(92)))


def write_data(folder):
    """Writes records with and without masks, their vocabulary and a model's config."""
    write_language(folder / "train.tfrecord", 400, seed=1)
    write_language(folder / "dev.tfrecord", 50, seed=2)
    write_language(folder / "unmasked.tfrecord", 400, seed=1, masked=False)
    write_language(folder / "unmasked_dev.tfrecord", 50, seed=2, masked=False)
    write_vocabulary(folder / "vocab.txt")
    tiny_config(num_hidden_layers=1).to_json_file(str(folder / "albert_config.json"))
    return folder


def make_options(data, output_dir, **changes):
    values = {
        "albert_config_file": str(data / "albert_config.json"),
        "input_file": (str(data / "train.tfrecord"),),
        "eval_input_file": (str(data / "dev.tfrecord"),),
        "output_dir": str(output_dir),
        "do_train": True,
        "do_eval": True,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "train_batch_size": 16,
        "num_train_steps": 60,
        "warmup_steps": 5,
        "learning_rate": 0.02,
        "save_checkpoints_steps": 30,
        "shuffle_buffer": 50,
        **changes,
    }
    return PretrainingOptions(**values)


def resolve(options, sizes=False, config=None):
    """Returns options with the recipe's values and, if asked for, the sizes of the records."""
    values = Resolution(options)
    add_recipe(values)
    if sizes:
        values.add("rows", record_sizes(values, config or load_config(values)))
    return values.options()


def config_of(options):
    return load_config(Resolution(options))


def make_dynamic_options(data, output_dir, **changes):
    values = {
        "input_file": (str(data / "unmasked.tfrecord"),),
        "eval_input_file": (str(data / "unmasked_dev.tfrecord"),),
        "vocab_file": str(data / "vocab.txt"),
        **changes,
    }
    return make_options(data, output_dir, **values)


def spoil(path, number, feature, values):
    """Gives one record of a file, counted from 1, other values of a feature."""
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    example = tf.train.Example.FromString(records[number - 1])
    field = example.features.feature[feature]
    kind = getattr(field, field.WhichOneof("kind"))
    del kind.value[:]
    kind.value.extend(values)
    records[number - 1] = example.SerializeToString()
    write_records(str(path), records)
