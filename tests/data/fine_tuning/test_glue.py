import hashlib
import json

import pytest

from albert_tf.data.fine_tuning.examples import Example, ScoreRange, make_examples
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.task_table import TASKS, find_task
from albert_tf.evaluation.metrics import METRICS
from albert_tf.kinds import KINDS
from albert_tf.tasks.fine_tuning.predictions import write_submission
from albert_tf.tokenization.normalization import normalize_text
from tests.helpers import refused, shared_path
from tests.parity.original import read_json

JOBS = [
    *("cola_dev", "cola_test", "mrpc_dev", "mrpc_test", "sst-2_dev", "sst-2_test", "sts-b_dev"),
    *("sts-b_test", "wnli_dev", "wnli_test", "ax_test"),
]


def read(name, data_dir, split, set_name=""):
    task = find_task(name)
    return task.sets[split][set_name].read(str(data_dir), split, task.labels)


@pytest.mark.parametrize("job_name", JOBS)
def test_rows_equal_the_originals(job_name):
    job = read_json("finetune_features/glue.json")[job_name]
    path = shared_path(f"data/{job['file']}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != job["file_sha256"]:
        pytest.skip(f"shared/data/{job['file']} is not the file that the reference data is made of")
    examples = read(job["task_name"], path.parents[1], job["split"])
    assert len(examples) == job["n_examples"]
    labels = find_task(job["task_name"]).labels
    assert ([None] if isinstance(labels, ScoreRange) else list(labels)) == job["label_list"]
    chosen = [examples[index] for index in job["example_index"]]
    assert [example.guid for example in chosen] == job["guid"]
    # The original normalises while it reads.
    texts = [[x and normalize_text(x, True) for x in (one.text_a, one.text_b)] for one in chosen]
    assert texts == read_json("finetune_features/glue_texts.json")[job_name]
    assert all((example.label is None) == (job["split"] == "test") for example in examples)
    if job["split"] == "dev":
        received = [example.label for example in chosen]
        if isinstance(labels, ScoreRange):
            received = [float(label) for label in received]
        assert received == job["label"]


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, newline="")


def test_missing_glue_file_names_flag_and_path(tmp_path):
    message = rf"^data_dir={tmp_path}: no file '{tmp_path}/SST-2/dev.tsv'; .* SST-2/dev.tsv"
    with refused(message):
        read("sst-2", tmp_path, "dev")


@pytest.mark.parametrize(
    ("name", "split", "set_name", "first"),
    [
        ("mnli", "train", "", Example("0", "Conceptually", "Product", "neutral")),
        ("mnli", "dev", "matched", Example("0", "The new", "Everyone", "neutral")),
        ("mnli", "dev", "mismatched", Example("0", "Your", "Your", "contradiction")),
        ("mnli", "test", "matched", Example("0", "Hierbas,", "Hierbas")),
        ("mnli", "test", "mismatched", Example("0", "What have", "So what's")),
        ("qnli", "dev", "", Example("0", "What came", "As of", "entailment")),
        ("qnli", "test", "", Example("0", "What organization", "For some")),
        ("qqp", "dev", "", Example("201359", "Why are", "Why are", "0")),
        ("qqp", "test", "", Example("0", "Would the", "Do you")),
    ],
)
def test_layouts_of_the_big_tasks(name, split, set_name, first):
    example = read(name, shared_path("data/glue/format_samples"), split, set_name)[0]
    assert (example.guid, example.label) == (first.guid, first.label)
    assert example.text_a.startswith(first.text_a)
    assert example.text_b.startswith(first.text_b)


def test_layout_of_rte(tmp_path):
    row = "3\tIt rains.\tIt is wet."
    write(tmp_path, "RTE/dev.tsv", f"index\tsentence1\tsentence2\tlabel\n{row}\tnot_entailment\n")
    write(tmp_path, "RTE/test.tsv", f"index\tsentence1\tsentence2\n{row}\n")
    (labelled,), (test,) = (read("RTE", tmp_path, split) for split in ("dev", "test"))
    assert labelled == Example("3", "It rains.", "It is wet.", "not_entailment")
    assert test == Example("3", "It rains.", "It is wet.")


def test_incomplete_rows_of_qqp_are_skipped_unless_a_test_set_has_them(tmp_path, capsys):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = "7\t1\t2\tWhy?\tWhat?\t1\n8\t3\t4\tHow\n9\t5\t6\t\tEmpty?\t0\n"
    write(tmp_path, "QQP/train.tsv", header + rows)
    examples = read("qqp", tmp_path, "train")
    assert [(example.guid, example.text_a) for example in examples] == [("7", "Why?"), ("9", "")]
    assert "QQP/train.tsv: skipped 1 incomplete rows" in capsys.readouterr().err
    write(tmp_path, "QQP/test.tsv", "id\tquestion1\tquestion2\n0\t\tEmpty?\n1\tWhy?\n")
    with refused(r"QQP/test.tsv, line 3: columns: received 2, expected 3"):
        read("qqp", tmp_path, "test")


