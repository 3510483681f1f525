"""What a trained folder does alone, and what training starts from."""

import dataclasses
import io
import json
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.tensor_files import variables_by_path
from albert_tf.conversion import save_hugging_face
from albert_tf.errors import FlagError, InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tasks.classification import ClassificationOptions, run
from albert_tf.training.checkpoint_manager import Checkpoints
from tests.helpers import tiny_config
from tests.tasks.animals import make_options, pair_files, write_rows, write_vocabulary


def test_prediction_needs_the_folder_alone(data, trained, tmp_path):
    folder = tmp_path / "moved"
    shutil.copytree(trained, folder)
    test_file = str(data / "pairs-test.tsv")
    run(ClassificationOptions(output_dir=str(folder), do_predict=True, test_file=test_file))
    alone = (folder / "test_results.tsv").read_text()
    told = {"do_train": False, "do_eval": False, "do_predict": True, **pair_files(data)}
    run(make_options(data, folder, **told))
    assert (folder / "test_results.tsv").read_text() == alone
    assert len(alone.splitlines()) == 31


def test_export_needs_the_folder_alone(trained, tmp_path):
    run(ClassificationOptions(output_dir=str(trained), export_dir=str(tmp_path)))
    model = tf.saved_model.load(str(tmp_path / "text" / "1"))
    inputs = model.signatures["serving_default"].structured_input_signature[1]
    assert set(inputs) == {"text_a", "text_b"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_lower_case": False}, r"with do_lower_case True; --do_lower_case says False"),
        ({"max_seq_length": 20}, r"with max_seq_length 24; --max_seq_length says 20"),
        ({"max_qa_length": 7}, r"with max_qa_length 12; --max_qa_length says 7"),
        ({"dropout": 0.25}, r"hidden_dropout_prob 0.0, but --dropout says 0.25"),
        ({"spm_model_file": "other.model"}, r"with another vocabulary than .*other\.model"),
        (
            {"spm_model_file": "other.model", "do_train": False},
            r"with another vocabulary than .*other\.model",
        ),
    ],
)
def test_finished_folder_keeps_what_its_weights_have_seen(
    data, trained, tmp_path, monkeypatch, changes, message
):
    monkeypatch.chdir(tmp_path)
    write_vocabulary(tmp_path / "other.model", seed=1)
    before = {path: path.read_bytes() for path in trained.glob("*.*")}
    values = {**pair_files(data), "num_train_steps": 30, **changes}
    with pytest.raises(InputError, match=rf"--output_dir={trained}: .*{message}"):
        run(make_options(data, trained, **values))
    assert before == {path: path.read_bytes() for path in trained.glob("*.*")}


def test_folder_that_holds_nothing(tmp_path):
    options = ClassificationOptions(output_dir=str(tmp_path), predict_file="-")
    with pytest.raises(FlagError, match=rf"--output_dir={tmp_path}: holds no classifier"):
        run(options)


def test_lines_are_answered_one_by_one(trained, monkeypatch, capsys):
    lines = [b"the old cat\n", b"a rose\tbig\r\n", b"fern\t\n"]
    said = []

    def read():
        for line in lines:
            said.append(capsys.readouterr().out)
            yield line

    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=read()))
    options = ClassificationOptions(output_dir=str(trained), predict_file="-")
    run(options)
    said.append(capsys.readouterr().out)
    assert said[0] == ""
    answers = [answer.rstrip("\n").split("\t") for answer in said[1:]]
    for label, *probabilities in answers:
        numbers = [float(probability) for probability in probabilities]
        assert sum(numbers) == pytest.approx(1, abs=1e-5)
        assert label == ("animal", "plant")[np.argmax(numbers)]


def test_lines_of_a_file_equal_the_test_set(data, trained, tmp_path, capsys):
    rows = (data / "pairs-test.tsv").read_text().splitlines()[1:]
    # The file begins with text_b.
    lines = ["\t".join(reversed(row.split("\t"))) for row in rows]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    run(ClassificationOptions(output_dir=str(trained), predict_file=str(tmp_path / "lines.txt")))
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    test_file = str(data / "pairs-test.tsv")
    run(ClassificationOptions(output_dir=str(folder), do_predict=True, test_file=test_file))
    table = (folder / "test_results.tsv").read_text().splitlines()[1:]
    expected = [line.split("\t")[1:] for line in table]
    assert [row[0] for row in rows] == [row[0] for row in expected]
    received, wanted = (
        [[float(x) for x in row[1:]] for row in rows_] for rows_ in (rows, expected)
    )
    np.testing.assert_allclose(received, wanted, atol=2e-6)


