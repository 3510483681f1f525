"""How embeddings learn from those of a teacher; see `TaughtKind`."""

import dataclasses
from typing import Any

import keras
import numpy as np

from albert_tf.data.fine_tuning.columns import find_columns
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.taught import TaughtKind, read_unlabelled_texts
from albert_tf.kinds.text_kind import TextKind
from albert_tf.models.taught_embedder import TaughtEmbedder


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaughtEmbeddings(TextKind, TaughtKind):
    """Texts whose embeddings may be learnt from a teacher's, float32 (n, C, width) of C texts a row.

    Single texts have no labels. Pairs, or triplets, learn what they say, too.
    """

    @classmethod
    def lacks_labels(cls, source: Any) -> bool:
        """Returns whether the rows of a table are single texts."""
        return find_columns(open_table(source, "test"), may_lack_label=True).text_b is None

    def read_unlabelled(self, source: Any) -> list[Example]:
        """Reads single texts, also those of pairs."""
        read = read_unlabelled_texts(source)
        texts = (text for example in read for text in (example.text_a, example.text_b) if text)
        return [Example(f"train-{number}", text) for number, text in enumerate(texts, start=1)]

    def targets(self, teacher: Kind, examples, predictions: np.ndarray) -> np.ndarray:
        """Returns the embeddings, of length 1."""
        lengths = np.linalg.norm(predictions, axis=-1, keepdims=True)
        return predictions / np.maximum(lengths, np.finfo(np.float32).tiny)

    def measure_teacher(self, teacher: Kind, examples, predictions: np.ndarray) -> Quality:
        return self.measure(examples, self.targets(teacher, examples, predictions))

    def taught_model(self, model: keras.Model, targets: np.ndarray, seed: int) -> keras.Model:
        width, own = targets.shape[-1], model.config.hidden_size
        if width == own:
            return model
        relation = "wider" if own > width else "narrower"
        print(
            f"the student embeds in {own} dimensions, {relation} than the {width} of its teacher: a "
            "projection is learnt for the training, and is no part of the model"
        )
        return TaughtEmbedder(model, width, seed, dtype=model.dtype_policy)
