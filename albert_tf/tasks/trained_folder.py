"""What the folder of a trained model determines, or the assets of an exported one."""

import os
from typing import Any

from albert_tf.errors import InputError
from albert_tf.kinds.registry import read_kind
from albert_tf.model_folder import CONFIG_FILE, read_own, stored_sum
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags


def read_trained(folder: str) -> dict[str, Any]:
    """Returns the options that a folder determines; none if this package did not write it.

    They are the config, the vocabulary, its case and the dropout and, with a kind, task and length.
    """
    own = read_own(folder)
    if not own:
        return {}
    values = {
        **vocabulary_flags(folder),
        "albert_config_file": os.path.join(folder, CONFIG_FILE),
        "dropout": own.get("options", {}).get("dropout"),
    }
    if kind := read_kind(folder):
        values |= {"task_name": kind.task_name, "max_seq_length": kind.max_seq_length}
    return values


def check_vocabulary(folder: str, tokenizer: Tokenizer) -> None:
    """Checks that the model of a folder was trained with the tokenizer's vocabulary."""
    if stored_sum(folder, tokenizer.file_name) != tokenizer.vocabulary_sha256:
        raise InputError(f"was trained with another vocabulary than {tokenizer.vocabulary_file}")
