"""The SavedModel that maps raw text to predictions, in front of an `IdsModel`.

It needs TensorFlow Text's operators. Texts are split, truncated and joined as in training.
"""

from typing import Any

import tensorflow as tf

from albert_tf.export.checks import check_rows
from albert_tf.export.ids_model import IdsModel, trace
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.in_graph import GraphAlbertTokenizer, make_graph_tokenizer


class TextModel(tf.Module):
    """Maps texts to predictions."""

    def __init__(self, ids_model: IdsModel, kind: Any, tokenizer: Tokenizer):
        super().__init__()
        self.weights, self.assets = ids_model.weights, ids_model.assets
        self.predict_unchecked = ids_model.predict_unchecked
        make_tokenizer = GraphAlbertTokenizer if kind.needs_offsets else make_graph_tokenizer
        self.graph_tokenizer = make_tokenizer(tokenizer)
        specs = kind.text_specs()

        # The closure keeps the kind out of what the module tracks.
        def predict(**texts):
            checked = check_rows(**{name: texts[name] for name in specs})
            named = dict(zip(specs, checked, strict=True))
            inputs, context = kind.graph_encode(tokenizer, self.graph_tokenizer, **named)
            return kind.graph_decode(self.predict_unchecked(**inputs), context)

        self.serve = trace(predict, **specs)
