"""Loads trained models to predict from text in Python."""

import functools
import os
import random

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.backends import require_tensorflow
from albert_tf.checkpoints.loading import load_stored
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.conversion import read_model
from albert_tf.errors import InputError, name_place
from albert_tf.export import ExportedModel, version_folders
from albert_tf.kinds import Kind
from albert_tf.kinds.registry import kind_in
from albert_tf.kinds.stored import head_kind, with_projection
from albert_tf.models import AlbertEncoder
from albert_tf.options.export_forms import FORMS
from albert_tf.sources import find_model
from albert_tf.tasks.companions import find_companions
from albert_tf.tasks.loaded import Loaded
from albert_tf.tasks.vocabulary import check_vocabulary
from albert_tf.tokenization import Tokenizer
from albert_tf.training import make_strategy


def load(
    folder: str, tokenizer: Tokenizer | None = None, num_hidden_layers: int | None = None
) -> Loaded:
    """Loads a trained model, to predict from text.

    `predict` takes lists of texts. It returns for n examples what the commands write:

    - of a classifier, for `predict(text_a)` or `predict(text_a, text_b)`: `Classes`;
    - of a regression model, for the same: `Scores`;
    - of a multiple-choice model, for `predict(article, question, options)`: `Classes`;
    - of a multi-label classifier, for the same: `LabelSets`;
    - of a token classifier, for `predict(texts)`: for each text a list of `ScoredSpan`, for each list of
      words one of `ScoredWord`;
    - of a model that answers questions, for `predict(question, context)`: `Answers`;
    - of a pre-trained model, for `predict(text_a)`: embeddings, float32 (n, H), and for
      `predict(text_a, text_b)` the cosines of pairs, float32 (n,). It has `fill_mask`, too;
    - of an embedder, or an encoder alone, e.g. one of sentence-transformers: the same.

    A list may also be one string, a tuple, an array or a pandas Series. An empty one has an empty answer.
    Each model has `embed(texts)`, too, for embeddings of its encoder. Texts of similar length share a
    batch. Work of more than ten seconds shows its progress.

    Args:
        folder: a model's name: `small_en`, `medium_en` or `sentences_en`, which come with this package;
            `hf://owner/name@revision` of the Hugging Face Hub, also without `hf://` and `@revision`; or
            the https:// address of one of Google's .tar.gz archives. Or a folder: an `--output_dir`,
            whose best checkpoint is used; a version of an exported model, e.g. `exported/text/1`; an
            `--export_dir`, for its newest version; or a folder with an encoder, a classifier, a
            regression, a token classifier, a pre-trained model or one that answers every question (SQuAD
            1.1) in another format (Hugging Face, KerasHub, Google), and its config.
        tokenizer: that of the training, if the folder has no vocabulary.
        num_hidden_layers: number of layers, for a model whose layers share all weights. Default: as its
            config says. `medium_en` was trained with 4, 6, 8 and 12. A number that a model was not
            trained with prints a warning.

    Returns:
        The model and its tokenizer.

    Raises:
        InputError: the folder holds no trained model, lacks a part of it, or was written by a newer
            version of albert_tf; or Keras has another backend than TensorFlow.
    """
    require_tensorflow("albert_tf.load")
    folder = files.as_path(folder)
    # New models draw seeds, which weights that are read have no use for.
    drawn = random.getstate()
    with name_place(f"load({folder!r})"):
        kind, model, tokenizer, strategy = _load(find_model(folder), tokenizer, num_hidden_layers)
    random.setstate(drawn)
    # A copy finds the folder also after the process has changed its directory.
    place = os.path.abspath(folder) if os.path.exists(folder) else folder
    return Loaded(
        kind=kind,
        model=model,
        tokenizer=tokenizer,
        strategy=strategy,
        source=folder,
        num_hidden_layers=num_hidden_layers,
        load_again=functools.partial(load, place, num_hidden_layers=num_hidden_layers),
    )


def _load(
    folder: str, tokenizer: Tokenizer | None, num_hidden_layers: int | None
) -> tuple[Kind, keras.Model | ExportedModel, Tokenizer, tf.distribute.Strategy]:
    if not files.is_folder(folder):
        is_file = files.exists(folder)
        raise InputError("is a file; expected a folder" if is_file else "no such folder")
    stored, version = StoredModel.at(folder), None
    if stored.config_file is None and (version := _find_version(folder)):
        stored = StoredModel.at(version_folders.assets_folder(version))
    kind = kind_in(stored.folder)
    if stored.config_file is None or (version and kind is None):
        raise InputError(
            "holds no trained model; expected an --output_dir of fine-tuning or pre-training, an "
            "--export_dir or one of its versions, a Hugging Face folder, or one with "
            "albert_config.json or bert_config.json"
        )
    if kind and kind.missing:
        raise InputError(
            f"{stored.config_file}: has no {kind.missing}, which --do_eval writes; expected it"
        )
    if version and num_hidden_layers:
        raise InputError(
            f"num_hidden_layers={num_hidden_layers}: an exported model has a fixed number of layers; "
            "expected the folder that it was exported from"
        )
    config, tokenizer = find_companions(stored, num_hidden_layers, tokenizer)
    if tokenizer is None:
        raise InputError(
            "holds no vocabulary; pass tokenizer=albert_tf.AlbertTokenizer(...) with that of its "
            "training"
        )
    if kind:
        check_vocabulary(stored.folder, tokenizer)
    strategy = make_strategy("one_device")
    with strategy.scope():
        if version:
            assert kind is not None, "checked above"
            model = ExportedModel(version, kind.read_outputs)
        elif kind:
            model = kind.make_model(AlbertEncoder(config), 0.0, None, None)
            load_stored(model, stored).check_complete()
        else:
            model, report = read_model(config, stored)
            if not stored.own:  # which may hold what pre-training alone needs
                report.warn_of_unknown()
            kind = head_kind(stored, config, tokenizer.lower_case)
            kind.check_segments(config)
            model = with_projection(model, kind, stored)
    return kind, model, tokenizer, strategy


def _find_version(folder: str) -> str | None:
    """Returns the version folder of an exported model; None for other folders."""
    files.refuse_other_than_utf8(folder)
    exists = tf.saved_model.contains_saved_model
    names = (name for facts in FORMS.values() if facts.is_loaded for name in facts.folders)
    for parent in (folder, *(os.path.join(folder, name) for name in names)):
        version = os.path.join(parent, str(version_folders.latest_version(parent)))
        if exists(version):
            return version
    return folder if exists(folder) else None
