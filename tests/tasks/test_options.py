"""Flags that contradict each other, or are out of range; and the defaults of a recipe."""

import dataclasses
import functools
import pathlib
import typing

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.task_table import TASKS
from albert_tf.kinds import OWN_KINDS, MultipleChoice
from albert_tf.optimization import WeightDecayOptimizer
from albert_tf.tasks import training_options
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.embedding import EmbeddingOptions
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.squad_options import SquadOptions
from albert_tf.tasks.optimizers import OPTIMIZERS, OptimizerName
from albert_tf.tasks.pretraining_data import PretrainingDataOptions
from albert_tf.tasks.pretraining_run import PretrainingOptions
from albert_tf.tasks.training_options import (
    PAPER,
    PAPER_PRETRAINING,
    PRETRAINING_RECIPES,
    RecipeName,
    find_size,
)
from tests.helpers import refused
from tests.tasks import animals, language, plants
from tests.tasks.animals import NO_FILES, complete

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
NO_VOCABULARY = {"spm_model_file": None}
OWN = functools.partial(animals.make_options, pathlib.Path("data"), "out")
COLA = {"task_name": "cola", "data_dir": "glue", **NO_FILES}
NO_DEV = {"dev_file": None, "dev_fraction": 0.0, "do_eval": False}
NONE_HELD_OUT = "this run holds out no rows; expected no such option"
TAUGHT = {"teacher": "x", "unlabeled_file": "y"}
STOPPING = {"early_stopping_evaluations": 2}
WARMUPS = {"warmup_steps": 3, "warmup_proportion": 0.1}
SQUAD = functools.partial(plants.make_options, pathlib.Path("data"), "out")
NO_QUESTIONS = {**STOPPING, "predict_file": None, "do_eval": False}
GLUE = functools.partial(
    FineTuningOptions,
    task_name="mnli",
    data_dir="glue",
    albert_config_file="albert_config.json",
    output_dir="out",
    do_train=True,
)
TRAINED = functools.partial(FineTuningOptions, output_dir="out", predict_file="-")
EXPORT = {"export_dir": "x"}
OPENVINO_INT8 = {**EXPORT, "export_format": "openvino", "export_weights": "int8"}
CONVERSION = functools.partial(
    ConversionOptions, init_checkpoint="ckpt", to="tf1", output_checkpoint="out"
)
FLOAT16 = {"output_checkpoint": "x", "output_dtype": "float16"}
EMBEDDING = functools.partial(EmbeddingOptions, model="x")
LINES = {"input_file": "-", "output_file": "x.npy"}


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (PRETRAINING, {"do_train": False, "do_eval": False}, "expected --do_train, --do_eval or"),
        (PRETRAINING, {"input_file": ()}, "--do_train: expected --input_file"),
        (PRETRAINING, {"eval_input_file": ()}, "--do_eval: expected --eval_input_file"),
        (PRETRAINING, {"train_batch_size": 0}, "train_batch_size=0: expected at least 1"),
        (PRETRAINING, {"ngram": 99, "max_seq_length": 98}, "ngram=99: expected at most 98"),
        (PRETRAINING, {"max_predictions_per_seq": 65537}, "max_predictions_per_seq=65537: expec"),
        (PRETRAINING, {"masked_lm_prob": 1.5}, "masked_lm_prob=1.5: expected at most 1"),
        (PRETRAINING, {"decay_steps": 2, "num_train_steps": 1}, "decay_steps=2: expected at mo"),
        (PRETRAINING, {"tpu": "local"}, "expected --distribution_strategy=tpu and --tpu together"),
        (DATA, {"language": "DE"}, "language=DE: expected an ISO 639 code in small letters, such"),
        (DATA, {"input_file": ()}, "--input_file: expected at least one file; received none"),
        (DATA, {"output_file": "a,b"}, "--output_file=a,b: expected one file; --num_shards"),
        (DATA, {"output_file": "out/"}, "--output_file=out/: expected one file"),
        (DATA, {"num_shards": 0}, "num_shards=0: expected at least 1"),
        (DATA, {"vocab_size": 2**31}, "vocab_size=2147483648: expected at most 2147483647"),
        (DATA, {"max_seq_length": 4}, "max_seq_length=4: expected at least 5"),
        (DATA, {"masked_lm_prob": 0.0}, "masked_lm_prob=0.0: expected at least"),
        (DATA, {"ngram": 10**12}, "ngram=1000000000000: expected at most 2147483647"),
        (DATA, {"ngram": 1000}, "ngram=1000: expected at most 64"),
        (DATA, {"output_file": "small.model"}, "--output_file: .* --spm_mod"),
        (DATA, {"output_file": "small.vocab"}, "--output_file: .* --spm_mod"),
        (DATA, {"input_file": ("x/../a.stats.json",)}, "--output_file: .* --input_f"),
        (DATA, {"input_file": ("small.model",)}, "--spm_model_file: .*, which --input_f"),
        (DATA, OTHER_FILES, "--output_file: would write 'a', which --spm_model_file names too"),
        (DATA, {**NO_VOCABULARY, "train_vocab": False}, "expected either --spm_model_file or"),
        (DATA, {"vocab_file": "v"}, "expected either --spm_model_file or --vocab_file"),
        (DATA, {**NO_VOCABULARY, "vocab_file": "v"}, "--train_vocab: expected --spm_model_f"),
        (DATA, {"train_vocab": False, "keep_accents": True}, "--keep_accents: expected --train_v"),
        (DATA, {"runner_options": ("--region=r",)}, "--runner_options: expected a --runner of Apa"),
        (CONVERSION, {"output_checkpoint": "x/"}, "--output_checkpoint=x/: expected the prefix"),
        (CONVERSION, FLOAT16, "--output_dtype=float16: expected --to=hugging_face or onnx$"),
        (EMBEDDING, {}, "expected --output_file or --export_dir; received neith"),
        (EMBEDDING, {"output_file": "x.npy"}, "expected --input_file and --output_file, or neith"),
        (EMBEDDING, {**LINES, "output_file": "x.csv"}, r".*\.csv: expected a name that ends"),
        (EMBEDDING, {**LINES, "max_seq_length": 2}, "max_seq_length=2: expected at least 5$"),
        (EMBEDDING, {**LINES, "export_weights": "int8"}, "--export_weights=int8: exp"),
        (OWN, {"task_name": "MPRC"}, "task_name: unknown task 'MPRC'; did you mean mrpc"),
        (OWN, {"task_name": None, **NO_FILES}, "--do_train: expected --task_name; received none"),
        (OWN, {"albert_config_file": None}, "expected --albert_config_file or --init_checkp"),
        (OWN, {"task_name": "cola", **NO_FILES}, "--task_name=cola: expected --data_dir; rec"),
        (OWN, {**NO_DEV, "do_eval": True}, "--task_name=classification: expected --dev_file"),
        (OWN, {"text_column": "x", **COLA}, "--text_column: --task_name=cola has"),
        (OWN, {"train_file": None}, "--task_name=classification: expected --train_file; received"),
        (OWN, {"do_train": False, "do_eval": False, **NO_FILES}, "expected at least one of"),
        (OWN, {"train_batch_size": 10**9}, "train_batch_size=10+: expected at most 1048576"),
        (OWN, {"eval_batch_size": 10**9}, "eval_batch_size=10+: expected at most 1048576"),
        (OWN, {"num_train_steps": 0}, "num_train_steps=0: expected at least 1"),
        (OWN, {"classifier_dropout": 1.5}, "classifier_dropout=1.5: expected at most 1"),
        (OWN, {"learning_rate": float("nan")}, "learning_rate=nan: expected at least 0"),
        (OWN, {"data_dir": "glue"}, "--data_dir: --task_name=classification does not read it w"),
        (
            OWN,
            {**COLA, "train_file": "x"},
            "--train_file: --task_name=cola does not read it with --d",
        ),
        (OWN, {"do_train": False, "init_checkpoint": "x"}, "--init_checkpoint: expected --do_"),
        (OWN, {"num_train_epochs": 3.0}, "received --num_train_steps and --num_train_epochs; exp"),
        (OWN, WARMUPS, "received --warmup_steps and --warmup_proportion; expected one of them"),
        (OWN, {"warmup_proportion": 1.5}, "warmup_proportion=1.5: expected at most 1"),
        (OWN, {**NO_DEV, **STOPPING}, "--early_stopping_evaluations=2: expected --dev_file; rec"),
        (OWN, {**NO_DEV, "best_metric": "loss"}, "--best_metric=loss: expected --dev_file; rec"),
        (OWN, {"dev_fraction": 0.2}, f"--dev_fraction=0.2: {NONE_HELD_OUT}.* no --dev_file$"),
        (OWN, {**COLA, "dev_fraction": 0.2}, f"--dev_fraction=0.2: {NONE_HELD_OUT}"),
        (
            OWN,
            {**NO_FILES, **TAUGHT, "do_eval": False, "dev_fraction": 0.2},
            f"--dev_fraction=0.2: {NONE_HELD_OUT}, or a --train_file with labels and no",
        ),
        (OWN, {"reset_head": True}, "--reset_head: expected --init_checkpoint"),
        (OWN, {"export_format": "tflite"}, "--export_format=tflite: expected --export_dir"),
        (OWN, {"export_dir": "out[1]"}, r"--export_dir: out\[1\]: TensorFlow takes '\['"),
        (OWN, {"recipe": "paper"}, "--recipe=paper: has no row for --task_name=classification"),
        (
            OWN,
            {"data_source": "tfds", **NO_FILES},
            "--data_source=tfds: received --task_name=classification; expected --data_source=files, or "
            "--task_name=cola, sst-2, .*, wic, race, squad$",
        ),
        (OWN, {**COLA, "task_name": "ax"}, "--task_name=ax: has no train set, but test; the mode"),
        (
            OWN,
            {"trainable": "head,heads"},
            "--trainable=head,heads: received 'heads'; expected all",
        ),
        (
            OWN,
            {"trainable": "head", "new_pooler": True},
            "--new_pooler: expected --trainable with p",
        ),
        (OWN, {"label_smoothing": 1.0}, "label_smoothing=1.0: expected less than 1$"),
        (OWN, {"label_smoothing": -0.1}, "label_smoothing=-0.1: expected at least 0$"),
        (OWN, {"temperature": 0.0}, "temperature=0.0: expected at least 0.0001"),
        (GLUE, {"race_level": "high"}, "--race_level=high: expected --task_name=race"),
        (TRAINED, {**EXPORT, "export_weights": "float16"}, "export_weights=float16: expected exp"),
        (TRAINED, {"export_weights": "int8"}, "--export_weights=int8: expected --e"),
        (
            TRAINED,
            {**EXPORT, "export_weights": "int8"},
            "export_weights=int8: expected export_form",
        ),
        (TRAINED, OPENVINO_INT8, "export_weights=int8: for OpenVINO, ranges are estimated"),
        (SQUAD, {"train_file": None}, "--task_name=squad: expected --train_file; received none"),
        (SQUAD, {"predict_file": None}, "--task_name=squad: expected --predict_file; receiv"),
        (SQUAD, {"albert_config_file": None}, "expected --albert_config_file or --init"),
        (
            SQUAD,
            {"data_source": "tfds"},
            "--train_file: --task_name=squad does not read it with --d",
        ),
        (SQUAD, {"dev_fraction": 0.2}, f"--dev_fraction=0.2: {NONE_HELD_OUT}.* no --predict_file$"),
        (SQUAD, {"doc_stride": 0}, "doc_stride=0: expected at least 1"),
        (SQUAD, NO_QUESTIONS, "--early_stopping_evaluations=2: expected --predict_file; rec"),
    ],
)
def test_contradictory_flags_are_refused(make, changes, message):
    with refused(f"^{message}"):
        make(**changes)


