"""The Keras layer that turns texts into the inputs of a model."""

import base64
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Literal, get_args

import keras
import tensorflow as tf
from keras import ops

from albert_tf import files
from albert_tf.backends import BACKEND, require_tensorflow
from albert_tf.errors import InputError
from albert_tf.tokenization import AlbertTokenizer, Tokenizer, WordPieceTokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.interface import check_tokenizer
from albert_tf.tokenization.packing import check_max_seq_length, encode_in_graph

Padding = Literal["longest", "max_length"]

_TOKENIZERS = {
    tokenizer_class.__name__: tokenizer_class
    for tokenizer_class in (AlbertTokenizer, WordPieceTokenizer)
}


@keras.saving.register_keras_serializable(package="albert_tf")
class Preprocessor(keras.layers.Layer):
    """Maps texts, or pairs of texts, to the inputs of a model.

    A text becomes `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]`. A single text keeps its front. In a
    pair the longer text is truncated, or the second if both are equally long. An empty second text makes
    no pair. The ids are those of fine-tuning and of exported text models.

    The layer takes Python strings and string tensors, works in `tf.data.Dataset.map` and in saved models,
    and keeps its vocabulary in `.keras` files. It needs TensorFlow Text. Inside a model it needs the
    TensorFlow backend.

    Args:
        tokenizer: an `AlbertTokenizer` or a `WordPieceTokenizer`.
        max_seq_length: maximum number of tokens, special tokens included; at least 5.
        padding: `longest` pads to the longest text of the batch, `max_length` to `max_seq_length`, which
            single texts need before `tf.data.Dataset.batch`.

    Raises:
        InputError: an argument is not as expected, or TensorFlow Text is not installed.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_seq_length: int,
        padding: Padding = "longest",
        name: str = "preprocessor",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        check_tokenizer(tokenizer)
        check_max_seq_length(max_seq_length, 5, "[CLS] a [SEP] b [SEP]")
        if padding not in get_args(Padding):
            raise InputError(f"padding={padding!r}: expected {' or '.join(get_args(Padding))}")
        # Config
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.padding = padding

        # Strings are no input of XLA.
        self.supports_jit = False
        self.graph_tokenizer = make_graph_tokenizer(tokenizer)
        in_graph = tf.function(self._preprocess, autograph=False, reduce_retracing=True)
        # A plain function, so that saved models do not hold the graphs of eager calls.
        self._preprocess_eagerly = lambda *texts: in_graph(*texts)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, text_a, text_b=None, **kwargs):
        """Checks the texts and calls the layer.

        Pairs may also come in one argument: a tuple of two batches, or a dictionary with the keys
        `text_a` and `text_b`, as `tf.data` has them.

        Raises:
            InputError: they are not strings, or there are more of one kind than of the other.
        """
        if text_b is None:
            text_a, text_b = _as_pair(text_a)
        texts = [_as_strings("text_a", text_a)]
        if text_b is not None:
            texts.append(_as_strings("text_b", text_b))
            if not tf.TensorShape(texts[0].shape).is_compatible_with(texts[1].shape):
                raise InputError(
                    "Preprocessor: expected as many text_b as text_a; received "
                    f"{texts[1].shape} and {texts[0].shape}"
                )
        if BACKEND == "tensorflow":
            return super().__call__(*texts, **kwargs)
        if any(isinstance(text, keras.KerasTensor) for text in texts):
            require_tensorflow("Preprocessor in a model")
        inputs = self.call(*texts)
        if not tf.executing_eagerly():  # in `tf.data.Dataset.map`
            return inputs
        return {name: ops.convert_to_tensor(ids.numpy()) for name, ids in inputs.items()}

    def call(self, text_a, text_b=None):
        """Maps texts to ids.

        Args:
            text_a: strings (B,), or a single string (); malformed UTF-8 becomes U+FFFD.
            text_b: as many second texts; None if there are no pairs.

        Returns:
            `input_ids`, `input_mask` (1 for a token, 0 for padding) and `segment_ids`, int32 (B, S), of a
            single text (S,).
        """
        is_batch = len(text_a.shape) == 1
        texts = [tf.reshape(text, [-1]) for text in (text_a, text_b) if text is not None]
        # Operation by operation, tokenizing takes much longer.
        eagerly = tf.executing_eagerly()
        inputs = (self._preprocess_eagerly if eagerly else self._preprocess)(*texts)
        return inputs if is_batch else {name: ids[0] for name, ids in inputs.items()}

    def _preprocess(self, text_a: tf.Tensor, text_b: tf.Tensor | None = None):
        """Maps strings (B,) to the outputs of `call`."""
        inputs = encode_in_graph(
            tokenizer=self.graph_tokenizer,
            text_a=text_a,
            text_b=text_b,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
            max_seq_length=self.max_seq_length,
        )
        if self.padding == "max_length":
            missing = self.max_seq_length - tf.shape(inputs["input_ids"])[1]
            inputs = {
                name: tf.ensure_shape(
                    tf.pad(ids, [[0, 0], [0, missing]]), (None, self.max_seq_length)
                )
                for name, ids in inputs.items()
            }
        return inputs

    def compute_output_spec(self, text_a, text_b=None):
        """Returns the shapes and dtypes of `call`."""
        length = self.max_seq_length if self.padding == "max_length" else None
        return {
            name: keras.KerasTensor((*text_a.shape, length), "int32")
            for name in ("input_ids", "input_mask", "segment_ids")
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, with the content of the vocabulary."""
        return {
            **super().get_config(),
            "tokenizer": {
                "class_name": type(self.tokenizer).__name__,
                "vocabulary": base64.b64encode(self.tokenizer.vocabulary).decode(),
                "lower_case": self.tokenizer.lower_case,
            },
            "max_seq_length": self.max_seq_length,
            "padding": self.padding,
        }

    @classmethod
    def from_config(cls, config):
        """Creates the layer from `get_config`."""
        return cls(**{**config, "tokenizer": _restore_tokenizer(**config["tokenizer"])})


