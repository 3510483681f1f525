"""One training step of each implementation, and the matrix products that none of them can avoid.

A step is forward pass, backward pass, clipping to a global norm of 1 and update. All models start from
their configs without dropout. PyTorch has no LAMB; its AdamW does less.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import CLIP_NORM, KERAS_POLICIES, Candidate, Round, Step, timed
from benchmarks.hugging_face import (
    TORCH,
    hugging_face_config,
    to_torch,
    torch_device,
    torch_inputs,
    torch_update,
)

_LEARNING_RATE = 1e-4
# BERT and ALBERT predict 15 % of a sequence's pieces.
_MASKED_SHARE = 0.15
_FIRST_ORDINARY_ID = 5
# torch's label of a position without loss.
_NO_LABEL = -100


@dataclasses.dataclass(frozen=True)
class Workload:
    """One training step on full sequences."""

    config: dict[str, Any]  # without dropout, which not all candidates can switch off elsewhere
    batch_size: int
    length: int
    precision: str  # of the layers, `fp32` or `bf16`; variables are fp32

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

    def forward_products(self) -> list["Product"]:
        """Returns the products of the forward pass but the sentence head's two columns."""
        config, predicted = self.albert_config, self.batch_size * self.predictions
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
            Product(1, 1, predicted, hidden, width),
            Product(1, 1, predicted, width, config.vocab_size),
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
    """An operator of `batch` products (rows, inner) x (inner, columns), computed `count` times."""

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
    workload: Workload,
    jit_compile: bool = False,
    remat: bool = False,
    strategy: str = "one_device",
    updates: int = 1,
) -> Step:
    """Returns the step of `run_pretraining.py`: its trainer, LAMB, both losses.

    More `updates` than one are one call, as between two lines of its log.
    """
    import tensorflow as tf

    from albert_tf.losses import PretrainingLoss
    from albert_tf.models import AlbertEncoder, AlbertPretrainer
    from albert_tf.models.flash_attention import has_flash_attention
    from albert_tf.optimization import Lamb
    from albert_tf.training import Trainer, make_strategy

    policy, distribution = KERAS_POLICIES[workload.precision], make_strategy(strategy)
    config = workload.albert_config
    flash_attention = jit_compile and has_flash_attention(config, policy)
    with distribution.scope():
        encoder = AlbertEncoder(
            config, remat=remat, flash_attention=flash_attention, seed=0, dtype=policy
        )
        model = AlbertPretrainer(encoder, seed=1, dtype=policy)
        optimizer = Lamb(_LEARNING_RATE)
    trainer = Trainer(
        model,
        PretrainingLoss(),
        optimizer,
        distribution,
        seed=0,
        jit_compile=jit_compile,
    )
    iterator = trainer.distribute(tf.data.Dataset.from_tensors(workload.batch()).repeat())
    return lambda: trainer.train_steps(iterator, updates)["gradient_norm"][0][-1]


def transformers_step(workload: Workload, compiled: bool = False, gathered: bool = False) -> Step:
    """Returns the step of Hugging Face's model in PyTorch: AdamW, both losses, torch's autocast.

    The model is `AlbertForPreTraining`, or `BertForPreTraining` if the layers share nothing. `gathered`
    is the strongest form: the head computes the masked positions only, and the update is one fused
    operator. `compiled` means the forward pass with its loss.
    """
    from transformers import AutoModelForPreTraining

    config = hugging_face_config(workload.albert_config, classifier_dropout=0.0)
    model = AutoModelForPreTraining.from_config(config).train().to(torch_device())
    make_inputs, forward = torch_forms(compiled, gathered)
    inputs = make_inputs(model, workload.batch())
    loss = functools.partial(forward, model)
    update = torch_update(model, loss, workload.precision, _LEARNING_RATE, fused=gathered)
    return functools.partial(update, **inputs)


def torch_forms(compiled: bool, gathered: bool) -> tuple[Callable, Callable]:
    """Returns functions from model and batch to arguments, and from model and arguments to the loss."""
    import torch

    make_inputs = _gathered_inputs if gathered else _inputs_as_it_comes
    forward = _gathered_loss if gathered else _loss_as_it_comes
    return make_inputs, torch.compile(forward) if compiled else forward


