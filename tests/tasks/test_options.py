"""Flags that contradict each other, or are out of range; and the defaults of a recipe."""

import dataclasses
import functools

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError
from albert_tf.tasks import recipes
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.embedding import EmbeddingOptions
from albert_tf.tasks.pretraining_data import PretrainingDataOptions
from albert_tf.tasks.pretraining_run import PretrainingOptions
from albert_tf.tasks.recipes import PAPER_PRETRAINING, find_size

PRETRAINING = functools.partial(
    PretrainingOptions,
    albert_config_file="albert_config.json",
    input_file=("train.tfrecord",),
    eval_input_file=("dev.tfrecord",),
    output_dir="out",
    do_train=True,
    do_eval=True,
)
DATA = functools.partial(
    PretrainingDataOptions,
    input_file=("text.txt",),
    output_file="a.tfrecord",
    spm_model_file="small.model",
    train_vocab=True,
    max_seq_length=64,
)
OTHER_FILES = {"output_file": "a", "train_vocab": False, "spm_model_file": "a"}
CONVERSION = functools.partial(ConversionOptions, init_checkpoint="ckpt", to="tf1")


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (PRETRAINING, {"do_train": False, "do_eval": False}, "expected --do_train, --do_eval or"),
        (PRETRAINING, {"input_file": ()}, "--do_train: expected --input_file"),
        (PRETRAINING, {"eval_input_file": ()}, "--do_eval: expected --eval_input_file"),
        (PRETRAINING, {"train_batch_size": 0}, "--train_batch_size=0: expected at least 1"),
        (PRETRAINING, {"ngram": 99, "max_seq_length": 98}, "--ngram=99: expected at most 98"),
        (PRETRAINING, {"max_predictions_per_seq": 65537}, "--max_predictions_per_seq=65537: expec"),
        (PRETRAINING, {"masked_lm_prob": 1.5}, "--masked_lm_prob=1.5: expected at most 1"),
        (PRETRAINING, {"decay_steps": 2, "num_train_steps": 1}, "--decay_steps=2: expected at mo"),
        (PRETRAINING, {"tpu": "local"}, "expected --distribution_strategy=tpu and --tpu together"),
        (DATA, {"input_file": ()}, "--input_file: expected at least one file; received none"),
        (DATA, {"output_file": "a,b"}, "--output_file=a,b: expected one file; --num_shards"),
        (DATA, {"output_file": "out/"}, "--output_file=out/: expected one file"),
        (DATA, {"num_shards": 0}, "--num_shards=0: expected at least 1"),
        (DATA, {"vocab_size": 2**31}, "--vocab_size=2147483648: expected at most 2147483647"),
        (DATA, {"max_seq_length": 4}, "--max_seq_length=4: expected at least 5"),
        (DATA, {"masked_lm_prob": 0.0}, "--masked_lm_prob=0.0: expected at least"),
        (DATA, {"ngram": 10**12}, "--ngram=1000000000000: expected at most 2147483647"),
        (DATA, {"ngram": 1000}, "--ngram=1000: expected at most 64"),
        (DATA, {"output_file": "small.model"}, "--output_file: .* --spm_mod"),
        (DATA, {"output_file": "small.vocab"}, "--output_file: .* --spm_mod"),
        (DATA, {"input_file": ("x/../a.stats.json",)}, "--output_file: .* --input_f"),
        (DATA, {"input_file": ("small.model",)}, "--spm_model_file: .*, which --input_f"),
        (
            DATA,
            OTHER_FILES,
            "--output_file: would write 'a', which --spm_model_file names too; exp",
        ),
        (
            DATA,
            {"spm_model_file": None, "train_vocab": False},
            "expected either --spm_model_file or",
        ),
        (DATA, {"vocab_file": "v"}, "expected either --spm_model_file or --vocab_file"),
        (
            DATA,
            {"spm_model_file": None, "vocab_file": "v"},
            "--train_vocab: expected --spm_model_f",
        ),
        (DATA, {"runner_options": ("--region=r",)}, "--runner_options: expected a --runner of Apa"),
        (CONVERSION, {}, "expected --output_checkpoint or --dry_run"),
        (CONVERSION, {"output_checkpoint": "x/"}, "--output_checkpoint=x/: expected the prefix"),
        (
            EmbeddingOptions,
            {"model": "x"},
            "expected --output_file or --export_dir; received neith",
        ),
        (
            EmbeddingOptions,
            {"model": "x", "output_file": "x.npy"},
            "expected --input_file and --output_file, or neither; rec",
        ),
    ],
)
def test_contradictory_flags_are_refused(make, changes, message):
    with pytest.raises(FlagError, match=f"^{message}"):
        make(**changes)


def values_of_the_recipe(options):
    return {name: getattr(options, name) for name in dataclasses.asdict(PAPER_PRETRAINING)}


@pytest.mark.parametrize("recipe", [None, "paper_v1", "paper_v2"])
def test_defaults_are_those_of_the_paper(recipe):
    options = PRETRAINING(recipe=recipe)
    assert values_of_the_recipe(options) == dataclasses.asdict(PAPER_PRETRAINING)


@pytest.mark.parametrize("bfloat16", [True, False])
def test_recipe_for_small_budgets_has_two_parts_and_flags_win(monkeypatch, bfloat16):
    monkeypatch.setattr(recipes, "has_bfloat16", lambda: bfloat16)
    first = values_of_the_recipe(PRETRAINING(recipe="small"))
    assert first == {
        "optimizer": "lamb",
        "learning_rate": 0.006,
        "train_batch_size": 64,
        "num_train_steps": 8000,
        "warmup_steps": 100,
        "masked_lm_prob": 0.2,
        "mixed_precision": "mixed_bfloat16" if bfloat16 else "float32",
    }
    given = {"learning_rate": 0.001, "warmup_steps": 0, "mixed_precision": "float32"}
    second = PRETRAINING(recipe="small", init_checkpoint="first", **given)
    assert values_of_the_recipe(second) == first | {"num_train_steps": 30000} | given
    assert PRETRAINING(recipe="small", init_checkpoint="first").learning_rate == 0.0025


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
