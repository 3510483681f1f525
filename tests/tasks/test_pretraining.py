import dataclasses
import importlib.util
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.compat.proto import event_pb2

from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_hugging_face
from albert_tf.data.record_spec import pretraining_record, unmasked_record
from albert_tf.data.record_writing import write_records
from albert_tf.errors import FlagError, InputError, StoppedError
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.pretraining import PretrainingOptions, run
from albert_tf.tasks.recipes import PAPER_PRETRAINING, find_size
from albert_tf.training import Evaluator
from tests.helpers import tiny_config

LENGTH, PREDICTIONS = 24, 4


def write_language(path, count, seed, masked=True):
    """Writes records of a language of ten pieces, which says them in order or backwards."""
    rng = np.random.default_rng(seed)
    spec = pretraining_record(LENGTH, PREDICTIONS) if masked else unmasked_record(LENGTH)
    records = []
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
        records.append(
            spec.serialize(
                {
                    "input_ids": shown,
                    "input_mask": np.ones(LENGTH, int),
                    "segment_ids": np.zeros(LENGTH, int),
                    "token_boundary": np.ones(LENGTH, int),
                    "masked_lm_positions": positions,
                    "masked_lm_ids": ids[positions],
                    "masked_lm_weights": np.ones(PREDICTIONS, np.float32),
                    "next_sentence_labels": label,
                }
            )
        )
    write_records(str(path), records)


def write_vocabulary(path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(92))]
    path.write_text("\n".join(pieces) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    write_language(folder / "train.tfrecord", 400, seed=1)
    write_language(folder / "dev.tfrecord", 50, seed=2)
    write_language(folder / "unmasked.tfrecord", 400, seed=1, masked=False)
    write_language(folder / "unmasked_dev.tfrecord", 50, seed=2, masked=False)
    write_vocabulary(folder / "vocab.txt")
    tiny_config(num_hidden_layers=2).to_json_file(str(folder / "albert_config.json"))
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


def reports(output_dir):
    return [json.loads(line) for line in (output_dir / "metrics.jsonl").read_text().splitlines()]


def test_learns_a_language_and_leaves_what_it_says(data, tmp_path):
    metrics = run(make_options(data, tmp_path))
    first = next(line for line in reports(tmp_path) if line["split"] == "eval")
    assert first["step"] == 0
    assert abs(first["masked_lm_loss"] - np.log(97)) < 0.3
    assert metrics["masked_lm_loss"] < first["masked_lm_loss"] - 1.0
    assert json.loads((tmp_path / "eval_results.json").read_text()) == metrics
    assert json.loads((tmp_path / "run_options.json").read_text())["learning_rate"] == 0.02
    assert (tmp_path / "albert_config.json").exists()
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("ckpt-60")
    assert metrics["perplexity"] == pytest.approx(np.exp(metrics["masked_lm_loss"]))
    last = [line for line in reports(tmp_path) if line["split"] == "train"][-1]
    assert last["tokens_seen"] == 60 * 16 * LENGTH
    assert {"loss", "perplexity", "learning_rate", "gradient_norm"} < last.keys()
    assert not any("per_second" in name for name in last)
    tags = read_tags(tmp_path / "train")
    assert {"perplexity", "tokens_seen", "tokens_per_second", "sequences_per_second"} < tags
    assert any(tag.startswith("trust_ratio/albert_pretrainer/masked_lm_head/") for tag in tags)
    assert "perplexity" in read_tags(tmp_path / "eval")
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "learning_curve.png").stat().st_size > 10_000


def read_tags(folder):
    (path,) = folder.glob("events.*")
    events = map(event_pb2.Event.FromString, tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    return {value.tag for event in events for value in event.summary.value}


@pytest.mark.parametrize("objective", ["none", "nsp"])
def test_sentence_objective(data, tmp_path, objective):
    metrics = run(make_options(data, tmp_path, num_train_steps=2, sentence_objective=objective))
    assert ("sentence_order_loss" in metrics) == (objective == "nsp")


def test_init_checkpoint_gives_the_starting_values(data, tmp_path):
    run(make_options(data, tmp_path / "first"))
    run(
        make_options(
            data,
            tmp_path / "second",
            init_checkpoint=str(tmp_path / "first" / "best"),
            num_train_steps=1,
            optimizer="adamw",
        )
    )
    best = json.loads((tmp_path / "first" / "eval_results.json").read_text())
    assert reports(tmp_path / "second")[0]["masked_lm_loss"] == pytest.approx(
        best["masked_lm_loss"], rel=1e-5
    )


def test_encoder_alone_starts_training_but_is_not_evaluated(data, tmp_path, capsys):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2))
    save_hugging_face(encoder, str(tmp_path / "theirs"))
    start = {"init_checkpoint": str(tmp_path / "theirs"), "num_train_steps": 1}
    run(make_options(data, tmp_path / "run", **start))
    assert "start anew: albert_pretrainer/masked_lm_head/" in capsys.readouterr().out
    with pytest.raises(
        InputError, match=r"^--init_checkpoint: .*theirs .*lacks albert_pretrainer/m"
    ):
        run(make_options(data, tmp_path / "other", do_train=False, **start))


