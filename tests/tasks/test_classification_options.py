import dataclasses

import pytest

from albert_tf.data.fine_tuning.task_table import TASKS
from albert_tf.errors import InputError
from albert_tf.kinds import OWN_KINDS, MultipleChoice
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions
from albert_tf.tasks.training_options import PAPER


def make(**changes):
    values = {
        "task_name": "mnli",
        "data_dir": "glue",
        "albert_config_file": "albert_config.json",
        "output_dir": "out",
        "do_train": True,
    }
    return ClassificationOptions(**{**values, **changes})


def test_defaults():
    options = make().complete()
    assert (options.learning_rate, options.train_batch_size, options.max_seq_length) == (
        *(2e-5, 32, 128),
    )
    assert (options.num_train_epochs, options.num_train_steps) == (3.0, None)
    assert (options.warmup_proportion, options.warmup_steps) == (0.1, None)
    assert options.dropout is None
    assert options.do_lower_case


def test_recipe_of_the_paper_is_used_and_printed(capsys):
    options = make(recipe="paper", task_name="MNLI").complete()
    printed = capsys.readouterr().out
    for name, value in dataclasses.asdict(PAPER["mnli"]).items():
        assert getattr(options, name) == value
        assert f"{name} {value}" in printed
    assert (options.num_train_epochs, options.warmup_proportion) == (None, None)


def test_recipe_of_the_paper_is_that_of_the_table():
    # Lan et al. 2019, table 14.
    assert dataclasses.astuple(PAPER["qnli"]) == (1e-5, 32, 0.0, 0.1, 33112, 1986, 512)
    assert dataclasses.astuple(PAPER["race"]) == (2e-5, 32, 0.1, 0.1, 12000, 1000, 512)
    assert set(PAPER) <= set(TASKS)


def test_flags_override_the_recipe(capsys):
    given = {
        "learning_rate": 1e-4,
        "train_batch_size": 7,
        "dropout": 0.3,
        "classifier_dropout": 0.4,
        "num_train_steps": 50,
        "warmup_steps": 5,
        "max_seq_length": 64,
    }
    assert set(given) == {field.name for field in dataclasses.fields(PAPER["mnli"])}
    options = make(recipe="paper", **given).complete()
    assert {name: getattr(options, name) for name in given} == given
    assert "learning_rate 0.0001, train_batch_size 7" in capsys.readouterr().out


def test_recipe_with_another_length_keeps_the_warmup_proportion():
    options = make(recipe="paper", num_train_epochs=2.0).complete()
    assert (options.num_train_steps, options.num_train_epochs) == (None, 2.0)
    assert (options.warmup_steps, options.warmup_proportion) == (None, 0.1)


def test_steps_replace_the_default_epochs():
    options = make(num_train_steps=9, warmup_steps=2).complete()
    assert (options.num_train_steps, options.num_train_epochs) == (9, None)
    assert (options.warmup_steps, options.warmup_proportion) == (2, None)


def test_splits():
    assert make(data_dir=None, data_source="tfds").splits == ["train", "dev"]
    # The diagnostic set is predicted alone.
    assert make(task_name="AX", do_train=False, do_predict=True).splits == ["test"]


def test_default_lengths():
    for changes, length in [
        ({}, 128),
        ({"task_name": "race"}, 512),
        ({"task_name": "race", "max_seq_length": 100}, 100),
        ({"task_name": "race", "recipe": "paper"}, 512),
    ]:
        assert make(**changes).complete().max_seq_length == length
    # That of a question leaves room for the passage.
    for given, length in [
        ({}, 64),
        ({"max_seq_length": 512}, 128),
        ({"max_seq_length": 100}, 50),
        ({"max_qa_length": 9}, 9),
    ]:
        assert MultipleChoice(**given).max_qa_length == length


@pytest.mark.parametrize(
    ("task_name", "given", "message"),
    [
        ("mnli", {"pooling": "cls"}, "cls: classification has no such option; it is one of emb"),
        ("race", {"doc_stride": 9}, "9: multiple_choice has no such .* token_classification"),
        (
            "classification",
            {"head": "simple"},
            "simple: .*multi_label has no such option; it is",
        ),
    ],
)
def test_flags_of_other_kinds_are_refused(task_name, given, message):
    source = {"train_file": "train.tsv", "data_dir": None} if task_name == "classification" else {}
    options = make(task_name=task_name, **source, **given)
    with pytest.raises(InputError, match=f"--{next(iter(given))}={message}"):
        options.check_kinds(OWN_KINDS if task_name == "classification" else [options.task.kind])


def test_a_training_file_alone_asks_for_everything():
    given = {"train_file": "x.csv", "init_checkpoint": "small_en", "output_dir": "out"}
    options = ClassificationOptions(**given)
    assert (options.task_name, options.do_train, options.do_eval) == ("classification", True, True)
    assert options.export_dir == "out/exported"
    assert ClassificationOptions(**given, predict_file="-").do_train
    # What is asked for is all that is done.
    options = ClassificationOptions(**given, do_train=True)
    assert (options.task_name, options.do_eval, options.export_dir) == (
        "classification",
        False,
        None,
    )
    options = ClassificationOptions(**given, dev_fraction=0.0)
    assert (options.do_train, options.do_eval) == (True, False)