def values_of_the_recipe(options):
    options = language.resolve(options)
    return {name: getattr(options, name) for name in dataclasses.asdict(PAPER_PRETRAINING)}


@pytest.mark.parametrize("recipe", [None, "paper_v1", "paper_v2"])
def test_defaults_are_those_of_the_paper(recipe):
    options = PRETRAINING(recipe=recipe)
    assert values_of_the_recipe(options) == dataclasses.asdict(PAPER_PRETRAINING)


@pytest.mark.parametrize("bfloat16", [True, False])
def test_recipe_for_small_budgets_has_two_parts_and_flags_win(monkeypatch, bfloat16):
    monkeypatch.setattr(training_options, "has_bfloat16", lambda: bfloat16)
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
    alone = PRETRAINING(recipe="small", init_checkpoint="first")
    assert values_of_the_recipe(alone)["learning_rate"] == 0.0025


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
    presets = PRETRAINING_RECIPES[recipe].presets
    assert find_size(config, presets).hidden_dropout_prob == dropout


# Fine-tuning


def test_recipe_of_the_paper_is_used_and_printed(capsys):
    options = complete(GLUE(recipe="paper", task_name="MNLI"))
    printed = capsys.readouterr().out
    for name, value in dataclasses.asdict(PAPER["mnli"]).items():
        assert getattr(options, name) == value
        shown = f"{value:g}" if isinstance(value, float) else value
        assert f"--{name}={shown}" in printed
    assert (options.num_train_epochs, options.warmup_proportion) == (None, None)


