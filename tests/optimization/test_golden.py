"""Learning rates and optimizer runs against those of the original implementation."""

import pytest

from tests.helpers import assert_agrees, shared_path, slow_except
from tests.parity.optimizers import (
    OPTIMIZERS,
    SCHEDULES,
    compare_schedule,
    compare_training,
    compare_updates,
)


@pytest.mark.parametrize("name", SCHEDULES)
def test_learning_rates(name):
    assert_agrees(compare_schedule(shared_path("golden"), name))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_variables_and_moments_after_given_gradients(name):
    assert_agrees(compare_updates(shared_path("golden"), name))


@pytest.mark.parametrize("name", slow_except(OPTIMIZERS, "lamb"))
def test_losses_and_variables_along_a_training(name):
    assert_agrees(compare_training(shared_path("golden"), name))
