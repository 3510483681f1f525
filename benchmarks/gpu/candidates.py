"""What runs on the GPU: steps of pre-training and fine-tuning, and exported models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.finetuning.candidates import albert_tf_pass, transformers_pass
from benchmarks.finetuning.candidates import start as start_pass
from benchmarks.harness import Candidate, Round, Step, timed
from benchmarks.hugging_face import TORCH
from benchmarks.pretraining.candidates import (
    Workload,
    albert_tf_step,
    keras_hub_step,
    transformers_step,
)

# Updates between two waits for the GPU: in a loop of PyTorch's, and in one call of Keras and ours.
UPDATES = 20
BATCH_SIZES = (1, 32, 256)
# So that several processes share the GPU's memory.
SHARED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
EXACT = {"NVIDIA_TF32_OVERRIDE": "0"}


def start_updates(
    make_step: Callable[..., Step], workload: Mapping[str, Any], **arguments: Any
) -> Callable[[int], Round]:
    """Returns a function that times updates, which wait for the GPU only at the end of `UPDATES`."""
    step = make_step(Workload(**workload), **arguments)

    def update() -> None:
        for _ in range(UPDATES):
            last = step()
        float(last)

    return timed((1 / UPDATES, update))


def start_loop(
    make_step: Callable[..., Step], workload: Mapping[str, Any], **arguments: Any
) -> Callable[[int], Round]:
    """Returns a function that times `UPDATES` updates in one call of the library."""
    step = make_step(Workload(**workload), updates=UPDATES, **arguments)
    return timed((1 / UPDATES, lambda: np.asarray(step())))


def start_peak(workload: Mapping[str, Any], size: int) -> Callable[[int], Round]:
    """Returns a function that times one product of square matrices in TensorFlow."""
    import tensorflow as tf

    dtype = {"fp32": tf.float32, "bf16": tf.bfloat16}[workload["precision"]]
    matrices = [tf.cast(tf.random.normal((size, size)), dtype) for _ in range(2)]

    def multiply() -> None:
        for _ in range(UPDATES):
            product = tf.matmul(*matrices)
        float(product[0, 0])

    return timed((1 / UPDATES, multiply))


def start_answers(folder: str) -> Callable[[Sequence[str]], list]:
    """Returns a function from texts to the probabilities of an exported model of texts."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, whose operators the model has

    answer = tf.saved_model.load(f"{folder}/text/1").signatures["serving_default"]
    return lambda texts: answer(text_a=tf.constant(texts))["probabilities"].numpy().tolist()


def start_serving(folder: str, batch_size: int, length: int) -> Callable[[int], Round]:
    """Returns a function that times answers to a batch of full sequences."""
    import tensorflow as tf

    answer = tf.saved_model.load(f"{folder}/ids/1").signatures["serving_default"]
    inputs = {
        "input_ids": tf.fill((batch_size, length), 7),
        "input_mask": tf.ones((batch_size, length), tf.int32),
        "segment_ids": tf.zeros((batch_size, length), tf.int32),
    }
    return timed(lambda: answer(**inputs)["probabilities"].numpy())


def _ours(**arguments: Any) -> Candidate:
    return Candidate(start_loop, {"make_step": albert_tf_step, **arguments}, environment=SHARED)


_TORCH = {"KERAS_BACKEND": "torch"}
OURS, PEAK = "albert_tf", "a large product"
STEPS = {
    PEAK: Candidate(start_peak, environment=SHARED),
    OURS: _ours(jit_compile=True),
    "albert_tf, mirrored": _ours(jit_compile=True, strategy="mirrored"),
    "albert_tf without XLA": _ours(),
    "transformers gathered torch.compile": Candidate(
        start_updates,
        {"make_step": transformers_step, "compiled": True, "gathered": True},
        TORCH,
        _TORCH,
    ),
    "keras_hub on JAX": Candidate(
        start_loop,
        {"make_step": keras_hub_step, "jit_compile": True},
        ("keras_hub", "jax"),
        SHARED | {"KERAS_BACKEND": "jax"},
    ),
}


def _pass(make_pass: Callable[..., Step], environment: Mapping[str, str], **arguments: Any):
    return Candidate(start_pass, {"make_pass": make_pass, **arguments}, environment=environment)


PASSES = {
    "fine-tuning": _pass(albert_tf_pass, SHARED),
    "fine-tuning, XLA": _pass(albert_tf_pass, SHARED, jit_compile=True),
    "fine-tuning, transformers": _pass(transformers_pass, _TORCH),
    "fine-tuning, transformers torch.compile": _pass(transformers_pass, _TORCH, compiled=True),
}
BATCHINGS = dict(zip(PASSES, ("pipeline", "fixed", "trainer", "trainer"), strict=True))
CPU, GPU = "CPU", "GPU"
CANDIDATES = (
    STEPS
    | PASSES
    | {
        CPU: Candidate(start_answers, environment={"CUDA_VISIBLE_DEVICES": "-1"}),
        GPU: Candidate(start_answers, environment=SHARED | EXACT),
        **{
            str(size): Candidate(start_serving, {"batch_size": size}, environment=SHARED)
            for size in BATCH_SIZES
        },
    }
)