def test_rate_of_a_recipe_is_for_its_optimizer():
    with refused(
        "^--optimizer=lamb: expected --learning_rate, too; the default rate is for adamw$"
    ):
        complete(GLUE(recipe="paper", task_name="MNLI", optimizer="lamb"))
    for recipe in (None, "small"):
        with refused("^--optimizer=adamw: expected --learning_rate, too; .* is for lamb$"):
            values_of_the_recipe(PRETRAINING(recipe=recipe, optimizer="adamw"))
        given = {"optimizer": "adamw", "learning_rate": 0.1}
        assert values_of_the_recipe(PRETRAINING(recipe=recipe, **given)).items() >= given.items()


def test_optimizers_and_recipes_have_the_names_of_their_rows():
    assert typing.get_args(OptimizerName) == tuple(OPTIMIZERS)
    assert typing.get_args(RecipeName) == tuple(PRETRAINING_RECIPES)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_optimizer_is_made_and_described(name):
    optimizer = OPTIMIZERS[name].make(0.25)
    assert isinstance(optimizer, WeightDecayOptimizer)
    assert float(optimizer.learning_rate) == 0.25
    (field,) = (field for field in dataclasses.fields(PRETRAINING()) if field.name == "optimizer")
    assert OPTIMIZERS[name].description in field.metadata["description"]


