"""Files of named arrays, in the format of https://github.com/huggingface/safetensors."""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import safetensors
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError

_DTYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(tf.bfloat16.as_numpy_dtype),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
}
FLOATS = ("F64", "F32", "F16", "BF16")
# The end of the names of tensors that only count positions, in old files of others.
IGNORED = ".position_ids"
# The key of the metadata that holds the SHA-256 of the arrays.
_SHA256 = "sha256"


def write_tensors(path: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name, atomically and sequentially, with their SHA-256 as metadata."""
    arrays = {name: np.asarray(tensor, order="C") for name, tensor in sorted(tensors.items())}
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header: dict[str, dict[str, Any]]
    header, end = {"__metadata__": {"format": "pt", _SHA256: _digest(arrays)}}, 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": names[array.dtype],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with files.write_atomically(path) as incomplete, files.open_file(incomplete, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for array in arrays.values():
            file.write(array.tobytes())


def read_tensors(path: str, dtypes: Collection[str] = tuple(_DTYPES)) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by name.

    Raises:
        InputError: the file is damaged, or has an array of a type that is not one of `dtypes`.
    """
    content = files.read_bytes(path)
    try:
        stored = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        found = files.describe_file(path)
        begins = f"; it begins like {found}" if found else ""
        raise InputError(f"{path}: the file is damaged: {error}{begins}") from error
    size = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + size]).get("__metadata__") or {}
    tensors = {}
    for name, tensor in stored:
        if name.endswith(IGNORED):
            continue
        if tensor["dtype"] not in dtypes:
            raise InputError(
                f"{path}: '{name}' is of type {tensor['dtype']}; expected {', '.join(dtypes)}"
            )
        values = np.frombuffer(tensor["data"], _DTYPES[tensor["dtype"]])
        tensors[name] = values.reshape(tensor["shape"])
    if _SHA256 in metadata and metadata[_SHA256] != _digest(tensors):
        raise InputError(f"{path}: the file is damaged: its arrays have another SHA-256")
    return tensors


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
