"""What kinds that predict from a text or a pair of texts have in common."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from albert_tf.data.fine_tuning.columns import find_columns
from albert_tf.data.fine_tuning.features import Features, encode_examples
from albert_tf.data.fine_tuning.packing import encode_in_graph
from albert_tf.data.fine_tuning.tables import ColumnNames, Table
from albert_tf.data.fine_tuning.tsv import Example, Labels, make_examples
from albert_tf.errors import InputError
from albert_tf.export.openvino_text import add_text_tokenizer
from albert_tf.kinds.arguments import check_field, rows_of
from albert_tf.kinds.kind import Kind
from albert_tf.models import AlbertClassifier


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextKind(Kind):
    """Predicts from a text, or a pair of texts, by its pooled output.

    Attributes:
        pairs: whether an example may have two texts.
    """

    texts: ClassVar = ("text_a", "text_b")

    pairs: bool = False

    @property
    def accepted_labels(self) -> Labels:
        """The labels that an example may have; None if they are not known yet."""
        return self.labels or None

    @classmethod
    def open(cls, source: Any, split: str, names: ColumnNames) -> Table:
        """Opens a table."""
        return Table.read(source, split, names)

    def read(self, source: Any, split: str) -> list[Example]:
        """Reads rows with a text or two and a label, in columns with usual names.

        A test set may lack labels.
        """
        return self._read(Table.read(source, split), split, self.accepted_labels)

    def _read(
        self, table: Table, split: str, labels: Labels, choices: Sequence[str] = ()
    ) -> list[Example]:
        columns = find_columns(table, split == "test", choices)
        if split != "train" and (columns.text_b is not None) != self.pairs:
            has = f"'{columns.text_a}'" + (f" and '{columns.text_b}'" if columns.text_b else "")
            model = "pairs of texts" if self.pairs else "single texts"
            raise InputError(
                f"{table.name}: has the text in {has}; the model is trained on {model}"
            )
        return make_examples(table, columns, split, labels)

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with what the training file decides: whether there are pairs."""
        return dataclasses.replace(self, pairs=examples[0].text_b is not None)

    def make_examples(
        self, text_a: Sequence[str], text_b: Sequence[str] | None = None
    ) -> list[Example]:
        """Makes n examples without labels of n texts, or n pairs if the model was trained on pairs."""
        if text_b is None:
            return [Example("", text) for (text,) in rows_of(text_a=text_a)]
        if not self.pairs:
            raise InputError("text_b: the model was trained on single texts")
        return [Example("", *texts) for texts in rows_of(text_a=text_a, text_b=text_b)]

    def encode(self, examples, tokenizer) -> Features:
        """Converts examples to ids, with labels if they have any."""
        return encode_examples(examples, self.accepted_labels, tokenizer, self.max_seq_length)

    def make_model(self, encoder, dropout, seed, dtype) -> AlbertClassifier:
        """Makes the model, with a randomly initialised head."""
        return AlbertClassifier(encoder, len(self.labels) or 1, dropout, seed, dtype=dtype)

    def example_of_line(self, fields: Sequence[str]) -> Example | None:
        """Makes an example of the fields of a line; None if their number is wrong."""
        if len(fields) > 1 + self.pairs:
            return None
        check_field(fields[0])
        return Example("", *fields)

    @property
    def line_format(self) -> str:
        """The expected fields of a line, as text for messages."""
        return "text_a or text_a, tab, text_b" if self.pairs else "a text without a tab"

    def read_outputs(self, exported: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits (n, k) of an exported model."""
        return exported["logits"]

    def text_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of the exported text model: string (B,) each."""
        names = self.texts[: 1 + self.pairs]
        return {name: tf.TensorSpec((None,), tf.string, name) for name in names}

    def graph_encode(self, tokenizer, graph_tokenizer, text_a, text_b=None) -> tuple[Any, None]:
        """Converts texts to ids; an empty `text_b` makes no pair."""
        ids = tokenizer.cls_id, tokenizer.sep_id
        return encode_in_graph(graph_tokenizer, text_a, text_b, *ids, self.max_seq_length), None

    def add_openvino_tokenizer(self, model, tokenizer):
        """Puts the tokenizer in front of a model for OpenVINO, which then takes texts."""
        return add_text_tokenizer(model, tokenizer, self.max_seq_length, self.pairs)