def test_folder_of_another_model_is_refused(data, tmp_path):
    options = make_options(data, tmp_path, num_train_steps=1)
    run(options)
    before = (tmp_path / "albert_config.json").read_text()
    other = tmp_path / "other.json"
    tiny_config(num_hidden_layers=3).to_json_file(str(other))
    with pytest.raises(InputError, match=r"--output_dir=.*num_hidden_layers 2, but .* says 3"):
        run(dataclasses.replace(options, albert_config_file=str(other)))
    assert (tmp_path / "albert_config.json").read_text() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sentence_objective": "none"},
            "with sentence_objective sop; --sentence_objective says none",
        ),
        ({"optimizer": "adamw"}, "with optimizer lamb; --optimizer says adamw"),
    ],
)
def test_run_goes_on_as_it_started_or_not_at_all(data, tmp_path, changes, message):
    options = make_options(data, tmp_path, num_train_steps=1)
    run(options)
    before = (tmp_path / "run_options.json").read_text()
    with pytest.raises(InputError, match=message):
        run(dataclasses.replace(options, **changes))
    assert (tmp_path / "run_options.json").read_text() == before


def test_run_that_goes_on_with_other_batches_says_so(data, tmp_path, capsys):
    options = make_options(data, tmp_path, num_train_steps=1)
    run(options)
    run(options)
    assert "other batches" not in capsys.readouterr().err
    run(dataclasses.replace(options, train_batch_size=8, random_seed=7))
    assert (
        f"warning: --output_dir={tmp_path}: the run may go on with other batches than it began with: "
        "train_batch_size 16, now 8; random_seed 12345, now 7\n"
    ) in capsys.readouterr().err


def test_folder_of_a_classifier_is_refused(data, tmp_path):
    options = make_options(data, tmp_path, num_train_steps=1)
    run(options)
    (tmp_path / "run_options.json").write_text('{"optimizer": "lamb", "task_name": "tsv"}')
    with pytest.raises(InputError, match="another kind of run: one without sentence_objective"):
        run(options)


def test_config_without_a_second_segment_is_refused(data, tmp_path):
    config = tmp_path / "albert_config.json"
    tiny_config(type_vocab_size=1).to_json_file(str(config))
    with pytest.raises(InputError, match=r"albert_config\.json: type_vocab_size 1; expected at"):
        run(make_options(data, tmp_path / "out", albert_config_file=str(config)))


def test_records_of_another_length_are_refused(data, tmp_path):
    with pytest.raises(
        InputError, match=r"record 1: feature 'input_ids' has length 24, expected 32"
    ):
        run(make_options(data, tmp_path, max_seq_length=32))
    with pytest.raises(InputError, match=r"'masked_lm_\w+' has length 4, expected 5"):
        run(make_options(data, tmp_path, max_predictions_per_seq=5))


def test_length_above_the_positions_is_refused(data, tmp_path):
    with pytest.raises(InputError, match=r"--max_seq_length=65: .*max_position_embeddings 64"):
        run(make_options(data, tmp_path, max_seq_length=65))