WIC = {"word": "bank", "sentence1": "A river bank.", "sentence2": "A big bank.", "idx": 3}


def write_wic(folder, name, *rows):
    write(folder, f"WiC/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def test_json_lines_of_wic_and_its_submission(tmp_path):
    write_wic(tmp_path, "val", {**WIC, "label": False}, {**WIC, "label": True})
    write_wic(tmp_path, "test", WIC)
    texts = ("3", "bank: A river bank.", "A big bank.")
    expected = [Example(*texts, "false"), Example(*texts, "true")]
    assert read("WiC", tmp_path, "dev") == expected
    (example,) = read("WiC", tmp_path, "test")
    assert example == Example(*texts)
    path = write_submission(str(tmp_path), find_task("wic"), "", [example], ["true"])
    assert path == f"{tmp_path}/WiC.jsonl"
    assert (tmp_path / "WiC.jsonl").read_text() == '{"idx": 3, "label": "true"}\n'


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"label": 2}, ", line 2: unknown label '2'; expected 'false', 'true'$"),
        ({"label": None}, ", line 2: the label is missing"),
        ({"word": " "}, ", line 2: the word is empty$"),
        ({"word": ["bank"]}, ", line 2: received list in place of a text$"),
        ({"sentence1": ""}, ", line 2: the text is empty$"),
    ],
)
def test_rows_of_json_lines_are_checked(tmp_path, row, message):
    write_wic(tmp_path, "val", {**WIC, "label": True}, {**WIC, "label": True, **row})
    with refused(f"^{tmp_path}/WiC/val.jsonl{message}"):
        read("wic", tmp_path, "dev")


def test_a_missing_column_is_named_in_the_words_of_the_format(tmp_path):
    row = {name: value for name, value in WIC.items() if name != "word"}
    write_wic(tmp_path, "test", row)
    columns = "no column 'word', but 'sentence1', 'sentence2', 'idx'; expected"
    with refused(
        f"^{tmp_path}/WiC/test.jsonl: {columns} objects with 'idx', 'sentence1', .*'word'$"
    ):
        read("wic", tmp_path, "test")
    write(tmp_path, "RTE/test.tsv", "index\tsentence1\n3\tIt rains.\n")
    with refused("expected a header row with 'index', 'sentence1', 'sentence2'$"):
        read("rte", tmp_path, "test")
    table = Table.read([row])
    with refused(
        "^data: no column 'word', .*; expected columns 'idx', 'sentence1', 'sentence2', 'word'$"
    ):
        make_examples(table, find_task("wic").sets["test"][""].columns, "test")


@pytest.mark.parametrize("score", ["nan", "inf", "high", "5.1", "-1"])
def test_malformed_score_is_refused(tmp_path, score):
    header = "index\tsentence1\tsentence2\tscore\n"
    write(tmp_path, "STS-B/dev.tsv", f"{header}0\ta\tb\t5.000\n1\tc\td\t{score}\n")
    message = rf"STS-B/dev.tsv, line 3: label .*{score}.*; expected a number"
    with refused(message):
        read("sts-b", tmp_path, "dev")


def test_names_in_any_case_and_unknown_ones():
    assert {find_task(name).name for name in ("SST-2", "sst-2", "Sst-2")} == {"sst-2"}
    message = "^task_name: unknown task 'xx'; There are cola, sst-2, mrpc, .*, classification"
    with refused(message):
        find_task("xx")


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_row_of_the_table_is_complete(task):
    assert task.metrics or KINDS[task.kind].metrics
    assert set(task.metrics) <= set(METRICS)
    assert (task.kind == "regression") == isinstance(task.labels, ScoreRange)
    if task.sets:
        assert ("train" in task.sets) == (task.trained_as is None)
        assert set(task.submissions) <= set(task.sets.get("test", ()))
        assert TASKS[task.model_task].labels == task.labels


def test_main_metrics_are_the_originals():
    names = ("sst-2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "race", "classification")
    expected = dict.fromkeys(names, "accuracy")
    expected |= {"cola": "matthews_corrcoef", "sts-b": "pearson"}
    tasks = {name: find_task(name) for name in expected}
    metrics = {name: task.metrics or KINDS[task.kind].metrics for name, task in tasks.items()}
    assert {name: of_task[0] for name, of_task in metrics.items()} == expected
