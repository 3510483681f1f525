"""The SavedModels that map raw text to predictions, in front of an `IdsModel`.

They need TensorFlow Text's operators. Texts are split, truncated and joined as in training
(`albert_tf.data.fine_tuning`).
"""

import tensorflow as tf

from albert_tf.data.fine_tuning.preprocessor import Preprocessor
from albert_tf.export.saved_models.checks import check_rows
from albert_tf.export.saved_models.ids_model import IdsModel, trace
from albert_tf.tokenization import Tokenizer


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
