import pytest

from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.files import to_json
from albert_tf.tasks.fine_tuning.predictions import write_submission

ANSWERS = {"high1.txt": ["A", "D"], "middle-2.txt": ["B"]}


@pytest.mark.parametrize(
    ("task", "set_name", "guids", "predictions", "file", "content"),
    [
        ("mnli", "mismatched", "79", ["b", "a"], "MNLI-mm.tsv", "index\tprediction\n7\tb\n9\ta\n"),
        # Scores are clipped.
        ("sts-b", "", "0", ["-0.2"], "STS-B.tsv", "index\tprediction\n0\t0.000000\n"),
        ("sts-b", "", "0", ["5.01"], "STS-B.tsv", "index\tprediction\n0\t5.000000\n"),
        (
            *("race", "", ("high1.txt-0", "high1.txt-1", "middle-2.txt-0")),
            *([*"ADB"], "race_answers.json", to_json(ANSWERS)),
        ),
    ],
)
def test_submissions(tmp_path, task, set_name, guids, predictions, file, content):
    examples = [Example(guid, "text") for guid in guids]
    path = write_submission(str(tmp_path), find_task(task), set_name, examples, predictions)
    assert path == f"{tmp_path}/{file}"
    assert (tmp_path / file).read_text() == content
