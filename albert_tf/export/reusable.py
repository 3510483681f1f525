"""The pre-trained encoder as SavedModels for other people's models, in version folders.

<export_dir>/encoder/<n>/         ids -> embeddings, can be trained further; needs TensorFlow alone
<export_dir>/preprocessor/<n>/    raw text -> ids; needs TensorFlow Text's operators

Both follow TensorFlow Hub's API for text (https://www.tensorflow.org/hub/common_saved_model_apis/text,
"Transformer encoders"), on top of https://www.tensorflow.org/hub/reusable_saved_models. The API does not
say what the inputs are called and knows no masked LM; here both are as in TensorFlow's Model Garden.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.config import ALBERT_CONFIG_FILE
from albert_tf.export import version_folders
from albert_tf.export.input_assertions import check_ids, check_positions, check_shapes
from albert_tf.export.saved_models import INPUTS
from albert_tf.layers.primitives import take_positions
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import AlbertTokenizer, Tokenizer
from albert_tf.tokenization.in_graph import make_graph_tokenizer
from albert_tf.tokenization.packing import pack_inputs

# The default of TF Hub's preprocessors.
_SEQ_LENGTH = 128

_TEXTS = tf.TensorSpec((None,), tf.string, "sentences")
_IDS = tf.TensorSpec((None, None), tf.int32)
_HUB_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


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
    with write_reusable(model, tokenizer, export_dir) as (paths, _):
        return paths


@contextlib.contextmanager
def write_reusable(
    model: AlbertEncoder | AlbertPretrainer, tokenizer: Tokenizer | None, export_dir: str
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Writes both models; yields their folders, and the temporary ones, which are renamed on success."""
    names = ["encoder"]
    if tokenizer is not None and version_folders.can_write_text(export_dir, "preprocessor"):
        names.append("preprocessor")
    config = model.config
    # Attribute -> name and content of the file; those of vocabularies are TensorFlow's Model Garden's.
    contents = {"config_file": (ALBERT_CONFIG_FILE, files.to_json(config.to_dict()).encode())}
    if tokenizer is not None:
        attribute = "sp_model_file" if isinstance(tokenizer, AlbertTokenizer) else "vocab_file"
        name = os.path.basename(tokenizer.vocabulary_file)
        contents[attribute] = name, tokenizer.vocabulary
    with (
        tempfile.TemporaryDirectory() as folder,
        version_folders.write_next_version(export_dir, names) as (paths, incomplete),
    ):
        assets = {}
        for attribute, (name, content) in contents.items():
            assets[attribute] = os.path.join(folder, name)
            files.write_bytes(assets[attribute], content)
        encoder = ReusableEncoder(model, assets)
        modules = {"encoder": (encoder, encoder.serve)}
        if tokenizer is not None and "preprocessor" in paths:
            preprocessor = TextPreprocessor(tokenizer, config.max_position_embeddings)
            modules["preprocessor"] = (preprocessor, preprocessor.__call__)
        for name, (module, signature) in modules.items():
            with files.explain_refusal(paths[name]):
                tf.saved_model.save(module, incomplete[name], signatures=signature)
        yield paths, incomplete


class _Reusable(tf.Module):
    """A function of named ids, with the variables that it reads and those that its dropout changes."""

    # These replace the properties of tf.Module, which a SavedModel does not keep.
    variables: Sequence[tf.Variable] = ()
    trainable_variables: Sequence[tf.Variable] = ()
    regularization_losses: Sequence[tf.Tensor] = ()

    def __init__(self, call: Callable, variables: Sequence[keras.Variable], inputs: Sequence[str]):
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
        """Maps a dictionary of ids to one of outputs in float32; `training` activates dropout."""
        outputs = self._call(inputs, training)
        return keras.tree.map_structure(lambda output: tf.cast(output, tf.float32), outputs)


class ReusableEncoder(_Reusable):
    """Maps ids to embeddings; can be trained. Its SavedModel needs TensorFlow alone.

    The inputs are `input_word_ids`, `input_mask` and `input_type_ids`, int32 (B, S). The outputs are
    float32: `sequence_output` (B, S, H); `encoder_outputs`, a list of these, one per application of a
    block; `pooled_output` (B, H), with a pooler; and `default` (B, H), the same or, without a pooler, the
    last hidden state of [CLS].

    With a masked-LM head there is also the function `mlm`, with the further input `masked_lm_positions`,
    int32 (B, M) in [0, S), and the further output `mlm_logits` (B, M, V).

    `assets` are the files of the SavedModel, by the names of their attributes.
    """

    def __init__(self, model: AlbertEncoder | AlbertPretrainer, assets: Mapping[str, str]):
        encoder = model.encoder if isinstance(model, AlbertPretrainer) else model

        def encode(inputs, training):
            checked = check_ids({name: inputs[name] for name in _HUB_INPUTS}, encoder.config)
            encoded = encoder(dict(zip(INPUTS, checked, strict=True)), training=training)
            del encoded["embedding_output"]
            default = encoded.get("pooled_output", encoded["sequence_output"][:, 0])
            return {**encoded, "default": default}

        def predict_masked(inputs, training):
            outputs = self({name: inputs[name] for name in _HUB_INPUTS}, training=training)
            positions = check_positions(inputs["masked_lm_positions"], inputs["input_word_ids"])
            logits = model.masked_lm_head(
                take_positions(outputs["sequence_output"], positions),
                encoder.embedding.word_embeddings,
            )
            return {**outputs, "mlm_logits": logits}

        super().__init__(encode, encoder.variables, _HUB_INPUTS)
        if isinstance(model, AlbertPretrainer):
            variables = [*encoder.variables, *model.masked_lm_head.variables]
            self.mlm = _Reusable(predict_masked, variables, (*_HUB_INPUTS, "masked_lm_positions"))
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


class TextPreprocessor(tf.Module):
    """Maps strings (B,) to a dictionary of inputs for `ReusableEncoder`, of a fixed length.

    Its SavedModel needs TensorFlow Text's operators as well. Texts are split, truncated and joined as in
    training; so an empty second text makes no pair and has no [SEP] of its own. The names of the special
    tokens are those of TensorFlow's Model Garden. `tokenize` and `bert_pack_inputs` are the two steps.
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
    number of special ids to the number of the encoder's positions. The outputs are those of
    `TextPreprocessor`, int32 (B, seq_length).
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
        least = len(inputs) + 1
        fits = (seq_length >= least) & (seq_length <= self._greatest)
        expected = f"expected seq_length from {least} to {self._greatest}, but received:"
        with tf.control_dependencies([tf.debugging.Assert(fits, [expected, seq_length])]):
            seq_length = tf.identity(seq_length)
        ids_a, ids_b = inputs if len(inputs) == 2 else (inputs[0], None)
        packed = pack_inputs(
            ids_a,
            ids_b,
            cls_id=self._cls_id,
            sep_id=self._sep_id,
            max_seq_length=seq_length,
        )
        padding = [[0, 0], [0, seq_length - tf.shape(packed["input_ids"])[1]]]
        return {
            theirs: tf.pad(packed[ours], padding)
            for theirs, ours in zip(_HUB_INPUTS, INPUTS, strict=True)
        }
