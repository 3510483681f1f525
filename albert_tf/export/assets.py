"""The files that an exported model carries, so that its folder alone says what the model is.

assets/albert_config.json                        shape of the encoder
assets/vocabulary.model or assets/vocabulary.txt SentencePiece or WordPiece
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from albert_tf import files
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.tokenization import Tokenizer

# Name of a file -> what is in it.
Assets = Mapping[str, bytes]


def folder(saved_model_dir: str) -> str:
    """Returns the folder of the files in that of a version."""
    return os.path.join(saved_model_dir, "assets")


def encoder_assets(config: AlbertConfig, tokenizer: Tokenizer) -> Assets:
    """Returns the config and the vocabulary, as a trained folder has them.

    Raises:
        InputError: the vocabulary's file cannot be read, or has changed since the tokenizer was made.
    """
    vocabulary = files.read_bytes(tokenizer.vocabulary_file)
    if hashlib.sha256(vocabulary).hexdigest() != tokenizer.vocabulary_sha256:
        raise InputError(
            f"{tokenizer.vocabulary_file}: has changed since it was read; expected the file with the "
            f"SHA-256 {tokenizer.vocabulary_sha256}"
        )
    return {CONFIG_FILE: json_asset(config.to_dict()), tokenizer.file_name: vocabulary}


def lines_asset(lines: Sequence[str]) -> bytes:
    """Returns the content of a file with a line for each."""
    return "".join(f"{line}\n" for line in lines).encode()


def json_asset(content: Mapping) -> bytes:
    """Returns the content of a JSON file."""
    return files.to_json(content).encode()


@contextlib.contextmanager
def asset_files(assets: Assets) -> Iterator[list[str]]:
    """Gives the paths of files with these names for as long as a SavedModel is written."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in assets]
        for path, content in zip(paths, assets.values(), strict=True):
            files.write_bytes(path, content)
        yield paths