def _restore_tokenizer(class_name: str, vocabulary: str, lower_case: bool) -> Tokenizer:
    tokenizer_class = _TOKENIZERS[class_name]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, tokenizer_class.file_name)
        files.write_bytes(path, base64.b64decode(vocabulary))
        return tokenizer_class(path, lower_case)


def _as_pair(texts) -> tuple[Any, Any]:
    """Returns the first and the second texts of one argument, None if there are no second ones."""
    if isinstance(texts, Mapping):
        if not {"text_a"} <= set(texts) <= {"text_a", "text_b"}:
            raise InputError(
                f"Preprocessor: received the keys {', '.join(map(str, texts))}; expected text_a and, for "
                "pairs, text_b"
            )
        return texts["text_a"], texts.get("text_b")
    is_pair = isinstance(texts, tuple) and len(texts) == 2
    # A tuple of strings is a batch.
    return texts if is_pair and not isinstance(texts[0], str | bytes) else (texts, None)


def _as_strings(name: str, texts) -> tf.Tensor | keras.KerasTensor:
    """Returns texts as a string tensor () or (B,)."""
    if not isinstance(texts, keras.KerasTensor | tf.Tensor):
        try:
            texts = tf.convert_to_tensor(texts, tf.string)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Preprocessor: {name}: expected strings; received {_describe(texts)}"
            ) from error
    if texts.dtype not in ("string", tf.string) or len(texts.shape) > 1:
        dtype = getattr(texts.dtype, "name", texts.dtype)
        raise InputError(
            f"Preprocessor: {name}: expected strings, (B,) or (); received {dtype} {texts.shape}"
        )
    return texts


def _describe(texts) -> str:
    if isinstance(texts, list | tuple):
        for index, text in enumerate(texts):
            if not isinstance(text, str | bytes):
                return f"{type(text).__name__} at index {index}"
            if isinstance(text, str) and any("\ud800" <= char <= "\udfff" for char in text):
                return f"a surrogate, which is no character, at index {index}"
    return type(texts).__name__
