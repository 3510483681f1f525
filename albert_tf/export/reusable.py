"""The pre-trained encoder as SavedModels for other people's models, in version folders.

<export_dir>/encoder/<n>/         ids -> embeddings, can be trained further; needs TensorFlow alone
<export_dir>/preprocessor/<n>/    raw text -> ids; needs TensorFlow Text's operators

Both follow TensorFlow Hub's API for text (https://www.tensorflow.org/hub/common_saved_model_apis/text,
"Transformer encoders"), on top of https://www.tensorflow.org/hub/reusable_saved_models. The API does not
say what the inputs are called and knows no masked LM; here both are as in TensorFlow's Model Garden.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.config import CONFIG_FILE
from albert_tf.data.fine_tuning.packing import pack_inputs
from albert_tf.export import version_folders
from albert_tf.export.checks import check_ids, check_positions, check_shapes
from albert_tf.export.ids_model import INPUTS
from albert_tf.layers.primitives import take_positions
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import AlbertTokenizer, Tokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer

# The default of TF Hub's preprocessors.
_SEQ_LENGTH = 128

_TEXTS = tf.TensorSpec((None,), tf.string, "sentences")
_IDS = tf.TensorSpec((None, None), tf.int32)
_HUB_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")

# Maps inputs, and whether they are for training, to outputs.
_Call = Callable[[Mapping[str, tf.Tensor], bool], dict]


def export_reusable(
    model: AlbertEncoder | AlbertPretrainer, tokenizer: Tokenizer | None, export_dir: str
) -> dict[str, str]:
    """Writes the next version of encoder and preprocessor.

    Args:
        model: the encoder, or the encoder with the heads of pre-training, whose masked-LM head is
            exported, too.
        tokenizer: the tokenizer that the model was trained with; None, without a preprocessor, if it is
            not known.
        export_dir: parent of both folders.

    Returns:
        The written folders: `encoder` and, with a tokenizer and TensorFlow Text, `preprocessor`.

    Raises:
        InputError: a folder cannot be made.
        StoppedError: the file system refuses.
    """
    paths = next_version(tokenizer, export_dir)
    with write_reusable(model, tokenizer, paths):
        return paths


def next_version(tokenizer: Tokenizer | None, export_dir: str) -> dict[str, str]:
    """Returns the folders that `export_reusable` would write."""
    names = ["encoder"]
    if tokenizer is not None and version_folders.can_write_text(export_dir, "preprocessor"):
        names.append("preprocessor")
    return version_folders.next_version(export_dir, names)


@contextlib.contextmanager
def write_reusable(
    model: AlbertEncoder | AlbertPretrainer, tokenizer: Tokenizer | None, paths: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Writes both models; yields their temporary folders, which are renamed on success."""
    config = getattr(model, "encoder", model).config
    attributes = ["config_file"]
    assets = {CONFIG_FILE: version_folders.json_asset(config.to_dict())}
    if tokenizer is not None:
        attributes.append(_vocabulary_asset(tokenizer))
        assets[os.path.basename(tokenizer.vocabulary_file)] = tokenizer.vocabulary
    with (
        version_folders.asset_files(assets) as asset_paths,
        version_folders.write_version(paths) as incomplete,
    ):
        encoder = ReusableEncoder(model, dict(zip(attributes, asset_paths, strict=True)))
        modules = {"encoder": (encoder, encoder.serve)}
        if "preprocessor" in paths:
            preprocessor = Preprocessor(tokenizer, config.max_position_embeddings)
            modules["preprocessor"] = (preprocessor, preprocessor.__call__)
        for name, (module, signature) in modules.items():
            with files.explain_refusal(paths[name]):
                tf.saved_model.save(module, incomplete[name], signatures=signature)
        yield incomplete


def _vocabulary_asset(tokenizer: Tokenizer) -> str:
    """Returns the attribute in which TensorFlow's Model Garden keeps such a vocabulary."""
    return "sp_model_file" if isinstance(tokenizer, AlbertTokenizer) else "vocab_file"


