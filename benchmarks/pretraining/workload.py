"""What all candidates are given: a model, a batch, and the products that nobody can leave out."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError
from benchmarks.candidates import KERAS_POLICIES, check_choices

Precision = Literal["fp32", "bf16"]

# Of the pieces of a sequence, BERT and ALBERT predict 15 %.
_MASKED_SHARE = 0.15
_FIRST_ORDINARY_ID = 5


@dataclasses.dataclass(frozen=True)
class Workload:
    """One training step.

    Attributes:
        config: of the model, as a dictionary; without dropout, which the others cannot all switch on.
        batch_size: B.
        length: S; all sequences are full.
        precision: what the layers compute in; variables are fp32.
    """

    config: dict
    batch_size: int
    length: int
    precision: Precision

    @property
    def albert_config(self) -> AlbertConfig:
        """The config of the model."""
        return AlbertConfig.from_dict(self.config)

    @property
    def predictions(self) -> int:
        """M."""
        return max(1, round(_MASKED_SHARE * self.length))

    @property
    def flops(self) -> int:
        """Floating-point operations of the products of a step, backward pass included."""
        return sum(3 * product.count * product.flops for product in forward_products(self))

    def __str__(self):
        return f"{self.precision}, {self.batch_size} x {self.length}"


class Product(NamedTuple):
    """A batch of products (rows, inner) x (inner, columns).

    Attributes:
        count: how many times a forward pass has it.
        batch: how many in one operator; 1 is a plain product.
        rows: of the left matrix.
        inner: columns of the left matrix, rows of the right one.
        columns: of the right matrix.
    """

    count: int
    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of one."""
        return 2 * self.batch * self.rows * self.inner * self.columns


def forward_products(workload: Workload) -> list[Product]:
    """Returns the products of a forward pass, the sentence head's two columns left out."""
    config = workload.albert_config
    hidden, width = config.hidden_size, config.embedding_size
    predicted = workload.batch_size * workload.predictions
    return [
        *encoder_products(workload),
        Product(1, 1, predicted, hidden, width),  # masked-LM head
        Product(1, 1, predicted, width, config.vocab_size),
    ]


def encoder_products(workload: Workload) -> list[Product]:
    """Returns the products of the encoder's forward pass, pooler included."""
    config = workload.albert_config
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    hidden, width = config.hidden_size, config.embedding_size
    length, tokens = workload.length, workload.batch_size * workload.length
    head_size, in_heads = hidden // heads, workload.batch_size * heads
    return [
        Product(1, 1, tokens, width, hidden),  # E -> H
        Product(4 * layers, 1, tokens, hidden, hidden),  # query, key, value, output
        Product(layers, in_heads, length, head_size, length),  # scores
        Product(layers, in_heads, length, length, head_size),  # context
        Product(layers, 1, tokens, hidden, config.intermediate_size),
        Product(layers, 1, tokens, config.intermediate_size, hidden),
        Product(1, 1, workload.batch_size, hidden, hidden),  # pooler
    ]


def synthetic_batch(workload: Workload) -> dict[str, np.ndarray]:
    """Returns a batch as `albert_tf.data` has it: full sequences of two segments."""
    rng = np.random.default_rng(0)
    rows, length, vocab = workload.batch_size, workload.length, workload.albert_config.vocab_size
    positions = [rng.permutation(length)[: workload.predictions] for _ in range(rows)]
    return {
        "input_ids": rng.integers(_FIRST_ORDINARY_ID, vocab, (rows, length), np.int32),
        "input_mask": np.ones((rows, length), np.int32),
        "segment_ids": np.tile((np.arange(length) >= length // 2).astype(np.int32), (rows, 1)),
        "masked_lm_positions": np.sort(positions).astype(np.int32),
        "masked_lm_ids": rng.integers(
            _FIRST_ORDINARY_ID, vocab, (rows, workload.predictions), np.int32
        ),
        "masked_lm_weights": np.ones((rows, workload.predictions), np.float32),
        "next_sentence_labels": rng.integers(0, 2, (rows, 1), np.int32),
    }


def workloads(
    config: AlbertConfig, shapes: Sequence[str], precisions: Sequence[str]
) -> list[Workload]:
    """Returns a workload for each precision and shape, a shape being `8x128`: B x S.

    Raises:
        FlagError: a shape is not of this form, or a precision is another.
    """
    check_choices("precisions", precisions, KERAS_POLICIES)
    for shape in shapes:
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", shape):
            raise FlagError(f"--shapes: received '{shape}'; expected batch size and length: 8x128")
    return [
        Workload(config.to_dict(), *map(int, shape.split("x")), precision)
        for precision in precisions
        for shape in shapes
    ]
