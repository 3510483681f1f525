import collections
import hashlib
import json

import pytest

from albert_tf.data import glue
from albert_tf.data.tsv import Example
from albert_tf.errors import FlagError, InputError
from albert_tf.evaluation.glue_metrics import METRICS
from tests.helpers import shared_path

JOBS = ["cola_dev", "cola_test", "mrpc_dev", "mrpc_test", "sst-2_dev", "sst-2_test"]


def read_original_job(job_name):
    """Returns a job of the reference data and all examples of its file, or skips."""
    job = json.loads(shared_path("golden/finetune_features/glue.json").read_text())[job_name]
    path = shared_path(f"data/{job['file']}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != job["file_sha256"]:
        pytest.skip(f"shared/data/{job['file']} is not the file that the reference data is made of")
    task = glue.find_task(job["task_name"])
    return job, glue.read_glue(task, str(path.parents[1]), job["split"])


@pytest.mark.parametrize(
    ("name", "split", "rows"),
    [
        ("cola", "train", 8551),
        ("cola", "dev", 1043),
        ("cola", "test", 1063),
        ("mrpc", "train", 3668),
        ("mrpc", "dev", 408),
        ("mrpc", "test", 1725),
        ("sst-2", "train", 67349),
        ("sst-2", "dev", 872),
        ("sst-2", "test", 1821),
    ],
)
def test_real_files_are_read_completely(name, split, rows):
    examples = glue.read_glue(glue.find_task(name), str(shared_path("data/glue")), split)
    assert len(examples) == rows
    assert len({example.guid for example in examples}) == rows
    assert all((example.label is None) == (split == "test") for example in examples)
    assert all((example.text_b is not None) == (name == "mrpc") for example in examples)


def test_majority_shares_of_real_files_are_the_published_ones():
    folder = str(shared_path("data/glue"))
    shares = {}
    for name in ("cola", "mrpc", "sst-2"):
        examples = glue.read_glue(glue.find_task(name), folder, "dev")
        counts = collections.Counter(example.label for example in examples)
        shares[name] = round(counts["1"] / len(examples), 4)
    assert shares == {"cola": 0.6913, "mrpc": 0.6838, "sst-2": 0.5092}


@pytest.mark.parametrize("job_name", JOBS)
def test_rows_equal_the_original_ones(job_name):
    job, examples = read_original_job(job_name)
    assert len(examples) == job["n_examples"]
    assert list(glue.find_task(job["task_name"]).labels) == job["label_list"]
    chosen = [examples[index] for index in job["example_index"]]
    assert [example.guid for example in chosen] == job["guid"]
    if job["split"] == "dev":
        assert [example.label for example in chosen] == job["label"]


@pytest.mark.parametrize("name", ["SST-2", "sst-2", "Sst-2"])
def test_task_names_match_in_any_case(name):
    assert glue.find_task(name).name == "sst-2"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("sst2", "did you mean sst-2"), ("MPRC", "did you mean mrpc"), ("x", "There")],
)
def test_unknown_task_names_the_nearest_and_all(name, hint):
    message = rf"--task_name: unknown task '{name}'; {hint}.*cola, mrpc, sst-2, tsv"
    with pytest.raises(FlagError, match=message):
        glue.find_task(name)


@pytest.mark.parametrize("task", glue.TASKS.values(), ids=glue.TASKS)
def test_every_row_of_the_table_is_whole(task):
    assert task.metrics
    assert set(task.metrics) <= set(METRICS)
    if task.splits:
        assert set(task.splits) == {"train", "dev", "test"}
        assert len(task.labels) > 1
        assert task.splits["train"].columns.label is not None


def test_main_metrics_are_the_original_ones():
    main = {task.name: task.metrics[0] for task in glue.TASKS.values()}
    assert main == {
        "cola": "matthews_corrcoef",
        "mrpc": "accuracy",
        "sst-2": "accuracy",
        "tsv": "accuracy",
    }


def test_glue_layout_with_its_quirks(tmp_path):
    for folder in ("CoLA", "MRPC"):
        (tmp_path / folder).mkdir()
    (tmp_path / "CoLA/dev.tsv").write_text('gj04\t0\t*\tA "quoted word.\n')
    (tmp_path / "CoLA/test.tsv").write_text("index\tsentence\n5\tA text.\n")
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    (tmp_path / "MRPC/dev.tsv").write_text(header + '1\t7\t8\t"One.\tTwo.\r\n', newline="")
    cola, mrpc = glue.find_task("CoLA"), glue.find_task("MRPC")
    data_dir = str(tmp_path)
    assert glue.read_glue(cola, data_dir, "dev") == [Example("dev-0", 'A "quoted word.', None, "0")]
    assert glue.read_glue(cola, data_dir, "test") == [Example("5", "A text.")]
    assert glue.read_glue(mrpc, data_dir, "dev") == [Example("dev-1", '"One.', "Two.", "1")]


def test_glue_label_that_is_none_is_refused(tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/dev.tsv").write_text("sentence\tlabel\nfine\t1\nodd\t2\n")
    with pytest.raises(InputError, match=r"dev.tsv, line 3: unknown label '2'; expected '0', '1'$"):
        glue.read_glue(glue.find_task("sst-2"), str(tmp_path), "dev")


def test_missing_glue_file_names_flag_and_path(tmp_path):
    message = rf"--data_dir={tmp_path}: no file '{tmp_path}/SST-2/dev.tsv'; .* SST-2/dev.tsv"
    with pytest.raises(InputError, match=message):
        glue.read_glue(glue.find_task("sst-2"), str(tmp_path), "dev")


def test_own_files(tmp_path):
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("text_a\tsource\tlabel\nA pear.\tus\tno\nA plum!\tyou\tyes\nFig?\tus\tno\n")
    test.write_text("text_b\ttext_a\nsecond\tfirst\n")
    examples = glue.read_tsv(str(train), "train")
    assert examples[1] == Example("train-2", "A plum!", None, "yes")
    labels = glue.collect_labels(examples, str(train))
    assert labels == ("no", "yes")
    assert glue.read_tsv(str(test), "test", labels) == [Example("test-1", "first", "second")]


def test_own_test_file_may_have_labels(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("text_a\tlabel\nfirst\tno\n")
    assert glue.read_tsv(str(path), "test", ("no", "yes"))[0].label == "no"


@pytest.mark.parametrize("split", ["train", "dev"])
def test_own_training_and_dev_files_need_labels(tmp_path, split):
    path = tmp_path / "rows.tsv"
    path.write_text("text_a\ttext_b\nfirst\tsecond\n")
    with pytest.raises(InputError, match=r"rows.tsv, line 1: no column 'label' in the header row"):
        glue.read_tsv(str(path), split)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_missing_own_file_names_its_flag(tmp_path, split):
    with pytest.raises(InputError, match=rf"--{split}_file: no file '{tmp_path}/absent.tsv'$"):
        glue.read_tsv(str(tmp_path / "absent.tsv"), split)


def test_one_class_cannot_be_learnt():
    examples = [Example(f"train-{row}", "text", None, "same") for row in range(3)]
    with pytest.raises(InputError, match=r"--train_file=rows.tsv: every row has the label 'same'"):
        glue.collect_labels(examples, "rows.tsv")