class _Reusable(tf.Module):
    """A function together with the variables that it depends on.

    Args:
        call: the function.
        variables: the variables that it reads, and those that its dropout changes.
        inputs: names of its inputs, int32 (B, S) or (B, M) each.
    """

    # These replace the properties of tf.Module, which a SavedModel does not keep.
    variables = trainable_variables = regularization_losses = ()

    def __init__(self, call: _Call, variables: Sequence[keras.Variable], inputs: Sequence[str]):
        super().__init__()
        # The raw variables: some loaders do not restore those reached through a Keras 3 model only.
        self.variables = [variable.value for variable in variables]
        self.trainable_variables = [variable for variable in self.variables if variable.trainable]
        self.regularization_losses = []
        self._call = call
        for training in (False, True):
            self.__call__.get_concrete_function(dict.fromkeys(inputs, _IDS), training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        """Maps a dictionary of ids to one of outputs; `training` activates dropout."""
        return self._call(inputs, training)


class ReusableEncoder(_Reusable):
    """Maps ids to embeddings; can be trained. Its SavedModel needs TensorFlow alone.

    The inputs are `input_word_ids`, `input_mask` and `input_type_ids`, int32 (B, S). The outputs are
    float32: `sequence_output` (B, S, H); `encoder_outputs`, a list of these, one per application of a
    block; `pooled_output` (B, H), with a pooler; and `default` (B, H), the same or, without a pooler, the
    last hidden state of [CLS].

    With a masked-LM head there is also the function `mlm`, with the further input `masked_lm_positions`,
    int32 (B, M) in [0, S), and the further output `mlm_logits` (B, M, V).

    Args:
        model: the encoder, or the encoder with the heads of pre-training.
        assets: files of the SavedModel, by the names of their attributes.
    """

    def __init__(self, model: AlbertEncoder | AlbertPretrainer, assets: Mapping[str, str]):
        encoder = getattr(model, "encoder", model)
        super().__init__(functools.partial(_encode, encoder), encoder.variables, _HUB_INPUTS)
        if isinstance(model, AlbertPretrainer):
            self.mlm = _Reusable(
                functools.partial(_predict_masked, self, model),
                [*encoder.variables, *model.masked_lm_head.variables],
                (*_HUB_INPUTS, "masked_lm_positions"),
            )
        for name, path in assets.items():
            setattr(self, name, tf.saved_model.Asset(path))

    @tf.function(
        input_signature=[tf.TensorSpec(_IDS.shape, _IDS.dtype, name) for name in _HUB_INPUTS],
        autograph=False,
    )
    def serve(self, input_word_ids, input_mask, input_type_ids):
        """Returns the outputs that are tensors; TensorFlow Serving has no others."""
        inputs = dict(zip(_HUB_INPUTS, (input_word_ids, input_mask, input_type_ids), strict=True))
        return {name: value for name, value in self(inputs).items() if tf.is_tensor(value)}


def _encode(
    encoder: AlbertEncoder, inputs: Mapping[str, tf.Tensor], training: bool
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    checked = check_ids({name: inputs[name] for name in _HUB_INPUTS}, encoder.config)
    encoded = encoder(dict(zip(INPUTS, checked, strict=True)), training=training)
    del encoded["embedding_output"]
    default = encoded.get("pooled_output", encoded["sequence_output"][:, 0])
    return {**encoded, "default": default}


def _predict_masked(
    reusable: ReusableEncoder,
    model: AlbertPretrainer,
    inputs: Mapping[str, tf.Tensor],
    training: bool,
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    outputs = reusable({name: inputs[name] for name in _HUB_INPUTS}, training=training)
    positions = check_positions(inputs["masked_lm_positions"], inputs["input_word_ids"])
    logits = model.masked_lm_head(
        take_positions(outputs["sequence_output"], positions),
        model.encoder.embedding.word_embeddings,
    )
    return {**outputs, "mlm_logits": logits}


class Preprocessor(tf.Module):
    """Maps strings (B,) to a dictionary of inputs for `ReusableEncoder`, of a fixed length.

    Its SavedModel needs TensorFlow Text's operators as well. Texts are split, truncated and joined as in
    training; so an empty second text makes no pair and has no [SEP] of its own. The names of the special
    tokens are those of TensorFlow's Model Garden.

    Args:
        tokenizer: the tokenizer that the encoder was trained with.
        max_position_embeddings: number of positions of the encoder, the greatest length.

    Attributes:
        tokenize: maps strings (B,) to ids; see `_Tokenize`.
        bert_pack_inputs: maps ids to inputs of the encoder; see `_PackInputs`.
    """

    def __init__(self, tokenizer: Tokenizer, max_position_embeddings: int):
        super().__init__()
        self.tokenize = _Tokenize(tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer, max_position_embeddings)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def __call__(self, sentences):
        """Maps single texts, string (B,), to `input_word_ids`, `input_mask`, `input_type_ids`."""
        return self.bert_pack_inputs([self.tokenize(sentences)])


class _Tokenize(tf.Module):
    """Maps strings (B,) to ids, ragged int32 (B, None)."""

    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        self._graph_tokenizer = make_graph_tokenizer(tokenizer)
        self._special_tokens = {
            "start_of_sequence_id": tokenizer.cls_id,
            "end_of_segment_id": tokenizer.sep_id,
            "padding_id": tokenizer.pad_id,
            "mask_id": tokenizer.mask_id,
            "vocab_size": tokenizer.vocab_size,
        }

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def __call__(self, sentences):
        return self._graph_tokenizer(*check_shapes(sentences=sentences))

    @tf.function(input_signature=[])
    def get_special_tokens_dict(self):
        """Returns the ids of the special tokens and the size of the vocabulary, int32 () each."""
        return {name: tf.constant(id_) for name, id_ in self._special_tokens.items()}


class _PackInputs(tf.Module):
    """Joins the ids of one or two texts with the special ids, and pads them to one length.

    The inputs are a list of one or two results of `_Tokenize`, and optionally `seq_length`, from the
    number of special ids to the number of the encoder's positions. The outputs are `input_word_ids`,
    `input_mask` and `input_type_ids`, int32 (B, seq_length).
    """

    def __init__(self, tokenizer: Tokenizer, max_position_embeddings: int):
        super().__init__()
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._greatest = max_position_embeddings
        ids = tf.RaggedTensorSpec((None, None), tf.int32)
        for texts in (1, 2):
            for seq_length in (None, tf.TensorSpec((), tf.int32)):
                self.__call__.get_concrete_function([ids] * texts, seq_length=seq_length)

    @tf.function(autograph=False)
    def __call__(self, inputs, seq_length=None):
        if seq_length is None:
            seq_length = min(_SEQ_LENGTH, self._greatest)
        seq_length = self._check(seq_length, least=len(inputs) + 1)
        ids_a, ids_b = inputs if len(inputs) == 2 else (inputs[0], None)
        packed = pack_inputs(ids_a, ids_b, self._cls_id, self._sep_id, seq_length)
        padding = [[0, 0], [0, seq_length - tf.shape(packed["input_ids"])[1]]]
        return {
            theirs: tf.pad(packed[ours], padding)
            for theirs, ours in zip(_HUB_INPUTS, INPUTS, strict=True)
        }

    def _check(self, seq_length: tf.Tensor | int, least: int) -> tf.Tensor:
        """Returns a length after asserting its range."""
        fits = (seq_length >= least) & (seq_length <= self._greatest)
        expected = f"expected seq_length from {least} to {self._greatest}, but received:"
        with tf.control_dependencies([tf.debugging.Assert(fits, [expected, seq_length])]):
            return tf.identity(seq_length)
