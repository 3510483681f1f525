"""What a stored model of another library predicts from texts, as its head and its files tell."""

import keras

from albert_tf.checkpoints.hugging_face import generic_labels
from albert_tf.checkpoints.names import OriginalReader
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.conversion import class_of
from albert_tf.data.fine_tuning.tags import TagTable
from albert_tf.errors import InputError, warn
from albert_tf.kinds.classification import Classification
from albert_tf.kinds.embedder_layers import LAYERS, read_layers
from albert_tf.kinds.embedding import Embedding
from albert_tf.kinds.kind import Kind
from albert_tf.kinds.multi_label import MultiLabel
from albert_tf.kinds.question_answering import QuestionAnswering
from albert_tf.kinds.registry import kind_in
from albert_tf.kinds.regression import Regression
from albert_tf.kinds.sentence_transformers import (
    module_files,
    named_modules,
    read_modules,
    stored_similarity,
)
from albert_tf.kinds.token_classification import TokenClassification
from albert_tf.layers.pooling import pooled_width
from albert_tf.model_folder import MODULES_FILE, ModelFolder
from albert_tf.models import (
    AlbertClassifier,
    AlbertEmbedder,
    AlbertEncoder,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)


def head_kind(stored: StoredModel, config: AlbertConfig, lower_case: bool) -> Kind:
    """Returns what the head of a model that no kind of ours describes predicts from texts.

    Encoders and pre-trained models embed texts. Classes without names get those of `generic_labels`.

    Args:
        stored: the model.
        config: its config, with the number of layers that it is used with.
        lower_case: whether its tokenizer lower-cases.

    Raises:
        InputError: the model predicts nothing from texts alone.
    """
    model, length = class_of(stored.head), config.max_position_embeddings
    if model in (AlbertEncoder, AlbertPretrainer):
        return _read_embedder(stored, config, lower_case)
    if model is AlbertSpanLabeler:
        return QuestionAnswering(
            task_name="squad",
            max_seq_length=min(QuestionAnswering.max_seq_length, length),
            max_query_length=min(QuestionAnswering.max_query_length, length // 2),
            version_2_with_negative=False,
            head="simple",
        )
    kind = classifier_kind(stored, config, unnamed=True)
    if kind is None and model is AlbertClassifier:
        raise InputError(
            f"{stored.reader.prefix}: its head has one output, as regressions and multiple choice have, "
            "and TensorFlow 1's checkpoints do not say which; expected a folder of "
            "albert-convert --to=hugging_face, which makes a regression of it; "
            "albert_tf.AlbertMultipleChoice.from_preset(...) takes this one as multiple choice"
        )
    if kind is None:
        raise InputError(
            f"holds an {model.__name__}; only encoders, classifiers, regressions, token classifiers, "
            "span labelers and pre-trained models predict from texts; "
            f"albert_tf.{model.__name__}.from_preset(...) takes this one"
        )
    if isinstance(kind, TokenClassification):
        TagTable.from_tags(kind.labels)
    return kind


def embedder_kind(stored: StoredModel, config: AlbertConfig, lower_case: bool) -> Embedding | None:
    """Returns what an embedder predicts, ours or one of sentence-transformers; None for other models.

    The arguments are those of `head_kind`.
    """
    kind = kind_in(stored.folder)
    if kind is None and _modules_of(stored).holds(MODULES_FILE):
        kind = _read_embedder(stored, config, lower_case)
    return kind if isinstance(kind, Embedding) else None


def names_of_layers(stored: StoredModel) -> list[str]:
    """Returns the names of the modules with weights after the pooling of an embedder."""
    folder = _modules_of(stored)
    modules = named_modules(folder) if folder.holds(MODULES_FILE) else []
    return [name for name, _ in modules if name in LAYERS]


def _read_embedder(stored: StoredModel, config: AlbertConfig, lower_case: bool) -> Embedding:
    return Embedding(
        **read_modules(
            folder=_modules_of(stored),
            transformer=stored.folder,
            positions=config.max_position_embeddings,
            lower_case=lower_case,
        )
    )


def _modules_of(stored: StoredModel) -> ModelFolder:
    """Returns the folder of a model that may have the modules of sentence-transformers."""
    return ModelFolder(stored.modules) if stored.modules else stored.folder


def with_projection(model: keras.Model, kind: Kind, stored: StoredModel) -> keras.Model:
    """Returns a model of `head_kind` with the layers after its pooling, if its folder has any."""
    folder = _modules_of(stored)
    if not isinstance(kind, Embedding) or not folder.holds(MODULES_FILE):
        return model
    encoder = getattr(model, "encoder", model)
    width = pooled_width(kind.pooling, encoder.config.hidden_size)
    layers = read_layers(named_modules(folder), width)
    if not layers:
        return model
    return AlbertEmbedder(encoder, kind.pooling, kind.normalize, seed=0, projection=layers)


def stored_module_files(
    stored: StoredModel, config: AlbertConfig, lower_case: bool
) -> dict[str, bytes]:
    """Returns the files by which sentence-transformers reads a copy of an embedder; else none.

    If its modules are not ours, a warning says so, and there are none. The arguments are those of
    `head_kind`.
    """
    folder, kind = _modules_of(stored), kind_in(stored.folder)
    if not folder.holds(MODULES_FILE):
        return {}
    try:
        kind = kind or head_kind(stored, config, lower_case)
        return module_files(
            kind, config, layers=named_modules(folder), similarity=stored_similarity(folder)
        )
    except InputError as error:
        warn(f"no {MODULES_FILE}: {error}")
        return {}


def classifier_kind(
    stored: StoredModel, config: AlbertConfig, unnamed: bool = False
) -> Kind | None:
    """Returns what a classifier of texts or tokens of another library predicts; None if unknown.

    With `unnamed`, classes without names get those of `generic_labels`.
    """
    model = class_of(stored.head)
    if model not in (AlbertClassifier, AlbertTokenClassifier):
        return None
    num_classes, labels = stored.head.arguments["num_classes"], stored.labels
    positions = config.max_position_embeddings
    length = min(stored.max_seq_length or positions, positions)
    pairs = config.type_vocab_size > 1  # the second text of a pair is of segment 1
    problem_type = stored.problem_type
    is_multi_label = problem_type == "multi_label_classification"
    # To `transformers`, a single output without a problem type is a regression.
    is_score = problem_type == "regression" or (num_classes == 1 and not is_multi_label)
    if is_score and model is AlbertClassifier:
        if num_classes > 1:
            raise InputError(f"{stored.path}: predicts {num_classes} scores; only one can be read")
        # The original's heads of regressions and of multiple choice have the same names.
        if isinstance(stored.reader, OriginalReader):
            return None
        return Regression(max_seq_length=length, pairs=pairs)
    if not labels:
        if not (unnamed or is_multi_label or stored.max_seq_length):
            return None
        labels = generic_labels(num_classes)
    if model is AlbertTokenClassifier:
        return TokenClassification(labels=labels, max_seq_length=length)
    kind = MultiLabel if is_multi_label else Classification
    return kind(labels=labels, max_seq_length=length, pairs=pairs)
