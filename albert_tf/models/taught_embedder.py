"""An embedder in training whose teacher's embeddings have another width."""

from collections.abc import Mapping

import keras

from albert_tf.models.encoder_with_heads import AlbertEmbedder, EncoderWithHeads


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
