"""What an exported model takes and gives.

A module here tracks the raw variables of the model, not the model: TensorFlow Serving's loader does not
restore variables that only a Keras 3 model leads to, and tracking both would write each weight twice.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.data.fine_tuning.packing import BLANK
from albert_tf.export.checks import check_ids, check_rows
from albert_tf.export.packing import pack_choices, pack_inputs
from albert_tf.export.slices import map_slices
from albert_tf.export.weights import make_exported_weights, reading
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.in_graph import GraphTokenizer

# What the model gives, such as logits -> what the exported model gives.
Outputs = Callable[[Any], dict[str, tf.Tensor]]

INPUTS = ("input_ids", "input_mask", "segment_ids")


def class_outputs(labels: Sequence[str]) -> Outputs:
    """Returns what gives `logits`, `probabilities` (B, classes) and `label` (B,), the name of one."""
    label_names = list(labels)

    def outputs(logits):
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "label": tf.gather(tf.constant(label_names), tf.argmax(logits, axis=-1)),
        }

    return outputs


def score_outputs(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Gives `score` (B,) from (B, 1)."""
    return {"score": logits[:, 0]}


def all_outputs(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Gives what the model gives."""
    return dict(outputs)


def input_specs(signature: Callable) -> dict[str, tf.TensorSpec]:
    """Returns what a signature takes; only one that is loaded has all as keywords."""
    specs = tf.nest.flatten(signature.structured_input_signature)
    return {spec.name: spec for spec in specs if spec is not None}


class IdsModel(tf.Module):
    """Ids in, predictions out; its SavedModel needs TensorFlow alone.

    Args:
        model: maps ids to logits.
        outputs: selects the outputs to return.
        asset_files: files to keep in the SavedModel, such as the labels' names.
        int8: whether matrices are stored in int8.
        num_choices: C of a multiple choice model; None for other models.
    """

    def __init__(
        self,
        model: keras.Model,
        outputs: Outputs,
        asset_files: Sequence[str] = (),
        int8: bool = False,
        num_choices: int | None = None,
    ):
        super().__init__()
        self.weights = make_exported_weights(model, int8)
        self.assets = [tf.saved_model.Asset(path) for path in asset_files]

        # The closures keep the Keras model out of what the module tracks.
        def check(*inputs):
            named = dict(zip(INPUTS, inputs, strict=True))
            return dict(zip(INPUTS, check_ids(named, model.encoder.config), strict=True))

        def compute_tokens(inputs):
            positions = _token_positions(inputs["input_mask"])
            return model({**inputs, "token_positions": positions}, training=False)

        @tf.function
        def predict(input_ids, input_mask, segment_ids):
            """Maps int32 (B, S) each, with choices (B, C, S), to what `outputs` gives."""
            inputs = check(input_ids, input_mask, segment_ids)
            with reading(model, self.weights):
                return outputs(model(inputs, training=False))

        @tf.function
        def predict_without_padding(input_ids, input_mask, segment_ids):
            """Like `predict`, but layers compute tokens alone; outputs at padding have no meaning.

            XLA and the converters of other runtimes want shapes that do not depend on the mask, and a
            caller may want the outputs of the original at all positions: `predict` is for these.
            """
            inputs = check(input_ids, input_mask, segment_ids)
            with reading(model, self.weights):
                return outputs(map_slices(compute_tokens, inputs))

        self.predict = predict
        self.predict_without_padding = predict_without_padding
        shape = (None, None) if num_choices is None else (None, num_choices, None)
        self.signature = predict.get_concrete_function(
            **{name: tf.TensorSpec(shape, tf.int32, name) for name in INPUTS}
        )


def _token_positions(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns where tokens are among all positions, int32 (T,)."""
    # [CLS], which stands first, is there even where a caller masks all of a sequence.
    is_token = (input_mask > 0) | (tf.range(tf.shape(input_mask)[-1]) == 0)
    return tf.cast(tf.where(tf.reshape(is_token, [-1]))[:, 0], tf.int32)


class TextModel(tf.Module):
    """Raw text in, predictions out; its SavedModel needs TensorFlow Text's operators as well.

    Args:
        ids_model: of an `AlbertClassifier`.
        tokenizer: what the model was trained with.
        max_seq_length: tokens at most, the special ones included; longer texts are cut as in training.
        pairs: whether there is a `text_b`; where it is empty, `text_a` stands alone.
    """

    def __init__(
        self,
        ids_model: IdsModel,
        tokenizer: AlbertTokenizer,
        max_seq_length: int,
        pairs: bool,
    ):
        super().__init__()
        self.ids_model = ids_model
        self.graph_tokenizer = GraphTokenizer(tokenizer)
        self._max_seq_length = max_seq_length
        self._pack = functools.partial(
            pack_inputs,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=max_seq_length,
        )
        names = ("text_a", "text_b") if pairs else ("text_a",)
        self.signature = self.predict.get_concrete_function(
            **{name: tf.TensorSpec((None,), tf.string, name) for name in names}
        )

    @tf.function
    def predict(self, text_a, text_b=None):
        """Maps strings (B,) to the outputs of `IdsModel.predict_without_padding`."""
        if text_b is None:
            (text_a,) = check_rows(text_a=text_a)
            ids_b = None
        else:
            text_a, text_b = check_rows(text_a=text_a, text_b=text_b)
            ids_b = self.graph_tokenizer(text_b, max_ids=self._max_seq_length)
        ids_a = self.graph_tokenizer(text_a, max_ids=self._max_seq_length)
        return self.ids_model.predict_without_padding(**self._pack(ids_a, ids_b))


class ChoiceTextModel(tf.Module):
    """A text, a question and answers in, the best answer out; needs TensorFlow Text's operators as well.

    Args:
        ids_model: of an `AlbertMultipleChoice`.
        tokenizer: what the model was trained with.
        num_choices: C.
        max_seq_length: tokens of a text at most, the special ones included.
        max_qa_length: tokens of question and answer at most.
    """

    def __init__(
        self,
        ids_model: IdsModel,
        tokenizer: AlbertTokenizer,
        num_choices: int,
        max_seq_length: int,
        max_qa_length: int,
    ):
        super().__init__()
        self.ids_model = ids_model
        self.graph_tokenizer = GraphTokenizer(tokenizer)
        self._max_seq_length = max_seq_length
        self._pack = functools.partial(
            pack_choices,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=max_seq_length,
            max_qa_length=max_qa_length,
        )
        self.signature = self.predict.get_concrete_function(
            article=tf.TensorSpec((None,), tf.string, "article"),
            question=tf.TensorSpec((None,), tf.string, "question"),
            options=tf.TensorSpec((None, num_choices), tf.string, "options"),
        )

    @tf.function
    def predict(self, article, question, options):
        """Maps strings (B,), (B,) and (B, C) to the outputs of `IdsModel.predict_without_padding`."""
        article, question, options = check_rows(article=article, question=question, options=options)
        choices = tf.shape(options)[1]
        rows = tf.repeat(tf.range(tf.shape(article)[0]), choices)  # (B * C,)
        article_ids = self.graph_tokenizer(article, max_ids=self._max_seq_length)
        joined = _join_choices(tf.gather(question, rows), tf.reshape(options, [-1]))
        packed = self._pack(tf.gather(article_ids, rows), self.graph_tokenizer(joined))
        return self.ids_model.predict_without_padding(
            **{
                name: tf.reshape(ids, [-1, choices, tf.shape(ids)[1]])
                for name, ids in packed.items()
            }
        )


def _join_choices(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Puts each option into the blanks of its question, or after it, as training does; string (n,)."""
    parts = tf.strings.split(questions, BLANK)
    gaps = tf.cast(parts.row_lengths(), tf.int32) - 1
    # An option follows each part but the last.
    follows = tf.ragged.range(parts.row_lengths()).flat_values < tf.cast(
        tf.gather(gaps, parts.value_rowids()), tf.int64
    )
    fillings = tf.where(follows, tf.gather(options, parts.value_rowids()), "")
    filled = tf.strings.reduce_join(parts.with_flat_values(parts.flat_values + fillings), axis=-1)
    return tf.where(gaps > 0, filled, questions + " " + options)
