"""The SavedModels that map ids and raw text to predictions, and an exported one in place of its model.

Their modules track the raw variables of the model, not the model: TensorFlow Serving's loader does not
restore variables that it only reaches through a Keras 3 model, and tracking both would write each weight
twice.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.loading import read_config
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.exported_weights import float32_model, make_exported_weights, reading
from albert_tf.export.input_assertions import check_ids, check_rows
from albert_tf.export.version_folders import assets_folder, check_saved_model
from albert_tf.model_folder import CONFIG_FILE
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.in_graph import import_tensorflow_text, make_graph_tokenizer

# Names of signatures.
SERVING, PAIRS = "serving_default", "pairs"

INPUTS = ("input_ids", "input_mask", "segment_ids")

# 32 sequences of 512 tokens: their attention scores take 400 MB in ALBERT-base.
SEQUENCES_PER_SLICE = 32


def input_specs(signature: tf.types.experimental.ConcreteFunction) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a signature by name; only a loaded one has all of them as keywords."""
    specs = tf.nest.flatten(signature.structured_input_signature)
    return {spec.name: spec for spec in specs if spec is not None}


def ids_specs(kind: Any) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a kind's ids model: int32 (B, S) each, or (B, C, S) with choices."""
    choices = [] if kind.num_choices is None else [kind.num_choices]
    return {name: tf.TensorSpec([None, *choices, None], tf.int32, name) for name in INPUTS}


