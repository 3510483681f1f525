"""The guard of packages that only some users need, and that an extra of this package installs."""

import importlib.util

from albert_tf.errors import InputError


def is_installed(module: str) -> bool:
    """Returns whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def check_extra(extra: str, *modules: str) -> None:
    """Checks that the modules of an extra of `pyproject.toml` can be imported.

    Raises:
        InputError: some cannot; the message is for `name_place`.
    """
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise InputError(
            f"needs {', '.join(missing)}, which cannot be imported: pip install 'albert-tf[{extra}]'"
        )