def test_one_optimizer_corrects_the_bias_of_its_moments():
    names = ("lamb", "adamw", "debiased_adamw")
    corrects = [OPTIMIZERS[name].make(0.25).bias_correction for name in names]
    assert corrects == [False, False, True]


def test_recipe_of_the_paper_is_that_of_the_table():
    # Lan et al. 2019, table 14.
    assert dataclasses.astuple(PAPER["qnli"]) == (1e-5, 32, 0.0, 0.1, 33112, 1986, 512, "adamw")
    assert dataclasses.astuple(PAPER["race"]) == (2e-5, 32, 0.1, 0.1, 12000, 1000, 512, "adamw")
    assert set(PAPER) <= set(TASKS)


def test_flags_override_the_recipe(capsys):
    given = {"learning_rate": 1e-4, "train_batch_size": 7, "dropout": 0.3, "max_seq_length": 64}
    # The greatest value of its range.
    given |= {"classifier_dropout": 1.0, "num_train_steps": 50, "warmup_steps": 5}
    given["optimizer"] = "lamb"
    assert set(given) == {field.name for field in dataclasses.fields(PAPER["mnli"])}
    options = complete(GLUE(recipe="paper", **given))
    assert {name: getattr(options, name) for name in given} == given
    assert "--learning_rate=0.0001, --train_batch_size=7" in capsys.readouterr().out


