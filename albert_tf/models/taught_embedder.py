"""An embedder in training whose teacher's embeddings have another width."""

from collections.abc import Mapping

import keras
import numpy as np

from albert_tf.models.encoder_with_heads import AlbertEmbedder, EncoderWithHeads

# Penalty of the squared weights of a map, where embeddings have length 1: on held-out texts the best of
# powers of ten, given 2,000 to 8,000 texts; see docs/measurements.md.
_RIDGE = 1.0


class TaughtEmbedder(EncoderWithHeads):
    """Embeds texts and, in training, maps the embeddings linearly to the width of the teacher's.

    The map is a part of the state of a training, and no part of the model that is kept.

    Args:
        embedder: the embedder that is trained.
        teacher_width: width of the teacher's embeddings.
        seed: seed of the map's initialisation.
    """

    def __init__(
        self,
        embedder: AlbertEmbedder,
        teacher_width: int,
        seed: int | None = None,
        name: str = "taught_embedder",
        **kwargs,
    ):
        super().__init__(embedder.encoder, seed, name, **kwargs)
        self.embedder = embedder
        self.teacher_width = teacher_width
        self.teacher_projection = keras.layers.Dense(
            teacher_width,
            use_bias=False,
            kernel_initializer=keras.initializers.GlorotUniform(seed=self._seeds.getrandbits(31)),
            name="teacher_projection",
            dtype=self.dtype_policy,
        )
        self.build(self.input_shapes)

    def _build_layers(self) -> None:
        self.teacher_projection.build((None, self.embedder.width))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Maps the inputs of `AlbertEncoder.call` to embeddings, float32 (B, width of the embedder's).

        In training they are `embedding` of a dictionary, which also has `projected`, float32 (B, width of
        the teacher's).
        """
        embeddings = self.embedder(inputs, training=training)
        if not training:
            return embeddings
        return {"embedding": embeddings, "projected": self.teacher_projection(embeddings)}

    def fit_projection(self, embeddings: np.ndarray, targets: np.ndarray) -> None:
        """Begins the map with the ridge regression of the teacher's embeddings on the student's.

        With a random map the student's embeddings would first change to suit the map.

        Args:
            embeddings: the student's embeddings of n texts, of length 1, (n, width of the student's).
            targets: the teacher's, (n, width of the teacher's).
        """
        gram = embeddings.T @ embeddings + _RIDGE * np.eye(self.embedder.width)
        self.teacher_projection.kernel.assign(np.linalg.solve(gram, embeddings.T @ targets))
