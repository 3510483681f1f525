"""Pre-training runs: learning, files, resuming, bad input."""

import dataclasses
import hashlib
import importlib.util
import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.compat.proto import event_pb2

import albert_tf
from albert_tf import training
from albert_tf.checkpoints import names
from albert_tf.checkpoints.safetensors_files import read_tensors
from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_model
from albert_tf.errors import InputError, StoppedError
from albert_tf.model_folder import list_states, read_own, replace_own
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tasks import conversion, pretraining_run
from albert_tf.tasks.pretraining_run import LearningCheck, run, unigram_entropy
from albert_tf.training import Evaluator, make_strategy
from albert_tf.training.reports import read_reports
from tests.helpers import refused, tiny_config
from tests.tasks.language import (
    LENGTH,
    make_dynamic_options,
    make_options,
    spoil,
    write_language,
)


@pytest.fixture(scope="module")
def trained(language_data, pictures, tmp_path_factory):
    """The options and the metrics of a complete run."""
    options = make_options(language_data, tmp_path_factory.mktemp("trained"))
    return options, run(options)


@pytest.fixture
def options(trained, tmp_path):
    """The options of a complete run, with a copy of its folder."""
    options, _ = trained
    shutil.copytree(options.output_dir, tmp_path / "run")
    return dataclasses.replace(options, output_dir=str(tmp_path / "run"))


def read_tags(folder):
    (path,) = folder.glob("events.*")
    events = map(event_pb2.Event.FromString, tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    return {value.tag for event in events for value in event.summary.value}


def test_run_learns_and_reports(trained):
    options, metrics = trained
    folder = pathlib.Path(options.output_dir)
    first = next(line for line in read_reports(folder) if line["split"] == "eval")
    assert first["step"] == 0
    assert abs(first["masked_lm_loss"] - np.log(97)) < 0.3
    assert metrics["masked_lm_loss"] < first["masked_lm_loss"] - 1.0
    assert json.loads((folder / "eval_results.json").read_text()) == metrics
    for name in ("best", "state"):
        assert read_own(str(folder / name))["options"]["learning_rate"] == 0.02
    assert list_states(str(folder / "state"))[-1].endswith("step-60.safetensors")
    assert metrics["perplexity"] == pytest.approx(np.exp(metrics["masked_lm_loss"]))
    last = [line for line in read_reports(folder) if line["split"] == "train"][-1]
    assert last["tokens_seen"] == 60 * 16 * LENGTH
    assert {"loss", "perplexity", "learning_rate", "gradient_norm"} < last.keys()
    assert not any("per_second" in name for name in last)
    tags = read_tags(folder / "train")
    assert {"perplexity", "tokens_seen", "tokens_per_second", "sequences_per_second"} < tags
    assert "perplexity" in read_tags(folder / "eval")
    if importlib.util.find_spec("matplotlib"):
        assert (folder / "learning_curve.png").stat().st_size > 10_000


@pytest.mark.slow
def test_encoder_alone_starts_training_but_is_not_evaluated(language_data, tmp_path, capsys):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=1))
    save_model(encoder, str(tmp_path / "theirs"))
    start = {"init_checkpoint": str(tmp_path / "theirs"), "num_train_steps": 1}
    run(make_options(language_data, tmp_path / "run", **start))
    printed = capsys.readouterr().out
    assert "missing, initialised randomly: albert_pretrainer/masked_lm_head/" in printed
    with refused(r"^--init_checkpoint: .*theirs .*lacks albert_pretraine"):
        run(make_options(language_data, tmp_path / "other", do_train=False, **start))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dropout": 0.3}, r"of another model: hidden_dropout_prob .*, but --dropout says 0\.3"),
        ({"albert_config_file": "other.json"}, r"num_hidden_layers 1, but other\.json says 3"),
        ({"num_hidden_layers": 2}, "num_hidden_layers 1, but --num_hidden_layers says 2"),
        ({"sentence_objective": "none"}, "sentence_objective sop; --sentence_objective says none"),
        ({"optimizer": "adamw"}, "with optimizer lamb; --optimizer says adamw"),
    ],
)
def test_folder_of_another_run_is_refused(options, tmp_path, monkeypatch, capsys, changes, message):
    folder = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    tiny_config(num_hidden_layers=3).to_json_file("other.json")
    with refused(f"^--output_dir={folder}: .*{message}", folder):
        run(dataclasses.replace(options, **changes))
    assert "warning" not in capsys.readouterr().err


