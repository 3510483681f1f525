"""Which inputs the models take, and how others are refused.

Of a batch a model sees the features that its `INPUTS` names; the others are labels, which the loss reads.
A label is among the inputs, too, if a model computes with it. So the end of an answer depends on the true
start in training, and a model that replaces masked pieces by its own guesses needs the mask of the
predictions. Such an input is not exported, because texts to answer do not have it, and only a model that
answers none requires it. All inputs are integers: Keras casts a mask of floats, such as
`masked_lm_weights`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.errors import InputError

# Features of batches that are not inputs of every model. A model ignores those that it does not use, so a
# batch can be passed with its labels.
_FEATURES = frozenset(
    {
        "end_positions",
        "is_impossible",
        "label_ids",
        "masked_lm_ids",
        "masked_lm_positions",
        "masked_lm_weights",
        "next_sentence_labels",
        "start_positions",
        "token_boundary",
    }
)

# Hints for the names that Hugging Face, KerasHub and TF Hub use.
_HINTS = {
    "attention_mask": "expected input_mask",
    "input_type_ids": "expected segment_ids",
    "input_word_ids": "expected input_ids",
    "labels": "labels are passed as y",
    "mask_positions": "expected masked_lm_positions",
    "padding_mask": "expected input_mask",
    "position_ids": "leave it out, positions count from 0",
    "token_ids": "expected input_ids",
    "token_type_ids": "expected segment_ids",
}

# Prefixes of dtypes. All are cast to integers. Keras builds models around ours with inputs of float32;
# floats of 16 bits have rounded the ids.
_IDS = ("int", "uint", "float32", "float64")
_MASKS = ("int", "uint", "bool", "float", "bfloat")


class Input(NamedTuple):
    """One input of a model.

    Attributes:
        axes: a letter per axis, T for the tokens of a batch.
        required: whether every call has it.
        exported: whether an exported model has it; a label is not exported.
    """

    axes: str
    required: bool = False
    exported: bool = True


def check_inputs(
    inputs: Mapping[str, keras.KerasTensor], expected_inputs: Mapping[str, Input], max_length: int
) -> None:
    """Checks names, shapes and dtypes of the inputs of a model, whose longest sequence is given."""
    takes = ", ".join(expected_inputs)
    if not isinstance(inputs, Mapping):
        raise InputError(f"expected a dictionary of {takes}; received {_describe(inputs)}")
    unknown = [
        f"{name} ({_HINTS[name]})" if name in _HINTS else str(name)
        for name in inputs
        if name not in expected_inputs and name not in _FEATURES
    ]
    if unknown:
        raise InputError(f"unknown input {', '.join(unknown)}; the inputs are {takes}")
    sizes: dict[str, int] = {}
    for name, expected in expected_inputs.items():
        if inputs.get(name) is not None:
            _check_array(name, value=inputs[name], axes=expected.axes, sizes=sizes)
        elif expected.required:
            raise InputError(f"{name} is missing; received {', '.join(inputs)}")
    if sizes.get("S", 0) > max_length:
        raise InputError(
            f"sequence length {sizes['S']} is greater than max_position_embeddings {max_length}"
        )


def _check_array(name: str, value, axes: str, sizes: dict[str, int]) -> None:
    """Checks one input, and adds the sizes of its axes to `sizes`."""
    dtypes = _MASKS if name == "input_mask" else _IDS
    shape = _static_shape(value, len(axes))
    known = {axis: size for axis, size in zip(axes, shape, strict=False) if size is not None}
    if (
        not _dtype(value).startswith(dtypes)
        or len(shape) != len(axes)
        or any(size != sizes.get(axis, size) for axis, size in known.items())
    ):
        letters = ", ".join(f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in axes)
        raise InputError(f"{name}: expected int ({letters}), received {_describe(value)}")
    sizes |= known


def as_arrays(data):
    """Returns arrays for lists, which Keras does not take, and anything else as it is."""
    if isinstance(data, Mapping):
        return {name: as_arrays(values) for name, values in data.items()}
    if not isinstance(data, list) or any(hasattr(value, "shape") for value in data):
        return data
    try:
        return np.asarray(data)
    except ValueError as error:
        raise InputError("lists have different lengths; albert_tf.Preprocessor pads") from error


def _dtype(value) -> str:
    """Returns the dtype of a dense array or tensor, "" for anything else."""
    is_ragged = hasattr(value, "row_splits")
    dtype = "" if is_ragged else getattr(value, "dtype", "")
    # PyTorch's are no strings and have no name.
    return getattr(dtype, "name", str(dtype).removeprefix("torch."))


def _static_shape(value, rank: int) -> tuple[int | None, ...]:
    """Returns the static shape; in a graph even the rank may be unknown, and JAX has symbols."""
    shape = getattr(value, "shape", ())
    if getattr(shape, "rank", rank) is None:
        return (None,) * rank
    return tuple(size if isinstance(size, int) else None for size in shape)


def _describe(value) -> str:
    dtype = _dtype(value)
    return f"{dtype} {value.shape}" if dtype else type(value).__name__
