"""Multiple choice: a passage, a question, and several answers to choose from (RACE)."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from albert_tf.data.fine_tuning.columns import choice_columns, choice_names, read_letters
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.features import Features, encode_choices
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.errors import InputError
from albert_tf.kinds.classification import Classification
from albert_tf.kinds.given_texts import as_texts, check_fields, rows_of
from albert_tf.kinds.registry import register
from albert_tf.models import AlbertMultipleChoice
from albert_tf.options.kinds import MultipleChoiceFlags
from albert_tf.options.resolution import resolved
from albert_tf.tokenization.packing import BLANK, pack_choices

# The original's.
_MAX_QA_LENGTH = 128


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoice(MultipleChoiceFlags, Classification):
    """Passages with as many choices each. Labels are letters; predictions are logits, float32 (n, C)."""

    name: ClassVar = "multiple_choice"
    texts: ClassVar = ("article", "question", "options")
    optional_texts: ClassVar = ()
    num_segments: ClassVar = 2
    reads_one_sequence: ClassVar = False
    length_options: ClassVar = ("max_qa_length",)
    more_metrics: ClassVar = ("loss",)
    can_be_taught: ClassVar = False

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of the metrics; the letters of choices are no classes."""
        return self.metrics

    def __post_init__(self):
        super().__post_init__()
        if self.long_texts != "truncate":
            raise InputError(f"long_texts={self.long_texts}: multiple choice truncates passages")
        if self.threshold_metric != "none":
            raise InputError(
                f"threshold_metric={self.threshold_metric}: the choices of multiple choice are no classes"
            )
        if self.max_qa_length is None:
            length = min(_MAX_QA_LENGTH, self.max_seq_length // 2)
            object.__setattr__(self, "max_qa_length", length)

    def read(self, source: Any, split: str) -> list[Example]:
        """Reads rows with a passage, a question, the columns `choice_a`, `choice_b`, ... and a letter.

        The letter may be small, or a number from 0.
        """
        table = read_letters(open_table(source, split))
        choices, found = choice_names(len(self.labels)), choice_columns(table)
        if found != choices:
            raise InputError(
                f"{table.name}: has {len(found)} choices; the model is trained on {len(choices)}"
            )
        return self._read(table, split, self.accepted_labels, choices)

    def make_examples(  # type: ignore[override]  # the arguments of `predict` have names
        self,
        article: Sequence[str],
        question: Sequence[str] | None,
        options: Sequence[Sequence[str]] | Sequence[str],
    ) -> list[Example]:
        """Makes n examples without labels of n articles, or one, and n questions, or None.

        `options` has for each question a list of as many options as the model has labels.
        """
        article = as_texts("article", article)
        self.check_second("question", question)
        if question is None:
            question = [""] * len(article)
        lists: list[Any] = list(options)
        if len(article) == 1 and lists and isinstance(lists[0], str):
            lists = [lists]
        for number, choices in enumerate(lists):
            if len(as_texts(f"options[{number}]", choices)) != len(self.labels):
                raise InputError(f"options[{number}]: expected a list of {len(self.labels)} texts")
        rows = rows_of(article=article, question=question)
        if len(rows) != len(lists):
            raise InputError(f"options: expected {len(rows)} lists; received {len(lists)}")
        return [
            Example.of_texts(*texts, choices=choices)
            for texts, choices in zip(rows, lists, strict=True)
        ]

    def encode(self, examples, tokenizer) -> Features:
        return encode_choices(
            examples,
            labels=self.labels,
            tokenizer=tokenizer,
            max_seq_length=self.max_seq_length,
            max_qa_length=resolved(self.max_qa_length),
        )

    def make_model(self, encoder, dropout, seed, dtype) -> AlbertMultipleChoice:
        return AlbertMultipleChoice(encoder, dropout, seed, dtype=dtype)

    def example_of_line(self, fields: Sequence[str]) -> Example:
        texts, choices = fields[: 1 + self.pairs], fields[1 + self.pairs :]
        count = 1 + self.pairs + self.num_choices
        names = "text_a, text_b" if self.pairs else "text_a"
        expected = f"{names} and {self.num_choices} choices with tabs between them"
        check_fields(fields, least=count, most=count, expected=expected)
        if not all(choice.strip() for choice in choices):
            raise InputError("a choice is empty")
        return Example.of_texts(*texts, choices=choices)

    @property
    def num_choices(self) -> int:  # type: ignore[override]  # of a field
        return len(self.labels)

    def predict_texts(self, predict, tokenizer, graph_tokenizer, article, question, options):
        choices = tf.shape(options)[1]
        rows = tf.repeat(tf.range(tf.shape(article)[0]), choices)  # (B * C,)
        article_ids = graph_tokenizer(article, max_ids=self.max_seq_length)
        joined = _join_choices(tf.gather(question, rows), tf.reshape(options, [-1]))
        packed = pack_choices(
            ids_a=tf.gather(article_ids, rows),
            ids_b=graph_tokenizer(joined),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=self.max_seq_length,
            max_qa_length=self.max_qa_length,
        )
        shape = [-1, choices, tf.shape(packed["input_ids"])[1]]
        return predict(**{name: tf.reshape(ids, shape) for name, ids in packed.items()})


def _join_choices(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Joins each question and option, string (n,), by the rule of `packing.join_choice`."""
    parts = tf.strings.split(questions, BLANK)
    gaps = tf.cast(parts.row_lengths(), tf.int32) - 1
    # An option follows each part but the last.
    follows = tf.ragged.range(parts.row_lengths()).flat_values < tf.cast(
        tf.gather(gaps, parts.value_rowids()), tf.int64
    )
    fillings = tf.where(follows, tf.gather(options, parts.value_rowids()), "")
    filled = tf.strings.reduce_join(parts.with_flat_values(parts.flat_values + fillings), axis=-1)
    return tf.where(gaps > 0, filled, questions + " " + options)
