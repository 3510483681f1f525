"""What is exported of each kind of model."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

from albert_tf.data.squad.conventions import AnswerConfig
from albert_tf.export.assets import json_asset
from albert_tf.export.question_answering import AnswerTextModel
from albert_tf.export.signatures import (
    ChoiceTextModel,
    IdsModel,
    TextModel,
    all_outputs,
    class_outputs,
    score_outputs,
)
from albert_tf.export.writing import SAVED_MODELS, Exportable, ExportDetails
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertMultipleChoice,
    AlbertSpanLabeler,
)
from albert_tf.tokenization import AlbertTokenizer, Tokenizer

_RULE_FILE = "answer_rule.json"


def export_classifier(
    model: AlbertClassifier,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of both SavedModels; a version is one above the greatest in either folder.

    A WordPiece vocabulary has no form in the graph; then only the one that takes ids is written. Or it
    writes the next version of a file for LiteRT, which takes ids.

    Args:
        model: the classifier.
        labels: names of the classes.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens at most.
        pairs: whether the text model has a `text_b`.
        details: the form, and what goes along.

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`; or `tflite`.

    Raises:
        InputError: the model has no such form, or the file system refuses.
    """
    make_text_model = _text_model_maker(tokenizer, max_seq_length, pairs)
    exported = Exportable(model, class_outputs(labels), make_text_model, max_seq_length, labels)
    return exported.write(tokenizer, export_dir, details)


def export_regressor(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes SavedModels whose output is `score`; arguments and result are those of `export_classifier`.

    Args:
        model: with one class, whose logit is the score.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens at most.
        pairs: whether the text model has a `text_b`.
        details: the form, and what goes along.

    Raises:
        InputError: the model has no such form, or the file system refuses.
    """
    make_text_model = _text_model_maker(tokenizer, max_seq_length, pairs)
    exported = Exportable(model, score_outputs, make_text_model, max_seq_length)
    return exported.write(tokenizer, export_dir, details)


def export_multiple_choice(
    model: AlbertMultipleChoice,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    max_qa_length: int,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes SavedModels that take `article`, `question` and `options`, or their ids (B, C, S).

    There is no file for LiteRT.

    Args:
        model: the model.
        labels: the choices' letters.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens of a text at most.
        max_qa_length: of the text model, tokens of question and option at most.
        details: the form, and what goes along.

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`.

    Raises:
        InputError: the model has no such form, or the file system refuses.
    """
    make_text_model = functools.partial(
        ChoiceTextModel,
        tokenizer=tokenizer,
        num_choices=len(labels),
        max_seq_length=max_seq_length,
        max_qa_length=max_qa_length,
    )
    exported = Exportable(
        model, class_outputs(labels), make_text_model, max_seq_length, labels, len(labels)
    )
    return exported.write(tokenizer, export_dir, details)


def export_question_answering(
    model: AlbertSpanLabeler | AlbertConditionalSpanLabeler,
    tokenizer: AlbertTokenizer,
    export_dir: str,
    config: AnswerConfig,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes SavedModels that take `question` and `context`, or the ids of windows.

    Args:
        model: the model.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        config: of the text model; it is in `assets/answer_rule.json` of both.
        details: the form, and what goes along.

    Returns:
        The written folders: `ids` and `text`, or `tflite`.

    Raises:
        InputError: the model has no such form, or the file system refuses.
    """
    make_text_model = functools.partial(AnswerTextModel, tokenizer=tokenizer, config=config)
    rule_asset = {_RULE_FILE: json_asset(dataclasses.asdict(config))}
    details = dataclasses.replace(details, assets={**details.assets, **rule_asset})
    exported = Exportable(model, all_outputs, make_text_model, config.max_seq_length)
    return exported.write(tokenizer, export_dir, details)


def _text_model_maker(
    tokenizer: Tokenizer, max_seq_length: int, pairs: bool
) -> Callable[[IdsModel], TextModel]:
    return functools.partial(
        TextModel, tokenizer=tokenizer, max_seq_length=max_seq_length, pairs=pairs
    )
