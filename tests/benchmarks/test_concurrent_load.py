import pytest

from albert_tf.errors import FlagError
from benchmarks.concurrent_load import ConcurrentLoadOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": ("1", "0")}, "--clients: received '0'; expected a positive integer"),
        ({"rate": 0.0}, "--rate: received 0.0; expected a positive number"),
        ({"precisions": ("fp16",)}, "--precisions: received 'fp16'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(FlagError, match=message):
        ConcurrentLoadOptions(input_file="dev.tsv", spm_model_file="vocab.model", **options)
