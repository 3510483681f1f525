"""Contrastive training of embeddings on pairs of texts, evaluated on pairs with scores."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.features import PairFeatures, encode_examples, encode_pairs
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import FlagError, InputError
from albert_tf.export import export_embedder
from albert_tf.export.saved_models.ids_model import read_embeddings
from albert_tf.losses import ContrastiveLoss
from albert_tf.models import AlbertEmbedder
from albert_tf.tasks.common import has_checkpoint
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions
from albert_tf.tasks.fine_tuning.labelled_task import PredictBatch
from albert_tf.tasks.fine_tuning.text_tasks import TextTask
from albert_tf.tasks.trained_folder import options_path, read_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveTask(TextTask):
    """Embeds texts so that those that belong together have a high cosine, which is a pair's score."""

    # Only the order of cosines has a meaning.
    reports_loss = False

    @property
    def loss(self) -> ContrastiveLoss:
        """The training loss."""
        return ContrastiveLoss(self.options.temperature)

    def check_labels(self) -> None:
        """Checks that the model that the run starts from, if there is one, has the same pooling.

        Raises:
            InputError: it has another one, or is of another task.
        """
        super().check_labels()
        options = self.options
        path = options_path(options.model_dir)
        if not (options.exported_model or has_checkpoint(options)) or not tf.io.gfile.exists(path):
            return
        pooling = read_options(path).get("pooling")
        if pooling != options.pooling:
            raise InputError(
                f"{options.model_flag}: was trained with --pooling={pooling}; this run has "
                f"{options.pooling}"
            )

    @staticmethod
    def encode(examples, labels, tokenizer, options) -> PairFeatures:
        """Converts examples to ids."""
        return encode_pairs(examples, labels, tokenizer, options.max_seq_length)

    def make_model(self, encoder, seed) -> AlbertEmbedder:
        """Makes the model, with equal weights of layers if it has any."""
        dtype = self.options.mixed_precision
        return AlbertEmbedder(encoder, self.options.pooling, normalize=True, seed=seed, dtype=dtype)

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """Maps embeddings of pairs, (2 n, H), to cosines (n, 1)."""
        return (logits[::2] * logits[1::2]).sum(axis=1, keepdims=True)

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the cosines (n,)."""
        return outputs[:, 0]

    def names(self, predictions: np.ndarray) -> list[str]:
        """Returns cosines (n,) as text."""
        return [f"{cosine:.6f}" for cosine in predictions]

    def read_exported(self, outputs):
        """Returns the embeddings (n, H) of an exported model."""
        return read_embeddings(outputs)

    def answer(self, example: Example, predict: PredictBatch) -> str:
        """Returns the cosine of two texts, or the embedding of one, separated by tabs."""
        encode = encode_examples if example.text_b is None else encode_pairs
        features = encode([example], (), self.tokenizer, self.options.max_seq_length)
        embeddings = predict(make_batch(features, np.array([0])))  # (1, H) or (2, H)
        values = embeddings[0] if example.text_b is None else self.outputs(embeddings)[0]
        return "\t".join(f"{value:.6f}" for value in values)

    def export(self, model, details) -> dict[str, str]:
        """Exports the model and returns the written folders."""
        options = self.options
        return export_embedder(
            model, self.tokenizer, options.export_dir, options.max_seq_length, details
        )

    def _predict(self, evaluator, examples) -> np.ndarray:
        """Returns the embeddings of both texts of each pair, float32 (2 n, H)."""
        texts = examples._replace(features=examples.features.texts)
        return super()._predict(evaluator, texts)


def check_contrast(options: ClassificationOptions) -> None:
    """Raises a `FlagError` if the micro-batches of a training are too small for negatives."""
    if options.train_batch_size < 2 * options.accumulate_steps:
        raise FlagError(
            f"--train_batch_size={options.train_batch_size}: expected two pairs or more for each "
            "micro-batch, as the other pairs are the negatives"
        )
