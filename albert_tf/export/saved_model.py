"""SavedModels in version folders, as TensorFlow Serving watches them.

<export_dir>/ids/<n>/     ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/    raw text -> predictions; needs TensorFlow Text's operators

Each has a model card, and in `assets/` the shape of the model, its vocabulary and the labels, one a line.
Their names are in the output `label` too.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.export import model_card, versions, warmup
from albert_tf.export.assets import Assets, asset_files, encoder_assets, json_asset, lines_asset
from albert_tf.export.examples import examples_signature
from albert_tf.export.question_answering import AnswerRule, AnswerTextModel
from albert_tf.export.signatures import (
    ChoiceTextModel,
    IdsModel,
    Outputs,
    TextModel,
    all_outputs,
    class_outputs,
    score_outputs,
)
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertMultipleChoice,
    AlbertSpanLabeler,
)
from albert_tf.tokenization import AlbertTokenizer, Tokenizer

_LABELS_FILE = "labels.txt"
_RULE_FILE = "answer_rule.json"


@dataclasses.dataclass(frozen=True)
class ExportDetails:
    """What goes along with a model because someone wants to know it later.

    Attributes:
        assets: name of a file -> what is in it.
        metrics: of the evaluation before the export, for the model card.
    """

    assets: Assets = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)


def export_classifier(
    model: AlbertClassifier,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
    details: ExportDetails = ExportDetails(),
) -> dict[str, str]:
    """Writes the next version of both SavedModels; a version is one above the greatest in either folder.

    A WordPiece vocabulary has no form in the graph; then only the one that takes ids is written.

    Args:
        model: the classifier.
        labels: names of the classes.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens at most.
        pairs: whether the text model has a `text_b`.
        details: what goes along.

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`.

    Raises:
        InputError: the file system refuses.
    """

    def make_text_model(ids_model: IdsModel) -> TextModel:
        return TextModel(ids_model, tokenizer, max_seq_length, pairs)

    exported = _Exported(model, class_outputs(labels), make_text_model, labels)
    return exported.write(tokenizer, export_dir, details)


def export_regressor(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
    details: ExportDetails = ExportDetails(),
) -> dict[str, str]:
    """Writes SavedModels whose output is `score`; arguments and result are those of `export_classifier`.

    Args:
        model: with one class, whose logit is the score.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens at most.
        pairs: whether the text model has a `text_b`.
        details: what goes along.

    Raises:
        InputError: the file system refuses.
    """

    def make_text_model(ids_model: IdsModel) -> TextModel:
        return TextModel(ids_model, tokenizer, max_seq_length, pairs)

    return _Exported(model, score_outputs, make_text_model).write(tokenizer, export_dir, details)


def export_multiple_choice(
    model: AlbertMultipleChoice,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    max_qa_length: int,
    details: ExportDetails = ExportDetails(),
) -> dict[str, str]:
    """Writes SavedModels that take `article`, `question` and `options`, or their ids (B, C, S).

    Args:
        model: the model.
        labels: the choices' letters.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens of a text at most.
        max_qa_length: of the text model, tokens of question and option at most.
        details: what goes along.

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`.

    Raises:
        InputError: the file system refuses.
    """

    def make_text_model(ids_model: IdsModel) -> ChoiceTextModel:
        return ChoiceTextModel(ids_model, tokenizer, len(labels), max_seq_length, max_qa_length)

    exported = _Exported(model, class_outputs(labels), make_text_model, labels, len(labels))
    return exported.write(tokenizer, export_dir, details)


def export_question_answering(
    model: AlbertSpanLabeler | AlbertConditionalSpanLabeler,
    tokenizer: AlbertTokenizer,
    export_dir: str,
    rule: AnswerRule,
    details: ExportDetails = ExportDetails(),
) -> dict[str, str]:
    """Writes SavedModels that take `question` and `context`, or the ids of windows.

    Args:
        model: the model.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        rule: of the text model; it is in `assets/answer_rule.json` of both.
        details: what goes along.

    Returns:
        The written folders: `ids` and `text`.

    Raises:
        InputError: the file system refuses.
    """

    def make_text_model(ids_model: IdsModel) -> AnswerTextModel:
        return AnswerTextModel(ids_model, tokenizer, rule)

    rule_asset = {_RULE_FILE: json_asset(dataclasses.asdict(rule))}
    details = dataclasses.replace(details, assets={**details.assets, **rule_asset})
    return _Exported(model, all_outputs, make_text_model).write(tokenizer, export_dir, details)


@dataclasses.dataclass(frozen=True)
class _Exported:
    """All in which exported models differ.

    Attributes:
        model: the model.
        outputs: what to give of what it gives.
        make_text_model: puts text before ids.
        labels: names of the classes; none of other models.
        num_choices: C; None where an example is one sequence.
    """

    model: keras.Model
    outputs: Outputs
    make_text_model: Callable[[IdsModel], tf.Module]
    labels: Sequence[str] = ()
    num_choices: int | None = None

    def write(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails
    ) -> dict[str, str]:
        """Writes the next version and returns its folders."""
        assets = {**encoder_assets(self.model.encoder.config, tokenizer), **details.assets}
        if self.labels:
            assets[_LABELS_FILE] = lines_asset(self.labels)
        with asset_files(assets) as of_assets:
            ids_model = IdsModel(self.model, self.outputs, of_assets)
            examples = examples_signature(ids_model, self.num_choices)
            modules = {"ids": (ids_model, {"serving_examples": examples})}
            if isinstance(tokenizer, AlbertTokenizer):
                modules["text"] = self.make_text_model(ids_model), {}
            paths = versions.next_version(export_dir, modules, "export_dir")
            with versions.write_version(paths) as incomplete:
                for name, (module, more_signatures) in modules.items():
                    signatures = {"serving_default": module.signature, **more_signatures}
                    with files.explain_refusal(paths[name]):
                        tf.saved_model.save(module, incomplete[name], signatures=signatures)
                    self._write_companions(incomplete[name], tokenizer, signatures, details)
        return paths

    def _write_companions(
        self,
        saved_model_dir: str,
        tokenizer: Tokenizer,
        signatures: model_card.Signatures,
        details: ExportDetails,
    ) -> None:
        """Writes what lies beside a SavedModel: the model card and requests to warm a server."""
        card = model_card.model_card(
            self.model, tokenizer, signatures, self.labels, details.metrics
        )
        files.write_text(os.path.join(saved_model_dir, model_card.FILE_NAME), card)
        if warmup.is_available():
            signature = signatures["serving_default"]
            requests = warmup.sample_requests(signature)
            warmup.write_warmup_requests(saved_model_dir, signature, requests)
