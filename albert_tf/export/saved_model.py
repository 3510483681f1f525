"""SavedModels in version folders, as TensorFlow Serving watches them.

<export_dir>/ids/<n>/     ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/    raw text -> predictions; needs TensorFlow Text's operators

The labels' names are in the output `label`, and one a line in `assets/labels.txt`.
"""

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from albert_tf import files
from albert_tf.export import versions, warmup
from albert_tf.export.question_answering import AnswerRule, AnswerTextModel
from albert_tf.export.signatures import (
    ChoiceTextModel,
    IdsModel,
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


def export_classifier(
    model: AlbertClassifier,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
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

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`.

    Raises:
        InputError: the file system refuses.
    """
    with _labels_file(labels) as labels_file:
        ids_model = IdsModel(model, class_outputs(labels), labels_file)
        return _export(
            ids_model,
            lambda: TextModel(ids_model, tokenizer, max_seq_length, pairs),
            tokenizer,
            export_dir,
        )


def export_regressor(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
) -> dict[str, str]:
    """Writes SavedModels whose output is `score`; arguments and result are those of `export_classifier`.

    Args:
        model: with one class, whose logit is the score.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens at most.
        pairs: whether the text model has a `text_b`.

    Raises:
        InputError: the file system refuses.
    """
    ids_model = IdsModel(model, score_outputs)
    return _export(
        ids_model,
        lambda: TextModel(ids_model, tokenizer, max_seq_length, pairs),
        tokenizer,
        export_dir,
    )


def export_multiple_choice(
    model: AlbertMultipleChoice,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    max_qa_length: int,
) -> dict[str, str]:
    """Writes SavedModels that take `article`, `question` and `options`, or their ids (B, C, S).

    Args:
        model: the model.
        labels: the choices' letters.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens of a text at most.
        max_qa_length: of the text model, tokens of question and option at most.

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`.

    Raises:
        InputError: the file system refuses.
    """
    with _labels_file(labels) as labels_file:
        ids_model = IdsModel(model, class_outputs(labels), labels_file)
        return _export(
            ids_model,
            lambda: ChoiceTextModel(
                ids_model, tokenizer, len(labels), max_seq_length, max_qa_length
            ),
            tokenizer,
            export_dir,
        )


def export_question_answering(
    model: AlbertSpanLabeler | AlbertConditionalSpanLabeler,
    tokenizer: AlbertTokenizer,
    export_dir: str,
    rule: AnswerRule,
) -> dict[str, str]:
    """Writes SavedModels that take `question` and `context`, or the ids of windows.

    Args:
        model: the model.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        rule: of the text model; it is in `assets/answer_rule.json` of both.

    Returns:
        The written folders: `ids` and `text`.

    Raises:
        InputError: the file system refuses.
    """
    content = json.dumps(dataclasses.asdict(rule), indent=2) + "\n"
    with _asset_file("answer_rule.json", content) as rule_file:
        ids_model = IdsModel(model, all_outputs, rule_file)
        return _export(
            ids_model, lambda: AnswerTextModel(ids_model, tokenizer, rule), tokenizer, export_dir
        )


def _labels_file(labels: Sequence[str]) -> contextlib.AbstractContextManager[str]:
    return _asset_file("labels.txt", "".join(f"{label}\n" for label in labels))


@contextlib.contextmanager
def _asset_file(name: str, content: str) -> Iterator[str]:
    """Gives the path of a file with some content for as long as a SavedModel is written."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        files.write_text(path, content)
        yield path


def _export(
    ids_model: IdsModel,
    make_text_model: Callable[[], tf.Module],
    tokenizer: Tokenizer,
    export_dir: str,
) -> dict[str, str]:
    modules = {"ids": ids_model}
    if isinstance(tokenizer, AlbertTokenizer):
        modules["text"] = make_text_model()
    paths = versions.next_version(export_dir, modules, "export_dir")
    with versions.write_version(paths) as incomplete:
        for name, module in modules.items():
            with files.explain_refusal(paths[name]):
                tf.saved_model.save(module, incomplete[name], signatures=module.signature)
            if warmup.is_available():
                requests = warmup.sample_requests(module.signature)
                warmup.write_warmup_requests(incomplete[name], module.signature, requests)
    return paths
