"""Finds models by name: folders, the models of this package, the Hugging Face Hub's, and archives.

What is downloaded stays in the caches of `huggingface_hub` and Keras, so that it is there without a
network.
"""

import gzip
import hashlib
import os
import pathlib
import re
import sys
import tarfile
import textwrap
import zlib

from albert_tf import files
from albert_tf._version import __version__
from albert_tf.errors import InputError
from albert_tf.model_folder import find_best

# For the descriptions of flags.
MODEL_NAMES = (
    "small_en, medium_en or sentences_en, which come with albert_tf; hf://owner/name[@revision] of the "
    "Hugging Face Hub, also without hf://; the https:// address of a .tar.gz archive; or a folder"
)

_SHIPPED = pathlib.Path(__file__).parent / "pretrained"
_HUB = "hf://"
_WEB = ("https://", "http://")
_HUB_NAME = re.compile(r"(?P<repo>[\w-][\w.-]*/[\w.-]+)(@(?P<revision>[\w./-]+))?")
# No pickles: they can run any code.
_HUB_WEIGHTS = ("model*.safetensors", "model.weights.h5")
_VOCABULARIES = ("spiece.model", "vocab.txt")
_HUB_FILES = (
    *_HUB_WEIGHTS,
    "task.weights.h5",
    "*.json",
    *_VOCABULARIES,
    "assets/*",
    # In the first layout of sentence-transformers, where a folder of its own holds the encoder.
    *(f"*_Transformer/{name}" for name in (*_HUB_WEIGHTS, *_VOCABULARIES)),
    # Modules of sentence-transformers with weights.
    *(f"*_{module}/{_HUB_WEIGHTS[0]}" for module in ("Dense", "LayerNorm")),
)
# What `tarfile` and `gzip` raise for damaged archives, and for members outside of the folder.
_DAMAGES = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)


def shipped_names() -> tuple[str, ...]:
    """Returns the names of the models that come with this package."""
    return tuple(sorted(path.name for path in _SHIPPED.iterdir()))


def is_download(name: str) -> bool:
    """Returns whether a model's name is an address that `find_model` downloads from."""
    return name.startswith((_HUB, *_WEB))


def is_path(name: str) -> bool:
    """Returns whether a model's name is a path for `find_model`, and not what it finds by name."""
    if is_download(name):
        return False
    is_name = name in shipped_names() or _HUB_NAME.fullmatch(name)
    return not is_name or _exists(name)


def _exists(name: str) -> bool:
    with files.explain_unreadable(name):
        return any(files.exists(path) for path in (name, f"{name}.index"))


def find_model(name: str) -> str:
    """Returns the path of a model, which is downloaded if necessary.

    Args:
        name: a folder, a file or the prefix of a checkpoint, which mean themselves; one of
            `shipped_names`; `hf://owner/name` or `hf://owner/name@revision` of the Hugging Face Hub, also
            without `hf://` if there is no such folder; or the https:// address of a .tar.gz archive with
            the folder of a model, such as those of Google.

    Returns:
        The path. It exists unless it was given as a path. Of the output folder of a run it is that of the
        best weights.
    """
    name = files.as_path(name)
    if name.startswith(_WEB):
        return _find_in_archive(name)
    if name.startswith(_HUB):
        found = _HUB_NAME.fullmatch(name.removeprefix(_HUB))
        if not found:
            raise InputError(f"'{name}': expected {_HUB}owner/name or {_HUB}owner/name@revision")
        return _find_on_hub(**found.groupdict())
    is_shipped = name in shipped_names()
    if _exists(name):
        if is_shipped:
            print(
                f"'{name}' is a folder here; the model that comes with albert_tf is not used",
                file=sys.stderr,
            )
            name = os.path.join(os.curdir, name)
        with files.explain_unreadable(name):
            files.refuse_packed(name)
        return find_best(name) or name
    if is_shipped:
        return os.fspath(_SHIPPED / name)
    not_local = (
        f"'{name}' is neither a folder or checkpoint, nor a model that comes with albert_tf "
        f"({', '.join(shipped_names())})"
    )
    if found := _HUB_NAME.fullmatch(name):
        try:
            return _find_on_hub(**found.groupdict())
        except InputError as error:
            raise InputError(f"{not_local}, nor found on the Hub: {error}") from error
    if "/" not in name:
        raise InputError(f"{not_local}, nor owner/name of the Hugging Face Hub")
    return name


