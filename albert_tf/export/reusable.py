"""The pre-trained encoder as two SavedModels for other people's models, in version folders.

<export_dir>/encoder/<n>/         ids -> embeddings, to be trained further; needs TensorFlow alone
<export_dir>/preprocessor/<n>/    raw text -> ids; needs TensorFlow Text's operators

The config and the vocabulary are in the encoder's `assets`.
"""

import contextlib
from collections.abc import Iterator, Mapping

import tensorflow as tf

from albert_tf import files
from albert_tf.config import CONFIG_FILE
from albert_tf.export import versions
from albert_tf.export.assets import asset_files, json_asset
from albert_tf.export.preprocessor import Preprocessor
from albert_tf.export.reusable_encoder import ReusableEncoder
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import AlbertTokenizer, Tokenizer


def export_reusable(
    model: AlbertEncoder | AlbertPretrainer, tokenizer: Tokenizer | None, export_dir: str
) -> dict[str, str]:
    """Writes the next version of encoder and preprocessor.

    A WordPiece vocabulary has no form in the graph; then there is no preprocessor.

    Args:
        model: the encoder, or the encoder with the heads of pre-training, of which the masked-LM head
            goes along.
        tokenizer: what the model was trained with; None where it is not known.
        export_dir: folder of both folders.

    Returns:
        The written folders: `encoder` and, with SentencePiece, `preprocessor`.

    Raises:
        InputError: the file system refuses.
    """
    paths = next_version(tokenizer, export_dir)
    with write_reusable(model, tokenizer, paths):
        return paths


def next_version(tokenizer: Tokenizer | None, export_dir: str) -> dict[str, str]:
    """Returns the folders that `export_reusable` would write; `flag` gave `export_dir`."""
    has_graph = isinstance(tokenizer, AlbertTokenizer)
    names = ("encoder", "preprocessor") if has_graph else ("encoder",)
    return versions.next_version(export_dir, names)


@contextlib.contextmanager
def write_reusable(
    model: AlbertEncoder | AlbertPretrainer, tokenizer: Tokenizer | None, paths: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Writes both models; yields where they are until the block ends and they get their names.

    Args:
        model: as for `export_reusable`.
        tokenizer: as for `export_reusable`.
        paths: from `next_version`.

    Raises:
        InputError: the file system refuses.
    """
    config = getattr(model, "encoder", model).config
    config_asset = {CONFIG_FILE: json_asset(config.to_dict())}
    with asset_files(config_asset) as (path,), versions.write_version(paths) as incomplete:
        assets = {"config_file": path}
        if tokenizer is not None:
            assets[_vocabulary_asset(tokenizer)] = tokenizer.vocabulary_file
        encoder = ReusableEncoder(model, assets)
        modules = {"encoder": (encoder, encoder.serve)}
        if "preprocessor" in paths:
            preprocessor = Preprocessor(tokenizer, config.max_position_embeddings)
            modules["preprocessor"] = (preprocessor, preprocessor.__call__)
        for name, (module, signature) in modules.items():
            with files.explain_refusal(paths[name]):
                tf.saved_model.save(module, incomplete[name], signatures=signature)
        yield incomplete


def _vocabulary_asset(tokenizer: Tokenizer) -> str:
    """Returns the attribute that TensorFlow's Model Garden keeps such a vocabulary under."""
    return "sp_model_file" if isinstance(tokenizer, AlbertTokenizer) else "vocab_file"
