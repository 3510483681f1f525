"""Each part against arrays that the original implementation computed."""

import pytest

from albert_tf.backends import BACKEND
from tests.helpers import assert_agrees, slow_except
from tests.parity.parts import PARTS

_OF_EVERY_BACKEND = ("encoder", "groups", "learning rates", "updates")


@pytest.mark.parametrize("part", slow_except(PARTS, *PARTS.keys() - {"training, adamw"}))
def test_equals_the_original(part):
    if BACKEND != "tensorflow" and not part.startswith(_OF_EVERY_BACKEND):
        pytest.skip("is the same everywhere, or compared by tests/test_backends.py")
    assert_agrees(PARTS[part]())
