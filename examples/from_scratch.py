r"""ALBERT and its pre-training on one page, to be read from top to bottom.

Make records of a text, one sentence per line and an empty line between documents, and train on them:

    python create_pretraining_data.py --input_file=text.txt --output_file=train.tfrecord --train_vocab \
        --spm_model_file=vocabulary.model --vocab_size=4000 --max_seq_length=32 \
        --masked_lm_prob=0.3 --max_predictions_per_seq=10
    python examples/from_scratch.py train.tfrecord

Lan et al. 2019, https://arxiv.org/abs/1909.11942, is "the paper" below. The package does the same, with
dropout, other ways of sharing, several devices, checkpoints and more speed; only its optimizer is used
here. Axes: B sequences of S tokens, of which M are masked; V pieces; E and H are the widths of embeddings
and hidden states; N heads of size D.
"""

import argparse
import math
import time

import keras
import tensorflow as tf
from keras import ops

from albert_tf.optimization import Lamb, PolynomialDecayWithWarmup

# ---------------------------------------------------------------------------------------------------
# The model. All layers of the encoder are the same layer, applied again and again.


def dense(units: int, name: str, activation=None) -> keras.layers.Dense:
    """Returns a dense layer with BERT's initialisation."""
    kernel = keras.initializers.TruncatedNormal(stddev=0.02)
    return keras.layers.Dense(units, activation, kernel_initializer=kernel, name=name)


def layer_norm(name: str) -> keras.layers.LayerNormalization:
    """Returns a layer norm; LAMB knows it by its name."""
    return keras.layers.LayerNormalization(epsilon=1e-12, name=f"{name}_layer_norm")


def gelu(x):
    """Computes the tanh form of gelu, which BERT and ALBERT use."""
    return keras.activations.gelu(x, approximate=True)


class Embedding(keras.layers.Layer):
    """The factorized embedding (section 3.1 of the paper).

    A table V x H would hold most of a small model's parameters. The meaning of a piece without context
    needs less width than a hidden state. So the tables have width E, and one product maps E to H.
    """

    def __init__(self, vocab_size: int, embedding_size: int, hidden_size: int, max_length: int):
        super().__init__(name="embedding")
        sizes = {"words": vocab_size, "positions": max_length, "segments": 2}
        self.tables = {
            name: self.add_weight(
                shape=(size, embedding_size),
                initializer=keras.initializers.TruncatedNormal(stddev=0.02),
                name=name,
            )
            for name, size in sizes.items()
        }
        self.norm = layer_norm("embedding")
        self.projection = dense(hidden_size, "projection")

    def call(self, input_ids, segment_ids):
        """Maps ids (B, S) to hidden states (B, S, H)."""
        x = ops.take(self.tables["words"], input_ids, axis=0)  # (B, S, E)
        x += self.tables["positions"][: ops.shape(input_ids)[1]]
        x += ops.take(self.tables["segments"], segment_ids, axis=0)
        return self.projection(self.norm(x))


