"""The base class of all models: named, checked inputs, and the Keras protocol."""

import abc
import inspect
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np

from albert_tf.backends import BACKEND, require_tensorflow
from albert_tf.checkpoints.loading import load_stored
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError, name_place
from albert_tf.files import as_path
from albert_tf.models.inputs import Input, as_arrays, check_inputs

if BACKEND == "tensorflow":
    import tensorflow as tf


def _without_autograph(function: Callable) -> Callable:
    """Makes TensorFlow's graphs call a function as it is."""
    if BACKEND != "tensorflow":
        return function
    return tf.autograph.experimental.do_not_convert(function)


def _find_stored(preset: str) -> StoredModel:
    """Returns the stored model of a name, which needs a config."""
    try:
        stored = StoredModel.find(preset)
    except InputError as error:
        sizes = ", ".join(PRESETS)
        raise InputError(f"{error}; sizes, with random weights, are {sizes}") from error
    if stored.config_file is None:
        raise InputError("no config.json, albert_config.json or bert_config.json is there")
    return stored


class BaseModel(keras.Model, abc.ABC):
    """A model that takes a dictionary of int arrays.

    A subclass lists its inputs in `INPUTS` and ends its constructor with `self.build(self.input_shapes)`.

    Attributes:
        config: sizes of the encoder.
    """

    # The default name. Checkpoints store variables under it, whatever name a model has.
    NAME: ClassVar[str]
    INPUTS: ClassVar[dict[str, Input]]
    # Path of the bias of a head that has a number of classes.
    HEAD_BIAS: ClassVar[str | None] = None
    config: AlbertConfig

    def __init__(self, seed: int | None, **kwargs):
        super().__init__(**kwargs)
        if (dtype := self.dtype_policy.variable_dtype) in ("bfloat16", "float16"):
            raise InputError(f"dtype={dtype}: expected mixed_{dtype}, with variables in 32 bits")
        self.seed = seed
        # As Keras draws seeds, so that `keras.utils.set_random_seed` determines them.
        self._seeds = random.Random(random.getrandbits(31) if seed is None else seed)

    def _arguments_of(self, name: str) -> dict[str, Any]:
        """Returns what all layers are created with, each with a seed of its own."""
        return {
            "config": self.config,
            "seed": self._seeds.getrandbits(31),
            "name": name,
            "dtype": self.dtype_policy,
        }

    @classmethod
    def from_preset(
        cls,
        preset: str,
        reset_head: bool = False,
        num_hidden_layers: int | None = None,
        **kwargs,
    ) -> Self:
        """Makes a model of a published size, with random weights, or loads that of a folder.

        Args:
            preset: a size of `AlbertConfig.from_preset`, such as `base_v2`; or a model as for
                `albert_tf.load`, such as `small_en`: a name, or a folder with a checkpoint that
                `albert_tf.load_checkpoint` reads, and its config.
            reset_head: whether the head is a new one, whatever the folder holds.
            num_hidden_layers: number of layers, as for `albert_tf.load`.
            **kwargs: arguments of the constructor but for the encoder or its config, such as
                `num_classes` of a classifier, by default that of the folder's head.

        Returns:
            The model. If weights are initialised randomly, a warning names them: those of a size, and a
            head that the folder lacks.

        Raises:
            InputError: there is no such size or folder, or its checkpoint is of another model.
        """
        preset = as_path(preset)
        place = f"{cls.__name__}.from_preset({preset!r})"
        with name_place(place):
            if preset in PRESETS:
                config = AlbertConfig.from_preset(preset).with_layers(num_hidden_layers)
                model = cls.from_encoder_config(config, **kwargs)
                new: str | None = "a size without weights; all of them are initialised randomly"
            else:
                stored = _find_stored(preset)
                model, missing = cls._load_stored(stored, reset_head, num_hidden_layers, **kwargs)
                new = f"has no {', '.join(missing)}; initialised randomly" if missing else None
        if new:
            warnings.warn(f"{place}: {new}", stacklevel=2)
        return model

    @classmethod
    def _load_stored(
        cls, stored: StoredModel, reset_head: bool, num_hidden_layers: int | None, **kwargs
    ) -> tuple[Self, Sequence[str]]:
        """Makes and loads a stored model; also returns the paths of the variables that it lacks."""
        if cls.HEAD_BIAS is not None:
            given = kwargs.get("num_classes")
            kwargs["num_classes"] = cls._count_classes(stored, given, reset_head)
        config = stored.config.with_layers(num_hidden_layers)
        model = cls.from_encoder_config(config, **kwargs)
        part = getattr(model, "encoder", model) if reset_head else model
        return model, load_stored(part, stored).missing

    @classmethod
    def _count_classes(cls, stored: StoredModel, given: int | None, reset_head: bool) -> int:
        """Returns the number of classes that is given or, by default, that of a stored head."""
        assert cls.HEAD_BIAS is not None
        (number,) = stored.shape_of(cls.HEAD_BIAS) or (None,)
        if given is None:
            if number is None:
                raise InputError(
                    "num_classes: expected a number, as the folder holds no classifier"
                )
            return number
        if number is not None and given != number and not reset_head:
            raise InputError(
                f"num_classes={given}: the folder's head has {number}; reset_head=True initialises a "
                "new head"
            )
        return given

    @classmethod
    @abc.abstractmethod
    def from_encoder_config(cls, config: AlbertConfig, **kwargs) -> Self:
        """Makes the model with a new encoder.

        Args:
            config: config of the encoder.
            **kwargs: the other arguments of the constructor; `dtype` is the encoder's, too.
        """

    @property
    def input_shapes(self) -> dict[str, tuple[None, ...]]:
        """Shapes of the inputs of an exported model, with free axes."""
        return {
            name: (None,) * len(expected.axes)
            for name, expected in self.INPUTS.items()
            if expected.exported
        }

    @property
    def input_dtype(self) -> str:
        """The dtype of the inputs of an exported model, to which Keras casts float inputs."""
        return "int32"

    def without_padding(
        self, inputs: Mapping[str, keras.KerasTensor]
    ) -> Mapping[str, keras.KerasTensor]:
        """Adds `token_positions` to inputs of TensorFlow, so that blocks compute tokens alone.

        `input_mask`, int (..., S), is 0 for padding.
        """
        mask = inputs["input_mask"]
        # [CLS] counts even if the caller masks a whole sequence.
        is_token = (mask > 0) | (tf.range(tf.shape(mask)[-1]) == 0)
        positions = tf.where(tf.reshape(is_token, [-1]))[:, 0]  # (T,)
        return {**inputs, "token_positions": tf.cast(positions, tf.int32)}

    def build(self, input_shape=None):
        """Creates all variables, which do not depend on `input_shape`."""
        if not self.built:
            self._build_layers()
            self.built = True
            # Without it, `trainable=False` of a saved model would not reach its layers.
            for layer in () if self.trainable else self.layers:
                layer.trainable = False

    def _build_layers(self) -> None:
        """Creates the variables of all layers that have some."""

    @_without_autograph
    def __call__(self, inputs, *args, **kwargs):
        """Checks the inputs and calls the model.

        Raises:
            InputError: an input is unknown or missing, or has another shape or dtype than expected.
        """
        # Not in `call`, where Keras would add a description of all arguments to the message.
        with name_place(type(self).__name__):
            check_inputs(inputs, self.INPUTS, self.config.max_position_embeddings)
        inputs = {name: value for name, value in inputs.items() if value is not None}
        return super().__call__(inputs, *args, **kwargs)

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Trains like `keras.Model.fit`. Arrays in `x` and `y` may be lists of numbers."""
        return super().fit(self._as_arrays(x), as_arrays(y), *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluates like `keras.Model.evaluate`. Arrays in `x` and `y` may be lists of numbers."""
        return super().evaluate(self._as_arrays(x), as_arrays(y), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Predicts like `keras.Model.predict`. Arrays in `x` may be lists of numbers."""
        return super().predict(self._as_arrays(x), *args, **kwargs)

    def _as_arrays(self, x):
        x = as_arrays(x)
        if isinstance(x, np.ndarray) and x.dtype.kind in "OUS":
            raise InputError(
                f"{type(self).__name__}: expected a dictionary of {', '.join(self.INPUTS)}; received "
                "texts, which albert_tf.Preprocessor turns into one"
            )
        return x

    def compute_output_shape(self, input_shape):
        """Returns the shapes of the outputs, in their structure.

        Args:
            input_shape: shape of each input by name, or only that of `input_ids`.
        """
        if not isinstance(input_shape, Mapping):
            input_shape = {"input_ids": input_shape}
        inputs = {name: keras.KerasTensor(shape, "int32") for name, shape in input_shape.items()}
        return keras.tree.map_structure(
            lambda output: output.shape, self.compute_output_spec(inputs)
        )

    # Traces `call`: from shapes alone Keras would give all outputs the dtype of the policy.
    compute_output_spec = keras.Operation.compute_output_spec

    def export(
        self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs
    ):
        """Exports the model like `keras.Model.export`, even if it has not been called.

        Without `input_signature` the exported model has the inputs of `input_shapes` by name, int32, of
        any batch size and length. Its outputs have names too; a single tensor is named `logits`. Lists
        of outputs are left out, because a signature cannot hold them.

        Raises:
            InputError: Keras has another backend than TensorFlow.
        """
        require_tensorflow(f"{type(self).__name__}.export")
        (specs,) = input_signature or [
            {
                name: keras.InputSpec(dtype=self.input_dtype, shape=shape)
                for name, shape in self.input_shapes.items()
            }
        ]
        # Sorted, as TensorFlow sorts them: OpenVINO's exporter names the inputs in this order.
        signature = {
            name: keras.InputSpec(dtype=spec.dtype, shape=spec.shape, name=name)
            for name, spec in sorted(specs.items())
        }
        inputs = {
            name: keras.Input(batch_shape=spec.shape, dtype=spec.dtype, name=name)
            for name, spec in signature.items()
        }
        outputs = self(inputs)
        if not isinstance(outputs, dict):
            outputs = {"logits": outputs}
        outputs = {name: x for name, x in outputs.items() if not isinstance(x, list)}
        keras.Model(inputs, outputs).export(filepath, format, verbose, [signature], **kwargs)

    def get_config(self):
        """Returns the arguments of the constructor, which are attributes of the model.

        Raises:
            InputError: a layer is quantized, which the configuration would not tell.
        """
        if any(weight.name == "kernel_scale" for weight in self.weights):
            raise InputError(
                f"{type(self).__name__}: a quantized model cannot be saved; save it before `quantize`"
            )
        arguments = {
            name: getattr(self, name)
            for name in inspect.signature(type(self)).parameters
            if name not in ("name", "kwargs")
        }
        return {**super().get_config(), **arguments}