def test_resumed_run_warns_of_other_data(options, tmp_path, eagerly, capsys):
    changes = {"random_seed": 7, "trained_num_hidden_layers": (1, 2), "max_eval_steps": 9}
    run(dataclasses.replace(options, train_batch_size=8, **changes))
    resumes = f"warning: --output_dir={options.output_dir}: the run resumes with other"
    assert capsys.readouterr().err.splitlines()[:3] == [
        f"{resumes} batches than it began with: train_batch_size 16, now 8; random_seed 12345, now 7",
        f"{resumes} depths than it began with: trained_num_hidden_layers [], now [1, 2]",
        f"{resumes} evaluations, which choose the best weights, than it began with: max_eval_steps 100, "
        "now 9",
    ]

    # Records are known by what they are, wherever they lie.
    moved = tmp_path / "moved.tfrecord"
    shutil.copy(*options.input_file, moved)
    short = {"do_eval": False, "max_eval_steps": 1}
    run(dataclasses.replace(options, input_file=(str(moved),), **short))
    assert "input_file ['train" not in capsys.readouterr().err
    write_language(moved, 40, seed=9)
    run(dataclasses.replace(options, input_file=(str(moved),), **short))
    other = "input_file ['moved.tfrecord'], now others of the same name"
    assert f"{resumes} batches than it began with: {other}" in capsys.readouterr().err

    # A folder of a classifier is refused.
    replace_own(str(tmp_path / "run" / "state"), options={"optimizer": "lamb", "task_name": "cola"})
    with refused("another kind of run: one without sentence_objective"):
        run(options)


def test_variable_without_a_name_in_folders_is_refused_before_the_training(
    language_data, tmp_path, monkeypatch, eagerly
):
    def build_with_another_head(self):
        build(self)
        self.another_head = keras.layers.Dense(2, name="another_head")
        self.another_head.build((None, self.config.hidden_size))

    build = AlbertPretrainer._build_layers
    monkeypatch.setattr(AlbertPretrainer, "_build_layers", build_with_another_head)
    with refused(
        r"^'albert_pretrainer/another_head/kernel': Hugging Face's .* have no name .* a row in OWN_HEADS "
        r"of albert_tf/checkpoints/names\.py$"
    ):
        run(make_options(language_data, tmp_path / "run"))
    assert not (tmp_path / "run").exists()

    # The row is all that is needed, also by checkpoints of others.
    row = "(another_head/.+)  \\1\n"
    monkeypatch.setattr(names, "OWN_HEADS", names.OWN_HEADS + row)
    run(make_options(language_data, tmp_path / "run", **SHORT))
    saved = read_tensors(str(tmp_path / "run" / "best" / "model.safetensors"))
    assert saved["another_head/kernel"].shape == (48, 2)


def test_second_encoder_with_the_names_of_the_first_is_refused(tmp_path, monkeypatch):
    def build_with_second_encoder(self):
        build(self)
        self.second = second

    config = tiny_config(num_hidden_layers=1)
    second = AlbertEncoder(config, with_pooler=False, name="second")
    build = AlbertPretrainer._build_layers
    monkeypatch.setattr(AlbertPretrainer, "_build_layers", build_with_second_encoder)
    with refused(
        r"^'second/embedding/word_embeddings': would be stored as 'albert\.embeddings\.word_embeddings\."
        r"weight', as 'albert_encoder/embedding/word_embeddings' is; a second encoder needs a model class"
    ):
        save_model(AlbertPretrainer(AlbertEncoder(config)), str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()


IN_SIX_PARTS = {"accumulate_steps": 3, "distribution_strategy": "mirrored"}


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        ({"type_vocab_size": 1}, {}, r"albert_config\.json: type_vocab_size 1; expected at"),
        ({}, {"max_seq_length": 65}, r"^--max_seq_length=65: .*max_position_embeddings 64"),
        ({}, IN_SIX_PARTS, "^--train_batch_size=16: expected a multiple of 6, which is"),
        (
            {},
            {"recipe": "paper_v1"},
            "^--recipe=paper_v1: expected a model with the size of one of base",
        ),
    ],
)
def test_other_sizes_than_the_models_are_refused(language_data, tmp_path, sizes, changes, message):
    config = tmp_path / "albert_config.json"
    tiny_config(num_hidden_layers=1, **sizes).to_json_file(str(config))
    changes = {"albert_config_file": str(config), **changes}
    with refused(message):
        run(make_options(language_data, tmp_path / "out", **changes))


