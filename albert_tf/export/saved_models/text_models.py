"""The SavedModels that map raw text to predictions, in front of an `IdsModel`.

They need TensorFlow Text's operators. Texts are split, truncated and joined as in training
(`albert_tf.data.fine_tuning`).
"""

import tensorflow as tf

from albert_tf.data.fine_tuning.packing import BLANK, pack_choices
from albert_tf.data.fine_tuning.preprocessor import Preprocessor
from albert_tf.export.saved_models.checks import check_rows
from albert_tf.export.saved_models.ids_model import IdsModel, trace
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer


class TextModel(tf.Module):
    """Maps texts, or pairs of texts, to predictions.

    Args:
        ids_model: made of an `AlbertClassifier` or an `AlbertEmbedder`.
        tokenizer: the tokenizer that the model was trained with.
        max_seq_length: maximum number of tokens, special tokens included.
        pairs: whether there is a `text_b`; if it is empty, `text_a` stands alone.
    """

    def __init__(
        self,
        ids_model: IdsModel,
        tokenizer: Tokenizer,
        max_seq_length: int,
        pairs: bool,
    ):
        super().__init__()
        self.weights, self.assets = ids_model.weights, ids_model.assets
        preprocessor = Preprocessor(tokenizer, max_seq_length)
        self.graph_tokenizer = preprocessor.graph_tokenizer
        # A function, so that the module does not track the layer.
        self._preprocess = preprocessor.call
        self.predict_unchecked = ids_model.predict_unchecked
        names = ("text_a", "text_b") if pairs else ("text_a",)
        specs = {name: tf.TensorSpec((None,), tf.string, name) for name in names}
        self.signature = trace(self.predict, **specs)

    def predict(self, text_a, text_b=None):
        """Maps strings (B,) to the outputs of `IdsModel.predict_unchecked`."""
        texts = {"text_a": text_a} if text_b is None else {"text_a": text_a, "text_b": text_b}
        return self.predict_unchecked(**self._preprocess(*check_rows(**texts)))


class ChoiceTextModel(tf.Module):
    """Maps articles, questions and options to the best option.

    Args:
        ids_model: made of an `AlbertMultipleChoice`.
        tokenizer: the tokenizer that the model was trained with.
        num_choices: C.
        max_seq_length: maximum number of tokens of a sequence, special tokens included.
        max_qa_length: maximum number of tokens of question and option.
    """

    def __init__(
        self,
        ids_model: IdsModel,
        tokenizer: Tokenizer,
        num_choices: int,
        max_seq_length: int,
        max_qa_length: int,
    ):
        super().__init__()
        self.weights, self.assets = ids_model.weights, ids_model.assets
        self.predict_unchecked = ids_model.predict_unchecked
        self.graph_tokenizer = make_graph_tokenizer(tokenizer)
        self._special_ids = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id}
        self._max_seq_length = max_seq_length
        self._max_qa_length = max_qa_length
        self.signature = trace(
            self.predict,
            article=tf.TensorSpec((None,), tf.string, "article"),
            question=tf.TensorSpec((None,), tf.string, "question"),
            options=tf.TensorSpec((None, num_choices), tf.string, "options"),
        )

    def predict(self, article, question, options):
        """Maps strings (B,), (B,) and (B, C) to the outputs of `IdsModel.predict_unchecked`."""
        article, question, options = check_rows(article=article, question=question, options=options)
        choices = tf.shape(options)[1]
        rows = tf.repeat(tf.range(tf.shape(article)[0]), choices)  # (B * C,)
        article_ids = self.graph_tokenizer(article, max_ids=self._max_seq_length)
        joined = _join_choices(tf.gather(question, rows), tf.reshape(options, [-1]))
        packed = pack_choices(
            tf.gather(article_ids, rows),
            self.graph_tokenizer(joined),
            max_seq_length=self._max_seq_length,
            max_qa_length=self._max_qa_length,
            **self._special_ids,
        )
        return self.predict_unchecked(
            **{
                name: tf.reshape(ids, [-1, choices, tf.shape(ids)[1]])
                for name, ids in packed.items()
            }
        )


def _join_choices(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Joins each question and option, string (n,), by the rule of `packing.join_choice`."""
    parts = tf.strings.split(questions, BLANK)
    gaps = tf.cast(parts.row_lengths(), tf.int32) - 1
    # An option follows each part but the last.
    follows = tf.ragged.range(parts.row_lengths()).flat_values < tf.cast(
        tf.gather(gaps, parts.value_rowids()), tf.int64
    )
    fillings = tf.where(follows, tf.gather(options, parts.value_rowids()), "")
    filled = tf.strings.reduce_join(parts.with_flat_values(parts.flat_values + fillings), axis=-1)
    return tf.where(gaps > 0, filled, questions + " " + options)
