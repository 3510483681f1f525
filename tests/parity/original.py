"""The reference arrays and our variables, under the names that the original gives them."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from albert_tf.checkpoints.names import stored_as_original


def read_json(path: pathlib.Path) -> Any:
    """Reads a JSON file of the reference data."""
    return json.loads(path.read_bytes())


def by_original_name(
    variables: Iterable[keras.Variable], values: Iterable[Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields a variable's name in the original, and a value of its shape turned as it is there."""
    for variable, value in zip(variables, values, strict=True):
        stored = stored_as_original(variable.path)
        array = keras.ops.convert_to_numpy(value)
        yield str(stored), array.T if stored.transposed else array


def assign_by_original_name(model: keras.Model, values: Mapping[str, np.ndarray]) -> None:
    """Sets every weight of a model to the value under its name in the original."""
    for variable in model.weights:
        stored = stored_as_original(variable.path)
        value = values[str(stored)]
        variable.assign(value.T if stored.transposed else value)
