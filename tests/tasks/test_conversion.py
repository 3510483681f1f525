import numpy as np
import pytest

from albert_tf.conversion import load_model, save_tf1_checkpoint
from albert_tf.errors import FlagError, InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.conversion import ConversionOptions, run
from albert_tf.training.checkpoints import save_checkpoint
from tests.helpers import tiny_config


@pytest.fixture
def model(tmp_path):
    model = AlbertPretrainer(AlbertEncoder(tiny_config(), seed=1), seed=2)
    save_checkpoint(model, str(tmp_path / "ours"))
    model.encoder.config.to_json_file(str(tmp_path / "albert_config.json"))
    return model


def make_options(folder, **changes):
    values = {
        "init_checkpoint": str(folder / "ours"),
        "albert_config_file": str(folder / "albert_config.json"),
        "output_checkpoint": str(folder / "out" / "model.ckpt-best"),
        "to": "tf1",
        **changes,
    }
    return ConversionOptions(**values)


def test_there_and_back(tmp_path, model, capsys):
    run(make_options(tmp_path))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "model.ckpt-best.data-00000-of-00001",
        "model.ckpt-best.index",
    ]
    shown = capsys.readouterr().out
    assert "albert_encoder/pooler/dense/bias" in shown
    assert "bert/pooler/dense/bias" in shown
    row = next(line for line in shown.splitlines() if "seq_relationship/output_weights" in line)
    assert row.split() == [
        "albert_pretrainer/sentence_order_head/dense/kernel",
        "cls/seq_relationship/output_weights",
        "(2,",
        "48)",
    ]
    assert "read back, its outputs differ by" in shown.splitlines()[-1]

    back = str(tmp_path / "back" / "ckpt")
    run(
        make_options(
            tmp_path,
            init_checkpoint=str(tmp_path / "out"),
            to="albert_tf",
            output_checkpoint=back,
        )
    )
    again, _ = load_model(model.encoder.config, back)
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.usefixtures("model")
def test_dry_run_shows_the_names_and_writes_nothing(tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    run(make_options(tmp_path, dry_run=True))
    run(make_options(tmp_path, dry_run=True, output_checkpoint=None))
    assert sorted(tmp_path.iterdir()) == before
    assert capsys.readouterr().out.count("cls/predictions/output_bias") == 2


@pytest.mark.parametrize("kind", ["classifier", "encoder"])
def test_other_models_convert(tmp_path, model, kind):
    other = model.encoder if kind == "encoder" else AlbertClassifier(model.encoder, num_classes=3)
    save_tf1_checkpoint(other, str(tmp_path / kind))
    output = str(tmp_path / "converted")
    run(
        make_options(
            tmp_path,
            init_checkpoint=str(tmp_path / kind),
            to="albert_tf",
            output_checkpoint=output,
        )
    )
    converted, _ = load_model(model.encoder.config, output)
    assert type(converted) is type(other)


@pytest.mark.usefixtures("model")
def test_nothing_is_overwritten(tmp_path):
    options = make_options(tmp_path)
    run(options)
    before = [path.read_bytes() for path in sorted((tmp_path / "out").iterdir())]
    with pytest.raises(InputError, match=r"--output_checkpoint: '.*best' exists already"):
        run(options)
    assert [path.read_bytes() for path in sorted((tmp_path / "out").iterdir())] == before


def test_model_that_the_original_does_not_have(tmp_path):
    encoder = AlbertEncoder(tiny_config(sharing="ffn"))
    save_checkpoint(encoder, str(tmp_path / "ours"))
    encoder.config.to_json_file(str(tmp_path / "albert_config.json"))
    with pytest.raises(InputError, match="sharing 'ffn' with 5 layers in 1 groups"):
        run(make_options(tmp_path))
    assert not (tmp_path / "out").exists()


def test_layers_of_their_own_become_groups(tmp_path, capsys):
    encoder = AlbertEncoder(tiny_config(sharing="none"))
    save_checkpoint(encoder, str(tmp_path / "ours"))
    encoder.config.to_json_file(str(tmp_path / "albert_config.json"))
    run(make_options(tmp_path))
    assert "num_hidden_groups 5" in capsys.readouterr().out


@pytest.mark.usefixtures("model")
def test_config_of_another_model_leaves_nothing_behind(tmp_path):
    tiny_config(intermediate_size=81).to_json_file(str(tmp_path / "albert_config.json"))
    with pytest.raises(InputError, match=r"has shape \(48, 80\); the model's .* \(48, 81\)"):
        run(make_options(tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output_checkpoint": None}, "expected --output_checkpoint or --dry_run"),
        (
            {"output_checkpoint": "converted/"},
            "--output_checkpoint=converted/: expected the prefix",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(tmp_path, changes, message):
    with pytest.raises(FlagError, match=message):
        make_options(tmp_path, **changes)


def test_outputs_that_are_no_numbers_are_not_called_done(tmp_path, model, capsys):
    model.encoder.pooler.dense.bias.assign(np.full(48, np.nan, np.float32))
    save_checkpoint(model, str(tmp_path / "diverged"))
    with pytest.raises(InputError, match="do not use it: its outputs differ by nan"):
        run(make_options(tmp_path, init_checkpoint=str(tmp_path / "diverged")))
    assert "wrote" not in capsys.readouterr().out
