"""Attention in one kernel of cuDNN (FlashAttention, https://arxiv.org/abs/2205.14135).

The scores of the heads never reach the GPU's memory. TensorFlow calls the kernel through XLA alone, as a
custom call; its targets, operands and configuration are those of XLA's `cublas_cudnn.h` and
`backend_configs.proto`.
"""

import json
import math
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

_TARGET = "__cudnn$fmhaScaleBiasSoftmax"
_ELEMENT_TYPES = {tf.bfloat16: "BF16", tf.float16: "F16"}
_MOST_WIDTH, _WIDTH_STEP = 128, 8  # of a head
_LEAST_CAPABILITY = (8, 0)  # Ampere
# Contracting dimensions of each product of (B, N, S, D) and (B, N, S, S).
_FORWARD_PRODUCTS = {"bmm1": (3, 3), "bmm2": (3, 2)}
_BACKWARD_PRODUCTS = {
    "bmm1_grad_gemm1": (2, 2),
    "bmm1_grad_gemm2": (3, 2),
    "bmm2_grad_gemm1": (2, 2),
    "bmm2_grad_gemm2": (3, 3),
}


def has_flash_attention(config: AlbertConfig, dtype: str) -> bool:
    """Returns whether there are GPUs whose kernel can train a model of this config and dtype policy."""
    gpus = tf.config.get_visible_devices("GPU")
    details = (tf.config.experimental.get_device_details(gpu) for gpu in gpus)
    capabilities = [found.get("compute_capability", (0, 0)) for found in details]
    is_there = bool(gpus) and min(capabilities) >= _LEAST_CAPABILITY
    return is_there and _is_supported(config, keras.dtype_policies.get(dtype))


def check_flash_attention(config: AlbertConfig, dtype: keras.DTypePolicy) -> None:
    """Raises an `InputError` unless the kernel can train a model of this config and dtype policy."""
    if not _is_supported(config, dtype):
        raise InputError(
            f"flash_attention: expected 16-bit precision, heads of a multiple of {_WIDTH_STEP} units up "
            f"to {_MOST_WIDTH}, and attention_probs_dropout_prob 0; received {dtype.compute_dtype}, "
            f"{config.num_attention_heads} heads of {config.hidden_size} units together, and "
            f"{config.attention_probs_dropout_prob}"
        )


def _is_supported(config: AlbertConfig, dtype: keras.DTypePolicy) -> bool:
    width = config.hidden_size // config.num_attention_heads
    return (
        width <= _MOST_WIDTH
        and width % _WIDTH_STEP == 0
        and tf.as_dtype(dtype.compute_dtype) in _ELEMENT_TYPES
        and not config.attention_probs_dropout_prob
    )


def flash_attention(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, attention_bias: tf.Tensor
) -> tf.Tensor:
    """Computes softmax(query key' / sqrt(D) + bias) value, in a function that XLA compiles for a GPU.

    Args:
        query: bfloat16 or float16 (B, N, S, D) of a known shape, S even.
        key: as `query`.
        value: as `query`.
        attention_bias: float (B, 1, 1, S), which gets no gradient.

    Returns:
        The context (B, N, S, D).
    """
    shape, dtype = query.shape, query.dtype
    batch_size, heads, length, _ = shape
    # The kernel wants a bias for each query and key.
    bias = tf.broadcast_to(tf.cast(attention_bias, dtype), (batch_size, 1, length, length))
    result = tf.TensorSpec(shape, dtype)
    # With it the backward pass computes the probabilities again.
    log_sum = tf.TensorSpec((batch_size, heads, length), tf.float32)

    @tf.custom_gradient
    def attend(query, key, value):
        context, log_sums = _call(
            target=_TARGET,
            products=_FORWARD_PRODUCTS,
            operands=[query, key, value, bias],
            results=[result, log_sum],
        )

        def gradient(upstream):
            operands = [query, key, value, log_sums, upstream, bias, context]
            return _call(
                target=f"{_TARGET}Backward",
                products=_BACKWARD_PRODUCTS,
                operands=operands,
                results=[result] * 3,
            )

        return context, gradient

    return attend(query, key, value)


def _call(
    target: str,
    products: Mapping[str, tuple[int, int]],
    operands: Sequence[tf.Tensor],
    results: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """Calls a kernel of cuDNN, whose last result is its scratch memory, sized by XLA."""
    batch_size, heads, length, width = operands[0].shape
    dimensions = {
        f"{name}_dot_dimension_numbers": {
            "lhs_contracting_dimensions": [str(left)],
            "rhs_contracting_dimensions": [str(right)],
            "lhs_batch_dimensions": ["0", "1"],
            "rhs_batch_dimensions": ["0", "1"],
        }
        for name, (left, right) in products.items()
    }
    config = {
        # The knobs are those of JAX's `dot_product_attention`.
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": 1.0 / math.sqrt(width),
        "intermediate_tensor_shape": {
            "element_type": _ELEMENT_TYPES[operands[0].dtype],
            "dimensions": [str(size) for size in (batch_size, heads, length, length)],
            "layout": {"minor_to_major": ["3", "2", "1", "0"]},
            "is_dynamic_dimension": [False] * 4,
        },
        "is_flash_attention": True,
        "mask_type": "NO_MASK",
        "dropout_rate": 0.0,
        "seed": 42,
        "sliding_window_length": 0,
        "max_seg_per_batch": 1,
        **dimensions,
    }
    *values, _ = xla.custom_call_v2(
        target,
        operands,
        [*results, tf.TensorSpec((0,), tf.uint8)],
        backend_config=json.dumps({"operation_queue_id": "0", "cudnn_fmha_backend_config": config}),
    )
    return values
