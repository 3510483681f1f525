import pytest

from albert_tf.errors import FlagError
from benchmarks import early_exit
from benchmarks.early_exit import EARLY_EXIT, FEWER_LAYERS, EarlyExitBenchmarkOptions, Point
from tests.benchmarks.pretrained_folder import write_pretrained
from tests.tokenization.conftest import make_sentences


def make_options(folder, **changes):
    values = {
        "glue_dir": str(folder / "glue"),
        "init_checkpoint": str(folder / "pretrained" / "best"),
        "albert_config_file": str(folder / "pretrained" / "albert_config.json"),
        "spm_model_file": str(folder / "pretrained" / "spiece.model"),
        "work_dir": str(folder / "work"),
        "output_file": str(folder / "figure.png"),
        "tasks": ("sst-2",),
        "max_seq_length": 20,
        "smoke": True,
        **changes,
    }
    return EarlyExitBenchmarkOptions(**values)


def test_table_and_picture_have_a_point_for_each_model(tmp_path):
    points = {
        "cola": [
            Point(EARLY_EXIT, 1, 2.25, 41.23, {1: 20.0, 32: 90.0}),
            Point(FEWER_LAYERS, 2, 2.0, 40.0, {1: 25.0, 32: 100.04}),
        ]
    }
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in early_exit.table(points).split("\n")
    ]
    assert rows[2] == ["cola", "early exit, patience 1", "2.25", "41.2", "20.0", "90.0"]
    assert rows[3] == ["cola", "fewer layers 2", "2.00", "40.0", "25.0", "100.0"]
    early_exit.draw(points, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_models_whose_layers_differ_are_refused(tmp_path):
    write_pretrained(tmp_path / "pretrained", num_hidden_groups=2)
    with pytest.raises(FlagError, match="--albert_config_file: expected one group of layers that"):
        early_exit._main(make_options(tmp_path))
    with pytest.raises(FlagError, match="--tasks: received 'rte'; expected sst-2 or mrpc or cola"):
        make_options(tmp_path, tasks=("rte",))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_smoke(tmp_path, capsys):
    write_pretrained(tmp_path / "pretrained")
    (tmp_path / "glue" / "SST-2").mkdir(parents=True)
    rows = [f"{text}\t{n % 2}" for n, text in enumerate(make_sentences()[:40])]
    for split in ("train", "dev"):
        path = tmp_path / "glue" / "SST-2" / f"{split}.tsv"
        path.write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    early_exit._main(make_options(tmp_path))
    lines = capsys.readouterr().out.split("\n")
    models = [line.split("|")[2].strip() for line in lines if line.startswith("| sst-2")]
    assert models == [f"{name} {n}" for name in (EARLY_EXIT, FEWER_LAYERS) for n in (1, 2)]
    assert (tmp_path / "figure.png").exists()
