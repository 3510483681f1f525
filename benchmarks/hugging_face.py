"""Hugging Face's models in PyTorch, as the candidates of several benchmarks need them."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness import CLIP_NORM

# The packages of these candidates.
TORCH = ("torch", "transformers")
# Inputs of Hugging Face's models -> ours.
NAMES_THERE = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


def hugging_face_config(config: Any, classifier_dropout: float, **others: Any) -> Any:
    """Returns the config of `transformers` for a model of the same shape and dropout.

    An `albert_tf.AlbertConfig` that shares nothing is BERT's.
    """
    from transformers import AlbertConfig, BertConfig

    same = (
        *("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers"),
        *("num_attention_heads", "intermediate_size", "max_position_embeddings"),
        *("initializer_range", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    )
    make = BertConfig if config.sharing == "none" else AlbertConfig
    return make(
        **{name: getattr(config, name) for name in same},
        classifier_dropout_prob=classifier_dropout,
        hidden_act="gelu_new",
        **others,
    )


def torch_device() -> str:
    """Returns the device of PyTorch's candidates: a GPU if there is one, as TensorFlow takes.

    There, float32 products may be computed in TF32, also as in TensorFlow.
    """
    import torch

    torch.set_float32_matmul_precision("high")
    return "cuda" if torch.cuda.is_available() else "cpu"


def to_torch(array: Any) -> Any:
    """Returns an array as a tensor on the device, int64 if it holds integers."""
    import torch

    tensor = torch.from_numpy(array).to(torch_device())
    return tensor if tensor.is_floating_point() else tensor.long()


def torch_inputs(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a batch of ours as int64 tensors under Hugging Face's names."""
    return {theirs: to_torch(batch[ours]) for theirs, ours in NAMES_THERE.items()}


def torch_update(
    model: Any,
    loss: Callable[..., Any],
    precision: str,
    learning_rate: float,
    fused: bool | None = None,
) -> Callable[..., Any]:
    """Returns a function that makes an update of AdamW, with clipped gradients, and returns the loss.

    Its keyword arguments are those of `loss`, which is computed under torch's autocast in bf16. Without
    `fused`, torch chooses the form of AdamW.
    """
    import torch

    device = torch_device()
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, fused=fused)

    def update(**inputs: Any) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            value = loss(**inputs)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return value

    return update
