"""The pre-trained encoder as TensorFlow Hub's API for text has it.

The API: https://www.tensorflow.org/hub/common_saved_model_apis/text, "Transformer encoders", on top of
https://www.tensorflow.org/hub/reusable_saved_models. It leaves open what the inputs are called, and knows
no masked LM; both are here as in the encoders of TensorFlow's Model Garden.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf.export.checks import check_ids, check_positions
from albert_tf.models import AlbertEncoder, AlbertPretrainer

_IDS = tf.TensorSpec((None, None), tf.int32)
_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
_MASKED_LM_INPUTS = (*_INPUTS, "masked_lm_positions")

# Maps inputs and whether they are for training to outputs.
_Call = Callable[[Mapping[str, tf.Tensor], bool], dict]


class _Reusable(tf.Module):
    """A function with the variables that it depends on, which a SavedModel keeps with it.

    Args:
        call: the function.
        variables: that it reads, and those of its dropout, that it changes.
        inputs: names of what it takes, int32 (B, S) or (B, M) each.
    """

    # In place of the properties of tf.Module, which a SavedModel does not keep.
    variables = trainable_variables = regularization_losses = ()

    def __init__(self, call: _Call, variables: Sequence[keras.Variable], inputs: Sequence[str]):
        super().__init__()
        # The raw variables: what only a Keras 3 model leads to is not restored by every loader.
        self.variables = [variable.value for variable in variables]
        self.trainable_variables = [variable for variable in self.variables if variable.trainable]
        self.regularization_losses = []
        self._call = call
        for training in (False, True):
            self.__call__.get_concrete_function(dict.fromkeys(inputs, _IDS), training=training)

    @tf.function
    def __call__(self, inputs, training=False):
        """Maps a dictionary of ids to one of outputs; `training` is whether dropout is active."""
        return self._call(inputs, training)


class ReusableEncoder(_Reusable):
    """Ids to embeddings, as a function that can be trained; its SavedModel needs TensorFlow alone.

    It takes `input_word_ids`, `input_mask` and `input_type_ids`, int32 (B, S), and gives float32:
    `sequence_output` (B, S, H); `encoder_outputs`, a list of these, one for each application of a block;
    `pooled_output` (B, H), with a pooler; and `default` (B, H), the same or, without a pooler, the last
    hidden state of [CLS].

    With a masked-LM head there is `mlm`, such a function too: it takes `masked_lm_positions`, int32
    (B, M) in [0, S), as well, and gives `mlm_logits` (B, M, V) as well.

    Args:
        model: the encoder, or the encoder with the heads of pre-training.
        assets: the files that go along, by the names of their attributes.
    """

    def __init__(self, model: AlbertEncoder | AlbertPretrainer, assets: Mapping[str, str]):
        encoder = getattr(model, "encoder", model)
        super().__init__(functools.partial(_encode, encoder), encoder.variables, _INPUTS)
        if isinstance(model, AlbertPretrainer):
            self.mlm = _Reusable(
                functools.partial(_predict_masked, self, model),
                [*encoder.variables, *model.masked_lm_head.variables],
                _MASKED_LM_INPUTS,
            )
        for name, path in assets.items():
            setattr(self, name, tf.saved_model.Asset(path))

    @tf.function(input_signature=[tf.TensorSpec(_IDS.shape, _IDS.dtype, name) for name in _INPUTS])
    def serve(self, input_word_ids, input_mask, input_type_ids):
        """Gives the outputs that are tensors, as TensorFlow Serving has no others."""
        inputs = dict(zip(_INPUTS, (input_word_ids, input_mask, input_type_ids), strict=True))
        return {name: value for name, value in self(inputs).items() if tf.is_tensor(value)}


def _encode(
    encoder: AlbertEncoder, inputs: Mapping[str, tf.Tensor], training: bool
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    names = ("input_ids", "input_mask", "segment_ids")
    checked = check_ids({name: inputs[name] for name in _INPUTS}, encoder.config)
    encoded = encoder(dict(zip(names, checked, strict=True)), training=training)
    del encoded["embedding_output"]
    default = encoded.get("pooled_output", encoded["sequence_output"][:, 0])
    return {**encoded, "default": default}


def _predict_masked(
    reusable: ReusableEncoder,
    model: AlbertPretrainer,
    inputs: Mapping[str, tf.Tensor],
    training: bool,
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    outputs = reusable({name: inputs[name] for name in _INPUTS}, training=training)
    positions = check_positions(inputs["masked_lm_positions"], inputs["input_word_ids"])
    logits = model.masked_lm_head(
        outputs["sequence_output"], positions, model.encoder.embedding.word_embeddings
    )
    return {**outputs, "mlm_logits": logits}