def test_a_given_length_keeps_the_recipes_warmup_proportion_and_replaces_the_default():
    options = complete(GLUE(recipe="paper", num_train_epochs=2.0))
    assert (options.num_train_steps, options.num_train_epochs) == (None, 2.0)
    assert (options.warmup_steps, options.warmup_proportion) == (None, 0.1)
    options = complete(GLUE(num_train_steps=9, warmup_steps=2))
    assert (options.num_train_steps, options.num_train_epochs) == (9, None)
    assert (options.warmup_steps, options.warmup_proportion) == (2, None)


def test_splits():
    assert GLUE(data_dir=None, data_source="tfds").splits == ["train", "dev"]
    # The diagnostic set is predicted alone.
    assert GLUE(task_name="AX", do_train=False, do_predict=True).splits == ["test"]


def test_default_lengths():
    for changes, length in [({"max_seq_length": 100}, 100), ({"recipe": "paper"}, 512)]:
        assert complete(GLUE(task_name="race", **changes)).max_seq_length == length
    # That of a question leaves room for the passage.
    for max_seq_length, length in [(128, 64), (512, 128), (100, 50)]:
        assert MultipleChoice(max_seq_length=max_seq_length).max_qa_length == length
    assert MultipleChoice(max_qa_length=9).max_qa_length == 9


@pytest.mark.parametrize(
    ("task_name", "given", "message"),
    [
        ("mnli", {"pooling": "cls"}, "cls: classification has no such option; it is one of emb"),
        ("race", {"doc_stride": 9}, "9: multiple_choice has no such .* token_classification"),
        ("classification", {"head": "simple"}, "simple: .*multi_label has no such option; it"),
    ],
)
def test_flags_of_other_kinds_are_refused(task_name, given, message):
    source = {"train_file": "train.tsv", "data_dir": None} if task_name == "classification" else {}
    options = GLUE(task_name=task_name, **source, **given)
    with refused(f"--{next(iter(given))}={message}"):
        options.check_kinds(OWN_KINDS if task_name == "classification" else [options.task.kind])


def test_a_training_file_alone_asks_for_everything():
    given = {"train_file": "x.csv", "init_checkpoint": "small_en", "output_dir": "out"}
    options = FineTuningOptions.from_flags(**given)
    assert (options.task_name, options.do_train, options.do_eval) == ("classification", True, True)
    assert options.export_dir == "out/exported"
    assert FineTuningOptions.from_flags(**given, predict_file="-").do_train
    # A wish turns the assumptions off.
    options = FineTuningOptions.from_flags(**given, do_train=True)
    assert (options.task_name, options.do_eval) == ("classification", False)
    assert options.export_dir is None
    # So do the original's names of files.
    questions = {"predict_file": "q.json", "output_dir": "out"}
    options = SquadOptions.from_flags(**given | {"train_file": "x.json"} | questions)
    assert (options.do_train, options.do_eval, options.do_predict) == (True, True, False)
    assert options.splits == ["train", "dev"]
    assert options.dev_file == "q.json"
    assert SquadOptions.from_flags(**questions).splits == ["test"]
    assert SquadOptions.from_flags(**questions, do_eval=True, do_predict=True).splits == ["dev"]
    # There is nothing to evaluate on.
    for more in ({"dev_fraction": 0.0}, {"task_name": "squad"}):
        options = FineTuningOptions.from_flags(**given, **more)
        assert (options.do_train, options.do_eval) == (True, False)
    # The rows decide.
    assert FineTuningOptions.from_flags(**given, task_name="embedding").do_eval is None
