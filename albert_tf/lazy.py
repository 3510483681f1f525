"""Modules that are imported when they are first used.

TensorFlow takes seconds to import. What the options of the commands need uses it in functions only, so
that `--help`, and errors in flags, need not wait for it.
"""

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
    """Stands for the module of a name, and imports it when one of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)
