"""A training, the models it can start from, and the predictions of a trained folder."""

import dataclasses
import importlib.util
import io
import json
import sys
import types

import numpy as np
import pytest

import albert_tf
from albert_tf import files, folders
from albert_tf.checkpoints.loading import read_config
from albert_tf.conversion import save_model
from albert_tf.errors import Preempted
from albert_tf.kinds import Classification
from albert_tf.model_folder import list_states, read_own
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tasks.fine_tuning.data import read_data
from albert_tf.tasks.fine_tuning.kind_checks import check_kind
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import predict_file, predict_sets
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tokenization import AlbertTokenizer
from tests.helpers import assert_same_weights, change_json, refused, tiny_config
from tests.tasks.animals import NO_FILES, complete, make_options, pair_files, write_vocabulary


def test_dev_set_is_a_part_of_the_training_file(data, tmp_path, capsys, monkeypatch, eagerly):
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    path = tmp_path / "train.csv"
    lines = [f"the cat {number},animal" for number in range(90)]
    lines += [f"an oak {number},plant" for number in range(10)]
    path.write_text("\n".join(["Text,Category", *lines]) + "\n")
    values = {**NO_FILES, "train_file": str(path), "class_weights": "balanced"}
    values |= {"best_metric": "macro_f1", "num_train_steps": 1, "warmup_steps": 0}
    options = make_options(data, tmp_path / "out", **values)
    metrics = run(options)
    assert set(metrics) >= {"accuracy", "f1", "macro_f1", "matthews_corrcoef", "loss"}
    printed = capsys.readouterr().out
    assert f"{path}: 10 rows, chosen by --random_seed, are the dev set; 90" in printed
    is_drawn = importlib.util.find_spec("matplotlib") is not None
    assert (tmp_path / "out" / "learning_curve.png").exists() == is_drawn
    _, *rows = (tmp_path / "out" / "eval_predictions.tsv").read_text().splitlines()
    labels = [row.split("\t")[1] for row in rows]
    assert (labels.count("animal"), labels.count("plant")) == (9, 1)
    with refused("--best_metric=f2: expected one of accuracy, f1, macro"):
        run(dataclasses.replace(options, best_metric="f2"))
    with refused("a run with random_seed 12345; --random_seed says 7"):
        run(dataclasses.replace(options, random_seed=7))
    with refused("too few rows to evaluate on; expected --dev_file"):
        run(dataclasses.replace(options, dev_fraction=0.001, output_dir=str(tmp_path / "new")))


def test_prediction_needs_nothing_but_the_folder(data, classifier, capsys, eagerly):
    test_file = str(data / "pairs-test.tsv")
    run(FineTuningOptions(output_dir=str(classifier), do_predict=True, test_file=test_file))
    alone = (classifier / "test_results.tsv").read_text()
    told = {"do_train": False, "do_eval": False, "do_predict": True, **pair_files(data)}
    run(make_options(data, classifier, **told))
    assert (classifier / "test_results.tsv").read_text() == alone
    assert len(alone.splitlines()) == 31

    # The same rows as JSON.
    capsys.readouterr()
    asked = {"output_dir": str(classifier), "predict_format": "jsonl"}
    run(FineTuningOptions(predict_file=test_file, **asked))
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    header, *rows = [line.split("\t")[1:] for line in alone.splitlines()]
    assert header == ["prediction", "probability_animal", "probability_plant"]
    assert [list(each) for each in objects] == [header] * 30
    assert [each["prediction"] for each in objects] == [row[0] for row in rows]
    probabilities = [[each[name] for name in header[1:]] for each in objects]
    wanted = [[float(x) for x in row[1:]] for row in rows]
    np.testing.assert_allclose(probabilities, wanted, atol=2e-6)


def test_an_evaluation_reads_the_config_of_the_model_twice(data, classifier, monkeypatch, eagerly):
    read, opened = files.read_bytes, []
    monkeypatch.setattr(files, "read_bytes", lambda path: opened.append(path) or read(path))
    dev_file = str(data / "pairs-dev.tsv")
    run(FineTuningOptions(output_dir=str(classifier), do_eval=True, dev_file=dev_file))
    assert opened.count(str(classifier / "best" / "config.json")) <= 2


