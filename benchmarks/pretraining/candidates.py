"""One training step of each implementation, and the matrix products that none of them can avoid.

A step is forward pass, backward pass, clipping to a global norm of 1 and update. All models start from
their configs without dropout. PyTorch has no LAMB; its AdamW does less.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import (
    KERAS_POLICIES,
    TORCH,
    Candidate,
    Round,
    hugging_face_config,
    timed,
    torch_inputs,
)

# Makes one training step and waits until it is done.
Step = Callable[[], object]

_LEARNING_RATE = 1e-4
_CLIP_NORM = 1.0
# BERT and ALBERT predict 15 % of a sequence's pieces.
_MASKED_SHARE = 0.15
_FIRST_ORDINARY_ID = 5
# torch's label of a position without loss.
NO_LABEL = -100


@dataclasses.dataclass(frozen=True)
class Workload:
    """One training step.

    Attributes:
        config: the model's values, without dropout, which not all candidates can switch off elsewhere.
        batch_size: B.
        length: S; all sequences are full.
        precision: of the layers, `fp32` or `bf16`; variables are fp32.
    """

    config: dict[str, Any]
    batch_size: int
    length: int
    precision: str

    @property
    def albert_config(self) -> Any:
        """The model's `albert_tf.AlbertConfig`."""
        from albert_tf.config import AlbertConfig

        return AlbertConfig.from_dict(self.config)

    @property
    def predictions(self) -> int:
        """M."""
        return max(1, round(_MASKED_SHARE * self.length))

    @property
    def flops(self) -> int:
        """Floating-point operations of a step's products: once forward, twice backward."""
        return sum(3 * product.count * product.flops for product in self.forward_products())

    def __str__(self):
        return f"{self.precision}, {self.batch_size} x {self.length}"

    def encoder_products(self) -> list["Product"]:
        """Returns the products of the encoder's forward pass, pooler included."""
        config = self.albert_config
        layers, heads = config.num_hidden_layers, config.num_attention_heads
        hidden, width, inner = config.hidden_size, config.embedding_size, config.intermediate_size
        length, tokens = self.length, self.batch_size * self.length
        projection = [Product(1, 1, tokens, width, hidden)] if width != hidden else []
        return [
            *projection,
            Product(4 * layers, 1, tokens, hidden, hidden),  # query, key, value, output
            Product(layers, self.batch_size * heads, length, hidden // heads, length),  # scores
            Product(layers, self.batch_size * heads, length, length, hidden // heads),  # context
            Product(layers, 1, tokens, hidden, inner),
            Product(layers, 1, tokens, inner, hidden),
            Product(1, 1, self.batch_size, hidden, hidden),  # pooler
        ]

    def forward_products(self) -> list["Product"]:
        """Returns the products of the whole forward pass but the sentence head's two columns."""
        config, predicted = self.albert_config, self.batch_size * self.predictions
        return [
            *self.encoder_products(),
            Product(1, 1, predicted, config.hidden_size, config.embedding_size),
            Product(1, 1, predicted, config.embedding_size, config.vocab_size),
        ]

    def batch(self) -> dict[str, np.ndarray]:
        """Returns a random batch in the form of `albert_tf.data`: full sequences of two segments."""
        rng = np.random.default_rng(0)
        rows, length, vocab_size = self.batch_size, self.length, self.config["vocab_size"]
        positions = [rng.permutation(length)[: self.predictions] for _ in range(rows)]
        ids = rng.integers(_FIRST_ORDINARY_ID, vocab_size, (rows, length), np.int32)
        labels = rng.integers(_FIRST_ORDINARY_ID, vocab_size, (rows, self.predictions), np.int32)
        return {
            "input_ids": ids,
            "input_mask": np.ones((rows, length), np.int32),
            "segment_ids": np.tile((np.arange(length) >= length // 2).astype(np.int32), (rows, 1)),
            "masked_lm_positions": np.sort(positions).astype(np.int32),
            "masked_lm_ids": labels,
            "masked_lm_weights": np.ones((rows, self.predictions), np.float32),
            "next_sentence_labels": rng.integers(0, 2, (rows, 1), np.int32),
        }


class Product(NamedTuple):
    """A batch of matrix products (rows, inner) x (inner, columns).

    Attributes:
        count: how often a forward pass computes it.
        batch: number of products in one operator.
        rows: rows of the left matrix.
        inner: columns of the left matrix, rows of the right one.
        columns: columns of the right matrix.
    """

    count: int
    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of one operator."""
        return 2 * self.batch * self.rows * self.inner * self.columns


def albert_tf_step(
    workload: Workload, jit_compile: bool = False, remat: bool = False, replicas: int | None = None
) -> Step:
    """Returns the step of `run_pretraining.py`: its trainer, LAMB, both losses.

    With `replicas`, the strategy is `mirrored`, with as many parts of the processor.
    """
    import tensorflow as tf

    from albert_tf.losses import PretrainingLoss
    from albert_tf.models import AlbertEncoder, AlbertPretrainer
    from albert_tf.optimization import Lamb
    from albert_tf.training import Trainer, make_strategy

    if replicas is not None:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(cpu, devices)
    strategy = make_strategy("one_device" if replicas is None else "mirrored")
    policy = KERAS_POLICIES[workload.precision]
    with strategy.scope():
        encoder = AlbertEncoder(workload.albert_config, remat=remat, seed=0, dtype=policy)
        model = AlbertPretrainer(encoder, seed=1, dtype=policy)
        optimizer = Lamb(_LEARNING_RATE)
    trainer = Trainer(
        model,
        PretrainingLoss(),
        optimizer,
        strategy,
        seed=0,
        jit_compile=jit_compile,
        clip_norm=_CLIP_NORM,
    )
    iterator = trainer.distribute(tf.data.Dataset.from_tensors(workload.batch()).repeat())
    return lambda: trainer.train_steps(iterator, 1)["gradient_norm"][0].numpy()


def transformers_step(workload: Workload, compiled: bool = False, gathered: bool = False) -> Step:
    """Returns the step of Hugging Face's model in PyTorch: AdamW, both losses.

    The model is `AlbertForPreTraining`, or `BertForPreTraining` if the layers share nothing. Mixed
    precision is torch's autocast.

    Args:
        workload: the step.
        compiled: whether `torch.compile` compiles the forward pass with its loss.
        gathered: the strongest form: the head computes the masked positions only, which the model as it
            comes cannot, and the update is one fused operator.
    """
    import torch
    from transformers import AutoModelForPreTraining

    config = hugging_face_config(workload.albert_config, classifier_dropout=0.0)
    model = AutoModelForPreTraining.from_config(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), _LEARNING_RATE, fused=gathered)
    batch = workload.batch()
    order_labels = torch.from_numpy(batch["next_sentence_labels"][:, 0]).long()
    if gathered:
        positions, labels = (
            torch.from_numpy(batch[name]).long()
            for name in ("masked_lm_positions", "masked_lm_ids")
        )
        forward, arguments = gathered_loss, (model, torch_inputs(batch), positions, labels)
    else:
        labels = np.full_like(batch["input_ids"], NO_LABEL)
        np.put_along_axis(labels, batch["masked_lm_positions"], batch["masked_lm_ids"], axis=1)
        forward = _loss_as_it_comes
        arguments = (model, torch_inputs(batch), torch.from_numpy(labels).long())
    if compiled:
        forward = torch.compile(forward)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=workload.precision == "bf16"):
            loss = forward(*arguments, order_labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step()
        loss.item()

    return step


def _loss_as_it_comes(model, inputs, labels, order_labels):
    is_bert = model.config.model_type == "bert"
    order = {"next_sentence_label" if is_bert else "sentence_order_label": order_labels}
    return model(**inputs, labels=labels, **order).loss


def gathered_loss(model, inputs, positions, labels, order_labels, weights=None):
    """Returns the loss of a model with its masked-LM head on the masked positions only.

    Args:
        model: an `AlbertForPreTraining` or `BertForPreTraining`.
        inputs: its ids, mask and segments, int64 (B, S).
        positions: the masked positions, int64 (B, M).
        labels: their pieces, int64 (B, M).
        order_labels: int64 (B,).
        weights: float32 (B, M), 1 for a masked position and 0 for padding; None where all are 1.
    """
    import torch

    if model.config.model_type == "bert":
        masked_lm_head, order_head = model.cls.predictions, model.cls.seq_relationship
    else:
        masked_lm_head, order_head = model.predictions, model.sop_classifier
    outputs = model.base_model(**inputs)
    indices = positions[:, :, None].expand(-1, -1, outputs.last_hidden_state.shape[-1])
    logits = masked_lm_head(torch.gather(outputs.last_hidden_state, 1, indices))  # (B, M, V)
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), reduction="none"
    )
    if weights is None:
        masked_lm_loss = losses.mean()
    else:
        masked_lm_loss = (losses * weights.flatten()).sum() / weights.sum()
    order_logits = order_head(outputs.pooler_output).float()
    return masked_lm_loss + torch.nn.functional.cross_entropy(order_logits, order_labels)


def keras_hub_step(workload: Workload, jit_compile: bool = False) -> Step:
    """Returns the step of KerasHub's `AlbertMaskedLM` on TensorFlow: LAMB, the masked-LM loss only."""
    import keras
    import keras_hub

    config = workload.albert_config
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        embedding_dim=config.embedding_size,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_position_embeddings,
        dtype=KERAS_POLICIES[workload.precision],
    )
    model = keras_hub.models.AlbertMaskedLM(backbone)
    model.compile(
        optimizer=keras.optimizers.Lamb(_LEARNING_RATE, global_clipnorm=_CLIP_NORM),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    batch = workload.batch()
    inputs = {
        "token_ids": batch["input_ids"],
        "padding_mask": batch["input_mask"],
        "segment_ids": batch["segment_ids"],
        "mask_positions": batch["masked_lm_positions"],
    }
    return lambda: model.train_on_batch(inputs, batch["masked_lm_ids"])


def product_steps(
    products: Sequence[Product], precision: str, library: str = "tensorflow"
) -> list[tuple[int, Step]]:
    """Returns a step for each product of a forward pass, and how often the pass computes it.

    The operands stay in the processor's caches if they fit, so no forward pass can be faster.

    Args:
        products: of the forward pass.
        precision: `fp32` or `bf16`.
        library: `tensorflow` or `torch`.
    """
    make = {"tensorflow": _tensorflow_product, "torch": _torch_product}[library]
    steps = []
    for product in products:
        batch = [product.batch] if product.batch > 1 else []
        shapes = [*batch, product.rows, product.inner], [*batch, product.inner, product.columns]
        steps.append((product.count, make(*shapes, precision)))
    return steps


def _tensorflow_product(left: Sequence[int], right: Sequence[int], precision: str) -> Step:
    import tensorflow as tf

    dtype = {"fp32": tf.float32, "bf16": tf.bfloat16}[precision]
    multiply = tf.function(tf.matmul, autograph=False)
    operands = [tf.cast(tf.random.normal(shape), dtype) for shape in (left, right)]
    return lambda: multiply(*operands)


def _torch_product(left: Sequence[int], right: Sequence[int], precision: str) -> Step:
    import torch

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    operands = [torch.randn(shape, dtype=dtype) for shape in (left, right)]
    return lambda: torch.matmul(*operands)


def start_step(
    make_step: Callable[..., Step], workload: dict[str, Any], **arguments: Any
) -> Callable[[int], Round]:
    """Returns a function that times a step in a candidate's process."""
    return timed(make_step(Workload(**workload), **arguments))


def start_products(workload: dict[str, Any], library: str) -> Callable[[int], Round]:
    """Returns a function that times the products of a step: each once forward and twice backward."""
    described = Workload(**workload)
    steps = product_steps(described.forward_products(), described.precision, library)
    return timed(*((3 * count, step) for count, step in steps))


def _step(make_step: Callable[..., Step], packages: Sequence[str] = (), **arguments) -> Candidate:
    return Candidate(start_step, {"make_step": make_step, **arguments}, packages)


OURS, OURS_COMPILED = "albert_tf", "albert_tf --jit_compile"
# What the ceiling is the fastest of.
PRODUCTS = {
    "products in TensorFlow with oneDNN": Candidate(
        start_products, {"library": "tensorflow"}, environment={"TF_ENABLE_ONEDNN_OPTS": "1"}
    ),
    "products in TensorFlow without oneDNN": Candidate(
        start_products, {"library": "tensorflow"}, environment={"TF_ENABLE_ONEDNN_OPTS": "0"}
    ),
    "products in PyTorch": Candidate(start_products, {"library": "torch"}, ("torch",)),
}
STEPS = {
    OURS: _step(albert_tf_step),
    OURS_COMPILED: _step(albert_tf_step, jit_compile=True),
    "albert_tf --remat": _step(albert_tf_step, remat=True),
    "transformers": _step(transformers_step, TORCH),
    "transformers torch.compile": _step(transformers_step, TORCH, compiled=True),
    "transformers gathered": _step(transformers_step, TORCH, gathered=True),
    "transformers gathered torch.compile": _step(
        transformers_step, TORCH, compiled=True, gathered=True
    ),
    "keras_hub": _step(keras_hub_step, ("keras_hub",)),
    "keras_hub jit_compile": _step(keras_hub_step, ("keras_hub",), jit_compile=True),
}
REPLICAS = {
    "albert_tf mirrored 1 replica": _step(albert_tf_step, replicas=1),
    "albert_tf mirrored 2 replicas": _step(albert_tf_step, replicas=2),
}
CANDIDATES = PRODUCTS | STEPS | REPLICAS
