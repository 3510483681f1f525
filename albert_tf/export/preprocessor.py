"""Raw text to the inputs of a reusable encoder, as TensorFlow Hub's API for text has it.

The API: https://www.tensorflow.org/hub/common_saved_model_apis/text, "Transformer encoders". The names of
the special tokens are those of TensorFlow's Model Garden.
"""

import tensorflow as tf

from albert_tf.export.checks import check_shapes
from albert_tf.export.packing import pack_inputs
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.in_graph import GraphTokenizer

# Of TF Hub's preprocessors, where the user gives none.
_SEQ_LENGTH = 128

_TEXTS = tf.TensorSpec((None,), tf.string, "sentences")


class Preprocessor(tf.Module):
    """Maps strings (B,) to a dictionary of what `ReusableEncoder` takes, of a fixed length.

    Its SavedModel needs TensorFlow Text's operators as well. Texts are split, cut and joined as in
    training; so an empty second text makes no pair, and has no [SEP] of its own.

    Args:
        tokenizer: what the encoder was trained with.
        max_position_embeddings: of the encoder; the greatest length.

    Attributes:
        tokenize: maps strings (B,) to ids; see `_Tokenize`.
        bert_pack_inputs: maps ids to what the encoder takes; see `_PackInputs`.
    """

    def __init__(self, tokenizer: AlbertTokenizer, max_position_embeddings: int):
        super().__init__()
        self.tokenize = _Tokenize(tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer, max_position_embeddings)

    @tf.function(input_signature=[_TEXTS])
    def __call__(self, sentences):
        """Maps single texts, string (B,), to `input_word_ids`, `input_mask`, `input_type_ids`."""
        return self.bert_pack_inputs([self.tokenize(sentences)])


class _Tokenize(tf.Module):
    """Maps strings (B,) to ids, ragged int32 (B, None)."""

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        self._graph_tokenizer = GraphTokenizer(tokenizer)
        self._special_tokens = {
            "start_of_sequence_id": tokenizer.cls_id,
            "end_of_segment_id": tokenizer.sep_id,
            "padding_id": tokenizer.pad_id,
            "mask_id": tokenizer.mask_id,
            "vocab_size": tokenizer.vocab_size,
        }

    @tf.function(input_signature=[_TEXTS])
    def __call__(self, sentences):
        return self._graph_tokenizer(*check_shapes(sentences=sentences))

    @tf.function(input_signature=[])
    def get_special_tokens_dict(self):
        """Returns the ids of the special tokens and the size of the vocabulary, int32 () each."""
        return {name: tf.constant(id_) for name, id_ in self._special_tokens.items()}


class _PackInputs(tf.Module):
    """Joins the ids of one text, or of two, and the special ones, and pads them to one length.

    It takes a list of one or two of what `_Tokenize` gives, and optionally `seq_length`: from the number
    of special ids to that of the encoder's positions. It gives `input_word_ids`, `input_mask` and
    `input_type_ids`, int32 (B, seq_length).
    """

    def __init__(self, tokenizer: AlbertTokenizer, max_position_embeddings: int):
        super().__init__()
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._greatest = max_position_embeddings
        ids = tf.RaggedTensorSpec((None, None), tf.int32)
        for texts in (1, 2):
            for seq_length in (None, tf.TensorSpec((), tf.int32)):
                self.__call__.get_concrete_function([ids] * texts, seq_length=seq_length)

    @tf.function
    def __call__(self, inputs, seq_length=None):
        if seq_length is None:
            seq_length = min(_SEQ_LENGTH, self._greatest)
        seq_length = self._check(seq_length, least=len(inputs) + 1)
        ids_a, ids_b = inputs if len(inputs) == 2 else (inputs[0], None)
        packed = pack_inputs(ids_a, ids_b, self._cls_id, self._sep_id, seq_length)
        padding = [[0, 0], [0, seq_length - tf.shape(packed["input_ids"])[1]]]
        return {
            "input_word_ids": tf.pad(packed["input_ids"], padding),
            "input_mask": tf.pad(packed["input_mask"], padding),
            "input_type_ids": tf.pad(packed["segment_ids"], padding),
        }

    def _check(self, seq_length: tf.Tensor | int, least: int) -> tf.Tensor:
        """Passes a length on once an assertion holds."""
        fits = (seq_length >= least) & (seq_length <= self._greatest)
        expected = f"expected seq_length from {least} to {self._greatest}, but received:"
        with tf.control_dependencies([tf.debugging.Assert(fits, [expected, seq_length])]):
            return tf.identity(seq_length)
