"""A classification task that a tiny model learns in seconds: does a text name an animal or a plant?"""

import csv

import numpy as np

from albert_tf.options.resolution import Resolution
from albert_tf.tasks.fine_tuning.choices import add_known
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tokenization import train_vocabulary
from tests.helpers import tiny_config

ANIMALS = ["cat", "dog", "hen", "owl", "fox"]
PLANTS = ["oak", "fern", "moss", "ivy", "rose"]
LABELS = {"animal": ANIMALS, "plant": PLANTS}
OTHERS = ["the", "a", "one", "sees", "old", "under", "big", "and", "near", "few"]

NO_FILES = {"train_file": None, "dev_file": None, "test_file": None}


def write_table(path, header, rows):
    path.write_text("\n".join("\t".join(map(str, row)) for row in [header, *rows]) + "\n")
    return str(path)


def mixed(rng, *words):
    words = [*rng.choice(OTHERS, rng.integers(2, 6)), *words]
    rng.shuffle(words)
    return " ".join(words)


def class_rows(rng, split, count):
    """The label says whether the text names an animal or a plant."""
    for _ in range(count):
        name = rng.choice(list(LABELS))
        yield name, mixed(rng, rng.choice(LABELS[name])), mixed(rng)


def write_rows(path, count, seed, pairs=False, labelled=True):
    """Writes a TSV file of classes, whose columns are in an unusual order."""
    columns = ["text_b"] * pairs + ["text_a"] + ["label"] * labelled
    rows = class_rows(np.random.default_rng(seed), "", count)
    names = ("label", "text_a", "text_b")
    rows = (dict(zip(names, row, strict=True)) for row in rows)
    write_table(path, columns, ([row[name] for name in columns] for row in rows))


def read_table(path):
    """Returns the rows of a TSV file with a header row as dictionaries."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_vocabulary(path, seed=0, words=(*ANIMALS, *PLANTS, *OTHERS), size=50):
    """Writes a vocabulary of words; another seed gives its pieces other ids."""
    rng = np.random.default_rng(seed)
    sentences = [" ".join(rng.choice(words, 10)) for _ in range(300)]
    train_vocabulary(sentences, str(path), vocab_size=size)


def write_model(folder, words=(*ANIMALS, *PLANTS, *OTHERS), size=50, **config):
    write_vocabulary(folder / "words.model", words=words, size=size)
    config = tiny_config(vocab_size=size, num_hidden_layers=1, **config)
    config.to_json_file(str(folder / "albert_config.json"))


def training_of(data, output_dir):
    """Returns options of a short training of any kind, as a dictionary."""
    return {
        "albert_config_file": str(data / "albert_config.json"),
        "spm_model_file": str(data / "words.model"),
        "output_dir": str(output_dir),
        "do_train": True,
        "do_eval": True,
        "train_batch_size": 16,
        "learning_rate": 3e-3,
        "optimizer": "adamw",  # whose first updates are the largest
    }


def write_data(folder):
    """Writes rows, a vocabulary of 50 pieces and the config of a tiny model."""
    write_rows(folder / "train.tsv", 400, seed=1)
    write_rows(folder / "dev.tsv", 60, seed=2)
    write_rows(folder / "test.tsv", 30, seed=3, labelled=False)
    write_rows(folder / "pairs-train.tsv", 100, seed=5, pairs=True)
    write_rows(folder / "pairs-dev.tsv", 60, seed=6, pairs=True)
    write_rows(folder / "pairs-test.tsv", 30, seed=7, pairs=True, labelled=False)
    write_model(folder)


def pair_files(data):
    return {f"{split}_file": str(data / f"pairs-{split}.tsv") for split in ("train", "dev", "test")}


def make_options(data, output_dir, **changes):
    """Returns the options of a short training on what `write_data` wrote."""
    values = {
        **training_of(data, output_dir),
        "task_name": "classification",
        "train_file": str(data / "train.tsv"),
        "dev_file": str(data / "dev.tsv"),
        "test_file": str(data / "test.tsv"),
        "max_seq_length": 24,
        "num_train_steps": 60,
        "save_checkpoints_steps": 30,
        **changes,
    }
    return FineTuningOptions(**values)


def complete(options):
    """Returns options of a new run with the values that do not depend on the data."""
    values = Resolution(options)
    add_known(values, None)
    return values.options()
