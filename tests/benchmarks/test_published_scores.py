import json

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_tf1_checkpoint
from albert_tf.errors import FlagError, InputError
from albert_tf.models import AlbertEncoder
from benchmarks import published_scores
from benchmarks.fine_tuning_runs import Results
from benchmarks.published_scores import PublishedScoresOptions, find_model, make_runs, table
from tests.data.race_folder import write_race
from tests.data.squad_file import make_question, make_squad, write_squad
from tests.helpers import tiny_config
from tests.tokenization.conftest import train_model

DATA = {"glue_dir": "/glue", "squad_dir": "/squad", "race_dir": "/race"}


def make_options(folder, **changes):
    values = {
        "checkpoint_dir": str(folder / "albert"),
        "work_dir": str(folder / "work"),
        "results": str(folder / "results.jsonl"),
        **changes,
    }
    return PublishedScoresOptions(**values)


def write_files(folder, config):
    folder.mkdir()
    config.to_json_file(str(folder / "albert_config.json"))
    for name in ("30k-clean.model", "model.ckpt-best.index"):
        (folder / name).write_text("")


@pytest.mark.parametrize("model", ["base_v1", "large_v2"])
def test_model_is_found_by_its_config(tmp_path, model):
    write_files(tmp_path / "albert", AlbertConfig.from_preset(model))
    assert find_model(make_options(tmp_path)) == model


def test_models_with_the_same_config_need_a_name(tmp_path):
    write_files(tmp_path / "albert", AlbertConfig.from_preset("xxlarge_v2"))
    with pytest.raises(InputError, match=r"--model: .* that of xxlarge_v1 and xxlarge_v2"):
        find_model(make_options(tmp_path))
    assert find_model(make_options(tmp_path, model="xxlarge_v1")) == "xxlarge_v1"
    (tmp_path / "albert" / "30k-clean.model").unlink()
    with pytest.raises(InputError, match=r"--checkpoint_dir: .*/30k-clean.model is missing"):
        find_model(make_options(tmp_path))


def test_recipes_are_the_papers(tmp_path):
    tasks = ("squad-2.0", "race", "rte", "mrpc")
    more = ("mixed_precision=mixed_bfloat16",)
    options = make_options(tmp_path, tasks=tasks, seeds=2, more_flags=more, **DATA)
    runs = make_runs(options, "base_v2")
    names = [(run.key["task"], run.key["seed"]) for run in runs]
    assert names[:6] == [
        *(("squad-2.0", 1), ("squad-2.0", 2), ("race", 1), ("race", 2)),
        *(("mnli", 1), ("rte", 1)),
    ]
    assert len(names) == len(set(names)) == 10
    by_task = {run.key["task"]: run for run in runs}
    for run in runs:
        assert {"--recipe=paper", "--mixed_precision=mixed_bfloat16"} < set(run.command)
    assert "--train_file=/squad/train-v2.0.json" in by_task["squad-2.0"].command
    assert {"--learning_rate=1e-05", "--dropout=0.0"} < set(by_task["race"].command)
    mnli = f"{tmp_path}/work/{by_task['mnli'].folder}"
    assert by_task["mnli"].keep
    assert f"--init_classifier={mnli}" in by_task["mrpc"].command
    assert "--learning_rate" not in " ".join(make_runs(options, "base_v1")[2].command)


def test_tasks_without_data_are_left_out(tmp_path):
    options = make_options(tmp_path, squad_dir="/squad")
    tasks = [run.key["task"] for run in make_runs(options, "base_v1")]
    assert tasks == ["squad-1.1", "squad-2.0"]
    write_files(tmp_path / "albert", AlbertConfig.from_preset("base_v1"))
    with pytest.raises(FlagError, match="expected --glue_dir, --squad_dir or --race_dir"):
        published_scores._main(make_options(tmp_path))
    with pytest.raises(FlagError, match="--more_flags: received 'a'; expected name=value"):
        make_options(tmp_path, more_flags=("a",))


def test_medians_stand_next_to_the_published_scores(tmp_path):
    options = make_options(tmp_path, tasks=("squad-2.0", "sst-2", "cola"), seeds=3)
    lines = [
        {"model": "xxlarge_v2", "task": task, "seed": seed, "flags": "", "scores": scores}
        for seed in (1, 2, 3)
        for task, scores in (
            ("squad-2.0", {"f1": 88.0 + seed, "exact": 85.0 + seed}),
            ("sst-2", {"accuracy": 0.95 + 0.001 * seed}),
        )
    ]
    lines.append({**lines[1], "seed": 4, "scores": {"accuracy": 0.0}})
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = table(options, "xxlarge_v2", Results(options.results)).splitlines()
    assert shown[0] == "xxlarge, version 2"
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in shown[4:]]
    assert rows == [
        ["squad-2.0", "3", "90.0/87.0", "88.1/85.1", "89.8/86.9", ""],
        ["sst-2", "3", "95.2", "95.2", "96.8", "96.9"],
        ["cola", "0", "", "", "", "71.4"],
    ]


def write_data(folder):
    """Writes MNLI, MRPC, SQuAD 1.1 and RACE in small."""
    header = "index\tsentence1\tsentence2\tgold_label"
    labels = ("entailment", "neutral", "contradiction")
    mnli = [header, *(f"{n}\tthe sea\tthe hill\t{labels[n % 3]}" for n in range(6))]
    mrpc = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    mrpc += [f"{n % 2}\t{n}\t{n}\tthe sun\tthe moon" for n in range(6)]
    for task, lines, names in (
        ("MNLI", mnli, ("train", "dev_matched", "dev_mismatched")),
        ("MRPC", mrpc, ("train", "dev")),
    ):
        (folder / "glue" / task).mkdir(parents=True)
        for name in names:
            (folder / "glue" / task / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    context = "They saw the moon over the hill."
    squad = make_squad((context, [make_question(str(n), [("moon", 13)]) for n in range(4)]))
    (folder / "squad").mkdir()
    for split in ("train", "dev"):
        write_squad(folder / "squad" / f"{split}-v1.1.json", squad)
    write_race(folder / "race", together=True)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_smoke_with_a_tiny_stand_in(tmp_path, capsys):
    folder = tmp_path / "albert"
    folder.mkdir()
    config = tiny_config(vocab_size=150, max_position_embeddings=128)
    config.to_json_file(str(folder / "albert_config.json"))
    (folder / "30k-clean.model").write_bytes(train_model())
    save_tf1_checkpoint(AlbertEncoder(config), str(folder / "model.ckpt-best"))
    write_data(tmp_path)
    options = make_options(
        tmp_path,
        model="base_v2",
        tasks=("squad-1.1", "race", "mrpc"),
        more_flags=("num_train_steps=2", "max_seq_length=96", "train_batch_size=2"),
        **{f"{name}_dir": str(tmp_path / name) for name in ("glue", "squad", "race")},
    )
    published_scores._main(options)
    lines = Results(options.results).lines
    assert [line["task"] for line in lines] == ["squad-1.1", "race", "mnli", "mrpc"]
    assert "README, version 2" in capsys.readouterr().out
