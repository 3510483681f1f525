"""Heads that find the span of an answer in a sequence."""

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import primitives


class SpanHead(primitives.BaseLayer):
    """A dense layer on every position, H -> 2: a logit for the start and one for the end.

    That is the original's head for SQuAD 1.1 (its `run_squad_v1.py`); it has no dropout.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.dense = self._dense("dense", config.hidden_size, 2)

    def call(self, sequence_output):
        """Maps `sequence_output` (B, S, H) to float32 logits of starts and of ends, (B, S) each."""
        logits = ops.cast(self.dense(sequence_output), "float32")  # (B, S, 2)
        return logits[..., 0], logits[..., 1]


# What the original gives a position that cannot be part of an answer. Padding has it, too: answers must
# not depend on its amount, which differs between batches.
IMPOSSIBLE = -1e30


def make_p_mask(segment_ids):
    """Returns where no answer can begin or end: int32 (B, S), 1 there and 0 elsewhere.

    An answer is made of tokens of the passage, which is segment 1 less its last token, [SEP]. The first
    position, [CLS], stands for no answer. `segment_ids` are int (B, S), 0 for padding.
    """
    segment_ids = ops.cast(segment_ids, "int32")
    # The token after the last of the passage is its [SEP], of the same segment.
    is_passage = segment_ids * ops.pad(segment_ids, [[0, 0], [0, 1]])[:, 1:]
    is_cls = ops.cast(ops.arange(ops.shape(segment_ids)[1]) == 0, "int32")
    return 1 - ops.maximum(is_passage, is_cls)


class ConditionalSpanHead(primitives.BaseLayer):
    """The original's head for SQuAD 2.0 (its `run_squad_v2.py`), which is XLNet's.

    The end's logits depend on the hidden state of the start: of the answer's start, if it is given, and
    of each of the `start_n_top` (I) best starts, for which the `end_n_top` (J) best ends are found.
    Whether there is an answer depends on [CLS] and on the mean of all hidden states, weighted with the
    probabilities of the starts; `dropout` is before its logit. See Yang et al. 2019,
    https://arxiv.org/abs/1906.08237, appendix A.3.
    """

    def __init__(
        self, config: AlbertConfig, start_n_top: int, end_n_top: int, dropout: float, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        width = config.hidden_size
        self.start_logits = self._dense("start_logits", width, 1)
        self.end_hidden = self._dense("end_hidden", 2 * width, width)
        self.end_layer_norm = self._layer_norm(width)
        self.end_logits = self._dense("end_logits", width, 1)
        self.answer_hidden = self._dense("answer_hidden", 2 * width, width)
        self.answer_dropout = self._dropout("answer_dropout", dropout)
        self.answer_logits = self._dense("answer_logits", width, 1, use_bias=False)

    def call(self, sequence_output, p_mask, start_positions=None, training=None):
        """Scores a batch.

        Args:
            sequence_output: float (B, S, H).
            p_mask: int (B, S), see `make_p_mask`.
            start_positions: int (B,), the answers' starts; None if they are not known.
            training: whether dropout is active.

        Returns:
            Those of `AlbertConditionalSpanLabeler.call`. A graph computes only those that are used.
        """
        start_logits = _mask(self.start_logits(sequence_output)[..., 0], p_mask)  # (B, S)
        start_log_probs = ops.log_softmax(start_logits)
        starts, start_index = _top(start_log_probs, self.start_n_top)  # (B, I)
        end_log_probs = self._score_ends(sequence_output, p_mask, start_index)  # (B, I, S)
        ends, end_index = _top(end_log_probs, self.end_n_top)  # (B, I, J)
        if start_positions is not None:
            start_positions = ops.expand_dims(start_positions, -1)  # (B, 1)
            end_log_probs = self._score_ends(sequence_output, p_mask, start_positions)
        beam = (-1, self.start_n_top * self.end_n_top)
        return {
            "cls_logits": self._score_no_answer(sequence_output, start_logits, training),  # (B,)
            "start_log_probs": start_log_probs,
            "end_log_probs": end_log_probs[:, 0],  # (B, S)
            "start_top_log_probs": starts,
            "start_top_index": start_index,
            "end_top_log_probs": ops.reshape(ends, beam),
            "end_top_index": ops.reshape(end_index, beam),
        }

    def _score_ends(self, sequence_output, p_mask, starts):
        """Returns the log-probabilities of the ends, float32 (B, I, S), of each of `starts` (B, I)."""
        starts = ops.expand_dims(starts, -1)
        states = ops.take_along_axis(sequence_output, starts, axis=1)  # (B, I, H)
        if self.end_hidden.quantization_mode is None:
            # The product of the kernel and two states side by side, without putting them side by side.
            kernel = ops.cast(self.end_hidden.kernel, self.compute_dtype)
            of_ends = ops.matmul(sequence_output, kernel[: self.config.hidden_size])  # (B, S, H)
            of_starts = ops.matmul(states, kernel[self.config.hidden_size :])  # (B, I, H)
            bias = ops.cast(self.end_hidden.bias, self.compute_dtype)
            sums = of_ends[:, None] + of_starts[:, :, None] + bias  # (B, I, S, H)
        else:
            shape = (1, ops.shape(starts)[1], 1, 1)
            ends = ops.tile(sequence_output[:, None], shape)  # (B, I, S, H)
            beginnings = ops.tile(states[:, :, None], (1, 1, ops.shape(sequence_output)[1], 1))
            sums = self.end_hidden(ops.concatenate([ends, beginnings], axis=-1))
        hidden = ops.tanh(sums)
        logits = self.end_logits(self.end_layer_norm(hidden))[..., 0]
        return ops.log_softmax(_mask(logits, p_mask[:, None]))

    def _score_no_answer(self, sequence_output, start_logits, training):
        """Returns the logit of there being no answer, float32 (B,)."""
        weights = ops.cast(ops.softmax(start_logits), sequence_output.dtype)
        # Not `weights[..., None]`, which LiteRT has no operator for.
        mean = ops.sum(ops.expand_dims(weights, -1) * sequence_output, axis=1)  # (B, H)
        states = ops.concatenate([mean, sequence_output[:, 0]], axis=-1)  # (B, 2 * H)
        hidden = ops.tanh(self.answer_hidden(states))
        logits = self.answer_logits(self.answer_dropout(hidden, training=training))
        return ops.cast(logits[:, 0], "float32")

    def compute_output_shape(self, input_shape):
        """Returns the shapes of the outputs, given (B, S, H)."""
        return super().compute_output_shape(input_shape, input_shape[:2])


def _mask(logits, p_mask):
    """Returns float32 logits, very low where `p_mask` is 1."""
    p_mask = ops.cast(p_mask, "float32")
    return ops.cast(logits, "float32") * (1.0 - p_mask) + IMPOSSIBLE * p_mask


def _top(log_probs, count: int):
    """Returns the `count` highest of the last axis, S, and where they are.

    Of equal ones the first comes first, but under PyTorch, which has no such rule. Where S is less than
    `count`, the rest are impossible and at [CLS].
    """
    axes = len(log_probs.shape) - 1
    padded = ops.pad(log_probs, [[0, 0]] * axes + [[0, count]], constant_values=IMPOSSIBLE)
    values, index = ops.top_k(padded, count)
    return values, ops.where(index < ops.shape(log_probs)[-1], index, 0)
