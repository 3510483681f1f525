"""How embeddings learn from those of a teacher; see `TaughtKind`."""

import dataclasses

import keras
import numpy as np

from albert_tf.data.fine_tuning.columns import find_columns, find_label, hide_labels
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.opened_tables import split_labelled
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.taught import TaughtKind, read_unlabelled_texts
from albert_tf.kinds.text_kind import TextKind
from albert_tf.models.taught_embedder import TaughtEmbedder

_LEAST_LENGTH = 1e-12  # that embeddings are divided by, as in `keras.ops.normalize`


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaughtEmbeddings(TextKind, TaughtKind):
    """Texts whose embeddings may be learnt from a teacher's, float32 (n, C, width) of C texts a row.

    Single texts have no labels. Pairs, or triplets, learn what they say, too.
    """

    @classmethod
    def split_labelled(cls, source: Table) -> tuple[Table | None, Table | None]:
        """Splits pairs with scores; other pairs have a label, that they belong together."""
        if find_columns(source, may_lack_label=True).text_b is None:
            return None, source
        label = find_label(source, optional=True)
        if label is None:
            return source, None
        scored, rest = split_labelled(source, [label])
        return (source, None) if scored is None else (scored, rest)

    def read_unlabelled(self, source: Table) -> list[Example]:
        """Reads single texts, also those of pairs; pairs, if others of the table have a score."""
        if source.is_rest:
            return self.read(hide_labels(source), "train")
        read = read_unlabelled_texts(source)
        texts = (text for example in read for text in (example.text_a, example.text_b) if text)
        return [Example(f"train-{number}", text) for number, text in enumerate(texts, start=1)]

    def targets(self, teacher: Kind, examples, predictions: np.ndarray) -> np.ndarray:
        """Returns the embeddings, of length 1."""
        return of_length_one(predictions)

    def measure_teacher(self, teacher: Kind, examples, predictions: np.ndarray) -> Quality:
        return self.measure(examples, self.targets(teacher, examples, predictions))

    def taught_model(self, model: keras.Model, targets: np.ndarray, seed: int) -> keras.Model:
        width, own = targets.shape[-1], model.width
        if width == own:
            return model
        relation = "wider" if own > width else "narrower"
        print(
            f"the student embeds in {own} dimensions, {relation} than the {width} of its teacher: a "
            "projection is learnt for the training, and is no part of the model"
        )
        return TaughtEmbedder(model, width, seed, dtype=model.dtype_policy)


def of_length_one(embeddings: np.ndarray) -> np.ndarray:
    """Returns embeddings (..., width) divided by their lengths; a vector of zeros stays."""
    lengths = np.linalg.norm(embeddings, axis=-1, keepdims=True)
    return embeddings / np.maximum(lengths, _LEAST_LENGTH)
