import pytest

from albert_tf.errors import FlagError, InputError
from albert_tf.training import make_strategy


def test_a_process_has_one_strategy_of_a_name():
    assert make_strategy("mirrored") is make_strategy("mirrored", None)


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        (None, "the environment variable TF_CONFIG is not set; expected"),
        ("{worker", r"TF_CONFIG is not JSON \(.*\); expected"),
        ('["localhost:1"]', "TF_CONFIG does not name this task: "),
        ('{"cluster": {"worker": ["localhost:1"]}}', "TF_CONFIG does not name this task: "),
        (
            '{"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 1}}',
            "TF_CONFIG does not name this task: ",
        ),
    ],
)
def test_workers_that_tf_config_does_not_describe(monkeypatch, tf_config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if tf_config is not None:
        monkeypatch.setenv("TF_CONFIG", tf_config)
    with pytest.raises(InputError, match=message):
        make_strategy("multi_worker_mirrored")


def test_tpu_without_a_name():
    with pytest.raises(FlagError, match="expected --tpu; received none"):
        make_strategy("tpu")


def test_tpu_that_is_not_there():
    with pytest.raises(InputError, match="--tpu=local: there is no such TPU"):
        make_strategy("tpu", "local")
