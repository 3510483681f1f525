"""SavedModels in version folders, as TensorFlow Serving watches them.

<export_dir>/ids/<n>/     ids -> probabilities; needs TensorFlow alone
<export_dir>/text/<n>/    raw text -> probabilities; needs TensorFlow Text's operators
"""

import os
from collections.abc import Sequence

import tensorflow as tf

from albert_tf import files
from albert_tf.export.signatures import IdsClassifier, TextClassifier
from albert_tf.models import AlbertClassifier
from albert_tf.tokenization import AlbertTokenizer, Tokenizer


def export_classifier(
    model: AlbertClassifier,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
) -> dict[str, str]:
    """Writes the next version of both SavedModels.

    A WordPiece vocabulary has no form in the graph; then only the one that takes ids is written.

    Args:
        model: the classifier.
        labels: names of the classes.
        tokenizer: what the model was trained with.
        export_dir: folder of the models' folders.
        max_seq_length: of the text model, tokens at most.
        pairs: whether the text model has a `text_b`.

    Returns:
        The written folders: `ids` and, with SentencePiece, `text`.

    Raises:
        InputError: the file system refuses.
    """
    modules = {"ids": IdsClassifier(model, labels)}
    if isinstance(tokenizer, AlbertTokenizer):
        modules["text"] = TextClassifier(model, labels, tokenizer, max_seq_length, pairs)
    return {
        name: save_next_version(module, os.path.join(export_dir, name))
        for name, module in modules.items()
    }


def save_next_version(module: tf.Module, directory: str) -> str:
    """Writes a module with its `signature` as `<directory>/<n>`, n one above the greatest there is.

    Returns:
        The written folder.

    Raises:
        InputError: the file system refuses.
    """
    files.make_directory(directory, "export_dir")
    versions = [int(name) for name in _entries(directory) if name.isdigit()]
    path = os.path.join(directory, str(max(versions, default=0) + 1))
    with files.write_atomically(path) as incomplete:
        tf.saved_model.save(module, incomplete, signatures=module.signature)
    return path


def _entries(directory: str) -> list[str]:
    return [name.rstrip("/") for name in tf.io.gfile.listdir(directory)]
