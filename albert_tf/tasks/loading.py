"""Loads trained models to predict from text in Python."""

import os
import random
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.backends import require_tensorflow
from albert_tf.checkpoints.loading import LoadReport, find_config, load_checkpoint
from albert_tf.conversion import load_model
from albert_tf.data.fine_tuning.tags import TagTable
from albert_tf.errors import InputError, name_place
from albert_tf.export import ExportedModel, version_folders
from albert_tf.kinds import Embedding, Kind, QuestionAnswering, TokenClassification
from albert_tf.kinds.registry import read_kind
from albert_tf.model_folder import folder_of
from albert_tf.models import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from albert_tf.options.kinds import Pooling
from albert_tf.sources import find_model
from albert_tf.tasks.conversion import CheckpointOptions, find_companions, head_of
from albert_tf.tasks.flags import check_vocabulary
from albert_tf.tasks.loaded import Loaded
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.vocabulary_files import TOKENIZER_CONFIG_FILE, read_object
from albert_tf.training import make_strategy

# Of a folder of sentence-transformers.
_MODULES_FILE = "modules.json"
_EMBEDDER_FILE = "config_sentence_transformers.json"
_POOLING_FILE = "config.json"
# Files that may say the maximum length, and the key of each. A later file overrides an earlier one.
_LENGTHS = {
    TOKENIZER_CONFIG_FILE: "model_max_length",
    "sentence_bert_config.json": "max_seq_length",
}
_POOLINGS: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls_token": "cls",
    "cls": "cls",
}
_OLD_PREFIX = "pooling_mode_"


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
    - of a pre-trained model, for `predict(texts)`: embeddings, float32 (n, H). It has `fill_mask`, too;
    - of an embedder, or an encoder alone, e.g. one of sentence-transformers: the same embeddings.

    A list may also be one string, a tuple, an array or a pandas Series. An empty one has an empty answer.
    Each model has `embed(texts)`, too, for embeddings of its encoder. Texts of similar length share a
    batch. Work of more than ten seconds shows its progress.

    Args:
        folder: a model's name: `small_en` or `medium_en`, which come with this package;
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
        loaded = _load(find_model(folder), tokenizer, num_hidden_layers)
    random.setstate(drawn)
    loaded.source, loaded.num_hidden_layers = folder, num_hidden_layers
    return loaded


def _load(folder: str, tokenizer: Tokenizer | None, num_hidden_layers: int | None) -> Loaded:
    if not tf.io.gfile.isdir(folder):
        is_file = tf.io.gfile.exists(folder)
        raise InputError("is a file; expected a folder" if is_file else "no such folder")
    version = None if find_config(folder) else _find_version(folder)
    described = version_folders.assets_folder(version) if version else folder
    config_file, kind = find_config(described), read_kind(described)
    if config_file is None or (version and kind is None):
        raise InputError(
            "holds no trained model; expected an --output_dir of fine-tuning or pre-training, an "
            "--export_dir or one of its versions, a Hugging Face folder, or one with albert_config.json"
        )
    if kind and kind.missing:
        raise InputError(
            f"{config_file}: has no {kind.missing}, which --do_eval writes; expected it"
        )
    if version and num_hidden_layers:
        raise InputError(
            f"num_hidden_layers={num_hidden_layers}: an exported model has a fixed number of layers; "
            "expected the folder that it was exported from"
        )
    checkpoint = CheckpointOptions(init_checkpoint=described, num_hidden_layers=num_hidden_layers)
    config, tokenizer = find_companions(checkpoint, tokenizer)
    if tokenizer is None:
        raise InputError(
            "holds no vocabulary; pass tokenizer=albert_tf.AlbertTokenizer(...) with that of its "
            "training"
        )
    if kind:
        check_vocabulary(described, tokenizer)
    strategy = make_strategy("one_device")
    with strategy.scope():
        if version:
            model = ExportedModel(version, kind.read_outputs)
        elif kind:
            model = kind.make_model(AlbertEncoder(config), 0.0, None, None)
            load_checkpoint(model, folder).check_complete()
        else:
            model, report = load_model(config, folder)
            kind = _kind_of(model, report)
    return Loaded(kind, model, tokenizer, strategy)


def _find_version(folder: str) -> str | None:
    """Returns the version folder of an exported model; None for other folders."""
    exists = tf.saved_model.contains_saved_model
    for parent in (folder, os.path.join(folder, "ids"), os.path.join(folder, "text")):
        version = os.path.join(parent, str(version_folders.latest_version(parent)))
        if exists(version):
            return version
    return folder if exists(folder) else None


def _kind_of(model: keras.Model, report: LoadReport) -> Kind:
    """Returns what a pre-trained model predicts, or one of another library, from texts."""
    length = model.config.max_position_embeddings
    if isinstance(model, AlbertEncoder | AlbertPretrainer):
        return Embedding(**read_modules(folder_of(report.prefix), length))
    if isinstance(model, AlbertSpanLabeler):
        return QuestionAnswering(
            task_name="squad",
            max_seq_length=min(QuestionAnswering.max_seq_length, length),
            max_query_length=min(QuestionAnswering.max_query_length, length // 2),
            version_2_with_negative=False,
            head="simple",
        )
    name = type(model).__name__
    if not isinstance(model, AlbertClassifier | AlbertTokenClassifier):
        raise InputError(
            f"holds an {name}; only encoders, classifiers, regressions, token classifiers, span labelers "
            f"and pre-trained models predict from texts; albert_tf.{name}.from_preset(...) takes this one"
        )
    kind = head_of(model, report, unnamed=True)
    if isinstance(kind, TokenClassification):
        TagTable.from_tags(kind.labels)
    return kind


def read_modules(folder: str, positions: int) -> dict[str, Any]:
    """Returns the fields of an `Embedding` that a folder's modules determine, or their defaults."""
    path, config = (os.path.join(folder, name) for name in (_MODULES_FILE, _EMBEDDER_FILE))
    values: dict[str, Any] = {"normalize": False, "max_seq_length": positions}
    if not tf.io.gfile.exists(path):
        return values
    for key in ("default_prompt_name", "truncate_dim"):
        if (value := read_object(config).get(key)) is not None:
            raise InputError(f"{config}: key '{key}' is {value!r}; only null is supported")
    try:
        for module in files.read_json(path):
            name = str(module.get("type")).rpartition(".")[2]
            if name == "Pooling":
                pooling = os.path.join(folder, module["path"], _POOLING_FILE)
                values["pooling"] = _read_pooling(pooling)
            elif name == "Normalize":
                values["normalize"] = True
            elif name != "Transformer":
                raise InputError(
                    f"{path}: has a module '{name}'; expected Transformer, Pooling and Normalize"
                )
        for file, key in _LENGTHS.items():
            if length := read_object(os.path.join(folder, file)).get(key):
                values["max_seq_length"] = min(positions, length)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: does not describe an embedder as expected: {error}") from error
    return values


def _read_pooling(path: str) -> Pooling:
    config = files.read_json(path)
    modes = config.get("pooling_mode")
    if modes is None:  # before version 6
        modes = [
            key.removeprefix(_OLD_PREFIX)
            for key, value in config.items()
            if key.startswith(_OLD_PREFIX) and value
        ]
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise InputError(
            f"{path}: has the pooling {', '.join(modes) or 'of no mode'}; expected mean or cls"
        )
    return _POOLINGS[modes[0]]