@pytest.mark.parametrize("is_pipe", [True, False])
def test_lines_without_an_answer_leave_the_others_theirs(
    trained, tmp_path, monkeypatch, capsys, is_pipe
):
    lines = b"the old cat\n\none\ttwo\tthree\n  \ncaf\xe9\nthe old cat\n"
    (tmp_path / "lines.txt").write_bytes(lines)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    path = "-" if is_pipe else str(tmp_path / "lines.txt")
    with pytest.raises(InputError, match=rf"^--predict_file={path}: 4 of 6 lines could not be ans"):
        run(ClassificationOptions(output_dir=str(trained), predict_file=path))
    output, error = capsys.readouterr()
    first, *unanswered, last = output.splitlines()
    assert first == last
    assert first.split("\t")[0] in ("animal", "plant")
    assert unanswered == [""] * 4
    place = "standard input" if is_pipe else path
    assert error.splitlines() == [
        f"error: {place}, line {line}; its answer is an empty line"
        for line in (
            "2: the text is empty",
            "3: received 3 texts; expected text_a or text_a, tab, text_b",
            "4: the text is empty",
            "5: byte 4 is 0xe9, which is not UTF-8; convert the file, e.g. with iconv",
        )
    ]


def test_dev_file_of_pairs_needs_training_on_pairs(data, tmp_path):
    dev_file = pair_files(data)["dev_file"]
    with pytest.raises(InputError, match=r"--dev_file=.*: has a column 'text_b'; .* has none"):
        run(make_options(data, tmp_path / "out", dev_file=dev_file))


def test_model_of_pairs_predicts_pairs(data, trained):
    test_file = str(data / "test.tsv")
    with pytest.raises(InputError, match=r"--test_file=.*: has no column 'text_b'; .* has one"):
        run(ClassificationOptions(output_dir=str(trained), do_predict=True, test_file=test_file))


def test_dev_rows_that_are_training_rows_are_counted(data, tmp_path, capsys):
    train = (data / "train.tsv").read_text().splitlines()
    dev = tmp_path / "dev.tsv"
    dev.write_text("\n".join([*train[:4], "the unseen\tanimal"]) + "\n")
    run(make_options(data, tmp_path / "out", dev_file=str(dev), num_train_steps=1))
    warning = "warning: 3 of 4 dev rows have the texts of a training row"
    assert warning in capsys.readouterr().err


def write_classifier(folder, num_classes, seed=99):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2), seed=seed)
    model = AlbertClassifier(encoder, num_classes=num_classes, seed=seed)
    Checkpoints(str(folder), variables_by_path(model.weights), 1).save(1)
    return model


def kernel_after_one_update(folder):
    """Of a run of one update, whose learning rate is 0 with a warm-up."""
    reader = tf.train.load_checkpoint(str(folder))
    name = "variables/albert_classifier.Shead.Sdense.S{}/.ATTRIBUTES/VARIABLE_VALUE"
    return reader.get_tensor(name.format("kernel"))


def test_head_of_init_checkpoint_goes_on_unless_it_is_reset(data, tmp_path):
    model = write_classifier(tmp_path / "init", num_classes=2)
    options = make_options(
        data,
        tmp_path / "kept",
        init_checkpoint=str(tmp_path / "init"),
        num_train_steps=1,
        warmup_steps=1,
        do_eval=False,
        dev_file=None,
    )
    run(options)
    kernel = model.head.dense.kernel.numpy()
    np.testing.assert_array_equal(kernel_after_one_update(tmp_path / "kept"), kernel)
    reset = dataclasses.replace(options, output_dir=str(tmp_path / "reset"), reset_head=True)
    run(reset)
    assert (kernel_after_one_update(tmp_path / "reset") != kernel).any()


def test_head_of_another_number_of_classes_is_a_choice(data, tmp_path):
    write_classifier(tmp_path / "init", num_classes=3)
    options = make_options(
        data, tmp_path / "out", init_checkpoint=str(tmp_path / "init"), num_train_steps=1
    )
    message = r"--init_checkpoint=.*: has a head with 3 outputs; this task has 2; --reset_head"
    with pytest.raises(InputError, match=message):
        run(options)
    assert "accuracy" in run(dataclasses.replace(options, reset_head=True))