def _inputs_as_it_comes(model, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the arguments of a model as it comes."""
    labels = np.full_like(batch["input_ids"], _NO_LABEL)
    rows, columns = np.nonzero(batch["masked_lm_weights"] > 0)
    positions = batch["masked_lm_positions"][rows, columns]
    labels[rows, positions] = batch["masked_lm_ids"][rows, columns]
    is_bert = model.config.model_type == "bert"
    order = "next_sentence_label" if is_bert else "sentence_order_label"
    return torch_inputs(batch) | {
        "labels": to_torch(labels),
        order: to_torch(batch["next_sentence_labels"][:, 0]),
    }


def _loss_as_it_comes(model, **inputs):
    return model(**inputs).loss


def _gathered_inputs(model, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
    del model
    return {
        "inputs": torch_inputs(batch),
        "positions": to_torch(batch["masked_lm_positions"]),
        "labels": to_torch(batch["masked_lm_ids"]),
        "weights": to_torch(batch["masked_lm_weights"]),
        "order_labels": to_torch(batch["next_sentence_labels"][:, 0]),
    }


def _gathered_loss(model, inputs, positions, labels, weights, order_labels):
    """Returns the loss with the masked-LM head on the masked positions only."""
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
    masked_lm_loss = (losses * weights.flatten()).sum() / weights.sum()
    order_logits = order_head(outputs.pooler_output).float()
    return masked_lm_loss + torch.nn.functional.cross_entropy(order_logits, order_labels)


def keras_hub_step(workload: Workload, jit_compile: bool = False, updates: int = 1) -> Step:
    """Returns the step of KerasHub's `AlbertMaskedLM`: LAMB, the masked-LM loss only.

    More `updates` than one are a call of `fit`, which does not wait for each.
    """
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
    task = keras_hub.models.AlbertMaskedLM(backbone)
    model = keras.Model(task.input, task.output)  # without the task's preprocessing of texts
    model.compile(
        optimizer=keras.optimizers.Lamb(_LEARNING_RATE, global_clipnorm=CLIP_NORM),
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
    labels = batch["masked_lm_ids"]
    if updates == 1:
        return lambda: model.train_on_batch(inputs, labels)

    def batches():
        yield from itertools.repeat((inputs, labels))

    return lambda: model.fit(batches(), steps_per_epoch=updates, verbose=0)


def start_products(workload: dict[str, Any], library: str) -> Callable[[int], Round]:
    """Returns a function that times the products of a step: each once forward and twice backward.

    The operands stay in the processor's caches if they fit, so no step can be faster.
    """
    described = Workload(**workload)
    dtype = {"fp32": "float32", "bf16": "bfloat16"}[described.precision]
    steps = []
    for product in described.forward_products():
        batch = [product.batch] if product.batch > 1 else []
        shapes = [*batch, product.rows, product.inner], [*batch, product.inner, product.columns]
        make = _torch_product if library == "torch" else _tensorflow_product
        steps.append((3 * product.count, make(shapes, dtype)))
    return timed(*steps)


def _tensorflow_product(shapes: Sequence[Sequence[int]], dtype: str) -> Step:
    import tensorflow as tf

    multiply = tf.function(tf.matmul, autograph=False)
    return functools.partial(multiply, *(tf.cast(tf.random.normal(x), dtype) for x in shapes))


def _torch_product(shapes: Sequence[Sequence[int]], dtype: str) -> Step:
    import torch

    operands = (torch.randn(shape, dtype=getattr(torch, dtype)) for shape in shapes)
    return functools.partial(torch.matmul, *operands)


def start_step(
    make_step: Callable[..., Step], workload: dict[str, Any], **arguments: Any
) -> Callable[[int], Round]:
    """Returns a function that times a step in a candidate's process."""
    return timed(make_step(Workload(**workload), **arguments))


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
CANDIDATES = PRODUCTS | STEPS
