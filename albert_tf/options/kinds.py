"""The options of the kinds of tasks, and options dataclasses that have them, too."""

import dataclasses
import importlib.metadata
import typing
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.options import option

Pooling = Literal["mean", "cls"]

# Group of the entry points by which other packages offer kinds.
_GROUP = "albert_tf.kinds"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextFlags:
    """The options of kinds that predict from the whole of a text."""

    long_texts: Literal["truncate", "windows"] = option(
        "Texts longer than --max_seq_length: truncate reads the front only, windows reads everything, in "
        "windows whose outputs are averaged.",
        "truncate",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationFlags(LongTextFlags):
    """The options of classification."""

    class_weights: str = option(
        "Weights of the labels in the training loss: none; balanced, the inverse of their frequency; or "
        "label:weight,... or a JSON object of labels and weights, with 1 for other labels.",
        "none",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingFlags:
    """The options of embeddings."""

    pooling: Pooling = option(
        "mean: mean of the last hidden states of all tokens; cls: that of [CLS].", "mean"
    )
    # That of Gao et al. 2021, https://arxiv.org/abs/2104.08821.
    temperature: float = option("Divisor of the cosines in the contrastive loss.", 0.05, least=1e-4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceFlags(ClassificationFlags):
    """The options of multiple choice."""

    max_qa_length: int | None = option(
        "Maximum number of tokens of question and choice together. Default: 128, but at most half of "
        "--max_seq_length.",
        None,
        least=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringFlags:
    """The options of question answering."""

    max_seq_length: int = option(
        "Maximum number of tokens per sequence, including the special ones.", 384, least=5
    )
    version_2_with_negative: bool | None = option(
        "Questions may have no answer. Default: as in --train_file.", None
    )
    head: Literal["simple", "conditional"] | None = option(
        "simple: start and end; conditional: the end depends on the start, and answerability is "
        "predicted. Default: conditional if questions may have no answer, otherwise simple.",
        None,
    )
    start_n_top: int = option("Number of starts to try (--head=conditional).", 5, least=1, most=99)
    end_n_top: int = option(
        "Number of ends to try per start (--head=conditional).", 5, least=1, most=99
    )
    doc_stride: int = option(
        "Number of tokens between the starts of two neighbouring windows in the passage.",
        128,
        least=1,
    )
    max_query_length: int = option("Maximum number of tokens of a question.", 64, least=1)
    n_best_size: int = option(
        "Maximum number of answers per question in nbest_predictions.json and, with --head=simple, "
        "number of starts and of ends to try.",
        20,
        least=1,
    )
    max_answer_length: int = option("Maximum number of tokens of an answer.", 30, least=1)
    null_score_diff_threshold: float | None = option(
        "Leave a question unanswered if its null odds exceed this threshold. Default: the best one in "
        "evaluation.",
        None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationFlags:
    """The options of tags."""

    doc_stride: int | None = option(
        "Number of tokens between the starts of two neighbouring windows of a long text. Default: half "
        "of --max_seq_length.",
        None,
        least=1,
    )


# Name of a kind of this package -> its options.
KIND_FLAGS: Mapping[str, type] = {
    "classification": ClassificationFlags,
    "regression": LongTextFlags,
    "embedding": EmbeddingFlags,
    "multi_label": LongTextFlags,
    "multiple_choice": MultipleChoiceFlags,
    "question_answering": QuestionAnsweringFlags,
    "token_classification": TokenClassificationFlags,
}


def plug_ins() -> dict[str, type]:
    """Imports the kinds that installed packages offer as entry points `albert_tf.kinds`, by name."""
    return {entry.name: entry.load() for entry in importlib.metadata.entry_points(group=_GROUP)}


def option_fields(kind: type) -> dict[str, dataclasses.Field]:
    """Returns the fields of a kind, or of its options alone, that are flags, by name."""
    fields = dataclasses.fields(kind)
    return {field.name: field for field in fields if "description" in field.metadata}


def add_kind_options(options_class: type, kinds: Mapping[str, type]) -> type:
    """Returns a dataclass of options, extended by the options of kinds that it lacks.

    `kinds` are the kinds, or their options alone, by name. The added options default to None, which
    stands for the default of the kind. `KINDS_OF_OPTIONS` of the dataclass names the kinds that have each
    option.
    """
    own = {field.name for field in dataclasses.fields(options_class)}
    having: dict[str, dict[str, type]] = {}
    for kind, options in kinds.items():
        for name in option_fields(options).keys() - own:
            having.setdefault(name, {})[kind] = options
    return dataclasses.make_dataclass(
        options_class.__name__.removeprefix("_"),
        [
            (name, _type_of(name, of) | None, _optional(name, of, len(kinds)))
            for name, of in sorted(having.items())
        ],
        bases=(options_class,),
        namespace={
            "KINDS_OF_OPTIONS": {name: tuple(of) for name, of in having.items()},
            "__doc__": "The options of single kinds of tasks.",
            "__module__": options_class.__module__,
        },
        frozen=True,
        kw_only=True,
    )


def _type_of(name: str, having: Mapping[str, type]) -> Any:
    return typing.get_type_hints(next(iter(having.values())))[name]


def _optional(name: str, having: Mapping[str, type], among: int) -> Any:
    """Returns an option of one or more `among` so many kinds as one that may be left out."""
    descriptions: dict[str, list[str]] = {}
    for kind, options in having.items():
        field = option_fields(options)[name]
        default = "" if field.default is None else f" Default: {field.default}."
        descriptions.setdefault(field.metadata["description"] + default, []).append(kind)
    described = (
        f"Of {' and '.join(names)}: {description}" if among > 1 else description
        for description, names in descriptions.items()
    )
    bounds = {key: field.metadata[key] for key in ("least", "most")}
    return option(" ".join(described), None, **bounds)
