import contextlib
import json

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.training.checkpoints import BestCheckpoint
from benchmarks import pretrained_against_scratch as study
from benchmarks.pretrained_against_scratch import Result
from tests.tasks.animals import write_data


def make_result(task, start, *scores):
    search = {"1e-4": 0.25, "1e-3": scores[0]}
    return Result(task, "accuracy", start, search, "1e-3", list(scores), 0.625)


RESULTS = [
    make_result("sst-2", "scratch", 0.75, 0.5, 0.875),
    make_result("sst-2", "pretrained", 0.75, 0.875, 0.75),
    make_result("cola", "scratch", 0.125, 0.0, 0.25),
    make_result("cola", "pretrained", 0.125, 0.25, 0.5),
]


def test_the_table_has_medians_beside_all_scores():
    lines = study.table(RESULTS).split("\n")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert cells[1] == ["sst-2, accuracy", "pretrained", "1e-3", "75.0", "75.0, 87.5, 75.0", "62.5"]
    assert [row[3] for row in cells] == ["75.0", "75.0", "12.5", "25.0"]


def test_a_tie_is_no_better():
    assert study.find_misses(RESULTS) == [
        "sst-2: the pre-trained model has 0.750, from scratch it has 0.750"
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with SST-2's files, a vocabulary, and a pre-trained model whose start is in no doubt."""
    folder = tmp_path_factory.mktemp("study")
    write_data(folder)
    (folder / "SST-2").mkdir()
    for split in ("train", "dev"):
        rows = (folder / f"{split}.tsv").read_text().splitlines()[1:]
        rows = [row.replace("animal", "1").replace("plant", "0") for row in rows]
        text = "\n".join(["sentence\tlabel", *rows]) + "\n"
        (folder / "SST-2" / f"{split}.tsv").write_text(text)
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(config, seed=5), seed=6)
    BestCheckpoint(str(folder / "best")).replace(model, 7, {"loss": 1.0})
    return folder


def make_study(folder, output_dir):
    return study.StudyOptions(
        pretrained_dir=str(folder),
        spm_model_file=str(folder / "words.model"),
        glue_dir=str(folder),
        output_dir=str(output_dir),
        tasks=("sst-2",),
        learning_rates=("1e-9", "3e-3"),
        num_search_steps=40,
        num_train_steps=3,
        max_seq_length=24,
        num_trials=2,
    )


def test_the_majority_class_of_training_is_guessed_on_dev(folder):
    labels = {
        split: [
            row[-1] for row in (folder / "SST-2" / f"{split}.tsv").read_text().split("\n")[1:-1]
        ]
        for split in ("train", "dev")
    }
    most = max("01", key=labels["train"].count)
    expected = labels["dev"].count(most) / len(labels["dev"])
    assert study.majority_metrics(str(folder), "sst-2") == {"accuracy": pytest.approx(expected)}


@pytest.mark.slow
def test_both_starts_have_a_search_and_as_many_seeds_as_asked_for(folder, tmp_path, capsys):
    options = make_study(folder, tmp_path)
    with contextlib.suppress(InputError):  # three steps make neither the better one
        study._main(options)
    results = json.loads((tmp_path / "results.json").read_text())
    assert [(result["task"], result["start"]) for result in results] == [
        *(("sst-2", "scratch"), ("sst-2", "pretrained")),
    ]
    for result in results:
        assert result["learning_rate"] == max(result["search"], key=result["search"].get)
        assert len(result["scores"]) == 2
    starts = [
        json.loads(path.read_text())["init_checkpoint"]
        for path in sorted((tmp_path / "sst-2").glob("*/*/config.json"))
    ]
    assert [start is not None for start in starts] == [True] * 4 + [False] * 4

    # Nothing is trained again.
    capsys.readouterr()
    assert study.study(options, "sst-2", "scratch").scores == results[0]["scores"]
    assert capsys.readouterr().out == ""
