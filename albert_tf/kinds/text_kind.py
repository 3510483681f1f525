"""What kinds that predict from texts or pairs of texts have in common."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.cells import decode
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.columns import find_columns
from albert_tf.data.fine_tuning.examples import Example, Labels, make_examples
from albert_tf.data.fine_tuning.features import (
    Features,
    WindowFeatures,
    encode_examples,
    encode_long_texts,
)
from albert_tf.data.fine_tuning.opened_tables import account_for_texts, open_table
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError
from albert_tf.kinds.given_texts import check_fields, rows_of
from albert_tf.kinds.kind import Kind
from albert_tf.kinds.numbered_labels import find_numbered_labels
from albert_tf.models import AlbertClassifier
from albert_tf.options.kinds import LongTextFlags
from albert_tf.tokenization.packing import cut_in_graph, encode_in_graph


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextKind(Kind):
    """Predicts from a text, or a pair of texts, by its pooled output."""

    reads_pooler: ClassVar = True
    reads_one_sequence: ClassVar = True
    # A named tuple of parts of `interpretation`, which `predict` of a loaded model returns.
    Result: ClassVar[type[NamedTuple]]

    pairs: bool = False  # whether an example may have two texts

    @property
    def texts(self) -> tuple[str, ...]:  # type: ignore[override]  # of a field
        """Names of the texts of an example, as an exported model has to receive them."""
        return ("text_a", "text_b")[: self._least_texts]

    @property
    def num_segments(self) -> int:  # type: ignore[override]  # of a field
        """Number of segments of a sequence."""
        return 1 + self.pairs

    @property
    def optional_texts(self) -> tuple[str, ...]:  # type: ignore[override]  # of a field
        """Names of the texts that an example may have in addition."""
        return ("text_a", "text_b")[self._least_texts : 1 + self.pairs]

    @property
    def _least_texts(self) -> int:
        # Other libraries do not say whether they trained on pairs, nor name a task.
        return 1 + (self.pairs and bool(self.task_name))

    @property
    def accepted_labels(self) -> Labels:
        """The labels that an example may have; None if they are not known yet."""
        return self.labels or None

    @classmethod
    def open(cls, source: Any, split: str, names: ColumnNames) -> Table:
        return Table.read(source, split, names)

    def read(self, source: Any, split: str) -> list[Example]:
        """Reads rows with a text or two and a label, in columns with usual names.

        A test set may lack labels.
        """
        return self._read(open_table(source, split), split, self.accepted_labels)

    def _read(
        self, table: Table, split: str, labels: Labels, choices: Sequence[str] = ()
    ) -> list[Example]:
        columns = find_columns(table, split == "test", choices)
        names = [name for name in (columns.text_a, columns.text_b) if name is not None]
        if split != "train" and not self._least_texts <= len(names) <= 1 + self.pairs:
            has = " and ".join(f"'{name}'" for name in names)
            model = "pairs of texts" if self.pairs else "single texts"
            raise InputError(
                f"{table.name}: has the text in {has}; the model is trained on {model}"
            )
        account_for_texts(table, split, columns)
        spellings = find_numbered_labels(table, columns, labels)
        columns = dataclasses.replace(columns, spellings=spellings)
        return make_examples(table, columns, split, labels, keeps_blank=split == "test")

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with what the training file decides: whether there are pairs."""
        return dataclasses.replace(self, pairs=examples[0].text_b is not None)

    def make_examples(
        self, text_a: Sequence[str], text_b: Sequence[str] | None = None
    ) -> list[Example]:
        """Makes n examples without labels of n texts, or n pairs if the model was trained on pairs."""
        given = {"text_a": text_a} if text_b is None else {"text_a": text_a, "text_b": text_b}
        rows = rows_of(**given)
        self.check_second("text_b", text_b)
        return [Example.of_texts(*texts) for texts in rows]

    def check_second(self, name: str, texts: Any) -> None:
        """Raises an `InputError` if the second texts are missing or too many."""
        if texts is None and self._least_texts > 1:
            raise InputError(f"{name}: missing; the model was trained on pairs of texts")
        if texts is not None and not self.pairs:
            raise InputError(f"{name}: the model was trained on single texts")

    def encode(self, examples, tokenizer) -> Features:
        return encode_examples(
            examples,
            labels=self.accepted_labels,
            tokenizer=tokenizer,
            max_seq_length=self.max_seq_length,
        )

    def make_model(self, encoder, dropout, seed, dtype) -> AlbertClassifier:
        return AlbertClassifier(encoder, len(self.labels) or 1, dropout, seed, dtype=dtype)

    def decode(self, examples, features: Features, batches) -> np.ndarray:
        """Returns the logits of each example."""
        return np.asarray(self.logits(self._decode_outputs(examples, features, batches)))

    def _decode_outputs(self, examples, features: Features, batches) -> np.ndarray:
        """Returns the model's outputs for each example."""
        return super().decode(examples, features, batches)

    def result(self, examples, predictions: np.ndarray) -> Any:
        """Returns the parts of the interpretation that `Result` has, as lists or arrays.

        An example without a text has None in lists, and NaN in arrays.
        """
        found = self.interpretation(tf.constant(predictions))
        parts = (found[name].numpy() for name in self.Result._fields)
        read = (decode(part) if part.dtype == object else part for part in parts)
        return self.Result._make(hide_blank(examples, part) for part in read)

    def example_of_line(self, fields: Sequence[str]) -> Example:
        pair = "text_a, tab, text_b" if self._least_texts > 1 else "text_a or text_a, tab, text_b"
        expected = pair if self.pairs else "a text without a tab"
        check_fields(fields, least=self._least_texts, most=1 + self.pairs, expected=expected)
        return Example.of_texts(*fields)

    def predict_texts(self, predict, tokenizer, graph_tokenizer, text_a, text_b=None):
        """Maps texts to outputs; an empty `text_b` makes no pair."""
        inputs = encode_in_graph(
            graph_tokenizer,
            text_a=text_a,
            text_b=text_b,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=self.max_seq_length,
        )
        return predict(**inputs)