def write_few(folder, count):
    """Writes some records, and returns their path and the options that train on them alone."""
    path = folder / "few.tfrecord"
    write_language(path, count, seed=1)
    return path, {"input_file": (str(path),), "eval_input_file": (), "do_eval": False}


def test_bad_record_ends_the_run_with_one_line(language_data, tmp_path):
    path, changes = write_few(tmp_path, 40)
    spoil(path, 23, "input_ids", [97] * LENGTH)
    one_line = rf"^{path}, record 23: feature 'input_ids' has 97, expected 0 to 96\Z"
    with refused(one_line):
        run(make_options(language_data, tmp_path / "out", **changes))


def test_few_records_devices_and_updates_are_said(language_data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(training, "make_strategy", lambda *_: make_strategy("one_device"))
    monkeypatch.setattr(training, "train", lambda *_, **__: None)
    _, changes = write_few(tmp_path, 11)
    changes |= {"distribution_strategy": "mirrored", "num_train_steps": 5}
    changes["eval_input_file"] = changes["input_file"]
    run(make_options(language_data, tmp_path / "out", **changes))
    said = capsys.readouterr()
    assert "--distribution_strategy=mirrored: this machine has one device, so" in said.out
    assert "warning: --train_batch_size=16: there are 11 records, so every update has" in said.err
    assert "warning: the warm-up takes 5 updates, the training 5, so the learning" in said.err
    assert "warning: --eval_input_file: --input_file has " in said.err


def test_evaluation_alone(language_data, tmp_path, trained, eagerly):
    options, metrics = trained
    # The training records are not read.
    alone = dataclasses.replace(options, do_train=False, input_file=(str(tmp_path / "none"),))
    assert run(alone) == pytest.approx(metrics, rel=1e-5)

    # Any other checkpoint can be evaluated, in a folder without checkpoints.
    best = f"{options.output_dir}/best"
    other = dataclasses.replace(alone, output_dir=str(tmp_path / "other"), init_checkpoint=best)
    assert run(other) == pytest.approx(metrics, rel=1e-5)
    for name in (other.output_dir, "small_en"):  # no name of a model
        with refused(
            f"^--output_dir={name}: holds no pre-trained model; expected .* --init_checkpoint"
        ):
            run(dataclasses.replace(other, init_checkpoint=None, output_dir=name))

    # So can one with a number of layers that its config does not list.
    listed, folder = {"trained_num_hidden_layers": [2, 3]}, str(tmp_path / "shallow")
    save_model(
        AlbertPretrainer(AlbertEncoder(tiny_config(num_hidden_layers=1))), folder, advice=listed
    )
    run(dataclasses.replace(other, albert_config_file=None, init_checkpoint=folder))


def test_worker_lost_in_the_last_evaluation_is_one_line(trained, monkeypatch):
    def lose_the_other(*arguments):
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    options, _ = trained
    monkeypatch.setattr(Evaluator, "is_alone", False)
    monkeypatch.setattr(Evaluator, "evaluate", lose_the_other)
    with pytest.raises(StoppedError, match=r"another worker was lost \(Socket closed\); restart"):
        run(dataclasses.replace(options, do_train=False))


@pytest.mark.slow
def test_mixed_precision_computes_nearly_the_same(language_data, tmp_path, trained):
    options, _ = trained
    changes = {"num_train_steps": 1, "mixed_precision": "mixed_bfloat16"}
    lower = make_options(language_data, tmp_path, **changes)
    run(lower)
    expected, rough = (read_reports(pathlib.Path(one.output_dir))[0] for one in (options, lower))
    for name in ("masked_lm_loss", "sentence_order_loss"):
        # Processors differ in where they round to bfloat16, whose numbers are 0.8 % apart.
        assert rough[name] == pytest.approx(expected[name], rel=5e-2)
    assert rough["masked_lm_loss"] != expected["masked_lm_loss"]


def test_further_training_keeps_the_depths_and_the_advice(language_data, tmp_path, eagerly, capsys):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2))
    save_model(encoder, str(tmp_path / "first"), advice={"recommended_learning_rate": 0.003})
    changes = {"num_train_steps": 3, "save_checkpoints_steps": 2, "max_eval_steps": 1}
    changes |= {"albert_config_file": None, "init_checkpoint": str(tmp_path / "first")}
    drawn = {"trained_num_hidden_layers": (1, 2, 3)}
    begun = make_options(language_data, tmp_path / "begun", **changes, **drawn)
    metrics = run(begun)
    # It resumes with the numbers of its state, whatever names the config.
    pathlib.Path(list_states(str(tmp_path / "begun" / "state"))[-1]).unlink()
    named = {"albert_config_file": str(tmp_path / "first" / "config.json"), "init_checkpoint": None}
    resumed = run(dataclasses.replace(begun, trained_num_hidden_layers=None, **named))
    assert resumed == pytest.approx(metrics, rel=1e-3)
    described = json.loads((tmp_path / "begun" / "state" / "config.json").read_text())
    assert described["trained_num_hidden_layers"] == [1, 2, 3]

    changes |= {"init_checkpoint": begun.output_dir, "num_train_steps": 1}
    changes |= {"do_eval": False, "eval_input_file": ()}
    run(make_options(language_data, tmp_path / "further", **changes))
    run(make_options(language_data, tmp_path / "alone", **changes, num_hidden_layers=3))
    read = [
        json.loads((tmp_path / name / "best" / "config.json").read_text())
        for name in ("further", "alone")
    ]
    assert [values.get("trained_num_hidden_layers") for values in read] == [[1, 2, 3], None]
    assert [values["recommended_learning_rate"] for values in read] == [0.003] * 2
    capsys.readouterr()
    for name, number in (("further", 3), ("alone", 1)):
        AlbertEncoder.from_preset(tmp_path / name, num_hidden_layers=number)
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "num_hidden_layers" in x)
    assert line.startswith("warning: num_hidden_layers=1: the model was trained with 3, and")


