"""What the processor can do, where TensorFlow does not make use of it by itself."""

import os
import platform


def turn_on_onednn() -> bool:
    """Turns oneDNN on for processors with AVX2, and returns whether it did.

    TensorFlow itself uses oneDNN only on processors with instructions for neural networks, but it is
    faster with AVX2 too. The user's own setting is kept.
    """
    name = "TF_ENABLE_ONEDNN_OPTS"
    extensions = _extensions()
    # TensorFlow's rule: `DefaultOneDnnPolicy` in tensorflow/core/util/util.cc
    by_itself = {"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"}
    if name in os.environ or "avx2" not in extensions or extensions & by_itself:
        return False
    os.environ[name] = "1"
    return True


def has_bfloat16() -> bool:
    """Returns whether the processor multiplies matrices in bfloat16."""
    return not _extensions().isdisjoint({"avx512_bf16", "amx_bf16"})


def _extensions() -> set[str]:
    """Returns the extensions of an x86-64 processor, by Linux's names; none where they are not known."""
    if platform.machine() != "x86_64" or not os.path.exists("/proc/cpuinfo"):
        return set()
    with open("/proc/cpuinfo") as file:
        return set(next((line for line in file if line.startswith("flags")), "").split())