OF_TENSORFLOW = "^--output_dir=tf: holds checkpoints of TensorFlow; expected a new folder, or"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"albert_config_file": "wide.json"}, r"words\.model has 50 pieces; .* says vocab_size 97"),
        ({"do_train": False}, "--output_dir=out: holds no fine-tuned model"),
        ({"output_dir": "tf"}, OF_TENSORFLOW),
        ({"output_dir": "tf", "do_train": False}, OF_TENSORFLOW),
        *(
            ({flag: "absent"}, rf"^--{flag}: .*absent")
            for flag in ("albert_config_file", "spm_model_file", "predict_file", "init_checkpoint")
        ),
    ],
)
def test_what_is_refused_before_a_folder_is_made(data, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    tiny_config().to_json_file("wide.json")
    (tmp_path / "tf").mkdir()
    (tmp_path / "tf" / "ckpt-30.index").touch()
    with refused(message, tmp_path):
        run(make_options(data, **{"output_dir": "out", **changes}))


OTHER_LABELS = {"train_file": "train.tsv", "dev_file": None, "do_eval": False, "dev_fraction": 0.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_lower_case": False}, r"with do_lower_case True; --do_lower_case says False"),
        ({"max_seq_length": 20}, r"with max_seq_length 24; --max_seq_length says 20"),
        ({"dropout": 0.25}, r"hidden_dropout_prob 0.0, but --dropout says 0.25"),
        ({"spm_model_file": "other.model"}, r"with another vocabulary than .*other\.model"),
        ({"dev_file": None}, r"with dev_file .*pairs-dev\.tsv; --dev_file says None"),
        (OTHER_LABELS, r"labels \['animal', 'plant'\], but this run has \['no', 'yes'\]"),
    ],
)
def test_finished_folder_is_fixed(data, trained, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    write_vocabulary(tmp_path / "other.model", seed=1)
    (tmp_path / "train.tsv").write_text("label\ttext_a\nyes\tthe cat\nno\tan oak\n")
    values = {**pair_files(data), "num_train_steps": 30, **changes}
    with refused(rf"--output_dir={trained}: .*{message}", trained):
        run(make_options(data, trained, **values))


def test_lines_are_answered_one_by_one(trained, monkeypatch, capsys, eagerly):
    lines = [b"the old\tcat\n", b"a rose\tbig\r\n", b"fern\t\n"]
    said = []

    def read():
        for line in lines:
            said.append(capsys.readouterr().out)
            yield line

    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=read()))
    options = FineTuningOptions(output_dir=str(trained), predict_file="-")
    run(options)
    said.append(capsys.readouterr().out)
    assert said[0] == "prediction\tprobability_animal\tprobability_plant\n"
    answers = [answer.rstrip("\n").split("\t") for answer in said[1:]]
    for label, *probabilities in answers:
        numbers = [float(probability) for probability in probabilities]
        assert sum(numbers) == pytest.approx(1, abs=1e-5)
        assert label == ("animal", "plant")[np.argmax(numbers)]


class Nothing(tuple):
    """Features of no sequence."""

    input_ids = np.zeros(0, np.int32)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.xlsx", "rows.conll"])