class Block(keras.layers.Layer):
    """A Transformer layer: attention, then feed-forward, each added to its input and normalised."""

    def __init__(self, hidden_size: int, num_heads: int):
        super().__init__(name="block")
        self.num_heads = num_heads
        self.query = dense(hidden_size, "query")
        self.key = dense(hidden_size, "key")
        self.value = dense(hidden_size, "value")
        self.attention_output = dense(hidden_size, "attention_output")
        self.attention_norm = layer_norm("attention")
        self.intermediate = dense(4 * hidden_size, "intermediate", gelu)
        self.output_dense = dense(hidden_size, "output")
        self.output_norm = layer_norm("output")

    def call(self, x, mask):
        """Maps hidden states (B, S, H) to the next ones; `mask` (B, S) is 0 for padding."""
        x = self.attention_norm(x + self.attention_output(self.attend(x, mask)))
        return self.output_norm(x + self.output_dense(self.intermediate(x)))

    def attend(self, x, mask):
        """Returns for each token the mean of all tokens' values, weighted by how well they match."""
        query, key, value = (
            self.split_heads(part(x)) for part in (self.query, self.key, self.value)
        )
        scores = query @ ops.transpose(key, (0, 1, 3, 2))  # (B, N, S, S)
        scores /= math.sqrt(key.shape[-1])
        # Nobody looks at padding.
        scores += (1.0 - ops.cast(mask, "float32"))[:, None, None, :] * -10000.0
        context = ops.transpose(ops.softmax(scores) @ value, (0, 2, 1, 3))  # (B, S, N, D)
        return ops.reshape(context, ops.shape(x))

    def split_heads(self, x):
        """Maps (B, S, H) to (B, N, S, D)."""
        batch_size, length, hidden_size = ops.shape(x)
        x = ops.reshape(x, (batch_size, length, self.num_heads, hidden_size // self.num_heads))
        return ops.transpose(x, (0, 2, 1, 3))


class Albert(keras.Model):
    """The encoder and the two heads of pre-training."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int = 64,
        hidden_size: int = 128,
        num_layers: int = 2,
        num_heads: int = 4,
        max_length: int = 512,
    ):
        super().__init__(name="albert")
        self.num_layers = num_layers
        # The encoder
        self.embedding = Embedding(vocab_size, embedding_size, hidden_size, max_length)
        self.block = Block(hidden_size, num_heads)
        # The head of the masked LM, whose output layer is the transposed table of pieces
        self.transform = dense(embedding_size, "transform", gelu)
        self.transform_norm = layer_norm("transform")
        self.output_bias = self.add_weight(shape=(vocab_size,), initializer="zeros", name="bias")
        # The head of the sentence order
        self.pooler = dense(hidden_size, "pooler", "tanh")
        self.order = dense(2, "order")

    def encode(self, batch):
        """Maps `input_ids`, `input_mask` and `segment_ids` (B, S) to hidden states (B, S, H)."""
        x = self.embedding(batch["input_ids"], batch["segment_ids"])
        for _ in range(self.num_layers):
            x = self.block(x, batch["input_mask"])
        return x

    def call(self, batch):
        """Predicts the masked pieces and the order of the segments.

        Args:
            batch: inputs of `encode`, and `masked_lm_positions` (B, M).

        Returns:
            Logits of the pieces, (B, M, V), and of "in order" and "swapped", (B, 2).
        """
        hidden = self.encode(batch)
        masked = tf.gather(hidden, batch["masked_lm_positions"], batch_dims=1)  # (B, M, H)
        masked = self.transform_norm(self.transform(masked))  # (B, M, E)
        words = self.embedding.tables["words"]
        piece_logits = masked @ ops.transpose(words) + self.output_bias
        # The first token, [CLS], stands for the sequence.
        return piece_logits, self.order(self.pooler(hidden[:, 0]))


# ---------------------------------------------------------------------------------------------------
# The losses: guess the masked pieces, and whether the two segments were swapped (section 3.1, SOP).


def losses(model: Albert, batch) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the masked-LM loss and the sentence-order loss of a batch, two scalars in nats."""
    piece_logits, order_logits = model(batch)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    of_pieces = cross_entropy(batch["masked_lm_ids"], piece_logits)  # (B, M)
    # Sequences have fewer masked pieces than M; the rest has weight 0.
    weights = batch["masked_lm_weights"]
    masked_lm = tf.reduce_sum(weights * of_pieces) / (tf.reduce_sum(weights) + 1e-5)
    labels = batch["next_sentence_labels"][:, 0]  # 1 = swapped
    return masked_lm, tf.reduce_mean(cross_entropy(labels, order_logits))


def loss_and_gradients(model: Albert, batch):
    """Returns both losses, and the gradients of their sum for `model.trainable_variables`."""
    with tf.GradientTape() as tape:
        both = losses(model, batch)
        total = sum(both)
    gradients = tape.gradient(total, model.trainable_variables)
    # The gradient of a look-up lists rows, some of them twice. Its norm is that of the sums.
    return both, [tf.convert_to_tensor(gradient) for gradient in gradients]


# ---------------------------------------------------------------------------------------------------
# The data: records with masks, as create_pretraining_data.py writes them.


def read_records(paths: list[str], batch_size: int) -> tf.data.Dataset:
    """Returns shuffled batches without end, each a dictionary of tensors."""
    records = tf.data.TFRecordDataset(paths)
    first = tf.train.Example.FromString(next(iter(records)).numpy())
    features = {}
    for name, feature in first.features.feature.items():
        values, dtype = feature.int64_list.value, tf.int64
        if feature.WhichOneof("kind") == "float_list":
            values, dtype = feature.float_list.value, tf.float32
        features[name] = tf.io.FixedLenFeature([len(values)], dtype)
    batches = records.repeat().shuffle(10_000).batch(batch_size)
    return batches.map(lambda batch: tf.io.parse_example(batch, features)).prefetch(2)


# ---------------------------------------------------------------------------------------------------
# The training.


def train(model: Albert, batches: tf.data.Dataset, num_steps: int, learning_rate: float) -> None:
    """Makes updates, and prints the mean losses of every 50."""
    warmup = max(1, num_steps // 20)
    optimizer = Lamb(PolynomialDecayWithWarmup(learning_rate, num_steps, warmup))

    @tf.function
    def update(batch):
        both, gradients = loss_and_gradients(model, batch)
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(clipped, model.trainable_variables)
        return tf.stack(both)

    sums, start = 0.0, time.monotonic()
    for step, batch in enumerate(batches.take(num_steps), 1):
        sums += update(batch)
        if step % 50 == 0:
            masked_lm, order = (sums / 50).numpy()
            rate = step / (time.monotonic() - start)
            print(
                f"step {step}/{num_steps}: masked LM {masked_lm:.3f} nats, sentence order {order:.3f}, "
                f"{rate:.1f} steps/s"
            )
            sums = 0.0


def main() -> None:
    """Trains a small model on the records of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+", help="TFRecord files with masks")
    parser.add_argument("--vocab_size", type=int, default=4000, help="number of pieces")
    parser.add_argument("--steps", type=int, default=1000, help="number of updates")
    parser.add_argument("--batch_size", type=int, default=64, help="sequences per update")
    parser.add_argument("--learning_rate", type=float, default=0.003, help="peak learning rate")
    arguments = parser.parse_args()
    model = Albert(arguments.vocab_size)
    batches = read_records(arguments.records, arguments.batch_size)
    model(next(iter(batches)))
    print(f"{model.count_params():,} parameters")
    train(model, batches, arguments.steps, arguments.learning_rate)


if __name__ == "__main__":
    main()
