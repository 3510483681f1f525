import contextlib
import dataclasses
import json
import pathlib

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError, InputError
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.training.checkpoint_manager import BestCheckpoint
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


def test_a_rate_at_the_edge_of_those_that_were_tried_is_marked():
    search = {"1e-3": 0.5, "1e-4": 0.25, "3e-4": 0.75}
    results = [
        Result("cola", "accuracy", start, search, rate, [0.5], 0.625)
        for start, rate in (("scratch", "3e-4"), ("pretrained", "1e-3"))
    ]
    lines = study.search_table(results).split("\n")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0] == ["task, metric", "start", "1e-3", "1e-4", "3e-4", "chosen"]
    assert [row[-1] for row in cells[2:]] == ["3e-4", "1e-3, at the edge"]


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


def make_study(folder, output_dir, **changes):
    return study.StudyOptions(
        pretrained_dir=str(folder),
        spm_model_file=str(folder / "words.model"),
        glue_dir=str(folder),
        output_dir=str(output_dir),
        **{
            "tasks": ("sst-2",),
            "learning_rates": ("1e-9", "3e-3"),
            "num_search_steps": 40,
            "num_train_steps": 3,
            "max_seq_length": 24,
            "num_trials": 2,
            **changes,
        },
    )


def write_run(options, name, **results):
    """Writes what a training of three updates from scratch leaves."""
    folder = pathlib.Path(options.output_dir, "sst-2", "scratch", name)
    folder.mkdir(parents=True)
    rate, seed = name.removeprefix("search-"), 0
    if "-seed-" in name:
        rate, seed = name.split("-seed-")
    values = {
        "task_name": "sst-2",
        "data_dir": options.glue_dir,
        "albert_config_file": f"{options.pretrained_dir}/albert_config.json",
        "spm_model_file": options.spm_model_file,
        "init_checkpoint": None,
        "max_seq_length": options.max_seq_length,
        "train_batch_size": 32,
        "learning_rate": float(rate),
        "num_train_steps": 3,
        "save_checkpoints_steps": 3,
        "random_seed": int(seed),
    }
    (folder / "run_options.json").write_text(json.dumps(values))
    (folder / "eval_results.json").write_text(json.dumps(results))


def test_of_equal_rates_that_with_the_least_loss_is_chosen(folder, tmp_path):
    rates = ("1e-3", "2e-3", "3e-3")
    options = make_study(folder, tmp_path, learning_rates=rates, num_search_steps=3, num_trials=1)
    for rate, loss in zip(rates, (0.7, 0.5, 0.6), strict=True):
        write_run(options, f"search-{rate}", accuracy=0.5, loss=loss)
    write_run(options, "2e-3-seed-1", accuracy=0.75, loss=0.25)
    result = study.study(options, "sst-2", "scratch")
    assert (result.learning_rate, result.scores) == ("2e-3", [0.75])
    assert result.search == dict.fromkeys(rates, 0.5)


def test_scores_of_other_options_are_not_taken(folder, tmp_path):
    options = make_study(folder, tmp_path, learning_rates=("1e-3",), num_trials=1)
    write_run(options, "1e-3-seed-1", accuracy=0.75, loss=0.25)
    assert study.study(options, "sst-2", "scratch").scores == [0.75]
    other = dataclasses.replace(options, num_train_steps=4)
    message = r"--output_dir: .*/1e-3-seed-1 was trained with num_train_steps 3; .* has 4; expected"
    with pytest.raises(InputError, match=message):
        study.study(other, "sst-2", "scratch")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("mnli",)}, r"^--tasks: received 'mnli'; expected cola or .* or wnli"),
        ({"tasks": ("CoLA", "sts-b")}, r"^--tasks: received 'sts-b'"),
        ({"tasks": ("race",)}, r"^--tasks: received 'race'"),
        ({"num_trials": 0}, r"^--num_trials=0: expected at least 1"),
        ({"random_seed": 0}, r"^--random_seed=0: expected at least 1"),
        ({"learning_rates": ("1e-3", "abc")}, r"^--learning_rates: received 'abc'; expected a num"),
        ({"learning_rates": ("0",)}, r"^--learning_rates: received '0'; expected a number above 0"),
    ],
)
def test_flags_that_cannot_be_meant(tmp_path, changes, message):
    with pytest.raises(FlagError, match=message):
        make_study(tmp_path, tmp_path, **changes)


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
        assert result["search"][result["learning_rate"]] == max(result["search"].values())
        assert len(result["scores"]) == 2
    starts = [
        json.loads(path.read_text())["init_checkpoint"]
        for path in sorted((tmp_path / "sst-2").glob("*/*/run_options.json"))
    ]
    assert [start is not None for start in starts] == [True] * 4 + [False] * 4

    # Nothing is trained again.
    capsys.readouterr()
    assert study.study(options, "sst-2", "scratch").scores == results[0]["scores"]
    assert capsys.readouterr().out == ""