def test_an_answer_is_one_line_of_the_table(tmp_path, capsys, name):
    kind = types.SimpleNamespace(
        columns=(),
        open=lambda *source: None,
        read=lambda *source: ["an example"],
        encode=lambda *examples: Nothing(),
        decode=lambda *examples: None,
        answers=lambda *examples: {"answer": ["the\nold\tcat"], "score": [0.5]},
    )
    tokenizer = types.SimpleNamespace(unk_id=0, vocabulary_file="", lower_case=True)
    predict_file(make_options(tmp_path, "out", predict_file=name), kind, tokenizer, None)
    assert capsys.readouterr().out == "answer\tscore\nthe old cat\t0.500000\n"


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("is_pipe", [True, False])
def test_lines_without_an_answer_do_not_matter(trained, tmp_path, monkeypatch, capsys, is_pipe):
    lines = b"the old\tcat\n\none\ttwo\tthree\nthe cat\n  \tb\ncaf\xe9\tb\nthe old\tcat\n"
    (tmp_path / "lines.txt").write_bytes(lines)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    path = "-" if is_pipe else str(tmp_path / "lines.txt")
    with refused(rf"^--predict_file={path}: 5 of 7 lines could not be ans"):
        run(FineTuningOptions(output_dir=str(trained), predict_file=path))
    output, error = capsys.readouterr()
    _, first, *unanswered, last = output.splitlines()
    assert first == last
    assert first.split("\t")[0] in ("animal", "plant")
    assert unanswered == [""] * 5
    place = "standard input" if is_pipe else path
    assert error.splitlines() == [
        f"error: {place}, line {line}; it has no answer"
        for line in (
            "2: the text is empty",
            "3: received 3 texts; expected text_a, tab, text_b",
            "4: received 1 texts; expected text_a, tab, text_b",
            "5: the text is empty",
            "6: byte 4 is 0xe9, which is not UTF-8; convert the file, e.g. with iconv",
        )
    ]


@pytest.mark.usefixtures("eagerly")
def test_labels_of_rows_to_answer_are_named_as_not_read(trained, tmp_path, capsys):
    path = str(tmp_path / "labelled.tsv")
    files.write_text(path, "text_a\ttext_b\tlabel\tx\nthe old\tcat\tplant\t1\n")
    run(FineTuningOptions(output_dir=str(trained), predict_file=path))
    read = "reads 'text_a' as the text, 'text_b' as the second text; not read: 'label', 'x'\n"
    assert f"{path}: {read}" in capsys.readouterr().err


@pytest.mark.usefixtures("eagerly")
def test_rows_without_a_text_have_no_answer(trained, classifier, tmp_path, capsys):
    path = str(tmp_path / "gap.tsv")
    files.write_text(path, "text_a\ttext_b\nthe old\tcat\n \tcat\nthe old\tcat\n")
    run(FineTuningOptions(output_dir=str(trained), predict_file=path))
    output, error = capsys.readouterr()
    _, first, blank, last = output.splitlines()
    assert (blank, first) == ("", last)
    counted = f"warning: {path}, line 3: the text is empty; without an answer: 1 of 3 rows"
    assert error.splitlines().count(counted) == 1
    asked = {"predict_file": path, "predict_format": "jsonl"}
    run(FineTuningOptions(output_dir=str(trained), **asked))
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == [answers[0], None, answers[0]]
    assert answers[0] is not None
    run(FineTuningOptions(output_dir=str(classifier), do_predict=True, test_file=path))
    rows = [line.split("\t") for line in (classifier / "test_results.tsv").read_text().splitlines()]
    assert rows[2] == ["test-2", "", "", ""]
    assert rows[1][1:] == rows[3][1:]
    capsys.readouterr()
    model = albert_tf.load(trained)
    texts = ["the old", "", "the old"], ["cat"] * 3
    found = model.predict(*texts)
    assert found.label == [answers[0]["prediction"], None, answers[0]["prediction"]]
    assert np.isnan(found.probabilities).any(axis=1).tolist() == [False, True, False]
    said = "warning: predict: 1 of 3 texts are empty and have no answer\n"
    assert capsys.readouterr().err == said
    one, none, other = model.predict_json(*texts)
    assert none is None
    assert one == other
    assert one["probability_animal"] == pytest.approx(answers[0]["probability_animal"], abs=2e-6)
    with refused(r"^dev\[1\]: the text is empty$"):
        model.evaluate([{"text_a": text, "text_b": "x", "label": "plant"} for text in ("a", "")])


