"""What several tests need."""

import pathlib

import pytest

SHARED = pathlib.Path(__file__).parents[2] / "shared"


def shared_path(relative: str) -> pathlib.Path:
    """Returns a file or folder of the reference data beside the checkout, or skips the test."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"needs reference data that is not here: shared/{relative}")
    return path
