"""Finds, opens, checks and writes checkpoints: arrays by name, of which a model's variables are made."""

import dataclasses
import difflib
import functools
import itertools
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.safetensors_files import read_tensors
from albert_tf.config import AlbertConfig, padded_sizes
from albert_tf.errors import InputError, warn
from albert_tf.options.models import FormatName

Variables = Mapping[str, keras.Variable]

# Suffixes of the files of a checkpoint of TensorFlow. The index makes it complete.
_INDEX, _DATA = ".index", ".data-00000-of-00001"
_HUB_PREFIX = os.path.join("variables", "variables")  # in the folder of a module of TensorFlow Hub
# Ends of the paths of variables with a row for each piece.
PIECE_TABLES = ("/word_embeddings", "/output_bias")
# What follows the prefix in a file name; TensorFlow 1 also writes a `.meta`.
_FILE_END = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


@dataclasses.dataclass(frozen=True)
class Stored:
    """How a checkpoint stores one variable.

    A variable may be the matrix product of several tensors, or a tensor's transpose.
    """

    names: tuple[str, ...]
    transposed: bool = False

    def __str__(self):
        return " x ".join(self.names)


# Maps a variable's path to how a checkpoint stores it.
Layout = Callable[[str], Stored]


def stored_by_path(path: str) -> Stored:
    """Returns how our own files store a variable."""
    return Stored((path,))


# Variables that Keras adds to a layer whose kernel no longer is its weight.
_CHANGED_LAYER_NAMES = ("/lora_kernel_a", "/kernel_scale")


def variables_by_path(variables: Sequence[keras.Variable]) -> dict[str, keras.Variable]:
    """Returns variables by path."""
    by_path = {variable.path: variable for variable in variables}
    for path in by_path:
        if path.endswith(_CHANGED_LAYER_NAMES):
            raise InputError(
                f"{path}: layers with LoRA or quantize() have no checkpoint; load one before; "
                "`model.save` merges LoRA, and `keras.models.load_model` reads its file without it"
            )
    if len(by_path) != len(variables):
        raise InputError("two variables have the same path; give the layers different names")
    return by_path