def test_trained_folder_of_another_task_starts_one_with_a_new_head(data, tmp_path):
    first = make_options(data, tmp_path / "first", num_train_steps=2)
    run(first)
    options = make_options(
        data,
        tmp_path / "second",
        albert_config_file=None,
        spm_model_file=None,
        init_classifier=str(tmp_path / "first"),
        num_train_steps=1,
        warmup_steps=1,
        do_eval=False,
        dev_file=None,
    )
    run(options)
    before, after = (
        tf.train.load_checkpoint(str(tmp_path / folder)) for folder in ("first/best", "second")
    )
    (name,) = (key for key in before.get_variable_to_shape_map() if "word_embeddings" in key)
    np.testing.assert_array_equal(before.get_tensor(name), after.get_tensor(name))
    heads = [kernel_after_one_update(tmp_path / folder) for folder in ("first/best", "second")]
    assert (heads[0] != heads[1]).any()


@pytest.fixture
def classifier(trained, tmp_path):
    """A trained folder that a test may change."""
    return shutil.copytree(trained, tmp_path / "classifier")


def test_damaged_init_classifier_names_its_flag(data, classifier, tmp_path):
    for path in classifier.rglob("*.data-*"):
        path.write_bytes(path.read_bytes()[:100])
    values = {"albert_config_file": None, "spm_model_file": None}
    with pytest.raises(InputError, match=r"^--init_classifier: .*classifier/best"):
        run(make_options(data, tmp_path / "out", **values, init_classifier=str(classifier)))


def test_damaged_config_of_init_classifier_names_its_flag(data, classifier, tmp_path):
    (classifier / "albert_config.json").write_text("{")
    values = {"albert_config_file": None, "spm_model_file": None}
    with pytest.raises(
        InputError, match=r"^--init_classifier: .*/albert_config.json, line 1: not J"
    ):
        run(make_options(data, tmp_path / "out", **values, init_classifier=str(classifier)))


@pytest.mark.parametrize("name", ["albert_config.json", "vocabulary.model"])
def test_init_classifier_that_lacks_a_file(data, classifier, tmp_path, name):
    (classifier / name).unlink()
    values = {"albert_config_file": None, "spm_model_file": None}
    with pytest.raises(InputError, match=r"^--init_classifier=.*: holds no classifier"):
        run(make_options(data, tmp_path / "out", **values, init_classifier=str(classifier)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"spm_model_file": "other.model"},
            r"^--spm_model_file=other.model: the model of --init_c",
        ),
        (
            {"do_lower_case": False},
            r"^--do_lower_case=False: the model of --init_classifier=.* has",
        ),
        (
            {"spm_model_file": None, "vocab_file": "words.txt"},
            r"^--vocab_file=words.txt: the model of --init_classifier=.* has another",
        ),
        ({"init_checkpoint": "best"}, r"^--init_classifier: expected --do_train, and no --init_ch"),
        ({"do_train": False}, r"^--init_classifier: expected --do_train, and no --init_checkpoint"),
    ],
)
def test_init_classifier_brings_what_its_weights_go_with(
    data, trained, tmp_path, monkeypatch, changes, message
):
    monkeypatch.chdir(tmp_path)
    write_vocabulary(tmp_path / "other.model", seed=1)
    options = make_options(data, tmp_path / "out", init_classifier=str(trained), **changes)
    with pytest.raises(InputError, match=message):
        run(options)


@pytest.mark.parametrize("flag", ["albert_config_file", "spm_model_file", "predict_file"])
def test_missing_file_names_its_flag_before_anything_is_trained(data, tmp_path, flag):
    with pytest.raises(InputError, match=rf"^--{flag}: .*absent"):
        run(make_options(data, tmp_path / "out", **{flag: "absent"}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "content"), [("run_options.json", "[]"), ("task.json", "{}")])
def test_file_of_the_folder_that_is_none(classifier, name, content):
    (classifier / name).write_text(content)
    with pytest.raises(InputError, match=rf"classifier/{name}: .*as --do_train writes it"):
        run(ClassificationOptions(output_dir=str(classifier), predict_file="-"))


def test_vocabulary_with_a_flipped_bit_is_refused(data, classifier, tmp_path):
    vocabulary = classifier / "vocabulary.model"
    content = bytearray(vocabulary.read_bytes())
    content[-1] ^= 1
    vocabulary.write_bytes(content)
    for options in (
        ClassificationOptions(output_dir=str(classifier), predict_file="-"),
        make_options(
            data,
            tmp_path / "out",
            init_classifier=str(classifier),
            albert_config_file=None,
            spm_model_file=None,
        ),
    ):
        message = r"classifier/vocabulary\.model: has the SHA-256 \w{64}; run_options\.json next to"
        with pytest.raises(InputError, match=message):
            run(options)
    # A resumed training has the right one, and puts it there.
    run(make_options(data, classifier, **pair_files(data), num_train_steps=30, do_eval=False))
    assert vocabulary.read_bytes() == (data / "words.model").read_bytes()


