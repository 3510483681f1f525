"""The SavedModel of a classifier with early exit, from ids to predictions.

Its shapes depend on the answers in any case, so all its signatures compute tokens only, and the graph is
stored once.
"""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.export.saved_models.checks import check_ids, check_rows
from albert_tf.export.saved_models.ids_model import (
    INPUTS,
    Outputs,
    map_slices,
    trace,
)
from albert_tf.export.weights import make_exported_weights, reading
from albert_tf.models import AlbertEarlyExitClassifier

PATIENCE = tf.TensorSpec((None,), tf.int32, "early_exit_patience")


class EarlyExitIdsModel(tf.Module):
    """Maps ids to predictions and to `exit_layer`, int32 (B,), the last layer computed for each row.

    Args:
        model: the classifier, whose patience is the default.
        outputs: selects the outputs to return.
        asset_files: files to keep in the SavedModel, such as the names of the labels.
        int8: whether to store matrices in int8.
    """

    def __init__(
        self,
        model: AlbertEarlyExitClassifier,
        outputs: Outputs,
        asset_files: Sequence[str] = (),
        int8: bool = False,
    ):
        super().__init__()
        self.weights = make_exported_weights(model, int8)
        self.assets = [tf.saved_model.Asset(path) for path in asset_files]
        layers = model.config.num_hidden_layers

        # The closures keep the Keras model out of what the module tracks.
        def compute_tokens(inputs):
            exits = model.exit_early(model.without_padding(inputs))
            return {**outputs(exits["logits"]), "exit_layer": exits["exit_layer"]}

        def check(ids):
            named = {name: ids[name] for name in INPUTS}
            return dict(zip(INPUTS, check_ids(named, model.config), strict=True))

        def predict_unchecked_with_patience(early_exit_patience, **ids):
            """Like `predict_with_patience`, for ids that the caller's graph makes."""
            patience = _check_patience(ids["input_ids"], early_exit_patience, layers)
            with reading(model, self.weights):
                return map_slices(compute_tokens, {**ids, PATIENCE.name: patience})

        def predict_unchecked(**ids):
            """Like `predict`, for ids that the caller's graph makes."""
            patience = tf.fill(tf.shape(ids["input_ids"])[:1], model.early_exit_patience)
            return self.predict_unchecked_with_patience(**ids, early_exit_patience=patience)

        def predict_with_patience(early_exit_patience, **ids):
            """Maps int32 (B, S) each, and the patience of each row, int32 (B,), to predictions."""
            return self.predict_unchecked_with_patience(
                **check(ids), early_exit_patience=early_exit_patience
            )

        def predict(**ids):
            """Maps int32 (B, S) each to predictions, with the model's patience."""
            return self.predict_unchecked(**check(ids))

        specs = {name: tf.TensorSpec((None, None), tf.int32, name) for name in INPUTS}
        with_patience = {**specs, PATIENCE.name: PATIENCE}
        self.predict_unchecked_with_patience = trace(
            predict_unchecked_with_patience, **with_patience
        )
        self.predict_unchecked = trace(predict_unchecked, **specs)
        self.patience_signature = trace(predict_with_patience, **with_patience)
        self.predict = self.signature = trace(predict, **specs)


def _check_patience(input_ids: tf.Tensor, patience: tf.Tensor, layers: int) -> tf.Tensor:
    """Returns the patience of each row after asserting that there is one, from 1 to the number of layers.

    Raises:
        InvalidArgumentError: when the graph runs, with the rows or the range received.
    """
    _, patience = check_rows(input_ids=input_ids, early_exit_patience=patience)
    least, greatest = tf.reduce_min(patience), tf.reduce_max(patience)
    expected = f"expected early_exit_patience from 1 to {layers}; received minimum and maximum:"
    fits = (least >= 1) & (greatest <= layers)
    with tf.control_dependencies([tf.debugging.Assert(fits, [expected, least, greatest])]):
        return tf.identity(patience)
