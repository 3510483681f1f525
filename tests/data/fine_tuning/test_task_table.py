import pytest

from albert_tf.data.fine_tuning.task_table import TASKS, find_task
from albert_tf.data.fine_tuning.tsv import Scores
from albert_tf.errors import InputError
from albert_tf.evaluation.metrics import METRICS


def test_names_in_any_case_and_unknown_ones():
    assert {find_task(name).name for name in ("SST-2", "sst-2", "Sst-2")} == {"sst-2"}
    for name, hint in [
        ("sst2", "did you mean sst-2"),
        ("MPRC", "did you mean mrpc"),
        ("xx", "There are"),
    ]:
        message = rf"^task_name: unknown task '{name}'; {hint}.*cola, sst-2, mrpc, .*, tsv"
        with pytest.raises(InputError, match=message):
            find_task(name)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_row_of_the_table_is_complete(task):
    assert task.metrics or task.trained_as or task.kind == "question_answering"
    assert set(task.metrics) <= set(METRICS)
    assert (task.kind == "regression") == isinstance(task.labels, Scores)
    if task.sets:
        assert set(task.sets) <= {"train", "dev", "test"}
        assert ("train" in task.sets) == (task.trained_as is None)
        assert set(task.submissions) <= set(task.sets.get("test", ()))
        assert TASKS[task.model_task].labels == task.labels


def test_main_metrics_are_the_originals():
    names = ("sst-2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "race", "tsv")
    expected = dict.fromkeys(names, "accuracy")
    expected |= {"cola": "matthews_corrcoef", "sts-b": "pearson"}
    assert {name: find_task(name).metrics[0] for name in expected} == expected
