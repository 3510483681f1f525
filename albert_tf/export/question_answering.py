"""An exported model that answers questions: strings in, strings out."""

import math
import sys

import numpy as np
import tensorflow as tf

from albert_tf.data.squad.conventions import AnswerConfig
from albert_tf.export.checks import check_rows
from albert_tf.export.signatures import IdsModel
from albert_tf.export.spans import find_best_spans
from albert_tf.export.windows import cut_windows
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.in_graph import GraphTokenizer

_WHITE_SPACE = np.array([c for c in range(sys.maxunicode + 1) if chr(c).isspace()], np.int32)


class AnswerTextModel(tf.Module):
    """Questions and contexts in, answers out; needs TensorFlow Text's operators as well.

    Args:
        ids_model: of an `AlbertSpanLabeler` or an `AlbertConditionalSpanLabeler`.
        tokenizer: what the model was trained with.
        config: how to cut and to choose.
    """

    def __init__(self, ids_model: IdsModel, tokenizer: AlbertTokenizer, config: AnswerConfig):
        super().__init__()
        self.ids_model = ids_model
        self.graph_tokenizer = GraphTokenizer(tokenizer)
        self._config = config
        self._special_ids = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id}
        self.signature = self.predict.get_concrete_function(
            question=tf.TensorSpec((None,), tf.string, "question"),
            context=tf.TensorSpec((None,), tf.string, "context"),
        )

    @tf.function
    def predict(self, question, context):
        """Answers questions, string (B,), from contexts, string (B,), of any length.

        Returns:
            `answer`, string (B,), a part of the context without white space around it, empty where the
            question is unanswered; `start` and `end`, int32 (B,), its first character in the context and
            the one after its last, in Unicode code points as Python counts them, 0 and 0 where it is
            empty; `score`, float32 (B,), of the best span, whether it is the answer or not;
            `null_score`, float32 (B,), which is compared with the threshold.
        """
        question, context = check_rows(question=question, context=context)
        config = self._config
        passage = self.graph_tokenizer.tokenize_with_offsets(context)
        windows = cut_windows(
            self.graph_tokenizer(question, max_ids=config.max_query_length),
            passage,
            config=config,
            **self._special_ids,
        )
        best = find_best_spans(
            windows,
            self.ids_model.predict_without_padding(**windows.inputs),
            passage.ids.row_lengths(),
            config.n_best_size,
            config.max_answer_length,
        )
        threshold = math.inf if config.null_threshold is None else config.null_threshold
        is_null = best.null_scores > tf.constant(threshold, tf.float64)
        answer, start, end = _cut_out(
            context,
            tf.where(is_null, tf.zeros_like(best.starts), best.starts),
            tf.where(is_null, tf.zeros_like(best.ends), best.ends),
        )
        return {
            "answer": answer,
            "start": start,
            "end": end,
            "score": tf.cast(best.scores, tf.float32),
            "null_score": tf.cast(best.null_scores, tf.float32),
        }


def _cut_out(
    context: tf.Tensor, start: tf.Tensor, end: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts the characters from `start` to `end` - 1 out of texts, without white space around them.

    Returns:
        the texts, string (B,); their start and end, int32 (B,), 0 and 0 of an empty one.
    """
    characters = tf.strings.unicode_decode(context, "UTF-8")  # (B, None)
    rows = characters.value_rowids()
    positions = tf.ragged.range(characters.row_lengths()).values
    is_space = tf.reduce_any(characters.values[:, None] == _WHITE_SPACE, axis=1)
    is_inside = (positions >= tf.gather(start, rows)) & (positions < tf.gather(end, rows))
    # Where there is none of them, the greatest number and the least.
    seen = tf.boolean_mask(positions, is_inside & ~is_space)
    seen_rows = tf.boolean_mask(rows, is_inside & ~is_space)
    first = tf.math.unsorted_segment_min(seen, seen_rows, characters.nrows())
    last = tf.math.unsorted_segment_max(seen, seen_rows, characters.nrows())
    is_empty = first > last
    start = tf.where(is_empty, tf.zeros_like(first), first)
    end = tf.where(is_empty, tf.zeros_like(last), last + 1)
    kept = (positions >= tf.gather(start, rows)) & (positions < tf.gather(end, rows))
    answers = tf.ragged.boolean_mask(characters, characters.with_values(kept))
    return (
        tf.strings.unicode_encode(answers, "UTF-8"),
        tf.cast(start, tf.int32),
        tf.cast(end, tf.int32),
    )
