"""The ALBERT encoder: the factorized embedding and the loop that reuses the block."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import keras
from keras import ops

from albert_tf.backends import BACKEND, require_tensorflow
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.block import EncoderLayer, FeedForward, SelfAttention, Unpadding, bias_of_mask
from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.heads import Pooler
from albert_tf.layers.primitives import BaseLayer
from albert_tf.models.base_model import BaseModel
from albert_tf.models.inputs import Input

if BACKEND == "tensorflow":
    import tensorflow as tf

    from albert_tf.models import flash_attention as flash

_HALVES = {"attention": SelfAttention, "ffn": FeedForward}


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(BaseModel):
    """Encodes token ids as hidden states.

    Args:
        config: sizes, sharing, dropout.
        with_pooler: whether to create the pooler, which some checkpoints lack. Without it there is no
            `pooled_output`.
        remat: whether training keeps only the input of each application of a block, and recomputes its
            activations in the backward pass.
        use_one_hot_embeddings: whether to look up embeddings by multiplication with one-hot vectors,
            which suits TPUs.
        flash_attention: whether training computes attention in one kernel of cuDNN, which needs 16-bit
            precision, no dropout of probabilities, batches of a known shape, and a step that XLA compiles
            for an NVIDIA GPU.
        trained_num_hidden_layers: numbers of layers. Each call in training draws one of them, so that the
            weights can be used with any of them. The number of `config` has to be in the list. Empty for
            that number alone. All layers have to share their weights, and `remat` has to be off.
        seed: seed of the initialisation, the dropout and the drawn numbers; None takes Keras's own, see
            `keras.utils.set_random_seed`.
    """

    NAME = "albert_encoder"
    INPUTS: ClassVar = {
        "input_ids": Input("BS", required=True),
        "input_mask": Input("BS"),
        "segment_ids": Input("BS"),
        "token_positions": Input("T", exported=False),
        "output_positions": Input("BM", exported=False),
    }

    def __init__(
        self,
        config: AlbertConfig,
        with_pooler: bool = True,
        remat: bool = False,
        use_one_hot_embeddings: bool = False,
        flash_attention: bool = False,
        trained_num_hidden_layers: Sequence[int] = (),
        seed: int | None = None,
        name: str = NAME,
        **kwargs,
    ):
        if not isinstance(config, AlbertConfig):
            raise InputError(
                f"config: expected an AlbertConfig, received {type(config).__name__}; "
                "`AlbertEncoder.from_preset` takes a name"
            )
        super().__init__(seed, name=name, **kwargs)
        config.check_trained_layers(trained_num_hidden_layers)
        if trained_num_hidden_layers and remat:
            # TensorFlow's outputs of a recomputation are empty where a branch was not taken.
            raise InputError(
                "remat: expected a single number of layers, received trained_num_hidden_layers="
                f"{','.join(map(str, trained_num_hidden_layers))}; num_hidden_layers trains one alone"
            )
        if flash_attention:
            require_tensorflow("flash_attention")
            flash.check_flash_attention(config, self.dtype_policy)
        # Config
        self.config = config
        self.with_pooler = with_pooler
        self.remat = remat
        self.use_one_hot_embeddings = use_one_hot_embeddings
        self.flash_attention = flash_attention
        self.trained_num_hidden_layers = tuple(trained_num_hidden_layers)

        # Layers
        self.embedding = self._make_embedding()
        self.blocks, self.block_order = self._make_blocks()
        # `tf.train.Checkpoint` does not look into lists.
        for block in self.blocks:
            setattr(self, f"checkpointed_{block.name}", block)
        self.pooler = Pooler(**self._arguments_of("pooler")) if with_pooler else None
        if trained_num_hidden_layers:
            self.depth_generator = keras.random.SeedGenerator(self._seeds.getrandbits(31))
        # All shapes are known, so the variables exist before the first call.
        self.build(self.input_shapes)

    @classmethod
    def from_encoder_config(cls, config: AlbertConfig, **kwargs) -> Self:
        """Makes the encoder."""
        return cls(config, **kwargs)

    def _make_embedding(self) -> BaseLayer:
        """Returns the embedding, a `FactorizedEmbedding` or a layer with its `call`."""
        return FactorizedEmbedding(
            use_one_hot=self.use_one_hot_embeddings, **self._arguments_of("embedding")
        )

    def _make_blocks(self) -> tuple[list[EncoderLayer], list[int]]:
        """Returns the distinct blocks, and the index of the block of each application, in order.

        With full sharing these are one block and L zeros.
        """
        config = self.config
        halves: dict[str, SelfAttention | FeedForward] = {}

        def make_half(half: str, layer: int, inner: int) -> SelfAttention | FeedForward:
            """Returns the half of a layer's block: its group's if it is shared, otherwise its own."""
            is_shared = config.sharing in ("all", half)
            name = f"{half}_{config.group_of_layer(layer) if is_shared else layer}_{inner}"
            if name not in halves:
                options = self._arguments_of(name)
                if half == "attention" and self.flash_attention:
                    options["training_kernel"] = flash.flash_attention
                halves[name] = _HALVES[half](**options)
            return halves[name]

        blocks: dict[tuple[str, str], EncoderLayer] = {}
        order = []
        for layer, inner in itertools.product(
            range(config.num_hidden_layers), range(config.inner_group_num)
        ):
            pair = [make_half(half, layer, inner) for half in _HALVES]
            key = (pair[0].name, pair[1].name)
            if key not in blocks:
                name = f"block_{len(blocks)}"
                blocks[key] = EncoderLayer(*pair, name=name, dtype=self.dtype_policy)
            order.append(list(blocks).index(key))
        return list(blocks.values()), order

    def _build_layers(self) -> None:
        self.embedding.build((None, None))
        hidden_shape = (None, None, self.config.hidden_size)
        for block in self.blocks:
            block.build(hidden_shape)
        if self.pooler is not None:
            self.pooler.build(hidden_shape)

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Encodes a batch.

        Args:
            inputs: `input_ids` int (B, S); optionally `input_mask` int (B, S), 0 for padding (default: no
                padding), `segment_ids` int (B, S) (default: all 0), and `token_positions` int (T,), the
                positions of the tokens among all B * S, ascending, including the first of each sequence.
                Blocks then compute only these positions, and other outputs are undefined. With
                `output_positions` int (B, M) the last application computes only these positions, which
                have to begin with 0 if there is a pooler.
            training: whether dropout is active.

        Returns:
            A dictionary:
            `sequence_output` (B, S, H), the last hidden states; (B, M, H) with `output_positions`;
            `pooled_output` (B, H), with a pooler;
            `encoder_outputs`, a list of (B, S, H), one for each application of a block. If training draws
            the number of layers, layers between two of the numbers have one output in common;
            `embedding_output` (B, S, E).
        """
        input_ids = inputs["input_ids"]
        input_mask = inputs.get("input_mask", ops.ones_like(input_ids))
        segment_ids = inputs.get("segment_ids", ops.zeros_like(input_ids))
        embedding_output, hidden_states = self.embedding(input_ids, segment_ids, training=training)
        attention_bias = bias_of_mask(input_mask)
        shape = ops.shape(hidden_states)
        unpadding = None
        if "token_positions" in inputs:
            unpadding = Unpadding(inputs["token_positions"], *shape[:2])
            hidden_states = unpadding.remove(hidden_states)  # (T, H)
        output_positions = inputs.get("output_positions")
        encoder_outputs = []
        for apply in self._applications(unpadding, output_positions, training):
            hidden_states = apply(hidden_states, attention_bias)
            encoder_outputs.append(hidden_states)
        if unpadding is not None:
            count = len(encoder_outputs) - (output_positions is not None)
            encoder_outputs[:count] = [
                ops.reshape(unpadding.restore(output), shape) for output in encoder_outputs[:count]
            ]
        sequence_output = encoder_outputs[-1]
        outputs = {
            "sequence_output": sequence_output,
            "encoder_outputs": encoder_outputs,
            "embedding_output": embedding_output,
        }
        if self.pooler is not None:
            outputs["pooled_output"] = self.pooler(sequence_output)
        return outputs

    def _applications(
        self,
        unpadding: Unpadding | None,
        output_positions: keras.KerasTensor | None,
        training: bool | None,
    ) -> list[Callable]:
        """Returns the layers as functions of hidden states and attention bias (B, 1, 1, S)."""
        options = {"unpadding": unpadding, "training": training}
        blocks: Sequence[Callable] = self.blocks
        order = self.block_order
        wrap: Callable[..., Callable] = functools.partial
        draws = training and bool(self.trained_num_hidden_layers)
        if not training:
            bound = [wrap(block, **options) for block in blocks]
            # Converters to other runtimes inline all calls; graphs without padding need TensorFlow.
            blocks, options = once_in_graph(bound, inline=unpadding is None), {}
        elif draws or self.remat:
            wrap = without_state
        if draws:
            order = order[: self.config.inner_group_num] * max(self.trained_num_hidden_layers)
        layers = [wrap(blocks[index], **options) for index in order[:-1]]
        if output_positions is not None:
            options = {**options, "output_positions": output_positions}
        layers.append(wrap(blocks[order[-1]], **options))
        if training and self.remat:
            layers = [keras.remat(layer) for layer in layers]
        return self._with_drawn_depth(layers) if draws else layers

    def _with_drawn_depth(self, layers: Sequence[Callable]) -> list[Callable]:
        """Joins the layers between two of the numbers to draw to one that may return its inputs.

        The last layer is always applied, as it alone may compute fewer positions.
        """
        numbers = sorted(self.trained_num_hidden_layers)
        ends = [number * self.config.inner_group_num - 1 for number in numbers]
        drawn = keras.random.randint((), 0, len(ends), seed=self.depth_generator)

        def join(number, part):
            def apply(hidden_states, attention_bias):
                return functools.reduce(
                    lambda x, layer: layer(x, attention_bias), part, hidden_states
                )

            # One branch for all of them, as a GPU waits for the host at each.
            return lambda *inputs: ops.cond(
                number <= drawn, lambda: apply(*inputs), lambda: inputs[0]
            )

        parts = [
            join(number, layers[begin:end])
            for number, (begin, end) in enumerate(itertools.pairwise(ends), start=1)
        ]
        return [*layers[: ends[0]], *parts, layers[-1]]

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config):
        """Creates the encoder from `get_config`."""
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})