def _find_on_hub(repo: str, revision: str | None) -> str:
    """Returns the folder of a model in the Hub's cache, which is brought up to date."""
    # It takes half a second to import, and a Hub is not always needed.
    import huggingface_hub
    from huggingface_hub import errors

    name = f"{_HUB}{repo}" + (f"@{revision}" if revision else "")
    try:
        folder = huggingface_hub.snapshot_download(
            repo,
            revision=revision,
            allow_patterns=list(_HUB_FILES),
            # With more, a lost connection may end in a bug of the library.
            max_workers=1,
            library_name="albert_tf",
            library_version=__version__,
        )
    except errors.GatedRepoError as error:
        raise InputError(
            f"{name}: is open to those who accept its conditions on its page; then `hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{name}: there is no revision '{revision}'") from error
    except errors.HfHubHTTPError as error:
        if error.response.status_code not in (401, 403, 404):
            raise InputError(f"{name}: {_one_line(error)}") from error
        raise InputError(
            f"{name}: there is no such model, or it is private: `hf auth login` or HF_TOKEN gives access"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        reason = _one_line(error.__cause__ or error)
        revision_flag = f" --revision {revision}" if revision else ""
        raise InputError(
            f"{name}: not completely in the cache, and the Hub cannot be reached ({reason}); where there "
            f"is a network, `hf download {repo}{revision_flag} --local-dir {repo.split('/')[1]}` makes a "
            "folder to name instead"
        ) from error
    except (errors.HFValidationError, errors.HTTPError, OSError) as error:
        reason = _one_line(error)
        raise InputError(f"{name}: the download failed ({reason}); repeat it to resume") from error
    if not any(files.matches(folder, pattern) for pattern in _HUB_WEIGHTS):
        raise InputError(
            f"{name}: holds neither model.safetensors nor KerasHub's model.weights.h5; pickles such as "
            "pytorch_model.bin are not downloaded, as they can run any code"
        )
    return folder


def _one_line(error: BaseException) -> str:
    return textwrap.shorten(str(error) or type(error).__name__, 200, placeholder=" ...")


def _find_in_archive(url: str) -> str:
    """Returns the folder with a config in the archive at an address, downloaded to Keras's cache."""
    # Keras takes seconds to import.
    import keras

    name = f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.tar.gz"
    try:
        archive = keras.utils.get_file(name, url, cache_subdir="albert_tf")
    # Keras raises plain exceptions.
    except Exception as error:
        raise InputError(
            f"{url}: cannot be downloaded: {_one_line(error)}; where there is a network, download and "
            "unpack it, and name its folder instead"
        ) from error
    folder = archive.removesuffix(".tar.gz")
    if not os.path.isdir(folder):
        with files.write_atomically(folder) as incomplete:
            try:
                with tarfile.open(archive) as tar:
                    # Refuses members outside of the folder, links out of it, and devices.
                    tar.extractall(incomplete, filter="data")
            except _DAMAGES as error:
                os.remove(archive)
                raise InputError(
                    f"{url}: no .tar.gz archive, or a damaged one: {_one_line(error)}"
                ) from error
    folders = {path.parent for path in pathlib.Path(folder).rglob("*config.json")}
    # Parts of a model, such as a pooling, may have a config in a folder below.
    return os.fspath(min(folders, key=lambda path: (len(path.parts), path), default=folder))
