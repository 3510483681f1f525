"""What the forms for other runtimes have in common: their packages, and running them in a graph."""

import contextlib
import importlib.util
import logging
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.saved_models.ids_model import INPUTS

# Modules that write a form. The extra of this package that installs them has the name of the form.
_MODULES = {
    "onnx": ("onnx", "onnxruntime", "tf2onnx"),
    "openvino": ("nncf", "openvino", "openvino_tokenizers"),
}

Arrays = Mapping[str, np.ndarray]
# Maps `input_ids`, `input_mask` and `segment_ids` to predictions.
Run = Callable[[Arrays], Arrays]
Predict = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


def check_packages(form: str) -> None:
    """Checks that the packages that write a form are installed, without importing them.

    Raises:
        InputError: one of them is missing.
    """
    missing = [name for name in _MODULES.get(form, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"needs {', '.join(missing)}, which cannot be imported: pip install 'albert-tf[{form}]'"
        )


def in_graph(run: Run, signature: tf.types.experimental.ConcreteFunction) -> Predict:
    """Returns a runtime's predictions as a function of tensors.

    Args:
        run: runs the file.
        signature: of the `UncheckedModel` that the file was made of.

    Returns:
        A function from a batch with `INPUTS` to the predictions by name, without strings.
    """
    specs = {
        name: spec for name, spec in signature.structured_outputs.items() if spec.dtype != tf.string
    }

    def run_arrays(*inputs):
        outputs = run(dict(zip(INPUTS, inputs, strict=True)))
        return [
            outputs[name].astype(spec.dtype.as_numpy_dtype, copy=False)
            for name, spec in specs.items()
        ]

    def predict(batch):
        inputs = [batch[name] for name in INPUTS]
        outputs = tf.numpy_function(run_arrays, inputs, [spec.dtype for spec in specs.values()])
        return {
            name: tf.ensure_shape(values, spec.shape)
            for (name, spec), values in zip(specs.items(), outputs, strict=True)
        }

    return predict


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides the warnings of converters, which are about their own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