@pytest.mark.slow
def test_learns_from_dynamic_masks(language_data, tmp_path):
    options = make_dynamic_options(language_data, tmp_path)
    metrics = run(options)
    first = next(line for line in read_reports(tmp_path) if line["split"] == "eval")
    assert metrics["masked_lm_loss"] < first["masked_lm_loss"] - 1.0
    # Each evaluation of a model sees the same masks, so it gives the same metrics.
    alone = dataclasses.replace(options, do_train=False, input_file=())
    assert run(alone) == pytest.approx(metrics, rel=1e-5)
    with_masks = dataclasses.replace(alone, eval_input_file=(str(language_data / "dev.tfrecord"),))
    assert run(with_masks)["masked_lm_loss"] == pytest.approx(metrics["masked_lm_loss"], abs=0.5)


SHORT = {"num_train_steps": 1, "max_eval_steps": 1}


@pytest.fixture
def described_data(language_data, tmp_path):
    """A copy of the data, whose records know their vocabulary."""
    data = shutil.copytree(language_data, tmp_path / "data")
    stats = {
        "vocabulary_sha256": hashlib.sha256((data / "vocab.txt").read_bytes()).hexdigest(),
        "options": {"vocab_file": "gone/vocab.txt", "do_lower_case": False},
    }
    (data / "train.stats.json").write_text(json.dumps(stats))
    return data


def test_a_recipe_prints_its_values_and_the_folder_has_the_vocabulary_of_the_records(
    described_data, tmp_path, eagerly, monkeypatch, capsys
):
    # The paper's sizes take a while.
    small = AlbertConfig.from_json_file(str(described_data / "albert_config.json"))
    published = dataclasses.replace(small, hidden_dropout_prob=0.1)
    monkeypatch.setattr(pretraining_run, "find_size", lambda config, presets: published)
    changes = {"recipe": "paper_v1", "train_batch_size": 2, "sentence_objective": "none", **SHORT}
    metrics = run(make_options(described_data, tmp_path / "out", **changes))
    assert "sentence_order_loss" not in metrics
    said = capsys.readouterr()
    assert (
        "recipe paper_v1: --optimizer=lamb, --learning_rate=0.02, --train_batch_size=2, "
        in said.out
    )
    assert "--dropout=0.1" in said.out
    saved = json.loads((tmp_path / "out" / "best" / "config.json").read_text())
    assert saved["attention_probs_dropout_prob"] == 0.1

    vocabulary = (described_data / "vocab.txt").read_bytes()
    assert (tmp_path / "out" / "best" / "vocab.txt").read_bytes() == vocabulary
    assert "will hold no vocabulary" not in said.err
    assert not albert_tf.load(tmp_path / "out").tokenizer.lower_case