def write_theirs(folder, labels=(), num_classes=2, **config):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=1, **config), seed=99)
    model = AlbertClassifier(encoder, num_classes=num_classes, seed=99)
    save_model(model, str(folder), kind=Classification(labels=labels))
    change_json(folder / "config.json", albert_tf=None)  # as others write it
    return model


def one_update(data, output_dir, **changes):
    """Returns the options of a training of one update, without a dev set."""
    values = {"num_train_steps": 1, "warmup_steps": 1, "do_eval": False, "dev_file": None}
    return make_options(data, output_dir, **{**values, **changes})


def assert_same(folder, expected, same_head):
    """Compares the model of a folder, after one update at a learning rate of 0, with another one."""
    model = albert_tf.load(folder).model
    assert_same_weights(model.encoder, expected.encoder)
    kernels = (of.head.dense.get_weights()[0] for of in (model, expected))
    assert np.array_equal(*kernels) == same_head


@pytest.mark.slow
def test_head_of_init_checkpoint_is_kept_unless_it_is_reset(data, tmp_path):
    model = write_theirs(tmp_path / "init")
    options = one_update(data, tmp_path / "kept", init_checkpoint=str(tmp_path / "init"))
    run(options)
    assert_same(tmp_path / "kept", model, same_head=True)
    reset = dataclasses.replace(options, output_dir=str(tmp_path / "reset"), reset_head=True)
    run(reset)
    assert_same(tmp_path / "reset", model, same_head=False)


def test_another_trained_folder_gives_all_but_the_head(data, trained, classifier, eagerly):
    # A folder without a state is not locked to its options.
    for path in (classifier / "state").glob("step-*"):
        path.unlink()
    asked = {"albert_config_file": None, "spm_model_file": None, "optimizer": "lamb"}
    run(one_update(data, classifier, **asked, init_checkpoint=str(trained), reset_head=True))
    assert read_own(str(classifier / "best"))["options"]["optimizer"] == "lamb"
    assert_same(classifier, albert_tf.load(trained).model, same_head=False)


OF_THIS_TASK = "; this task's are animal, plant; --reset_head"


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ({"labels": ("plant", "animal")}, f"is of the classes plant, animal{OF_THIS_TASK}"),
        ({"labels": ("0", "1")}, f"is of the classes 0, 1{OF_THIS_TASK}"),
        ({"labels": ("Animal", "Plant")}, f"is of the classes Animal, Plant{OF_THIS_TASK}"),
        ({"num_classes": 3}, "has a head with 3 outputs; this task has 2; --reset_head"),
        ({"intermediate_size": 81}, "has intermediate_size 81"),
    ],
)
def test_other_heads_and_sizes_are_refused(data, tmp_path, theirs, message):
    write_theirs(tmp_path / "theirs", **theirs)
    with refused(rf"^--init_checkpoint.*{message}", tmp_path):
        run(one_update(data, tmp_path / "out", init_checkpoint=str(tmp_path / "theirs")))


@pytest.mark.slow
def test_starts_from_a_hugging_face_folder_and_leaves_its_files(data, tmp_path, capsys):
    write_theirs(tmp_path, ("animal", "plant"))
    theirs = (tmp_path / "config.json").read_bytes()
    config_file = str(tmp_path / "config.json")
    told = {"init_checkpoint": str(tmp_path), "albert_config_file": config_file}
    run(one_update(data, tmp_path, **told))
    assert f"from {tmp_path} (Hugging Face)" in capsys.readouterr().out
    assert (tmp_path / "config.json").read_bytes() == theirs
    config = read_config(str(tmp_path / "best" / "config.json"))
    assert config == tiny_config(vocab_size=50, num_hidden_layers=1)


def test_head_without_known_classes_is_kept(data, tmp_path):
    write_theirs(tmp_path / "theirs")
    options = one_update(data, tmp_path / "out", init_checkpoint=str(tmp_path / "theirs"))
    options = complete(options)
    check_kind(options, read_data(options, AlbertTokenizer(options.spm_model_file)).kind, None)


