"""The reference arrays and our variables, under the names that the original gives them."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

import keras
import numpy as np

from albert_tf.checkpoints.names import stored_as_original
from albert_tf.tokenization import AlbertTokenizer
from tests.helpers import shared_path


def read_json(relative: str) -> Any:
    """Reads a JSON file of the reference data."""
    return json.loads(shared_path(f"golden/{relative}").read_bytes())


@functools.cache
def official_tokenizer(lower_case: bool = True) -> AlbertTokenizer:
    """Returns a tokenizer with the published vocabulary."""
    return AlbertTokenizer(str(shared_path("data/sentencepiece/30k-clean.model")), lower_case)


def without_normalization():
    """Returns a context in which tokenizers take text as it is."""
    name = "albert_tf.tokenization.sentencepiece_tokenizer.normalize_text"
    return mock.patch(name, lambda text, *_: text)


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
