"""ALBERT (A Lite BERT) in TensorFlow 2 and Keras 3, from raw text to a served model.

The letters of array axes, used in every docstring and shape comment of the package:
B batch, S sequence length, V vocabulary, E embedding, H hidden, N heads, D head size,
F feed-forward, L layers, M masked positions, C choices.

Public names are imported when they are first used, as TensorFlow and Keras take seconds to import. To
read a `.keras` file, Keras has to know the classes in it: import any model, optimizer or layer first,
e.g. `from albert_tf import AlbertEncoder`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from albert_tf._version import __version__ as __version__

if TYPE_CHECKING:
    from albert_tf.checkpoints.loading import load_checkpoint, read_config
    from albert_tf.config import AlbertConfig
    from albert_tf.data.fine_tuning.preprocessor import Preprocessor
    from albert_tf.evaluation.masked_lm import fill_mask, score_sentences
    from albert_tf.models import (
        AlbertClassifier,
        AlbertConditionalSpanLabeler,
        AlbertEmbedder,
        AlbertEncoder,
        AlbertMultipleChoice,
        AlbertPretrainer,
        AlbertSpanLabeler,
        AlbertTokenClassifier,
    )
    from albert_tf.optimization import AdamWeightDecay, Lamb
    from albert_tf.tasks.fine_tune import fine_tune
    from albert_tf.tasks.loading import load
    from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer

__all__ = [
    "AdamWeightDecay",
    "AlbertClassifier",
    "AlbertConditionalSpanLabeler",
    "AlbertConfig",
    "AlbertEmbedder",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSpanLabeler",
    "AlbertTokenClassifier",
    "AlbertTokenizer",
    "Lamb",
    "Preprocessor",
    "WordPieceTokenizer",
    "fill_mask",
    "fine_tune",
    "load",
    "load_checkpoint",
    "read_config",
    "score_sentences",
]

# Where they are. Models, which import all classes of `.keras` files, come before the others.
_MODULES = (
    "config",
    "tokenization",
    "models",
    "optimization",
    "data.fine_tuning.preprocessor",
    "checkpoints.loading",
    "evaluation.masked_lm",
    "tasks.loading",
    "tasks.fine_tune",
)


# With it, type checkers would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            for module_name in _MODULES:
                module = importlib.import_module(f"albert_tf.{module_name}")
                if hasattr(module, name):
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