def test_folder_of_a_version_without_checksums_is_compared_by_its_vocabulary(
    data, classifier, tmp_path
):
    path = classifier / "run_options.json"
    values = json.loads(path.read_text())
    del values["vocabulary_sha256"]
    path.write_text(json.dumps(values))
    write_vocabulary(tmp_path / "other.model", seed=1)
    options = make_options(data, classifier, **pair_files(data), num_train_steps=30, do_eval=False)
    run(options)
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"with another vocabulary than .*other\.model"):
        run(dataclasses.replace(options, spm_model_file=str(tmp_path / "other.model")))


def write_theirs(folder, labels):
    encoder = AlbertEncoder(tiny_config(vocab_size=50, num_hidden_layers=2), seed=99)
    save_hugging_face(AlbertClassifier(encoder, num_classes=2, seed=99), str(folder), labels)


@pytest.mark.parametrize("labels", [("plant", "animal"), ("0", "1"), ("Animal", "Plant")])
def test_head_of_other_classes_is_refused(data, tmp_path, labels):
    write_theirs(tmp_path / "theirs", labels)
    options = make_options(
        data, tmp_path / "out", init_checkpoint=str(tmp_path / "theirs"), num_train_steps=1
    )
    message = f"its head is of the classes {', '.join(labels)}; this task's are animal, plant; --r"
    with pytest.raises(InputError, match=message):
        run(options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("labels", [("animal", "plant"), ()])
def test_head_of_the_same_classes_or_none_that_are_known_goes_on(data, tmp_path, labels):
    write_theirs(tmp_path / "theirs", labels)
    options = make_options(
        data,
        tmp_path / "out",
        init_checkpoint=str(tmp_path / "theirs"),
        num_train_steps=1,
        do_eval=False,
        dev_file=None,
    )
    run(options)


def test_trained_head_of_another_order_is_refused(data, classifier, tmp_path):
    path = classifier / "task.json"
    path.write_text(path.read_text().replace("animal", "zebra"))
    checkpoint = str(classifier / "best")
    options = make_options(data, tmp_path / "out", init_checkpoint=checkpoint, num_train_steps=1)
    with pytest.raises(InputError, match="its head is of the classes zebra, plant; this task's"):
        run(options)


@pytest.mark.parametrize("name", ["run_options.json", "task.json", "albert_config.json"])
def test_damaged_description_does_not_keep_a_training_from_going_on(data, classifier, capsys, name):
    written = (classifier / name).read_bytes()
    (classifier / name).write_bytes(written[:9] + b"\0")
    options = make_options(data, classifier, **pair_files(data), num_train_steps=31)
    message = (
        rf"classifier/{name}.*; if the file is damaged, remove it and repeat the flags of the tra"
    )
    with pytest.raises(InputError, match=message):
        run(options)
    (classifier / name).unlink()
    capsys.readouterr()
    run(options)
    output, error = capsys.readouterr()
    assert "from step 30" in output
    assert f"warning: {classifier}/{name}: missing; writing it again from the flags" in error
    if name != "run_options.json":
        assert (classifier / name).read_bytes() == written


def test_folder_with_run_options_under_their_former_name(data, classifier, tmp_path, capsys):
    (classifier / "run_options.json").rename(classifier / "config.json")
    asked = {"dev_file": pair_files(data)["dev_file"], "do_eval": True}
    metrics = run(ClassificationOptions(output_dir=str(classifier), **asked))
    run(ClassificationOptions(output_dir=str(classifier), export_dir=str(tmp_path / "exported")))
    assets = tmp_path / "exported" / "ids" / "1" / "assets"
    (assets / "run_options.json").rename(assets / "config.json")
    exported = {"exported_model": str(assets.parent), "output_dir": str(tmp_path / "out")}
    assert run(ClassificationOptions(**exported, **asked)) == pytest.approx(metrics, abs=1e-6)

    other = make_options(data, classifier, **pair_files(data), num_train_steps=31, optimizer="lamb")
    with pytest.raises(InputError, match="with optimizer adamw; --optimizer says lamb"):
        run(other)
    # A resumed training renames the file.
    run(dataclasses.replace(other, optimizer="adamw"))
    assert "goes on at step 30" in capsys.readouterr().out
    assert (classifier / "run_options.json").exists()
    assert not (classifier / "config.json").exists()


def test_config_of_a_hugging_face_folder_is_kept_by_a_training_in_it(data, tmp_path):
    write_theirs(tmp_path, ("animal", "plant"))
    theirs = (tmp_path / "config.json").read_bytes()
    files = {"dev_file": None, "do_eval": False}
    run(make_options(data, tmp_path, **files, init_checkpoint=str(tmp_path), num_train_steps=1))
    assert (tmp_path / "config.json").read_bytes() == theirs
    assert (tmp_path / "run_options.json").exists()


def test_second_training_in_a_folder_is_refused(data, classifier):
    options = make_options(data, classifier, **pair_files(data), num_train_steps=31)
    before = {path: path.read_bytes() for path in classifier.rglob("*.*") if path.is_file()}
    # Another process that holds the lock, and dies without a word.
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(classifier)], stdout=subprocess.PIPE
    )
    owner.stdout.readline()
    with pytest.raises(InputError, match=rf"^{classifier}: somebody is training in this folder; "):
        run(options)
    del before[classifier / ".lock"]
    assert before == {path: path.read_bytes() for path in before}
    owner.kill()
    owner.communicate()
    assert "accuracy" in run(options)