def test_resumed_training_needs_nothing_but_its_state(data, classifier, eagerly, capsys):
    # The first model is not read again.
    values = {"init_checkpoint": "hf://owner/absent", "num_train_steps": 31, "do_eval": False}
    values |= {"albert_config_file": None, "spm_model_file": None}
    options = make_options(data, classifier, **pair_files(data), **values)
    with refused("with optimizer adamw; --optimizer says lamb"):
        run(dataclasses.replace(options, optimizer="lamb"))
    run(options)
    assert "step 30" in capsys.readouterr().out
    for name in ("state", "best"):
        assert read_own(str(classifier / name))["options"]["num_train_steps"] in (30, 31)
    (classifier / "state" / "config.json").write_text("{")
    with refused(r"state/config\.json, line 1: not JSON"):
        run(options)


def test_second_training_in_a_folder_is_refused(data, classifier):
    options = make_options(data, classifier, **pair_files(data), num_train_steps=31)
    message = rf"^{classifier}: process \d+ on \S+ is training in this folder; "
    with folders.lock_folder(str(classifier)), refused(message, classifier):
        run(options)


def test_doubtful_data_and_a_collapsed_training_that_stops_early(data, tmp_path, eagerly, capsys):
    train = (data / "train.tsv").read_text().splitlines()
    (tmp_path / "train.tsv").write_text("\n".join(train[:9]) + "\n")
    dev = [*train[:4], "the unseen\tanimal"]
    (tmp_path / "dev.tsv").write_text("\n".join(dev) + "\n")
    out = tmp_path / "out"
    values = {f"{split}_file": str(tmp_path / f"{split}.tsv") for split in ("train", "dev")}
    values |= {"learning_rate": 0.0, "num_train_steps": 19, "warmup_steps": 2, "dropout": 0.25}
    values |= {"save_checkpoints_steps": None, "early_stopping_evaluations": 2}
    options = make_options(data, out, **values)
    run(options)
    output, error = capsys.readouterr()
    assert "warning: 3 of 4 dev rows have the texts of a training row" in error
    assert "warning: 4 dev examples pick the best checkpoint; " in error
    assert "warning: --train_batch_size=16: there are 8 training examples" in error
    assert "out has collapsed: after the warm-up all dev pred" in error
    reports = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    states = {line["step"]: line.get("collapsed") for line in reports if line["split"] == "eval"}
    assert states == {0: None, 2: None, 4: 1.0, 6: 1.0}
    assert "collapsed" not in (out / "eval_results.json").read_text()

    assert "stopped at step 6: no evaluation was better since step 2" in output
    newest = list_states(str(out / "state"))[-1]
    assert newest.endswith("step-6.safetensors")
    # The same command finds that it has stopped.
    run(options)
    assert list_states(str(out / "state"))[-1] == newest

    config = read_config(str(out / "best" / "config.json"))
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.25, 0.25)
    # Evaluation alone uses that config, whatever --albert_config_file says.
    again = dataclasses.replace(options, do_train=False, dropout=None)
    assert "accuracy" in run(again)


def test_early_stopping_counts_an_evaluation_in_which_the_run_was_stopped(
    data, tmp_path, eagerly, monkeypatch
):
    values = {"learning_rate": 0.0, "num_train_steps": 20, "save_checkpoints_steps": 2}
    options = make_options(data, tmp_path / "out", **values, early_stopping_evaluations=2)
    module = "albert_tf.tasks.fine_tuning.training.predict_sets"
    evaluations = iter([predict_sets] * 3)  # after 0, 2 and 4 updates; that after 6 decides

    def predict_or_stop(*arguments, **named):
        if (predict := next(evaluations, None)) is None:
            raise Preempted("stopped by SIGTERM")
        return predict(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(module, predict_or_stop)
        with pytest.raises(Preempted):
            run(options)
    assert list_states(str(tmp_path / "out" / "state"))[-1].endswith("step-6.safetensors")
    run(options)
    reports = map(json.loads, (tmp_path / "out" / "metrics.jsonl").read_text().splitlines())
    assert [line["step"] for line in reports if line["split"] == "eval"] == [0, 2, 4, 6]
