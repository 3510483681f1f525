"""The options of the kinds of tasks, and the flags for them.

Each kind inherits its own class of options, with its defaults. `KindOptions` has all of them as flags
that may be left out: `None` stands for the default of the kind or, without training, for what the model
has. Kinds of other packages have the one flag `--kind_options`.
"""

import dataclasses
import importlib.metadata
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from albert_tf.errors import InputError, name_place
from albert_tf.options import check_range, check_type, option, type_of_value

LongTexts = Literal["truncate", "windows"]
# In the order in which sentence-transformers joins several.
PoolingName = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
# One of them, or several with + between two.
Pooling = str
SpanHead = Literal["simple", "conditional"]
ThresholdMetric = Literal["none", "accuracy", "f1", "macro_f1", "matthews_corrcoef"]
AnswerRules = Literal["squad", "ar", "de", "en", "es", "hi", "ja", "vi", "zh"]

# Group of the entry points by which other packages offer kinds.
_GROUP = "albert_tf.kinds"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextFlags:
    """The options of kinds that predict from the whole of a text."""

    long_texts: LongTexts = option(
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
    label_smoothing: float = option(
        "Share of an example's target, in the training loss, that is spread evenly over all labels.",
        0.0,
        least=0,
        below=1,
    )
    threshold_metric: ThresholdMetric = option(
        "Predict the second of two labels from the probability on that is best by this metric on the dev "
        "set; none: predict the more probable label.",
        "none",
    )


def pooling_names(pooling: Pooling) -> list[PoolingName]:
    """Returns the poolings whose vectors are joined.

    Raises:
        InputError: there is no such pooling, or several stand in another order.
    """
    known = typing.get_args(PoolingName)
    names = [name for name in known if name in pooling.split("+")]
    if not names or "+".join(names) != pooling:
        raise InputError(
            f"pooling={pooling!r}: expected one of {', '.join(known)}, or several in this order with + "
            "between two"
        )
    return names


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingFlags:
    """The options of embeddings."""

    pooling: Pooling = option(
        "mean: mean of the last hidden states of all tokens; cls: that of [CLS]; max: the highest value "
        "of each feature; mean_sqrt_len_tokens: their sum, divided by the root of their number; "
        "weightedmean: their mean, each with its number as weight; lasttoken: that of the last token. "
        "Several are joined, e.g. cls+mean. An embedder as --init_checkpoint passes on its own.",
        "mean",
    )
    # That of Gao et al. 2021, https://arxiv.org/abs/2104.08821.
    temperature: float = option("Divisor of the cosines in the loss.", 0.05, least=1e-4)


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
    head: SpanHead | None = option(
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
    answer_rules: AnswerRules = option(
        "How exact match and F1 compare answers: squad, SQuAD's official rules; or MLQA's rules for a "
        "language, by words or, for zh and ja, by characters.",
        "squad",
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
    "embedding": EmbeddingFlags,
    "multi_label": LongTextFlags,
    "multiple_choice": MultipleChoiceFlags,
    "question_answering": QuestionAnsweringFlags,
    "regression": LongTextFlags,
    "token_classification": TokenClassificationFlags,
}


def plug_ins() -> dict[str, type]:
    """Imports the kinds that installed packages offer as entry points `albert_tf.kinds`, by name."""
    return {entry.name: entry.load() for entry in importlib.metadata.entry_points(group=_GROUP)}


def option_fields(kind: type) -> dict[str, dataclasses.Field]:
    """Returns the fields of a kind, or of its options alone, that are flags, by name."""
    fields = dataclasses.fields(kind)
    return {field.name: field for field in fields if "description" in field.metadata}


def kinds_with(name: str) -> list[str]:
    """Returns the names of the kinds of this package that have an option."""
    return [kind for kind, options in KIND_FLAGS.items() if name in option_fields(options)]


def kind_flag(name: str) -> Any:
    """Declares the flag of an option, with the descriptions and defaults of the kinds that have it."""
    kinds = kinds_with(name)
    fields = {kind: option_fields(KIND_FLAGS[kind])[name] for kind in kinds}
    described: dict[str, list[str]] = {}
    for kind, field in fields.items():
        default = "" if field.default is None else f" Default: {field.default}."
        described.setdefault(field.metadata["description"] + default, []).append(kind)
    texts = (f"Of {' and '.join(names)}: {text}" for text, names in described.items())
    declared = fields[kinds[0]].metadata
    return dataclasses.field(default=None, metadata={**declared, "description": " ".join(texts)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class KindOptions:
    """The options of single kinds of tasks."""

    answer_rules: AnswerRules | None = kind_flag("answer_rules")
    class_weights: str | None = kind_flag("class_weights")
    doc_stride: int | None = kind_flag("doc_stride")
    end_n_top: int | None = kind_flag("end_n_top")
    head: SpanHead | None = kind_flag("head")
    label_smoothing: float | None = kind_flag("label_smoothing")
    long_texts: LongTexts | None = kind_flag("long_texts")
    max_answer_length: int | None = kind_flag("max_answer_length")
    max_qa_length: int | None = kind_flag("max_qa_length")
    max_query_length: int | None = kind_flag("max_query_length")
    n_best_size: int | None = kind_flag("n_best_size")
    null_score_diff_threshold: float | None = kind_flag("null_score_diff_threshold")
    pooling: Pooling | None = kind_flag("pooling")
    start_n_top: int | None = kind_flag("start_n_top")
    temperature: float | None = kind_flag("temperature")
    threshold_metric: ThresholdMetric | None = kind_flag("threshold_metric")
    version_2_with_negative: bool | None = kind_flag("version_2_with_negative")
    kind_options: tuple[str, ...] = option(
        "Options of a kind of another package, as name=value, comma-separated.", ()
    )


# The options of the kinds of this package, each of which is a flag.
KIND_OPTIONS = tuple(
    field.name for field in dataclasses.fields(KindOptions) if field.name != "kind_options"
)
_FLAGS = {*KIND_OPTIONS, "max_seq_length"}


def read_kind_options(given: Sequence[str], kind: Any) -> dict[str, Any]:
    """Returns the values of `--kind_options` for a kind, by name.

    Each is `name=value`, where the value is text or JSON, as the type of the kind's field is.
    """
    types_of = typing.get_type_hints(kind)
    fields = option_fields(kind)
    known = {name: field for name, field in fields.items() if name not in _FLAGS}
    values = {}
    for assignment in given:
        name, _, value = assignment.partition("=")
        if name not in known:
            hint = f"--{name} is a flag" if name in _FLAGS else ", ".join(sorted(known)) or "none"
            raise InputError(
                f"--kind_options={assignment}: {kind.name} has no such option; expected {hint}"
            )
        values[name] = _parse(value, type_of_value(types_of[name]))
        with name_place("--kind_options"):
            check_type(name, values[name], types_of[name])
            check_range(known[name], values[name])
    return values


def _parse(text: str, kind: Any) -> Any:
    """Returns a value of a type; the text itself if it is none, which the check of types reports."""
    if kind is str or typing.get_origin(kind) is Literal:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def name_flag(name: str) -> str:
    """Returns the flag for an option of a kind."""
    return f"--{name}" if name in _FLAGS else f"--kind_options={name}"
