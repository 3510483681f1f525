"""Embeddings of texts, trained on pairs or triplets of texts and evaluated by the cosines of pairs."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.cells import is_missing
from albert_tf.data.fine_tuning.columns import find_columns, find_negative
from albert_tf.data.fine_tuning.examples import Columns, Example, ScoreRange, make_examples
from albert_tf.data.fine_tuning.features import (
    Features,
    encode_examples,
    encode_tuples,
    label_ids,
)
from albert_tf.data.fine_tuning.opened_tables import account_for_texts, open_table
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError
from albert_tf.evaluation.metrics import compute_metrics
from albert_tf.kinds.given_texts import check_fields, rows_of
from albert_tf.kinds.kind import Quality
from albert_tf.kinds.registry import register
from albert_tf.kinds.taught_embeddings import TaughtEmbeddings, of_length_one
from albert_tf.losses import ContrastiveLoss, CosentLoss, TaughtEmbeddingLoss
from albert_tf.models import AlbertEmbedder
from albert_tf.options.kinds import EmbeddingFlags, pooling_names

# What the rows of a training set are: pairs that belong together, pairs with scores, pairs that belong
# together with a text that does not; or, with a teacher, single texts.
Rows = Literal["pairs", "scored_pairs", "triplets", "texts"]


class _Pairs(list[Example]):
    """Pairs of texts, of which there may be none."""


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Embedding(EmbeddingFlags, TaughtEmbeddings):
    """Texts whose embeddings have a high cosine if they belong together.

    Predictions are embeddings, float32 (n, 1, H) of single texts or (n, 2, H) of pairs, whose score is
    the cosine. What the model learns depends on the rows of the training set, see `loss`.
    """

    name: ClassVar = "embedding"
    reads_pooler: ClassVar = False
    output_name: ClassVar = "embedding"
    fixed_options: ClassVar = ("pooling",)
    label_options: ClassVar = ("temperature",)
    least_micro_batch: ClassVar = 2  # The negatives of a pair are the others.
    can_hold_out: ClassVar = None  # Only pairs with scores can be evaluated.

    metrics: tuple[str, ...] = ("spearman", "pearson")
    rows: Rows = "pairs"  # of the training set
    normalize: bool = True  # to length 1, as in training
    prompt: str = ""  # what is put before each text
    prompts: tuple[tuple[str, str], ...] = ()  # the names of prompts, and the prompts

    def __post_init__(self):
        super().__post_init__()
        pooling_names(self.pooling)  # checks it

    @property
    def reads_one_sequence(self) -> bool:  # type: ignore[override]  # of a field
        """Whether a sequence is the text as it is given."""
        return not self.prompt

    @property
    def prompt_name(self) -> str | None:
        """The name of the prompt; None without one."""
        names = (name for name, prompt in self.prompts if prompt == self.prompt)
        return next(names, None) if self.prompt else None

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
        """Reads rows with two texts and a score as the label.

        The pairs of a training set without scores belong together; each may have a negative, a text that
        does not belong to the first. A test set may lack scores.
        """
        table = open_table(source, split)
        columns = find_columns(table, may_lack_label=split != "dev")
        if columns.text_b is None:
            raise InputError(
                f"{table.name}: has the text in '{columns.text_a}'; expected pairs of texts, such as "
                "text_a and text_b"
            )
        negative = None if split == "test" else find_negative(table, columns)
        if negative is not None and columns.label is not None:
            raise InputError(
                f"{table.name}: has scores in '{columns.label}' and negatives in '{negative}'; expected "
                f"one of them, or --ignore_columns={negative}"
            )
        columns = dataclasses.replace(columns, negative=negative)
        account_for_texts(
            table, split, columns, pairs="pairs" if columns.label is None else "scored_pairs"
        )
        examples = make_examples(table, columns, split, self.accepted_labels)
        _check_not_empty(table, columns)
        return examples

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with what the rows of the training set are."""
        first = examples[0]
        if first.label is not None and (fault := self._fault_of_scores(path, examples)):
            raise InputError(f"{fault}, or --ignore_columns for pairs that belong together")
        rows: Rows = "pairs" if first.label is None else "scored_pairs"
        return dataclasses.replace(self, rows=rows if first.negative is None else "triplets")

    def fit_unlabelled(self, labels: Sequence[str], examples: Sequence[Example]) -> Self:
        """Returns the kind of a training set of single texts."""
        return dataclasses.replace(self, rows="texts")

    def find_faults(self, path, split, examples, features) -> list[str]:
        """Returns a line if the scores of a dev set are all alike."""
        fault = self._fault_of_scores(path, examples) if split == "dev" else ""
        return [fault] if fault else []

    def _fault_of_scores(self, path: str, examples: Sequence[Example]) -> str:
        """Returns what is wrong with scores that are all alike; nothing if they are not."""
        scores = {*label_ids(examples, self.accepted_labels).tolist()}
        if len(scores) > 1:
            return ""
        return (
            f"{path}: every pair has the score {scores.pop():g}; expected two or more, whose order the "
            "cosines can have"
        )

    def make_examples(
        self, text_a: Sequence[str], text_b: Sequence[str] | None = None
    ) -> list[Example]:
        """Makes examples of n single texts, or of n pairs."""
        if text_b is None:
            return [Example("", text) for (text,) in rows_of(text_a=text_a)]
        rows = rows_of(text_a=text_a, text_b=text_b)
        return _Pairs(Example("", first, second) for first, second in rows)

    def example_of_line(self, fields: Sequence[str]) -> Example:
        check_fields(fields, least=1, most=2, expected="text_a or text_a, tab, text_b")
        if not fields[-1].strip():
            raise InputError("text_b is empty")
        return Example.of_texts(*fields)

    def encode(self, examples, tokenizer) -> Features:
        """Converts single texts, or each text of pairs or triplets, to ids."""
        are_pairs = isinstance(examples, _Pairs) or any(x.text_b is not None for x in examples[:1])
        if self.prompt:
            examples = [self._after_prompt(example) for example in examples]
        if not are_pairs:
            return encode_examples(
                examples, labels=(), tokenizer=tokenizer, max_seq_length=self.max_seq_length
            )
        return encode_tuples(
            examples,
            labels=self.accepted_labels,
            tokenizer=tokenizer,
            max_seq_length=self.max_seq_length,
        )

    def _after_prompt(self, example: Example) -> Example:
        texts = {name: getattr(example, name) for name in ("text_a", "text_b", "negative")}
        after = {name: self.prompt + text for name, text in texts.items() if text is not None}
        return dataclasses.replace(example, **after)

    def predict_texts(self, predict, tokenizer, graph_tokenizer, text_a, text_b=None):
        """Maps texts to outputs, after the prompt."""
        if self.prompt:
            text_a = tf.strings.join([self.prompt, text_a])
        return super().predict_texts(predict, tokenizer, graph_tokenizer, text_a, text_b)

    @property
    def loss(self) -> ContrastiveLoss | CosentLoss:
        """The order of cosines, given scores; otherwise, which second text belongs to the first one."""
        if self.rows == "scored_pairs":
            return CosentLoss(self.temperature)
        return ContrastiveLoss(self.temperature, num_texts=3 if self.rows == "triplets" else 2)

    def taught_loss(self, weight: float) -> TaughtEmbeddingLoss:
        return TaughtEmbeddingLoss(self.loss, weight)

    def make_model(self, encoder, dropout, seed, dtype) -> AlbertEmbedder:
        return AlbertEmbedder(encoder, self.pooling, self.normalize, seed=seed, dtype=dtype)

    def decode(self, examples, features, batches) -> np.ndarray:
        """Returns the embeddings of the texts of each example."""
        sides = features.num_choices or 1
        grouped = (
            (rows, outputs[: sides * len(rows)].reshape(len(rows), sides, outputs.shape[-1]))
            for rows, outputs in batches
        )
        return super().decode(examples, features, grouped)

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> Quality:
        """Measures correlations of cosines and scores; only the order of cosines has a meaning."""
        scores = label_ids(examples, self.accepted_labels)
        return Quality(compute_metrics(self.metrics, scores, self._cosines(predictions)))

    def result(self, examples: Sequence[Example], predictions: np.ndarray) -> np.ndarray:
        """Returns the embeddings of single texts, float32 (n, H), or the cosines of pairs, (n,)."""
        is_single = predictions.shape[1] == 1
        return predictions[:, 0] if is_single else self._cosines(predictions)

    def answers(self, examples, predictions: np.ndarray) -> dict[str, list]:
        """Returns the embeddings of single texts, or the cosines of pairs."""
        return {"prediction": self.result(examples, predictions).tolist()}

    def _cosines(self, embeddings: np.ndarray) -> np.ndarray:
        """Returns the cosines (n,) of embeddings (n, 2, H)."""
        if not self.normalize:
            embeddings = of_length_one(embeddings)
        return (embeddings[:, 0] * embeddings[:, 1]).sum(axis=1)


def _check_not_empty(table: Table, columns: Columns) -> None:
    """Raises an `InputError` if a row with a first text lacks another one."""
    names = [name for name in (columns.text_b, columns.negative) if name is not None]
    for number, row in zip(table.numbers, table.rows, strict=True):
        cells: dict[str | int, Any] = dict(zip(table.columns, row, strict=True))
        if _is_blank(cells[columns.text_a]):
            continue  # it is left out, or refused
        for name in names:
            if _is_blank(cells[name]):
                raise InputError(f"{table.place(number)}: {name} is empty")


def _is_blank(cell: Any) -> bool:
    return is_missing(cell) or not str(cell).strip()
