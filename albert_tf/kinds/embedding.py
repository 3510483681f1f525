"""Embeddings of texts, trained on pairs of texts that belong together and evaluated by cosines."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.columns import find_columns, has_label
from albert_tf.data.fine_tuning.examples import Example, ScoreRange, make_examples
from albert_tf.data.fine_tuning.features import (
    Features,
    PairFeatures,
    encode_examples,
    encode_pairs,
    label_ids,
)
from albert_tf.data.fine_tuning.opened_tables import account_for_texts, open_table
from albert_tf.errors import InputError
from albert_tf.evaluation.metrics import compute_metrics
from albert_tf.kinds.given_texts import check_fields, rows_of
from albert_tf.kinds.kind import Quality
from albert_tf.kinds.registry import register
from albert_tf.kinds.text_kind import TextKind
from albert_tf.losses import ContrastiveLoss
from albert_tf.models import AlbertEmbedder
from albert_tf.options.kinds import EmbeddingFlags


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Embedding(EmbeddingFlags, TextKind):
    """Texts whose embeddings have a high cosine if they belong together.

    Predictions are embeddings, float32 (n, 1, H) of single texts or (n, 2, H) of pairs, whose score is
    the cosine.
    """

    name: ClassVar = "embedding"
    reads_pooler: ClassVar = False
    output_name: ClassVar = "embedding"
    fixed_options: ClassVar = ("pooling",)
    least_micro_batch: ClassVar = 2  # The negatives of a pair are the others.
    can_hold_out: ClassVar = False  # Pairs that belong together cannot be evaluated.

    metrics: tuple[str, ...] = ("spearman", "pearson")
    normalize: bool = True  # to length 1, as in training
    prompt: str = ""  # what is put before each text
    prompts: tuple[tuple[str, str], ...] = ()  # the names of prompts, and the prompts

    @property
    def reads_one_sequence(self) -> bool:  # type: ignore[override]  # of a field
        """Whether a sequence is the text as it is given."""
        return not self.prompt

    def with_prompt(self, name: str) -> Self:
        """Returns the kind with one of its prompts, given by name; an empty name is none."""
        known = {"": "", **dict(self.prompts)}
        if name not in known:
            names = ", ".join(dict(self.prompts)) or "the model has no prompts"
            raise InputError(f"prompt_name={name!r}: expected one of: {names}")
        return dataclasses.replace(self, prompt=known[name])

    @property
    def accepted_labels(self) -> ScoreRange:
        return ScoreRange()

    def read(self, source: Any, split: str) -> list[Example]:
        """Reads rows with two texts and, but for training, a score as the label.

        The pairs of a training set belong together. A test set may lack scores.
        """
        table = open_table(source, split)
        if split == "train" and has_label(table):
            raise InputError(
                f"{table.name}: has a column of labels; expected pairs of texts that all belong together"
            )
        columns = find_columns(table, may_lack_label=split != "dev")
        if columns.text_b is None:
            raise InputError(
                f"{table.name}: has the text in '{columns.text_a}'; expected pairs of texts, such as "
                "text_a and text_b"
            )
        account_for_texts(table, split, columns, are_pairs=True)
        examples = make_examples(table, columns, split, self.accepted_labels)
        for number, example in zip(table.numbers, examples, strict=True):
            if not (example.text_b or "").strip():
                raise InputError(f"{table.place(number)}: {columns.text_b} is empty")
        return examples

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind itself: there are no labels."""
        return self

    def make_examples(  # type: ignore[override]  # the arguments of `predict` have names
        self, texts: Sequence[str]
    ) -> list[Example]:
        """Makes examples of n single texts."""
        return [Example("", text) for (text,) in rows_of(texts=texts)]

    def example_of_line(self, fields: Sequence[str]) -> Example:
        check_fields(fields, least=1, most=2, expected="text_a or text_a, tab, text_b")
        if not fields[-1].strip():
            raise InputError("text_b is empty")
        return Example.of_texts(*fields)

    def encode(self, examples, tokenizer) -> Features:
        """Converts single texts, or both texts of pairs, to ids."""
        if self.prompt:
            examples = [self._after_prompt(example) for example in examples]
        if not examples or examples[0].text_b is None:
            return encode_examples(
                examples, labels=(), tokenizer=tokenizer, max_seq_length=self.max_seq_length
            )
        return encode_pairs(
            examples,
            labels=self.accepted_labels,
            tokenizer=tokenizer,
            max_seq_length=self.max_seq_length,
        )

    def _after_prompt(self, example: Example) -> Example:
        second = None if example.text_b is None else self.prompt + example.text_b
        return dataclasses.replace(example, text_a=self.prompt + example.text_a, text_b=second)

    def predict_texts(self, predict, tokenizer, graph_tokenizer, text_a, text_b=None):
        """Maps texts to outputs, after the prompt."""
        if self.prompt:
            text_a = tf.strings.join([self.prompt, text_a])
        return super().predict_texts(predict, tokenizer, graph_tokenizer, text_a, text_b)

    @property
    def loss(self) -> ContrastiveLoss:
        return ContrastiveLoss(self.temperature)

    def make_model(self, encoder, dropout, seed, dtype) -> AlbertEmbedder:
        return AlbertEmbedder(encoder, self.pooling, self.normalize, seed=seed, dtype=dtype)

    def decode(self, examples, features, batches) -> np.ndarray:
        """Returns the embeddings of the texts of each example."""
        sides = 2 if isinstance(features, PairFeatures) else 1
        grouped = (
            (rows, outputs[: sides * len(rows)].reshape(len(rows), sides, outputs.shape[-1]))
            for rows, outputs in batches
        )
        return super().decode(examples, features, grouped)

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> Quality:
        """Measures correlations of cosines and scores; only the order of cosines has a meaning."""
        scores = label_ids(examples, self.accepted_labels)
        return Quality(compute_metrics(self.metrics, scores, _cosines(predictions)))

    def result(self, examples: Sequence[Example], predictions: np.ndarray) -> np.ndarray:
        """Returns the embeddings of single texts, float32 (n, H)."""
        return predictions[:, 0]

    def answers(self, examples, predictions: np.ndarray) -> dict[str, list]:
        """Returns the embeddings of single texts, or the cosines of pairs."""
        is_single = predictions.shape[1] == 1
        values = self.result(examples, predictions) if is_single else _cosines(predictions)
        return {"prediction": values.tolist()}


def _cosines(embeddings: np.ndarray) -> np.ndarray:
    """Returns the cosines (n,) of embeddings of length 1, (n, 2, H)."""
    return (embeddings[:, 0] * embeddings[:, 1]).sum(axis=1)