def test_record_file_cut_in_the_middle_is_named(data, tmp_path):
    whole = (data / "train.tfrecord").read_bytes()
    cut = tmp_path / "cut.tfrecord"
    cut.write_bytes(whole[: len(whole) // 2 + 100])
    with pytest.raises(InputError, match=r"cut\.tfrecord, record \d+: damaged"):
        run(make_options(data, tmp_path / "out", input_file=(str(cut),)))


def spoil(path, number, feature, values):
    """Gives one record of a file other values of a feature."""
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    example = tf.train.Example.FromString(records[number - 1])
    field = example.features.feature[feature]
    kind = getattr(field, field.WhichOneof("kind"))
    del kind.value[:]
    kind.value.extend(values)
    records[number - 1] = example.SerializeToString()
    write_records(str(path), records)


def test_records_of_a_step_that_is_skipped_are_named(data, tmp_path, capsys):
    path = tmp_path / "spoilt.tfrecord"
    write_language(path, 40, seed=1)
    spoil(path, 23, "masked_lm_weights", [float("nan")] * PREDICTIONS)
    changes = {"input_file": (str(path),), "eval_input_file": (), "do_eval": False}
    changes |= {"train_batch_size": 4, "log_steps": 1}
    # All records are seen once in ten steps.
    for num_train_steps in (9, 10):
        run(make_options(data, tmp_path, **changes, num_train_steps=num_train_steps))
    (line,) = map(json.loads, (tmp_path / "bad_steps.jsonl").read_text().splitlines())
    ((named_path, numbers),) = line["records"].items()
    assert named_path == str(path)
    assert len(numbers) == 4
    assert 23 in numbers
    counts = [report["skipped_updates"] for report in reports(tmp_path)]
    assert counts == [int(step >= line["step"]) for step in range(1, 11)]
    warning = capsys.readouterr().err
    assert f"step {line['step']}: skipped, its loss or gradient is not finite; records: " in warning
    assert f"{path}, record 23" in warning


def replace_record(path, number, record):
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    records[number - 1] = record
    write_records(str(path), records)


@pytest.fixture
def bad_files(tmp_path):
    """Files of which some records are bad, and one is damaged in its second half."""
    paths = [tmp_path / name for name in ("ids", "lengths", "cut", "text")]
    for seed, path in enumerate(paths):
        write_language(path, 40, seed)
    spoil(paths[0], 23, "input_ids", [97] * LENGTH)
    spoil(paths[1], 1, "masked_lm_ids", [80] * (PREDICTIONS + 1))
    replace_record(paths[1], 7, b"\xff\xfe no example")
    paths[2].write_bytes(paths[2].read_bytes()[: paths[2].stat().st_size // 2 + 100])
    paths[3].write_text("no records at all")
    return paths


BAD_RECORDS = {
    "ids": "record 23: feature 'input_ids' has id 97, expected ids from 0 to below vocab_size 97",
    "lengths": "record 1: feature 'masked_lm_ids' has length 5, expected 4",
    "cut": "record 21: damaged or cut short",
    "text": "record 1: damaged or cut short",
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_record_ends_the_run_with_one_line(bad_files, data, tmp_path, name):
    options = make_options(
        data, tmp_path / "out", input_file=(str(tmp_path / name),), num_train_steps=30
    )
    with pytest.raises(InputError) as error:
        run(options)
    assert str(error.value).startswith(f"{tmp_path / name}, {BAD_RECORDS[name]}")
    assert "\n" not in str(error.value)


def test_record_that_is_no_example_ends_the_run_with_one_line(data, tmp_path):
    path = tmp_path / "garbage"
    write_language(path, 40, seed=1)
    replace_record(path, 7, b"\xff\xfe no example")
    with pytest.raises(InputError, match=r"garbage, record 7: is not a tf\.train\.Example"):
        run(make_options(data, tmp_path / "out", input_file=(str(path),)))


def test_bad_records_are_skipped_counted_and_named(bad_files, data, tmp_path, capsys):
    paths = tuple(map(str, bad_files))
    changes = {"input_file": paths, "on_bad_record": "skip", "num_train_steps": 12}
    run(make_options(data, tmp_path / "out", **changes))
    output = capsys.readouterr()
    assert (
        "--input_file: 3 bad records are left out, and the rest of 2 damaged files; 97 records stay"
        in output.out
    )
    named = (tmp_path / "out" / "bad_records.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in named] == [
        *(f"{paths[0]}, record 23", f"{paths[1]}, record 1", f"{paths[1]}, record 7"),
        *(f"{paths[2]}, record 21", f"{paths[3]}, record 1"),
    ]
    for line in named:
        assert f"warning: {line}; left out" in output.err


def test_bad_first_record_does_not_hide_that_there_are_no_masks(data, tmp_path):
    path = tmp_path / "spoilt"
    write_language(path, 40, seed=1, masked=False)
    replace_record(path, 1, b"\xff\xfe no example")
    text = tmp_path / "text"
    write_language(text, 3, seed=2, masked=False)
    for number in (1, 2, 3):
        replace_record(text, number, b"\xff\xfe no example")
    changes = {"input_file": (str(path), str(text)), "on_bad_record": "skip", "num_train_steps": 1}
    run(make_dynamic_options(data, tmp_path / "out", **changes))
    named = (tmp_path / "out" / "bad_records.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in named] == [
        f"{path}, record 1",
        *(f"{text}, record {number}" for number in (1, 2, 3)),
    ]


def test_skipping_leaves_nothing_to_train_on(bad_files, data, tmp_path):
    options = make_options(
        data, tmp_path / "out", input_file=(str(bad_files[3]),), on_bad_record="skip"
    )
    with pytest.raises(InputError, match=r"--input_file: no record can be used: .*text, record 1"):
        run(options)


def test_skipping_takes_nothing_from_good_records(data, tmp_path):
    changes = {"num_train_steps": 3}
    error = run(make_options(data, tmp_path / "error", **changes))
    skip = run(make_options(data, tmp_path / "skip", **changes, on_bad_record="skip"))
    assert skip == pytest.approx(error, rel=1e-5)
    assert not (tmp_path / "skip" / "bad_records.txt").exists()


def test_id_outside_the_vocabulary_is_named(data, tmp_path):
    small = tmp_path / "small.json"
    tiny_config(num_hidden_layers=2, vocab_size=60).to_json_file(str(small))
    with pytest.raises(InputError, match=r"train\.tfrecord, record \d+: .*vocab_size 60"):
        run(make_options(data, tmp_path / "out", albert_config_file=str(small)))


def test_glob_without_files_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="--input_file: no file matches"):
        run(make_options(data, tmp_path, input_file=(str(data / "*.none"),)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": False, "do_eval": False}, "--do_train, --do_eval or both"),
        ({"input_file": ()}, "--do_train: expected --input_file"),
        ({"eval_input_file": ()}, "--do_eval: expected --eval_input_file"),
        ({"train_batch_size": 0}, "--train_batch_size=0: expected at least 1"),
        ({"num_train_steps": -1}, "--num_train_steps=-1: expected at least 1"),
        ({"spike_threshold": 0.5}, "--spike_threshold=0.5: expected at least 1"),
        (
            {"spike_threshold": 0, "on_spike": "rewind"},
            "--on_spike=rewind: expected --spike_threshold of at least 1; received 0",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(data, tmp_path, changes, message):
    with pytest.raises(FlagError, match=message):
        make_options(data, tmp_path, **changes)


def test_evaluation_alone(data, tmp_path):
    options = make_options(data, tmp_path, num_train_steps=30)
    metrics = run(options)
    # Nobody looks at what is to train on.
    alone = dataclasses.replace(options, do_train=False, input_file=(str(tmp_path / "none"),))
    assert run(alone) == pytest.approx(metrics, rel=1e-5)

    # Of any other checkpoint too, in a folder that holds none.
    other = dataclasses.replace(
        alone, output_dir=str(tmp_path / "other"), init_checkpoint=str(tmp_path / "best")
    )
    assert run(other) == pytest.approx(metrics, rel=1e-5)
    with pytest.raises(InputError, match="other: the folder holds no checkpoint"):
        run(dataclasses.replace(other, init_checkpoint=None))


def test_worker_that_is_lost_in_the_last_evaluation_is_one_line(data, tmp_path, monkeypatch):
    def lose_the_other(*arguments):
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    options = make_options(data, tmp_path, num_train_steps=1)
    run(options)
    monkeypatch.setattr(Evaluator, "is_alone", False)
    monkeypatch.setattr(Evaluator, "evaluate", lose_the_other)
    with pytest.raises(
        StoppedError, match=r"another worker was lost \(Socket closed\); restart all"
    ):
        run(dataclasses.replace(options, do_train=False))


def test_options_of_speed_and_memory_learn_the_same(data, tmp_path):
    plain = make_options(data, tmp_path / "plain", num_train_steps=4, optimizer="adamw")
    expected = run(plain)
    compiled = dataclasses.replace(
        plain, output_dir=str(tmp_path / "compiled"), accumulate_steps=4, jit_compile=True
    )
    assert run(compiled) == pytest.approx(expected, rel=1e-4)
    lower = dataclasses.replace(
        plain, output_dir=str(tmp_path / "lower"), mixed_precision="mixed_bfloat16"
    )
    rough = run(lower)
    for name in ("masked_lm_loss", "sentence_order_loss"):
        # Processors differ in where they round to bfloat16, whose numbers are 0.8 % apart.
        assert rough[name] == pytest.approx(expected[name], rel=5e-2)
    assert rough["masked_lm_loss"] != pytest.approx(expected["masked_lm_loss"], rel=1e-6)


def test_batch_that_does_not_divide_is_refused(data, tmp_path):
    options = make_options(
        data, tmp_path, accumulate_steps=3, distribution_strategy="mirrored", train_batch_size=16
    )
    with pytest.raises(
        FlagError, match="--train_batch_size=16: expected a multiple of 6, which is"
    ):
        run(options)


# Records without masks, and the original's


def make_dynamic_options(data, output_dir, **changes):
    values = {
        "input_file": (str(data / "unmasked.tfrecord"),),
        "eval_input_file": (str(data / "unmasked_dev.tfrecord"),),
        "vocab_file": str(data / "vocab.txt"),
        **changes,
    }
    return make_options(data, output_dir, **values)


def test_learns_from_masks_made_on_the_fly(data, tmp_path):
    options = make_dynamic_options(data, tmp_path)
    metrics = run(options)
    first = next(line for line in reports(tmp_path) if line["split"] == "eval")
    assert metrics["masked_lm_loss"] < first["masked_lm_loss"] - 1.0
    # Each evaluation of a model sees the same masks, so it gives the same metrics.
    alone = dataclasses.replace(options, do_train=False, input_file=())
    assert run(alone) == pytest.approx(metrics, rel=1e-5)
    with_masks = dataclasses.replace(alone, eval_input_file=(str(data / "dev.tfrecord"),))
    assert run(with_masks)["masked_lm_loss"] == pytest.approx(metrics["masked_lm_loss"], abs=0.5)


def test_masking_follows_the_flags(data, tmp_path):
    def first_loss(name, **changes):
        run(make_dynamic_options(data, tmp_path / name, num_train_steps=1, **changes))
        return reports(tmp_path / name)[0]["masked_lm_loss"]

    assert first_loss("one") != first_loss("other", ngram=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"vocab_file": None},
            r"^--input_file: .*unmasked\.tfrecord holds records without masks; expected "
            "--spm_model_file or --vocab_file",
        ),
        (
            {"vocab_file": None, "do_train": False, "input_file": ()},
            r"^--eval_input_file: .*unmasked_dev\.tfrecord holds records without masks; expected",
        ),
        ({"max_seq_length": 32}, "record 1: feature 'input_ids' has length 24, expected 32"),
        ({"vocab_file": "missing.txt"}, "missing.txt"),
    ],
)
def test_records_without_masks_need_what_they_were_made_with(data, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        run(make_dynamic_options(data, tmp_path, **changes))


def test_records_of_both_kinds_are_refused(data, tmp_path):
    both = (str(data / "train.tfrecord"), str(data / "unmasked.tfrecord"))
    with pytest.raises(InputError, match=r"--input_file: .*unmasked\.tfrecord holds .*one kind"):
        run(make_dynamic_options(data, tmp_path, input_file=both))


def write_stats(path, **stats):
    path.write_text(json.dumps({"counts": {}, **stats}))


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        (
            {"vocab_size": 96},
            r"^--input_file: .*a\.stats\.json: the records were made with a vocabulary of 96 pieces, but "
            r".*albert_config\.json says vocab_size 97",
        ),
        (
            {"vocab_size": 97, "vocabulary_sha256": "a1"},
            r"^--input_file: .*a\.stats\.json: the records were made with another vocabulary than "
            r".*vocab\.txt: SHA-256 a1, expected [0-9a-f]{64}$",
        ),
    ],
)
def test_the_vocabulary_that_stats_name_is_compared(data, tmp_path, stats, message):
    shards = tuple(str(tmp_path / f"a-0000{number}-of-00002.tfrecord") for number in range(2))
    for path in shards:
        shutil.copy(data / "train.tfrecord", path)
    write_stats(tmp_path / "a.stats.json", **stats)
    vocab_file = str(data / "vocab.txt")
    options = make_options(data, tmp_path / "out", input_file=shards, vocab_file=vocab_file)
    with pytest.raises(InputError, match=message):
        run(options)


def test_records_of_two_vocabularies_are_refused(data, tmp_path):
    for name in ("train", "dev"):
        shutil.copy(data / f"{name}.tfrecord", tmp_path)
        write_stats(tmp_path / f"{name}.stats.json", vocab_size=97, vocabulary_sha256=name)
    inputs = {"input_file": (str(tmp_path / "train.tfrecord"),)}
    inputs["eval_input_file"] = (str(tmp_path / "dev.tfrecord"),)
    with pytest.raises(
        InputError, match=r"^--eval_input_file: .*dev\.tfrecord and .*train\.tfrecord we"
    ):
        run(make_options(data, tmp_path / "out", **inputs))


def test_another_vocabulary_is_refused(data, tmp_path):
    pieces = (data / "vocab.txt").read_text().split()
    vocab_file = tmp_path / "vocab.txt"
    options = make_dynamic_options(data, tmp_path, vocab_file=str(vocab_file))
    vocab_file.write_text("\n".join(pieces[:-1]))
    with pytest.raises(InputError, match=r"vocab\.txt has 96 pieces; .*vocab_size 97"):
        run(options)
    vocab_file.write_text("\n".join(pieces[::-1]))
    with pytest.raises(InputError, match=r"record 1: begins with \[2\], but \[CLS\] is 94"):
        run(options)
    endings = [f"##s{n}" for n in range(92)]
    vocab_file.write_text("\n".join(pieces[:5] + endings))
    with pytest.raises(InputError, match=r"record 1: token_boundary of id 8\d is 1, but 0 by"):
        run(options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram": 0}, "--ngram=0: expected at least 1"),
        ({"ngram": 25}, "--ngram=25: expected at most 24"),
        ({"max_predictions_per_seq": 65537}, "--max_predictions_per_seq=65537: expected at most 6"),
        ({"masked_lm_prob": 1.5}, "--masked_lm_prob=1.5: expected at most 1"),
    ],
)
def test_masking_flags_that_make_no_sense_are_refused(data, tmp_path, changes, message):
    with pytest.raises(FlagError, match=message):
        make_dynamic_options(data, tmp_path, **changes)


def as_the_original_writes(serialized, spec):
    """Returns a record as the original's script serializes it, with a feature that nobody reads."""
    parsed = spec.parse(serialized)
    example = tf.train.Example()
    for name, values in parsed.items():
        feature = example.features.feature[name]
        if name == "masked_lm_weights":
            feature.float_list.value.extend(float(value) for value in values)
        else:
            feature.int64_list.value.extend(int(value) for value in values)
    example.features.feature["another"].bytes_list.value.append(b"feature")
    return example.SerializeToString()


def test_records_of_the_original_are_read_as_they_are(data, tmp_path):
    spec = pretraining_record(LENGTH, PREDICTIONS)
    records = tf.data.TFRecordDataset(str(data / "train.tfrecord"))
    theirs = str(tmp_path / "original.tfrecord")
    write_records(theirs, [as_the_original_writes(record, spec) for record in records])
    ours = make_options(data, tmp_path / "ours", num_train_steps=2)
    original = make_options(data, tmp_path / "theirs", num_train_steps=2, input_file=(theirs,))
    assert run(original) == pytest.approx(run(ours), rel=1e-4)


def test_defaults_are_those_of_the_paper():
    defaults = {field.name: field.default for field in dataclasses.fields(PretrainingOptions)}
    for name, value in dataclasses.asdict(PAPER_PRETRAINING).items():
        assert defaults[name] == value


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


def test_recipe_of_another_size(data, tmp_path):
    with pytest.raises(
        InputError, match=r"--recipe=paper_v1: .*albert_config.json has none of the"
    ):
        run(make_options(data, tmp_path, recipe="paper_v1"))


def test_recipe_prints_every_value_and_each_can_be_set(data, tmp_path, capsys):
    small = dataclasses.asdict(AlbertConfig.from_preset("base_v1", vocab_size=97))
    (tmp_path / "base.json").write_text(json.dumps(small))
    changes = {"albert_config_file": str(tmp_path / "base.json"), "num_train_steps": 1}
    changes |= {"recipe": "paper_v1", "train_batch_size": 2, "max_eval_steps": 1}
    run(make_options(data, tmp_path / "out", eval_batch_size=2, **changes))
    printed = capsys.readouterr().out
    assert "recipe paper_v1: optimizer lamb, learning_rate 0.02, train_batch_size 2, " in printed
    assert "dropout 0.1" in printed
    saved = json.loads((tmp_path / "out" / "albert_config.json").read_text())
    assert saved["attention_probs_dropout_prob"] == 0.1
