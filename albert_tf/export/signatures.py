"""What an exported classifier takes and gives.

A module here tracks the raw variables of the model, not the model: TensorFlow Serving's loader does not
restore variables that only a Keras 3 model leads to, and tracking both would write each weight twice.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.export.packing import pack_inputs
from albert_tf.models import AlbertClassifier
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.in_graph import GraphTokenizer


class IdsClassifier(tf.Module):
    """Ids in, probabilities out; its SavedModel needs TensorFlow alone.

    Args:
        model: the classifier.
        labels: names of the classes.
    """

    def __init__(self, model: AlbertClassifier, labels: Sequence[str]):
        super().__init__()
        self.weights = [variable.value for variable in model.weights]
        label_names = list(labels)

        # The closure keeps the Keras model out of what the module tracks.
        @tf.function
        def classify(input_ids, input_mask, segment_ids):
            """Maps int32 (B, S) each to `logits`, `probabilities` (B, classes) and `label` (B,)."""
            inputs = {
                "input_ids": input_ids,
                "input_mask": input_mask,
                "segment_ids": segment_ids,
            }
            logits = model(inputs, training=False)
            return {
                "logits": logits,
                "probabilities": tf.nn.softmax(logits),
                "label": tf.gather(tf.constant(label_names), tf.argmax(logits, axis=-1)),
            }

        self.classify = classify
        self.signature = classify.get_concrete_function(
            **{
                name: tf.TensorSpec((None, None), tf.int32, name)
                for name in ("input_ids", "input_mask", "segment_ids")
            }
        )


class TextClassifier(tf.Module):
    """Raw text in, probabilities out; its SavedModel needs TensorFlow Text's operators as well.

    Args:
        model: the classifier.
        labels: names of the classes.
        tokenizer: what the model was trained with.
        max_seq_length: tokens at most, the special ones included; longer texts are cut as in training.
        pairs: whether there is a `text_b`; where it is empty, `text_a` stands alone.
    """

    def __init__(
        self,
        model: AlbertClassifier,
        labels: Sequence[str],
        tokenizer: AlbertTokenizer,
        max_seq_length: int,
        pairs: bool,
    ):
        super().__init__()
        self.classifier = IdsClassifier(model, labels)
        self.graph_tokenizer = GraphTokenizer(tokenizer)
        self._pack = functools.partial(
            pack_inputs,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=max_seq_length,
        )
        text_a = tf.TensorSpec((None,), tf.string, "text_a")
        text_b = tf.TensorSpec((None,), tf.string, "text_b")
        if pairs:
            self.signature = self.classify.get_concrete_function(text_a=text_a, text_b=text_b)
        else:
            self.signature = self.classify.get_concrete_function(text_a=text_a)

    @tf.function
    def classify(self, text_a, text_b=None):
        """Maps strings (B,) to the outputs of `IdsClassifier.classify`."""
        ids_a = self.graph_tokenizer(text_a)
        ids_b = None if text_b is None else self.graph_tokenizer(text_b)
        return self.classifier.classify(**self._pack(ids_a, ids_b))
