"""The SavedModels that map raw text to predictions, in front of an `IdsModel`.

They need TensorFlow Text's operators. Texts are split, truncated and joined as in training
(`albert_tf.data.fine_tuning`).
"""

import tensorflow as tf

from albert_tf.data.fine_tuning.packing import BLANK, choice_lengths, pair_lengths
from albert_tf.export.checks import check_rows
from albert_tf.export.ids_model import IdsModel
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer


class TextModel(tf.Module):
    """Maps texts, or pairs of texts, to predictions.

    Args:
        ids_model: made of an `AlbertClassifier`.
        tokenizer: the tokenizer that the model was trained with.
        max_seq_length: maximum number of tokens, special tokens included.
        pairs: whether there is a `text_b`; if it is empty, `text_a` stands alone.
    """

    def __init__(self, ids_model: IdsModel, tokenizer: Tokenizer, max_seq_length: int, pairs: bool):
        super().__init__()
        self.ids_model = ids_model
        self.graph_tokenizer = make_graph_tokenizer(tokenizer)
        self._special_ids = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id}
        self._max_seq_length = max_seq_length
        names = ("text_a", "text_b") if pairs else ("text_a",)
        self.signature = self.predict.get_concrete_function(
            **{name: tf.TensorSpec((None,), tf.string, name) for name in names}
        )

    @tf.function
    def predict(self, text_a, text_b=None):
        """Maps strings (B,) to the outputs of `IdsModel.predict_without_padding`."""
        max_length = self._max_seq_length
        if text_b is None:
            (text_a,) = check_rows(text_a=text_a)
            ids_b = None
        else:
            text_a, text_b = check_rows(text_a=text_a, text_b=text_b)
            ids_b = self.graph_tokenizer(text_b, max_ids=max_length)
        ids_a = self.graph_tokenizer(text_a, max_ids=max_length)
        packed = pack_inputs(ids_a, ids_b, max_seq_length=max_length, **self._special_ids)
        return self.ids_model.predict_without_padding(**packed)


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
        self.ids_model = ids_model
        self.graph_tokenizer = make_graph_tokenizer(tokenizer)
        self._special_ids = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id}
        self._max_seq_length = max_seq_length
        self._max_qa_length = max_qa_length
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
        packed = pack_choices(
            tf.gather(article_ids, rows),
            self.graph_tokenizer(joined),
            max_seq_length=self._max_seq_length,
            max_qa_length=self._max_qa_length,
            **self._special_ids,
        )
        return self.ids_model.predict_without_padding(
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


def pack_inputs(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, padded with 0 to the longest of the batch.

    A single text keeps its front; of a pair the longer text is truncated, the second if they are equal.
    An empty second text makes no pair.

    Args:
        ids_a: int32 (B, None).
        ids_b: int32 (B, None); None if there are no pairs.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        max_seq_length: maximum number of tokens, special tokens included.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`, int32 (B, S).
    """
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    length_b = tf.zeros_like(length_a) if ids_b is None else tf.cast(ids_b.row_lengths(), tf.int32)
    budget = tf.where(length_b > 0, max_seq_length - 3, max_seq_length - 2)
    kept_a, kept_b = pair_lengths(length_a, length_b, budget, tf.minimum, tf.maximum)
    ids_a = _range(ids_a, tf.zeros_like(kept_a), kept_a)
    if ids_b is not None:
        ids_b = _range(ids_b, tf.zeros_like(kept_b), kept_b)
    return _join(ids_a, ids_b, cls_id, sep_id)


def pack_choices(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
    max_qa_length: int,
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] article [SEP] question and option [SEP]`, padded as by `pack_inputs`.

    Args:
        ids_a: int32 (B, None), of the articles.
        ids_b: int32 (B, None), of questions and options; the last `max_qa_length` ids are kept.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        max_seq_length: maximum number of tokens, special tokens included.
        max_qa_length: maximum number of tokens of question and option.
    """
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    length_b = tf.cast(ids_b.row_lengths(), tf.int32)
    kept_a, kept_b = choice_lengths(length_a, length_b, max_seq_length, max_qa_length, tf.minimum)
    ids_a = _range(ids_a, tf.zeros_like(kept_a), kept_a)
    ids_b = _range(ids_b, length_b - kept_b, length_b)
    return _join(ids_a, ids_b, cls_id, sep_id)


def _join(
    ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor | None, cls_id: int, sep_id: int
) -> dict[str, tf.Tensor]:
    """Adds the special ids to texts that fit, and pads."""
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    rows = tf.ones_like(length_a)[:, None]  # (B, 1)
    parts = [rows * cls_id, ids_a, rows * sep_id]
    first_length = length_a + 2
    total_length = first_length
    if ids_b is not None:
        length_b = tf.cast(ids_b.row_lengths(), tf.int32)
        is_pair = length_b > 0
        last = tf.RaggedTensor.from_tensor(rows * sep_id, lengths=tf.cast(is_pair, tf.int32))
        parts += [ids_b, last]
        total_length += tf.where(is_pair, length_b + 1, 0)
    input_ids = tf.concat(parts, axis=1).to_tensor()  # (B, S)
    positions = tf.range(tf.shape(input_ids)[1])
    mask = positions < total_length[:, None]
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": tf.cast(mask & (positions >= first_length[:, None]), tf.int32),
    }


def _range(ids: tf.RaggedTensor, begin: tf.Tensor, end: tf.Tensor) -> tf.RaggedTensor:
    """Returns the values from `begin` (B,) to `end` (B,) of each row of `ids` (B, None)."""
    in_row = tf.cast(tf.ragged.range(ids.row_lengths()).flat_values, tf.int32)
    rows = ids.value_rowids()
    kept = (in_row >= tf.gather(begin, rows)) & (in_row < tf.gather(end, rows))
    return tf.ragged.boolean_mask(ids, ids.with_flat_values(kept))