def once_in_graph(functions: Sequence[Callable], inline: bool) -> Sequence[Callable]:
    """Returns functions that a TensorFlow graph contains once each, however often it calls them.

    Tracing, saving and loading are faster. Without a graph the functions are returned as they are. If
    TensorFlow may not inline the calls, it also optimizes each function only once, which shortens the
    first call, and fuses every gelu with the product before it, else only that of the first call.
    """
    if BACKEND != "tensorflow" or not tf.inside_function():
        return functions
    attributes = {} if inline else {"_noinline": True}
    return [
        tf.function(function, autograph=False, experimental_attributes=attributes)
        for function in functions
    ]


def without_state(block: EncoderLayer, **options) -> Callable:
    """Returns a block as a function of hidden states and attention bias, for a branch or a recomputation.

    The seeds of the dropout layers are drawn here, once. Otherwise the recomputation would drop other
    units.
    """
    attention, feed_forward = block.attention, block.feed_forward
    dropouts = attention.probability_dropout, attention.output_dropout, feed_forward.output_dropout
    generators = [layer.seed_generator for layer in dropouts if layer.rate > 0]
    values = [(generator.state, generator.next()) for generator in generators]
    if BACKEND == "jax":
        # The scope of a training step in JAX holds the weights. The scope below would hide them.
        values += [(weight, weight.value) for weight in block.weights]

    def apply(hidden_states, attention_bias):
        with keras.StatelessScope(values):
            return block(hidden_states, attention_bias, **options)

    return apply
