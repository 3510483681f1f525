"""SavedModels in version folders, as TensorFlow Serving watches them.

<export_dir>/ids/<n>/     ids -> probabilities; needs TensorFlow alone
<export_dir>/text/<n>/    raw text -> probabilities; needs TensorFlow Text's operators
"""

import contextlib
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
    """Writes the next version of both SavedModels; a version is one above the greatest in either folder.

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
    directories = {name: os.path.join(export_dir, name) for name in modules}
    for directory in directories.values():
        files.make_directory(directory, "export_dir")
    version = str(1 + max(map(_latest_version, directories.values())))
    paths = {name: os.path.join(directory, version) for name, directory in directories.items()}
    # Both appear once both are complete, so that a version is one model in either form.
    with contextlib.ExitStack() as stack:
        for name, module in modules.items():
            incomplete = stack.enter_context(files.write_atomically(paths[name]))
            tf.saved_model.save(module, incomplete, signatures=module.signature)
    return paths


def _latest_version(directory: str) -> int:
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    return max((int(name) for name in names if name.isdigit()), default=0)
