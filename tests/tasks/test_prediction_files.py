import json

from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.tasks.fine_tuning.predictions import write_submission


def examples(*guids):
    return [Example(guid, "text") for guid in guids]


def test_submission_of_glue(tmp_path):
    path = write_submission(
        str(tmp_path),
        find_task("mnli"),
        "mismatched",
        examples("7", "9"),
        ["neutral", "entailment"],
    )
    assert path == f"{tmp_path}/MNLI-mm.tsv"
    assert (
        tmp_path / "MNLI-mm.tsv"
    ).read_text() == "index\tprediction\n7\tneutral\n9\tentailment\n"


def test_scores_of_a_submission_are_clipped(tmp_path):
    write_submission(
        str(tmp_path), find_task("sts-b"), "", examples("0", "1", "2"), ["-0.2", "2.5", "5.01"]
    )
    rows = (tmp_path / "STS-B.tsv").read_text().splitlines()
    assert rows == ["index\tprediction", "0\t0.000000", "1\t2.500000", "2\t5.000000"]


def test_race_answers_are_grouped_by_article(tmp_path):
    guids = ("high1.txt-0", "high1.txt-1", "middle-2.txt-0")
    path = write_submission(str(tmp_path), find_task("race"), "", examples(*guids), ["A", "D", "B"])
    with open(path, encoding="utf-8") as file:
        assert json.load(file) == {"high1.txt": ["A", "D"], "middle-2.txt": ["B"]}