class TensorReader:
    """Reads a model's variables from files of a format, by default ours, which name them by path.

    Attributes:
        format_name: the format's name; several formats are Hugging Face's.
        description: the format's name in messages.
        encoder_prefixes: prefixes of the names of the encoder's weights.
        head_names: names of the layers of heads, or of their weights.
        sha256: see `albert_tf.checkpoints.loading.LoadReport`.
        layout: how the files store a variable.
        prefix: what the files' names begin with, or their folder.
        shapes: shapes of the tensors by name.
    """

    format_name: FormatName = "albert_tf"
    description: str = "albert_tf"
    encoder_prefixes: tuple[str, ...] = ()
    head_names: tuple[str, ...] = ()
    sha256: Mapping[str, str] = types.MappingProxyType({})
    layout: Layout = staticmethod(stored_by_path)

    def __init__(
        self,
        prefix: str,
        tensors: Mapping[str, np.ndarray],
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ):
        self.prefix = prefix
        self._tensors = tensors
        self.shapes = shapes or {name: tensor.shape for name, tensor in tensors.items()}
        if not self.shapes:
            raise InputError(f"{prefix}: holds no tensor")

    def _get(self, name: str) -> np.ndarray:
        """Returns a tensor; raises an `InputError` if it is damaged."""
        return self._tensors[name]

    def adapted_config(self, config: AlbertConfig) -> AlbertConfig:
        """Returns our config of the same model, given the one that comes with the files."""
        return config

    def check_config(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if the files cannot be a model of a config; ours can be of any."""
        del config

    def is_no_weight(self, name: str) -> bool:
        """Returns whether a name is the optimizer's."""
        # Keras joins the path of a slot's variable with `_`, so an optimizer's paths have two parts.
        return name.count("/") == 1

    def is_of_head(self, name: str) -> bool:
        """Returns whether a name is that of a weight of a head, of this model or of another."""
        return name in self.head_names or re.sub("[./][^./]+$", "", name) in self.head_names

    def may_lack(self, path: str) -> bool:
        """Returns whether a path belongs to a part of the encoder that the files may lack."""
        return False

    def holds(self, path: str) -> bool:
        """Returns whether all tensors of a variable are present."""
        return all(name in self.shapes for name in self.layout(path).names)

    def shape(self, stored: Stored) -> tuple[int, ...]:
        """Returns the shape of a variable, given the shapes of its tensors."""
        first, last = self.shapes[stored.names[0]], self.shapes[stored.names[-1]]
        shape = first if len(stored.names) == 1 else (*first[:-1], *last[1:])
        return shape[::-1] if stored.transposed else shape

    def read(self, stored: Stored) -> np.ndarray:
        """Returns the value of a variable; raises an `InputError` if the checkpoint is damaged."""
        tensors = [self._get(name) for name in stored.names]
        if len(tensors) > 1:
            # Computed in float64 and rounded once.
            product = functools.reduce(np.matmul, (tensor.astype(np.float64) for tensor in tensors))
            tensors = [product.astype(tensors[0].dtype)]
        return tensors[0].T if stored.transposed else tensors[0]

    def read_all(self, variables: Variables) -> dict[str, np.ndarray]:
        """Returns the values of variables, both by path."""
        for path, variable in variables.items():
            self._check(path, tuple(variable.shape), self.layout(path))
        values = {path: self.read(self.layout(path)) for path in variables}
        for path, value in values.items():
            if value.shape != tuple(variables[path].shape):
                rows = variables[path].shape[0]
                warn(
                    f"{self.prefix}: '{self.layout(path)}' has {len(value)} rows for {rows} pieces; the "
                    "last ones are padding and left out"
                )
                values[path] = value[:rows]
            theirs, ours = tf.as_dtype(value.dtype), tf.as_dtype(variables[path].dtype)
            if theirs.is_floating != ours.is_floating:
                raise InputError(
                    f"{self.prefix}: '{self.layout(path)}' is of type {theirs.name}; the model's "
                    f"'{path}' is {ours.name}"
                )
            if theirs.is_floating and not np.isfinite(value).all():
                raise InputError(
                    f"{self.prefix}: '{self.layout(path)}' holds a number that is not finite"
                )
        return values

    def _check(self, path: str, shape: tuple[int, ...], stored: Stored) -> None:
        ours = f"the model's '{path}' has shape {shape}"
        for name in stored.names:
            if name not in self.shapes:
                near = difflib.get_close_matches(name, self.shapes, n=1, cutoff=0.0)
                raise InputError(
                    f"{self.prefix}: '{name}' is not in it; {ours}; the closest in it "
                    f"is '{near[0]}' of shape {self.shapes[near[0]]}"
                )
        sizes = [self.shapes[name] for name in stored.names]
        is_product = all(
            size[-1:] == next_size[:1] for size, next_size in itertools.pairwise(sizes)
        )
        received = self.shape(stored)
        fitting = [shape]
        if path.endswith(PIECE_TABLES):
            fitting = [(rows, *shape[1:]) for rows in padded_sizes(shape[0])]
        if received not in fitting or not is_product:
            theirs = " x ".join(map(str, sizes))
            turned = ", transposed" if stored.transposed else ""
            raise InputError(f"{self.prefix}: '{stored}' has shape {theirs}{turned}; {ours}")


def open_tensors(prefix: str) -> Any:
    """Opens a checkpoint with TensorFlow's reader, given the prefix of its files."""
    files.refuse_for_tensorflow(prefix)
    try:
        return tf.train.load_checkpoint(prefix)
    except tf.errors.NotFoundError as error:
        raise InputError(f"{prefix}: there is no such checkpoint") from error
    except _DAMAGES as error:
        if not files.exists(prefix + _INDEX):
            raise InputError(
                f"{prefix}: a file of another format than a checkpoint of TensorFlow; expected a folder "
                "with a model, such as albert_tf.conversion.save_model writes"
            ) from error
        raise _damaged(prefix, error) from error


class StateReader(TensorReader):
    """Reads the state of a run: its model's variables, and the optimizer's."""

    description = "albert_tf, state of a run"

    def __init__(self, path: str):
        super().__init__(path, read_tensors(path))


def strip_scope(name: str) -> str:
    """Returns a variable's name without the scope that TensorFlow Hub's modules put before it."""
    return name.removeprefix("module/")


class CheckpointReader(TensorReader):
    """Reads a checkpoint of TensorFlow, given what `open_tensors` returns."""

    def __init__(self, prefix: str, checkpoint: Any):
        self._checkpoint = checkpoint
        sizes = checkpoint.get_variable_to_shape_map()
        self._names = {strip_scope(name): name for name in sizes}
        shapes = {name: tuple(sizes[full]) for name, full in self._names.items()}
        super().__init__(prefix, {}, shapes)

    def _get(self, name: str) -> np.ndarray:
        try:
            return self._checkpoint.get_tensor(self._names[name])
        except _DAMAGES as error:
            raise _damaged(self.prefix, error) from error


def _damaged(prefix: str, error: Exception) -> InputError:
    folder, name = os.path.split(prefix)
    for path in files.matches(folder, f"{files.escape(name)}.*"):
        files.refuse_packed(path)
    return InputError(f"{prefix}: the checkpoint is damaged: {files.reason(error)}")


# What TensorFlow's reader raises for damaged files.
_DAMAGES = (tf.errors.OpError, IndexError, RuntimeError, ValueError)


def assign(variables: Variables, values: Mapping[str, np.ndarray]) -> None:
    """Assigns values to variables, both by path."""
    for path, variable in variables.items():
        variable.assign(values[path])


def stored_names(paths: Iterable[str], layout: Layout) -> dict[str, Stored]:
    """Returns how a checkpoint stores the variables of a model, by path.

    Raises:
        InputError: it has no name for one of them, or one name for two.
    """
    found = {path: layout(path) for path in paths}
    owners: dict[str, str] = {}
    for path, stored in found.items():
        owner = owners.setdefault(str(stored), path)
        if owner != path:
            raise InputError(
                f"'{path}': would be stored as '{stored}', as '{owner}' is; a second encoder needs a "
                "model class of its own, whose variables are stored by their paths"
            )
    return found


def tensors_of(variables: Variables, layout: Layout) -> dict[str, np.ndarray]:
    """Returns the tensors that a checkpoint stores for variables, by its names.

    The layout has no products, which cannot be undone.
    """
    tensors = {}
    for path, stored in stored_names(variables, layout).items():
        (name,) = stored.names
        value = np.asarray(variables[path])
        tensors[name] = value.T if stored.transposed else value
    return tensors


def find_checkpoint(path: str) -> str:
    """Returns the prefix of TensorFlow's checkpoint at a path: a prefix, a file with it, or a folder.

    Of a folder it is the one that the file `checkpoint` says is the latest or, without that file (as in
    the archives of published models), its only one; of a module of TensorFlow Hub that of its variables.
    """
    if not files.is_folder(path):
        return _FILE_END.sub("", path)
    files.refuse_for_tensorflow(path)
    try:
        if latest := tf.train.latest_checkpoint(path):
            return latest
    except ValueError:  # the file is empty, or not text
        pass
    in_module = os.path.join(path, _HUB_PREFIX)
    if files.exists(in_module + _INDEX):
        return in_module
    indices = files.matches(path, f"*{_INDEX}")
    if not indices:
        raise InputError(f"{path}: the folder holds no model")
    if len(indices) > 1:
        names = ", ".join(os.path.basename(index).removesuffix(_INDEX) for index in indices)
        raise InputError(f"{path}: holds several checkpoints ({names}); name one of them")
    return indices[0].removesuffix(_INDEX)


def checkpoint_paths(prefix: str) -> tuple[str, str]:
    """Returns the files that `write_checkpoint` writes. It is complete with the index file."""
    return prefix + _DATA, prefix + _INDEX


def write_checkpoint(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes tensors by name; the checkpoint's index, which makes it complete, appears last."""
    files.refuse_for_tensorflow(prefix)
    names = sorted(tensors)
    with files.write_together(checkpoint_paths(prefix)) as folder:
        tf.raw_ops.SaveV2(
            prefix=os.path.join(folder, os.path.basename(prefix)),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tensors[name] for name in names],
        )
