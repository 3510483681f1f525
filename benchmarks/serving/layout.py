"""Where the models are, in the folder that all candidates read."""

import pathlib
from collections.abc import Iterable
from typing import Literal

Precision = Literal["fp32", "bf16"]

LABELS = ("negative", "positive")
MAX_SEQ_LENGTH = 128

CONFIG = "albert_config.json"
TEXTS = "texts.json"
VOCABULARY = "spiece.model"
HUGGING_FACE = "hugging_face"
ONNX = "onnx/model.onnx"
COMPILED = "torch_compile"


def ids_model(precision: Precision) -> str:
    """Returns the SavedModel that takes ids."""
    return f"{precision}/ids/1"


def text_model(precision: Precision) -> str:
    """Returns the SavedModel that takes text."""
    return f"{precision}/text/1"


def size_mib(folder: str, paths: Iterable[str]) -> float:
    """Returns how much files, and all files of folders, take.

    Args:
        folder: where the models are.
        paths: in the folder.
    """
    found = [pathlib.Path(folder, path) for path in paths]
    inner = (file for path in found for file in (path, *path.rglob("*")) if file.is_file())
    return sum(file.stat().st_size for file in inner) / 2**20