def hide_blank(examples: Sequence[Example], values: Any) -> Any:
    """Returns the values, a list or an array, of n examples without those of examples without a text."""
    blank = [number for number, example in enumerate(examples) if example.is_blank]
    if not blank:
        return values
    values = values.copy()
    for number in blank:
        values[number] = None if isinstance(values, list) else np.nan
    return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextKind(LongTextFlags, TextKind):
    """May read all of a long text: in windows, over which it averages the model's outputs."""

    @property
    def _has_windows(self) -> bool:
        return self.long_texts == "windows"

    @property
    def reads_one_sequence(self) -> bool:  # type: ignore[override]  # of a field
        """Whether long texts are truncated."""
        return not self._has_windows

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        fitted = super().fit_labels(examples, path)
        if self._has_windows and fitted.pairs:
            raise InputError(f"long_texts=windows: expected single texts; {path} has pairs")
        return fitted

    def encode(self, examples, tokenizer) -> Features:
        encode = encode_long_texts if self._has_windows else encode_examples
        return encode(examples, self.accepted_labels, tokenizer, self.max_seq_length)

    def _decode_outputs(self, examples, features: Features, batches) -> np.ndarray:
        """Returns the model's outputs, those of windows as the mean of each text."""
        outputs = super()._decode_outputs(examples, features, batches)
        if not isinstance(features, WindowFeatures):
            return outputs
        return tf.math.segment_mean(outputs, features.example_indices).numpy()

    def predict_texts(self, predict, tokenizer, graph_tokenizer, text_a, text_b=None):
        if not self._has_windows:
            return super().predict_texts(predict, tokenizer, graph_tokenizer, text_a, text_b)
        inputs, texts = cut_in_graph(
            graph_tokenizer(text_a),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=self.max_seq_length,
        )
        return self.outputs(tf.math.segment_mean(self.read_outputs(predict(**inputs)), texts))


def change_head(
    tensors: Mapping[str, np.ndarray],
    weight: Callable[[np.ndarray], np.ndarray],
    bias: Callable[[np.ndarray], np.ndarray],
) -> dict[str, np.ndarray]:
    """Returns the tensors to store of a model with other logits, for `stored`.

    Args:
        tensors: some tensors, by Hugging Face's names.
        weight: maps that of the head, float32 (k, H), to the one to store.
        bias: maps that of the head, float32 (k,), to the one to store.
    """
    changes = {"classifier.weight": weight, "classifier.bias": bias}
    return {name: changes.get(name, lambda x: x)(tensor) for name, tensor in tensors.items()}