@pytest.mark.parametrize(("given", "compiles"), [(None, True), (False, False)])
def test_steps_are_compiled_on_a_gpu_by_default(
    language_data, tmp_path, monkeypatch, given, compiles
):
    def make_evaluator(options, *_, **__):
        raise InputError(f"jit_compile {options.jit_compile}")

    monkeypatch.setattr(training, "has_gpu", lambda: True)
    monkeypatch.setattr(pretraining_run, "make_evaluator", make_evaluator)
    with refused(f"jit_compile {compiles}"):
        run(make_options(language_data, tmp_path / "out", jit_compile=given))


@pytest.mark.slow
def test_a_second_training_and_a_conversion_need_the_folder_alone(described_data, tmp_path):
    metrics = run(make_options(described_data, tmp_path / "out", **SHORT))
    (described_data / "train.stats.json").unlink()
    start = {"init_checkpoint": str(tmp_path / "out"), "albert_config_file": None}
    changes = {"optimizer": "adamw", "sentence_objective": "nsp", **SHORT}
    run(make_options(described_data, tmp_path / "next", **start, **changes))
    for name in ("masked_lm_loss", "sentence_order_loss"):
        assert read_reports(tmp_path / "next")[0][name] == pytest.approx(metrics[name], rel=1e-5)
    vocabulary = (described_data / "vocab.txt").read_bytes()
    assert (tmp_path / "next" / "best" / "vocab.txt").read_bytes() == vocabulary
    assert not albert_tf.load(tmp_path / "next").tokenizer.lower_case
    start = {"init_checkpoint": str(tmp_path / "next"), "to": "hugging_face"}
    converted = str(tmp_path / "converted")
    conversion.run(conversion.ConversionOptions(output_checkpoint=converted, **start))
    assert (tmp_path / "converted" / "vocab.txt").read_bytes() == vocabulary


@pytest.mark.slow
def test_a_vocabulary_that_is_not_that_of_the_records_is_left_out(described_data, tmp_path, capsys):
    with open(described_data / "vocab.txt", "a") as file:
        file.write("\nother")
    run(make_options(described_data, tmp_path / "without", **SHORT))
    assert "warning: --output_dir=" in (printed := capsys.readouterr().err)
    assert "will hold no vocabulary, as that of the records is not known" in printed


def test_loaded_model_embeds_texts_and_fills_masks(language_data, trained):
    tokenizer = albert_tf.WordPieceTokenizer(str(language_data / "vocab.txt"))
    model = albert_tf.load(trained[0].output_dir, tokenizer)
    assert model.predict(["word1 word2 word3", "word7"]).shape == (2, 48)
    (fillings,) = model.fill_mask("word75 [MASK] word77", top_k=2)
    assert fillings == albert_tf.fill_mask(model.model, tokenizer, "word75 [MASK] word77", 2)[0]


# Whether it learns at all


def masked_batches(vocab_size, count=50):
    rng = np.random.default_rng(0)
    for _ in range(count):
        ids = rng.integers(vocab_size, size=(32, 7))
        weights = np.ones((32, 7), np.float32)
        # Padding, which does not count.
        ids[:, 5:], weights[:, 5:] = 0, 0.0
        yield {"masked_lm_ids": ids, "masked_lm_weights": weights}


def test_entropy_of_uniform_pieces():
    # Without the correction for unseen pieces it would be 0.02 lower.
    assert unigram_entropy(masked_batches(300)) == pytest.approx(np.log(300), abs=3e-3)


@pytest.mark.parametrize(("loss", "warns"), [(5.8, True), (5.65, True), (5.5, False)])
def test_warns_once_if_the_loss_is_that_of_the_frequencies(loss, warns, capsys):
    check = LearningCheck(masked_batches(300), warmup_steps=100)
    check(1199, {"train_masked_lm_loss": 6.0})
    check(1200, {"eval_masked_lm_loss": 6.0})
    assert not capsys.readouterr().err
    check(1200, {"train_masked_lm_loss": loss})
    check(1300, {"train_masked_lm_loss": 6.0})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == warns
    if warns:
        start = f"warning: after 1200 updates the masked-LM loss is {loss:.2f}. "
        assert lines[0].startswith(start)
        assert "has 5.70" in lines[0]