def text_specs(kind: Any, names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a kind's text model: string (B,) each, or (B, C) for `options`."""
    shapes = {"options": (None, kind.num_choices)}
    return {name: tf.TensorSpec(shapes.get(name, (None,)), tf.string, name) for name in names}


def trace(function: Callable, **specs: tf.TensorSpec) -> tf.types.experimental.ConcreteFunction:
    """Traces a function once, without AutoGraph: its Python code has no conditions on tensors.

    A SavedModel keeps the trace as it is. It would trace a `tf.function` again, and keep both.
    """
    return tf.function(function, autograph=False).get_concrete_function(**specs)


class IdsModel(tf.Module):
    """Maps ids to predictions; its SavedModel needs TensorFlow alone."""

    def __init__(self, model: keras.Model, kind: Any):
        super().__init__()
        self.weights = make_exported_weights(model)

        # The closures keep the Keras model out of what the module tracks.
        def predict(input_ids, input_mask, segment_ids):
            """Maps int32 (B, S) each, or (B, C, S) with choices, to predictions."""
            named = dict(zip(INPUTS, (input_ids, input_mask, segment_ids), strict=True))
            inputs = dict(zip(INPUTS, check_ids(named, model.encoder.config), strict=True))
            with reading(model, self.weights):
                return kind.outputs(model(inputs, training=False))

        self.predict = self.serve = trace(predict, **ids_specs(kind))
        self.served = {SERVING: self.serve}


class TextModel(tf.Module):
    """Maps raw text to predictions; its SavedModel needs TensorFlow Text's operators.

    Texts are split, truncated and joined as in training. `served` has one with the texts of each
    example and, if examples may have more, `pairs` with these, too. `weights` are those of an `IdsModel`.
    """

    def __init__(
        self, model: keras.Model, kind: Any, tokenizer: Tokenizer, weights: Sequence[tf.Variable]
    ):
        super().__init__()
        self.weights = weights
        self.graph_tokenizer = make_graph_tokenizer(tokenizer)

        # The closures keep model and kind out of what the module tracks.
        def compute_tokens(inputs):
            return model(model.without_padding(inputs), training=False)

        def predict_unchecked(**inputs):
            """Like `predict` of an `IdsModel`, for ids that the caller's graph makes.

            Layers compute tokens only, so outputs at padding positions are undefined. `predict` computes
            all positions: XLA and other runtimes need shapes that do not depend on the mask, and some
            callers want the original's outputs at all positions.
            """
            with reading(model, self.weights):
                return kind.outputs(map_slices(compute_tokens, inputs))

        self.predict_unchecked = trace(predict_unchecked, **ids_specs(kind))

        def serve(names: Sequence[str]):
            specs = text_specs(kind, names)

            def predict(**texts):
                checked = check_rows(**{name: texts[name] for name in specs})
                named = dict(zip(specs, checked, strict=True))
                return kind.predict_texts(
                    self.predict_unchecked, tokenizer, self.graph_tokenizer, **named
                )

            return trace(predict, **specs)

        self.serve = serve(kind.texts)
        self.served = {SERVING: self.serve}
        if kind.optional_texts:
            self.served[PAIRS] = serve((*kind.texts, *kind.optional_texts))


class UncheckedModel(tf.Module):
    """Maps ids to predictions in float32, without the checks, which only TensorFlow can run.

    Converters to the forms of other runtimes read it. `predict` is a function from a model and its inputs
    to named outputs.
    """

    def __init__(
        self,
        model: keras.Model,
        predict: Callable[[keras.Model, Mapping[str, tf.Tensor]], dict[str, tf.Tensor]],
        specs: Mapping[str, tf.TensorSpec],
    ):
        super().__init__()
        model = float32_model(model)
        self.weights = [variable.value for variable in model.weights]

        # The closure keeps the Keras model out of what the module tracks.
        def serve(input_ids, input_mask, segment_ids):
            return predict(
                model, dict(zip(INPUTS, (input_ids, input_mask, segment_ids), strict=True))
            )

        self.serve = trace(serve, **specs)


def map_slices(
    function: Callable[[Mapping[str, tf.Tensor]], Any], inputs: Mapping[str, tf.Tensor]
) -> Any:
    """Applies a function to a few rows at a time, so that memory does not grow with the request.

    A request may have thousands of texts, or one text that becomes thousands of windows. A server that
    runs out of memory is killed together with everything that it serves.

    The function maps named tensors, int32 (B, S) or (B, C, S), to one tensor, or to several by name, with
    as many rows. Its result for a row does not depend on the other rows. The graph contains it once.
    """
    compute_slice = trace(
        lambda **rows: function(rows),
        **{
            name: tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype, name)
            for name, tensor in inputs.items()
        },
    )
    shape = tf.shape(next(iter(inputs.values())))
    size = tf.maximum(1, SEQUENCES_PER_SLICE // tf.maximum(1, tf.reduce_prod(shape[1:-1])))
    count = tf.maximum(1, -(-shape[0] // size))  # zero rows are one slice, too

    def add_slice(index, arrays):
        begin = index * size
        rows = {name: tensor[begin : begin + size] for name, tensor in inputs.items()}
        added = tf.nest.map_structure(
            lambda array, values: array.write(index, values), arrays, compute_slice(**rows)
        )
        return index + 1, added

    arrays = tf.nest.map_structure(
        lambda spec: tf.TensorArray(
            spec.dtype, count, infer_shape=False, element_shape=[None, *spec.shape[1:]]
        ),
        compute_slice.structured_outputs,
    )
    # Parallel iterations would need the memory of all slices.
    _, arrays = tf.while_loop(
        lambda index, _: index < count, add_slice, (0, arrays), parallel_iterations=1
    )
    return tf.nest.map_structure(lambda array: array.concat(), arrays)


class ExportedModel:
    """Maps a batch to what the original model returns.

    Args:
        saved_model_dir: folder of a version, of the ids or of the text model.
        read_outputs: maps the exported model's outputs to the original model's.
    """

    def __init__(
        self, saved_model_dir: str, read_outputs: Callable[[Mapping[str, tf.Tensor]], Any]
    ):
        check_saved_model(saved_model_dir)
        self._config_file = os.path.join(assets_folder(saved_model_dir), CONFIG_FILE)
        _import_operators(saved_model_dir)
        try:
            self._loaded = tf.saved_model.load(saved_model_dir)
        except Exception as error:  # a damaged file can raise anything, e.g. IndexError
            for path in files.matches(os.path.join(saved_model_dir, "variables"), "variables.*"):
                files.refuse_packed(path)
            raise InputError(
                f"{saved_model_dir}: cannot be loaded: {files.reason(error)}"
            ) from error
        # Only models of ids have `predict`.
        unchecked = getattr(self._loaded, "predict_unchecked", None)
        predict = getattr(self._loaded, "predict", unchecked)
        if predict is None:
            raise InputError(f"{saved_model_dir}: is not a model that this package exported")
        self._predict: Callable[..., Mapping[str, tf.Tensor]] = predict
        self._read_outputs = read_outputs

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """The encoder's config."""
        return read_config(self._config_file)

    def __call__(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> Any:
        """Returns the model's outputs, such as logits, for the inputs among some features.

        `training` is ignored; an exported model does not train.
        """
        return self._read_outputs(self._predict(**{name: batch[name] for name in INPUTS}))


def _import_operators(saved_model_dir: str) -> None:
    """Registers the operators of TensorFlow Text if the model is a text model, which alone needs them."""
    graph = files.read_bytes(os.path.join(saved_model_dir, "saved_model.pb"))
    if b"graph_tokenizer" in graph:
        import_tensorflow_text()
