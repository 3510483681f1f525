"""What a conversion writes: the checkpoint, its config and its vocabulary, all of them or nothing.

Everything lies in one place whose name ends in `.incomplete` while it is read back and checked, and gets
its own name after that.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.conversion import (
    hugging_face,
    load_checkpoint,
    load_model,
    read_config,
    save_hugging_face,
    save_tf1_checkpoint,
    tf1,
)
from albert_tf.conversion.hugging_face import VOCABULARY_FILE
from albert_tf.conversion.hugging_face_reader import CONFIG_FILE as FOLDER_CONFIG_FILE
from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import Layout, checkpoint_paths, stored_by_path
from albert_tf.training.checkpoints import save_checkpoint

_FLAG = "output_checkpoint"


@dataclasses.dataclass(frozen=True)
class CheckpointTarget:
    """A kind whose checkpoints are files with one prefix, beside which config and vocabulary lie.

    Attributes:
        config_there: makes of our config the one that goes with it.
        layout_of: how it holds the variables of a model.
        save: writes a model's weights.
    """

    config_there: Callable[[AlbertConfig], AlbertConfig]
    layout_of: Callable[[keras.Model], Layout]
    save: Callable[[keras.Model, str], None]

    def check(self, output: str, config: AlbertConfig, spm_model_file: str | None) -> None:
        """Raises an `InputError` where what is there belongs to another model."""
        for path in checkpoint_paths(output):
            if tf.io.gfile.exists(path):
                raise _exists_already(output)
        config_file, vocabulary_file = _files_beside(output)
        if tf.io.gfile.exists(config_file) and read_config(config_file) != config:
            raise _of_another_model(config_file)
        if (
            spm_model_file
            and tf.io.gfile.exists(vocabulary_file)
            and files.read_bytes(vocabulary_file) != files.read_bytes(spm_model_file)
        ):
            raise _of_another_model(vocabulary_file)

    @contextlib.contextmanager
    def write(
        self, output: str, model: keras.Model, config: AlbertConfig, spm_model_file: str | None
    ) -> Iterator[keras.Model]:
        """Writes a model, yields what its next user gets, and names the files when that was fine."""
        config_file, vocabulary_file = _files_beside(output)
        wanted = [config_file, *([vocabulary_file] if spm_model_file else [])]
        # `check` has made sure that those that exist are this model's.
        new = [path for path in wanted if not tf.io.gfile.exists(path)]
        paths = checkpoint_paths(output)
        files.make_directory(os.path.dirname(output) or ".", _FLAG)
        with files.write_together([*new, *paths]) as folder:
            if config_file in new:
                config.to_json_file(os.path.join(folder, CONFIG_FILE))
            if vocabulary_file in new:
                vocabulary = files.read_bytes(spm_model_file)
                files.write_bytes(os.path.join(folder, VOCABULARY_FILE), vocabulary)
            prefix = os.path.join(folder, os.path.basename(output))
            self.save(model, prefix)
            # The original has one name for the heads of two of our models, so the model has to be said.
            written = type(model).from_config(model.get_config())
            load_checkpoint(written, prefix).check_complete()
            yield written


class HuggingFaceTarget:
    """Hugging Face's folders, which hold config and vocabulary."""

    config_there = staticmethod(hugging_face.config_there)
    layout_of = staticmethod(hugging_face.layout_of)

    def check(self, output: str, config: AlbertConfig, spm_model_file: str | None) -> None:
        """Raises an `InputError` where something is there, be it a file or a folder that is not empty."""
        if tf.io.gfile.isdir(output):
            if tf.io.gfile.listdir(output):
                raise _exists_already(output)
        elif tf.io.gfile.exists(output):
            raise _exists_already(output)

    @contextlib.contextmanager
    def write(
        self, output: str, model: keras.Model, config: AlbertConfig, spm_model_file: str | None
    ) -> Iterator[keras.Model]:
        """Writes a model, yields what its next user gets, and names the folder when that was fine."""
        files.make_directory(os.path.dirname(output.rstrip("/")) or ".", _FLAG)
        with files.write_atomically(output) as incomplete:
            save_hugging_face(model, incomplete, spm_model_file)
            config_file = os.path.join(incomplete, FOLDER_CONFIG_FILE)
            yield load_model(read_config(config_file), incomplete)[0]


TARGETS: dict[str, CheckpointTarget | HuggingFaceTarget] = {
    "tf1": CheckpointTarget(
        tf1.config_there, lambda model: tf1.stored_as_original, save_tf1_checkpoint
    ),
    "albert_tf": CheckpointTarget(
        lambda config: config, lambda model: stored_by_path, save_checkpoint
    ),
    "hugging_face": HuggingFaceTarget(),
}


def _files_beside(prefix: str) -> tuple[str, str]:
    """Returns where the config and the vocabulary of a checkpoint with this prefix are."""
    folder = os.path.dirname(prefix)
    return os.path.join(folder, CONFIG_FILE), os.path.join(folder, VOCABULARY_FILE)


def _exists_already(output: str) -> InputError:
    return InputError(f"--{_FLAG}: '{output}' exists already; remove it or name another")


def _of_another_model(path: str) -> InputError:
    return InputError(f"--{_FLAG}: '{path}' is another model's; name another folder")
