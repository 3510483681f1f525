import dataclasses
import socket
import sys

import pytest

from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.race import examples_of_article
from albert_tf.data.fine_tuning.task_table import find_task, select_level
from albert_tf.data.fine_tuning.tfds import read_tfds
from albert_tf.errors import InputError
from tests.data.fine_tuning.test_glue import WIC, read, write_wic
from tests.data.race_folder import make_article
from tests.data.tfds_folder import glue_records, write_tfds
from tests.helpers import refused, shared_path

pytestmark = pytest.mark.filterwarnings("ignore:::tensorflow_datasets")


def write_rows(task, folder, sets):
    """Writes name of the set -> examples."""
    (builder,) = task.tfds.builders
    columns = task.tfds.columns
    records = {name: [*glue_records(builder, rows, columns)] for name, rows in sets.items()}
    write_tfds(builder, folder, records)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        *((name, "data/glue") for name in ("cola", "mrpc", "sts-b", "ax")),
        *((name, "data/glue/format_samples") for name in ("qqp", "qnli")),
    ],
)
def test_real_rows_are_equal_from_both_sources(tmp_path, name, folder):
    task = find_task(name)
    expected = {split: read(name, shared_path(folder), split)[:50] for split in task.sets}
    names = {"dev": "validation"}
    write_rows(task, tmp_path, {names.get(each, each): rows for each, rows in expected.items()})
    for split, rows in expected.items():
        received = read_tfds(task, split, "", str(tmp_path))
        assert [row.guid for row in received] == [str(number) for number in range(len(rows))]
        texts = [(row.text_a, row.text_b) for row in rows]
        assert [(row.text_a, row.text_b) for row in received] == texts
        if name == "sts-b" and split != "test":
            scores = [float(row.label) for row in rows]
            assert [float(row.label) for row in received] == pytest.approx(scores)
        else:
            assert [row.label for row in received] == [row.label for row in rows]


def test_sets_and_label_names_of_mnli(tmp_path):
    task = find_task("mnli")
    rows = [Example("", f"premise {label}", "hypothesis", label) for label in task.labels]
    sets = {"matched": rows[:2], "mismatched": rows[1:]}
    write_rows(task, tmp_path, {f"validation_{name}": of_set for name, of_set in sets.items()})
    for name, of_set in sets.items():
        labels = [row.label for row in read_tfds(task, "dev", name, str(tmp_path))]
        assert labels == [row.label for row in of_set]


def test_words_and_truth_values_of_wic(tmp_path):
    rows = [{**WIC, "idx": number, "label": number != 1} for number in range(3)]
    write_wic(tmp_path, "val", *rows)
    write_wic(tmp_path, "test", *({**row, "label": None} for row in rows))
    places = dict.fromkeys(("start1", "start2", "end1", "end2"), 0)
    records = [{**row, **places, "label": int(row["label"])} for row in rows]
    tests = [{**record, "label": -1} for record in records]
    write_tfds("super_glue/wic", tmp_path, {"validation": records, "test": tests})
    for split in ("dev", "test"):
        expected = read("wic", tmp_path, split)
        assert read_tfds(find_task("wic"), split, "", str(tmp_path)) == expected


def test_articles_of_race(tmp_path):
    articles = {
        level: [make_article(f"{level}{number}.txt", 2) for number in (2, 9, 10, 100)]
        for level in ("middle", "high")
    }
    for level, of_level in articles.items():
        records = [
            {"example_id" if name == "id" else name: value for name, value in article.items()}
            for article in of_level
        ]
        write_tfds(f"race/{level}", tmp_path, {"dev": records})
    task = find_task("race")
    received = read_tfds(task, "dev", "", str(tmp_path))
    expected = [
        example
        for level, of_level in articles.items()
        for article in of_level
        for example in examples_of_article("", article, task.labels, "dev", level)
    ]
    assert received == expected
    assert read_tfds(select_level(task, "high"), "dev", "", str(tmp_path)) == expected[8:]


def test_failure_without_a_network_is_quick_and_leaves_no_files(tmp_path, monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")
    hosts = []

    def refuse(host, *arguments, **keywords):
        hosts.append(host)
        raise socket.gaierror("Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("urllib3.util.retry.Retry.sleep", lambda *arguments: None)
    with pytest.raises(InputError) as caught:
        read_tfds(find_task("cola"), "dev", "", str(tmp_path))
    assert str(caught.value) == (
        "'glue/cola' can be neither read nor downloaded: no connection to dl.fbaipublicfiles.com"
    )
    assert len(hosts) == 5
    assert not list(tmp_path.rglob("*.tmp.*"))

    def fail(*arguments, **keywords):
        raise ConnectionError("no route to\nhost")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with refused(r"'glue/cola' .*: no route to host$"):
        read_tfds(find_task("cola"), "dev", "", str(tmp_path))


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    message = r"^'glue/cola': needs tensorflow_datasets, .*: pip install 'albert-tf\[tfds\]'$"
    with refused(message):
        read_tfds(find_task("cola"), "dev", "", None)


def test_unknown_labels_and_damaged_files_are_refused(tmp_path):
    task = find_task("cola")
    write_rows(task, tmp_path, {"validation": [Example("", "a", None, "1")] * 9})
    with refused(r"glue/cola, validation, record 0: unknown label '1'"):
        read_tfds(dataclasses.replace(task, labels=("0", "2")), "dev", "", str(tmp_path))
    (path,) = tmp_path.rglob("*.tfrecord*")
    path.write_bytes(path.read_bytes()[:-5])
    with refused(r"^'glue/cola' can be neither read nor"):
        read_tfds(task, "dev", "", str(tmp_path))