HOLD_LOCK = """
import fcntl, sys, time
file = open(sys.argv[1] + "/.lock", "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("somebody", file=file, flush=True)
print(flush=True)
time.sleep(600)
"""


def test_training_that_stays_at_guessing_is_named(data, tmp_path, capsys):
    options = make_options(
        data,
        tmp_path / "out",
        learning_rate=0.0,
        num_train_steps=2,
        warmup_steps=1,
        save_checkpoints_steps=1,
    )
    run(options)
    assert "out has collapsed: after the warm-up all dev pred" in capsys.readouterr().err
    reports = map(json.loads, (tmp_path / "out" / "metrics.jsonl").read_text().splitlines())
    states = {line["step"]: line.get("collapsed") for line in reports if line["split"] == "eval"}
    assert states == {0: None, 1: None, 2: 1.0}
    assert "collapsed" not in (tmp_path / "out" / "eval_results.json").read_text()


def test_few_dev_rows_are_named(data, tmp_path, capsys):
    run(make_options(data, tmp_path / "out", num_train_steps=1))
    assert "warning: 60 dev examples pick the best checkpoint; " in capsys.readouterr().err


def test_batch_of_more_rows_than_there_are_is_named(data, tmp_path, capsys):
    write_rows(tmp_path / "train.tsv", 5, seed=1)
    files = {"train_file": str(tmp_path / "train.tsv"), "dev_file": None, "do_eval": False}
    run(make_options(data, tmp_path / "out", **files, num_train_steps=1))
    assert (
        "warning: --train_batch_size=16: there are 5 training examples" in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["train_batch_size", "eval_batch_size"])
def test_batch_that_no_memory_holds(data, tmp_path, name):
    with pytest.raises(FlagError, match=f"--{name}=1000000000: expected at most 1048576"):
        make_options(data, tmp_path, **{name: 10**9})


def test_init_classifier_that_is_none(data, tmp_path):
    options = make_options(data, tmp_path / "out", init_classifier=str(tmp_path))
    with pytest.raises(InputError, match=r"--init_classifier=.*: holds no classifier; expected a"):
        run(options)


def test_missing_init_checkpoint_names_its_flag(data, tmp_path):
    with pytest.raises(InputError, match=r"--init_checkpoint: .*absent"):
        run(make_options(data, tmp_path / "out", init_checkpoint=str(tmp_path / "absent")))


def test_dropout_of_the_encoder_is_the_flags(data, tmp_path):
    options = make_options(data, tmp_path / "out", dropout=0.25, num_train_steps=1)
    run(options)
    config = (tmp_path / "out" / "albert_config.json").read_text()
    assert '"hidden_dropout_prob": 0.25' in config
    assert '"attention_probs_dropout_prob": 0.25' in config
    # Evaluation alone knows it, although it is told the config of before.
    again = dataclasses.replace(options, do_train=False, dropout=None)
    assert "accuracy" in run(again)


def test_early_stopping_among_the_ten_evaluations_that_nothing_else_asks_for(
    data, tmp_path, capsys
):
    write_rows(tmp_path / "dev.tsv", 3, seed=7)
    options = make_options(
        data,
        tmp_path / "out",
        dev_file=str(tmp_path / "dev.tsv"),
        learning_rate=0.0,
        save_checkpoints_steps=None,
        early_stopping_evaluations=2,
        num_train_steps=19,
    )
    run(options)
    assert "stopped at step 6: no evaluation was better since step 2" in capsys.readouterr().out
    newest = tf.train.latest_checkpoint(str(tmp_path / "out"))
    assert newest.endswith("ckpt-6")
    # The same command finds that it has stopped.
    run(options)
    assert tf.train.latest_checkpoint(str(tmp_path / "out")) == newest
