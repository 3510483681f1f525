"""What a training chooses from its model and its data, saves, and changes after a collapse."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_model
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.errors import Preempted
from albert_tf.kinds import Classification, MultipleChoice, TokenClassification
from albert_tf.model_folder import read_own
from albert_tf.options import option_groups
from albert_tf.options.resolution import Resolution
from albert_tf.sources import find_model
from albert_tf.tasks.fine_tuning.choices import (
    add_chosen,
    choose_length,
    may_start_again,
    set_length,
)
from albert_tf.tasks.fine_tuning.data import read_data
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.helpers import refused
from tests.tasks.animals import complete, make_options, write_rows

LEFT_OUT = dict.fromkeys(
    (
        *("learning_rate", "optimizer", "num_train_steps", "train_batch_size", "max_seq_length"),
        "warmup_proportion",
    )
)
_GIVEN = ("max_qa_length",)
KIND = Classification(labels=("animal", "plant"))


def choose_for(rows, tmp_path, width=768, kind=KIND, recommended=None, **given):
    """Returns the options of a training on so many rows, and the names of those that were chosen."""
    config = AlbertConfig.from_preset("base_v2", hidden_size=width, num_attention_heads=1)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"recommended_learning_rate": recommended}))
    options = FineTuningOptions(
        task_name="classification",
        train_file="train.tsv",
        albert_config_file=str(path),
        output_dir=str(tmp_path / "out"),
        do_train=True,
        **given,
    )
    values = Resolution(options)
    add_chosen(values, config, kind, rows, None)
    return values.options(), [name for name in vars(options) if values.is_chosen(name)]


@pytest.mark.parametrize(
    ("width", "rate"),
    [(64, 3e-4), (128, 3e-4), (312, 1e-4), (512, 5e-5), (768, 2e-5), (1024, 1e-5), (4096, 1e-5)],
)
def test_narrow_models_take_higher_rates_than_the_papers(width, rate, tmp_path):
    options = choose_for(400, tmp_path, width)[0]
    assert (options.learning_rate, options.optimizer) == (rate, "debiased_adamw")


def test_rate_that_the_model_recommends(tmp_path, capsys):
    options = choose_for(400, tmp_path, recommended=0.5)[0]
    assert (options.learning_rate, options.optimizer) == (0.5, "adamw")
    assert "--learning_rate=0.5 (the model recommends)" in capsys.readouterr().out
    with refused("recommended_learning_rate '1' is not a number in"):
        choose_for(400, tmp_path, recommended="1")


@pytest.mark.parametrize("recommended", [None, 0.5])
def test_no_rate_is_chosen_for_an_optimizer_that_it_was_not_measured_with(recommended, tmp_path):
    measured_with = "adamw" if recommended else "debiased_adamw"
    with refused(f"^--optimizer=lamb: expected --learning_rate, too; .* is for {measured_with}$"):
        choose_for(400, tmp_path, recommended=recommended, optimizer="lamb")
    given = {"optimizer": "lamb", "learning_rate": 0.01}
    assert choose_for(400, tmp_path, recommended=recommended, **given)[0].learning_rate == 0.01
    for optimizer in ("adamw", "debiased_adamw"):
        options = choose_for(400, tmp_path, recommended=recommended, optimizer=optimizer)[0]
        assert (options.learning_rate, options.optimizer) == (recommended or 2e-5, optimizer)


def test_few_rows_have_more_passes(tmp_path, capsys):
    passes = {}
    for rows in (100, 400, 2000, 70000):
        options, _ = choose_for(rows, tmp_path)
        passes[rows] = options.num_train_steps * options.train_batch_size / rows
    assert passes[100] > 10 > passes[400] > passes[2000] > passes[70000] >= 3
    assert f"({passes[70000]:.3g} passes)" in capsys.readouterr().out


def test_length_leaves_nearly_all_texts_whole(data):
    tokenizer = albert_tf.AlbertTokenizer(str(data / "words.model"))
    texts = [" ".join(["cat"] * count) for count in (3, 150, 600)]
    for text, most, length in ((0, 512, 128), (1, 512, 152), (2, 512, 512), (1, 64, 64)):
        train = KIND.make_examples([texts[text]] * 5)
        assert choose_length(KIND, train, tokenizer, most, seed=0) == length
    # Windows need no length.
    tags = TokenClassification(labels=("O", "B-A", "I-A"))
    assert choose_length(tags, tags.make_examples(texts), tokenizer, 512, seed=0) == 128
    # What depends on the length follows it, unless it was given.
    assert set_length(MultipleChoice(), 512).max_qa_length == 128
    assert set_length(MultipleChoice(max_qa_length=9), 512, ["max_qa_length"]).max_qa_length == 9
    assert set_length(tags, 64).doc_stride == 32
    choices = ("cat " * 300, "dog")
    train = [Example("", "cat", choices=choices)] * 5
    kind = MultipleChoice(labels=("A", "B"), max_qa_length=9)
    lengths = [choose_length(kind, train, tokenizer, 512, 0, given) for given in ((), _GIVEN)]
    assert lengths == [136, 128]


def plain(data, folder, **changes):
    """Returns the options of a plain command for the rows of `animals`, with a tiny model."""
    no_flags = {**LEFT_OUT, "dev_file": None, "save_checkpoints_steps": None}
    return make_options(data, folder, **{**no_flags, **changes})


def read_options(folder):
    return read_own(str(folder / "state"))["options"]


def test_run_that_resumes_keeps_what_it_chose(data, tmp_path, capsys, eagerly):
    write_rows(tmp_path / "train.tsv", 40, seed=1)
    out = tmp_path / "out"
    options = plain(data, out, train_file=str(tmp_path / "train.tsv"), train_batch_size=512)
    run(options)
    assert capsys.readouterr().out.count("a flag overrides each") == 1
    before = read_options(out)
    assert before["sources"] == {
        "do_lower_case": "default",
        "classifier_dropout": "default",
        "learning_rate": "model",
        "optimizer": "model",
        "num_train_steps": "rows",
        "max_seq_length": "rows",
        "warmup_proportion": "default",
    }
    assert (before["train_batch_size"], before["restarts"]) == (512, 0)
    for _, fields in option_groups(FineTuningOptions):
        for field in fields:
            has_text = "Default: " in field.metadata["description"]
            assert has_text or field.name not in before["sources"]
    write_rows(tmp_path / "train.tsv", 400, seed=1)
    without_dev_set = {"do_eval": False, "dev_fraction": 0.1}
    run(dataclasses.replace(options, **without_dev_set))
    assert {**read_options(out), "do_eval": True} == before
    printed, warned = capsys.readouterr()
    assert "training examples when the run began: --learning_rate=0.00015, --" in printed
    assert f"{before['num_train_steps']} steps are done already, so nothing is trained" in warned
    # Flags that are given take precedence.
    more = before["num_train_steps"] + 1
    given = {"num_train_steps": more, "learning_rate": 1e-3}
    run(dataclasses.replace(options, **given, **without_dev_set))
    after = read_options(out)
    assert (after["num_train_steps"], after["learning_rate"]) == (more, 1e-3)
    assert "learning_rate" not in after["sources"]


@pytest.mark.slow
def test_training_that_was_stopped_ends_as_if_it_were_not(data, tmp_path):
    config = AlbertConfig.from_json_file(str(data / "albert_config.json"))
    save_model(albert_tf.AlbertEncoder(config, seed=1), str(tmp_path / "encoder"))
    common = {"init_checkpoint": str(tmp_path / "encoder"), "num_train_steps": 4}
    common["save_checkpoints_steps"] = 2

    def stop(step, metrics):
        if step == 2 and "eval_accuracy" in metrics:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(plain(data, tmp_path / "stopped", **common), callback=stop)
    losses = []
    for name in ("stopped", "whole"):
        run(plain(data, tmp_path / name, **common))
        losses.append(json.loads((tmp_path / name / "eval_results.json").read_text())["loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    one, other = (read_options(tmp_path / name) for name in ("stopped", "whole"))
    for name in ("learning_rate", "train_batch_size", "new_pooler", "sources", "restarts"):
        assert one[name] == other[name]
    assert one["new_pooler"]


@pytest.mark.parametrize("given", [False, True])
def test_collapse_at_a_chosen_rate_starts_again_at_half_of_it(
    given, data, trained, tmp_path, capsys, monkeypatch, eagerly
):
    out = tmp_path / "out"
    changes = {"num_train_steps": 4, "train_batch_size": 16, "max_seq_length": 24}
    changes["save_checkpoints_steps"] = 2
    changes["init_checkpoint"] = str(trained / "best")
    if given:
        changes |= {"learning_rate": 3e-4, "num_train_steps": 1}
    module = "albert_tf.tasks.fine_tuning.training"

    def has_collapsed(folder):
        assert folder == str(out)
        return read_options(out)["learning_rate"] > 2e-4

    monkeypatch.setattr(f"{module}._has_collapsed", has_collapsed)
    options = plain(data, out, **changes)
    run(options)
    printed, error = capsys.readouterr()
    options_there = read_options(out)
    if given:
        assert options_there["learning_rate"] == 3e-4
        assert "starting again" not in printed
        assert "has collapsed: after the warm-up" in error
        return
    assert "collapsed at the chosen learning rate of 0.0003: starting again at half" in printed
    assert (options_there["learning_rate"], options_there["restarts"]) == (1.5e-4, 1)
    values = Resolution(options)
    values.add("model", {"learning_rate": 1e-4})
    assert [may_start_again(values, restarts) for restarts in (1, 2)] == [True, False]
    assert "has collapsed" not in error
    reports = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in reports if line["split"] == "eval"] == [0, 2, 4]
    # The same command keeps that rate.
    run(options)
    assert read_options(out)["learning_rate"] == 1.5e-4
    # It is the training that starts with that rate.
    alone = tmp_path / "alone"
    monkeypatch.undo()
    run(dataclasses.replace(options, output_dir=str(alone), learning_rate=1.5e-4))
    scores = [json.loads((each / "eval_results.json").read_text()) for each in (out, alone)]
    for of_run in scores:
        of_run.pop("baselines")
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.parametrize(("strategy", "new_pooler"), [("mirrored", None), ("one_device", False)])
def test_pretrained_pooler_is_drawn_anew(strategy, new_pooler, data, tmp_path, capsys, eagerly):
    config = AlbertConfig.from_json_file(str(data / "albert_config.json"))
    encoder = albert_tf.AlbertEncoder(config)
    encoder.pooler.dense.kernel.assign(np.ones((config.hidden_size,) * 2))
    save_model(encoder, str(tmp_path / "encoder"))
    options = plain(
        data,
        tmp_path / "out",
        init_checkpoint=str(tmp_path / "encoder"),
        new_pooler=new_pooler,
        distribution_strategy=strategy,
        num_train_steps=1,
        learning_rate=0.0,
        do_eval=False,
        dev_fraction=0.0,
    )
    run(options)
    assert ("--new_pooler" in capsys.readouterr().out) == (new_pooler is None)
    assert read_options(tmp_path / "out")["new_pooler"] == (new_pooler is None)
    with refused("out: holds the checkpoints of a run with trainable all; --trainable says head$"):
        run(dataclasses.replace(options, trainable="head"))
    trained_encoder = albert_tf.AlbertEncoder(config)
    albert_tf.load_checkpoint(trained_encoder, str(tmp_path / "out"))
    kernel = trained_encoder.pooler.dense.kernel.numpy()
    if new_pooler is None:
        assert 0.01 < kernel.std() < 0.021
    else:
        np.testing.assert_array_equal(kernel, 1.0)


def test_pooler_of_a_fine_tuned_model_is_kept(trained, tmp_path):
    _, names = choose_for(400, tmp_path, init_checkpoint=find_model("small_en"))
    assert "new_pooler" in names
    for path, is_new in ((find_model("small_en"), True), (str(trained / "best"), False)):
        assert choose_for(400, tmp_path, init_checkpoint=path)[0].new_pooler == is_new
    many, _ = choose_for(10**6, tmp_path, init_checkpoint=find_model("small_en"))
    assert not many.new_pooler


def test_few_rows_and_rare_labels_have_a_line_each(data, tmp_path, capsys):
    path = tmp_path / "train.tsv"
    rows = (data / "train.tsv").read_text().splitlines()
    path.write_text("\n".join([*rows[:9], "a rock\tstone", "an oak\tPLANT"]) + "\n")
    options = complete(plain(data, tmp_path / "out", train_file=str(path)))
    tokenizer = albert_tf.AlbertTokenizer(str(data / "words.model"))
    read_data(options, tokenizer)
    error = capsys.readouterr().err
    assert f"warning: {path}: 9 rows are trained on; with fewer than 10 the answers are" in error
    assert f"warning: {path}: the model can hardly learn labels of a single row: 'stone'" in error
    assert f"warning: {path}: 'PLANT', 'plant' differ in capitals alone, and count as" in error
    path.write_text("\n".join([rows[0], *(f"\u5ca9 {n}\t{n}" for n in 9 * "ab")]) + "\n")
    read_data(options, tokenizer)
    error = capsys.readouterr().err
    assert "warning: classification, train: 18.2% of the pieces are unknown to " in error
    path.write_text("\n".join([rows[0], *(f"{n}\tplant" for n in "abc")]) + "\n")
    with refused(r"train\.tsv: every row has the label 'plant'; expected"):
        read_data(options, tokenizer)


@pytest.mark.slow
def test_a_collapse_after_a_stop_starts_again_like_one_without(
    data, trained, tmp_path, monkeypatch, eagerly
):
    """From a name whose model is elsewhere, here that of a run."""
    changes = {"num_train_steps": 4, "train_batch_size": 16, "max_seq_length": 24}
    changes |= {"save_checkpoints_steps": 2, "init_checkpoint": str(trained)}
    module = "albert_tf.tasks.fine_tuning.training"

    def has_collapsed(folder):
        return read_options(pathlib.Path(folder))["learning_rate"] > 2e-4

    monkeypatch.setattr(f"{module}._has_collapsed", has_collapsed)

    def stop(step, metrics):
        if step == 2 and "eval_accuracy" in metrics:
            raise Preempted("stopped by SIGTERM")

    with pytest.raises(Preempted):
        run(plain(data, tmp_path / "stopped", **changes), callback=stop)
    notes = []
    for name in ("stopped", "whole"):
        run(plain(data, tmp_path / name, **changes))
        notes.append(read_options(tmp_path / name))
    assert notes[0] == notes[1]
    assert (notes[0]["learning_rate"], notes[0]["restarts"]) == (1.5e-4, 1)
