"""Loads trained models to predict from text in Python."""

import functools
import os
from collections.abc import Mapping

import tensorflow as tf

from albert_tf.checkpoints.folder import best_checkpoint
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.errors import InputError, name_place
from albert_tf.export import version_folders
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.fine_tuning import classification, question_answering
from albert_tf.tasks.fine_tuning.run import load_trained
from albert_tf.tasks.flags import load_tokenizer
from albert_tf.tasks.loaded_models import (
    LoadedClassifier,
    LoadedModel,
    LoadedMultipleChoice,
    LoadedPretrainer,
    LoadedQuestionAnswerer,
    LoadedRegressor,
)
from albert_tf.tasks.trained_folder import (
    LABEL_METADATA_FILE,
    folder_of,
    options_path,
    read_folder,
    read_options,
)
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator, make_strategy


def load(folder: str, tokenizer: Tokenizer | None = None) -> LoadedModel:
    """Loads a trained model, to predict from text.

    `predict` takes lists of texts. It returns for n examples what the scripts write:

    - of a classifier, for `predict(text_a)` or `predict(text_a, text_b)`: `Classes`;
    - of a regression model, for the same: `Scores`;
    - of a multiple-choice model, for `predict(article, question, options)`: `Classes`;
    - of a model that answers questions, for `predict(question, context)`: `Answers`;
    - of a pre-trained model, for `predict(texts)`: embeddings, float32 (n, H). It has `fill_mask`, too.

    Texts of similar length share a batch. Work of more than ten seconds shows its progress.

    Args:
        folder: an `--output_dir`, whose best checkpoint is used; a version of an exported model, e.g.
            `exported/text/1`; or an `--export_dir`, for its newest version.
        tokenizer: of a pre-trained model whose folder holds no vocabulary.

    Returns:
        The model, whose class depends on its task.

    Raises:
        InputError: the folder holds no trained model, lacks a part of it, or was written by a newer
            version of albert_tf.
    """
    folder = os.fspath(folder)
    with name_place(f"load({folder!r})"):
        if not tf.io.gfile.isdir(folder):
            raise InputError("no such folder")
        version = _find_version(folder)
        model_dir = version_folders.assets_folder(version) if version else folder_of(folder)
        options = options_path(model_dir)
        if not tf.io.gfile.exists(options):
            raise InputError(
                "holds no trained model; expected an --output_dir of fine-tuning or pre-training, or an "
                "--export_dir or one of its versions"
            )
        place = {"exported_model": version} if version else {"output_dir": model_dir}
        is_text = tf.io.gfile.exists(os.path.join(model_dir, LABEL_METADATA_FILE))
        saved = read_options(options)
        if is_text:
            return _load_text_model(place)
        if "doc_stride" in saved:
            return _load_question_answerer(place)
        if "sentence_objective" in saved:
            return _load_pretrainer(model_dir, saved["sentence_objective"] != "none", tokenizer)
        raise InputError(f"lacks {LABEL_METADATA_FILE}, which describes the head of a classifier")


def _find_version(folder: str) -> str | None:
    """Returns the version folder of an exported model; None for other folders."""
    exists = tf.saved_model.contains_saved_model
    for parent in (folder, os.path.join(folder, "ids"), os.path.join(folder, "text")):
        version = os.path.join(parent, str(version_folders.latest_version(parent)))
        if exists(version):
            return version
    return folder if exists(folder) else None


def _load_text_model(place: dict[str, str]) -> LoadedModel:
    # Options must ask for something.
    options = classification.ClassificationOptions(predict_file="-", **place).complete()
    task, evaluator = load_trained(options, classification.make_task)
    loaded = {
        "classification": LoadedClassifier,
        "regression": LoadedRegressor,
        "multiple_choice": LoadedMultipleChoice,
    }
    return loaded[task.metadata.kind](task, evaluator)


def _load_question_answerer(place: dict[str, str]) -> LoadedModel:
    place = {"output_dir": "", **place}
    options = question_answering.QuestionAnsweringOptions(
        do_predict=True, predict_file="-", **place
    ).complete(has_impossible=False)
    return LoadedQuestionAnswerer(*load_trained(options, question_answering.make_task))


def _load_pretrainer(folder: str, sentence_head: bool, tokenizer: Tokenizer | None) -> LoadedModel:
    config = AlbertConfig.from_json_file(os.path.join(folder, CONFIG_FILE))
    if tokenizer is None:
        vocabulary = read_folder(folder, ())
        paths = vocabulary["spm_model_file"], vocabulary["vocab_file"]
        if not any(paths):
            raise InputError(
                "holds no vocabulary; pass tokenizer=albert_tf.AlbertTokenizer(...) with that of the "
                "pre-training data"
            )
        tokenizer = load_tokenizer(*paths, lower_case=True)
    if tokenizer.vocab_size != config.vocab_size:
        raise InputError(
            f"{tokenizer.vocabulary_file} has {tokenizer.vocab_size} pieces; the model has "
            f"{config.vocab_size}"
        )
    strategy = make_strategy("one_device")
    with strategy.scope():
        model = AlbertPretrainer(AlbertEncoder(config), sentence_head)
    load_checkpoint(model, best_checkpoint(folder)).check_complete()
    embed = functools.partial(_embed, model.encoder)
    return LoadedPretrainer(model, tokenizer, Evaluator(embed, PretrainingLoss(), strategy))


def _embed(encoder: AlbertEncoder, inputs: Mapping[str, tf.Tensor], training: bool) -> tf.Tensor:
    """Returns the mean of the last hidden states of each text's tokens, float (B, H)."""
    hidden_states = encoder(inputs, training=training)["sequence_output"]
    mask = tf.cast(inputs["input_mask"], hidden_states.dtype)[..., None]  # (B, S, 1)
    return tf.reduce_sum(hidden_states * mask, axis=1) / tf.reduce_sum(mask, axis=1)
