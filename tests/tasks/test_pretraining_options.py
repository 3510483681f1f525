import dataclasses

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError
from albert_tf.tasks.pretraining_run import PretrainingOptions
from albert_tf.tasks.recipes import PAPER_PRETRAINING, find_size


def make_options(**changes):
    values = {
        "albert_config_file": "albert_config.json",
        "input_file": ("train.tfrecord",),
        "eval_input_file": ("dev.tfrecord",),
        "output_dir": "out",
        "do_train": True,
        "do_eval": True,
    }
    return PretrainingOptions(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": False, "do_eval": False}, "--do_train, --do_eval or both"),
        ({"input_file": ()}, "--do_train: expected --input_file"),
        ({"eval_input_file": ()}, "--do_eval: expected --eval_input_file"),
        ({"train_batch_size": 0}, "--train_batch_size=0: expected at least 1"),
        ({"ngram": 513, "max_seq_length": 512}, "--ngram=513: expected at most 512"),
        ({"max_predictions_per_seq": 65537}, "--max_predictions_per_seq=65537: expected at most 6"),
        ({"masked_lm_prob": 1.5}, "--masked_lm_prob=1.5: expected at most 1"),
    ],
)
def test_inconsistent_flags_are_refused(changes, message):
    with pytest.raises(FlagError, match=message):
        make_options(**changes)


def test_defaults_are_those_of_the_paper():
    defaults = {field.name: field.default for field in dataclasses.fields(PretrainingOptions)}
    for name, value in dataclasses.asdict(PAPER_PRETRAINING).items():
        # Lengths are those of the records.
        of_records = name in ("max_seq_length", "max_predictions_per_seq")
        assert defaults[name] == (None if of_records else value)


@pytest.mark.parametrize(
    ("recipe", "size", "dropout"),
    [
        *(("paper_v1", size, 0.1) for size in ("base", "large", "xlarge")),
        ("paper_v1", "xxlarge", 0.0),
        *(("paper_v2", size, 0.0) for size in ("base", "large", "xlarge", "xxlarge")),
    ],
)
def test_recipe_knows_the_four_sizes_with_any_vocabulary(recipe, size, dropout):
    config = AlbertConfig.from_preset(f"{size}_v2", vocab_size=97, hidden_dropout_prob=0.5)
    assert find_size(config, recipe).hidden_dropout_prob == dropout
