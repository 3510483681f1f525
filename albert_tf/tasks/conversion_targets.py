"""The output formats of a conversion: the checkpoint, its config and its vocabulary.

They are written under names that end in `.incomplete`, read back and checked, and then renamed together.
"""

import contextlib
import dataclasses
import operator
import os
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import hugging_face
from albert_tf.checkpoints.hugging_face import CONFIG_FILE as FOLDER_CONFIG_FILE
from albert_tf.checkpoints.hugging_face import ProblemType, model_type_of
from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.checkpoints.names import stored_as_original
from albert_tf.checkpoints.tensor_files import Layout, checkpoint_paths, stored_by_path
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.conversion import (
    architecture_of,
    config_in_tf1,
    load_model,
    save_hugging_face,
    save_tf1_checkpoint,
)
from albert_tf.errors import InputError
from albert_tf.export import reusable
from albert_tf.kinds import Kind
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.models.base_model import BaseModel
from albert_tf.options.parts import WeightType
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.hugging_face_tokenizer import (
    check_hugging_face_files,
    hugging_face_files,
    vocabulary_name,
)
from albert_tf.tokenization.vocabulary_files import TOKENIZER_CONFIG_FILE
from albert_tf.training.checkpoint_manager import save_checkpoint

_FLAG = "output_checkpoint"
_PROBLEM_TYPES: Mapping[str, ProblemType] = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi_label": "multi_label_classification",
}


@dataclasses.dataclass(frozen=True)
class Companions:
    """What accompanies a model's weights: of a classifier `head`, if known.

    A Hugging Face folder stores the weights in `dtype`.
    """

    config: AlbertConfig
    tokenizer: Tokenizer | None = None
    head: Kind | None = None
    dtype: WeightType = "float32"


@dataclasses.dataclass(frozen=True)
class CheckpointTarget:
    """A format whose checkpoints are files with one prefix, next to config and vocabulary."""

    # Returns the config that is written next to a model's checkpoint; refuses models without a place.
    config_of: Callable[[BaseModel], AlbertConfig]
    # How the format stores the variables of a config's model.
    layout: Callable[[AlbertConfig], Layout]
    save: Callable[[keras.Model, str], None]  # writes a model's weights

    def part_of(self, model: keras.Model) -> keras.Model:
        """Returns the part of a model that the format has a place for."""
        return model

    def check(self, output: str, companions: Companions) -> None:
        """Raises an `InputError` if existing files belong to another model."""
        for path in checkpoint_paths(output):
            if tf.io.gfile.exists(path):
                raise _exists_already(output)
        for name, content in _contents(companions).items():
            path = os.path.join(os.path.dirname(output), name)
            if not tf.io.gfile.exists(path) or files.read_bytes(path) == content:
                continue
            # Two configs may differ in their keys and mean the same.
            if name != CONFIG_FILE or read_config(path) != companions.config:
                raise InputError(
                    f"--{_FLAG}: '{path}' belongs to another model; name another folder"
                )

    @contextlib.contextmanager
    def write(
        self, output: str, model: keras.Model, companions: Companions
    ) -> Iterator[keras.Model]:
        """Writes a model, yields it as read back, and renames the files on success."""
        beside = os.path.dirname(output)
        contents = {
            name: content
            for name, content in _contents(companions).items()
            # `check` made sure that existing ones are this model's.
            if not tf.io.gfile.exists(os.path.join(beside, name))
        }
        paths = [*(os.path.join(beside, name) for name in contents), *checkpoint_paths(output)]
        files.make_directory(beside or ".")
        with files.write_together(paths) as folder:
            for name, content in contents.items():
                files.write_bytes(os.path.join(folder, name), content)
            prefix = os.path.join(folder, os.path.basename(output))
            self.save(model, prefix)
            # The original has one name for the heads of two of our models, so the checkpoint cannot tell.
            written = type(model).from_config(model.get_config())
            load_checkpoint(written, prefix).check_complete()
            yield written


class HuggingFaceTarget:
    """Hugging Face's folders with config, labels, vocabulary and tokenizer."""

    part_of = CheckpointTarget.part_of

    def config_of(self, model: BaseModel) -> AlbertConfig:
        """Returns the config that accompanies a model; refuses models that they do not have."""
        architecture_of(model)
        return hugging_face.config_there(model.config, model_type_of(model.config))

    def layout(self, config: AlbertConfig) -> Layout:
        """Returns how the format stores the variables of a config's model."""
        return hugging_face.layout_of(model_type_of(config))

    def check(self, output: str, companions: Companions) -> None:
        """Raises an `InputError` if the output exists, unless it is an empty folder."""
        is_taken = tf.io.gfile.listdir if tf.io.gfile.isdir(output) else tf.io.gfile.exists
        if is_taken(output):
            raise _exists_already(output)

    @contextlib.contextmanager
    def write(
        self, output: str, model: keras.Model, companions: Companions
    ) -> Iterator[keras.Model]:
        """Writes a model, yields it as read back, and renames the folder on success."""
        config, tokenizer, head = companions.config, companions.tokenizer, companions.head
        labels, problem_type, tokenizer_files = (), None, {}
        if head:
            labels, problem_type = head.labels, _PROBLEM_TYPES.get(head.name)
        if tokenizer:
            tokenizer_files = _tokenizer_files(tokenizer, config.max_position_embeddings)
        files.make_directory(os.path.dirname(output.rstrip("/")) or ".")
        with files.write_atomically(output) as incomplete:
            save_hugging_face(
                model, incomplete, labels, problem_type, tokenizer_files, companions.dtype
            )
            config_file = os.path.join(incomplete, FOLDER_CONFIG_FILE)
            yield load_model(read_config(config_file), incomplete)[0]


def _tokenizer_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """Returns the tokenizer's files, or only the vocabulary if Hugging Face has no such tokenizer."""
    try:
        contents = hugging_face_files(tokenizer, max_length)
    except InputError as error:
        print(f"no tokenizer.json: {error}")
        return {vocabulary_name(tokenizer): tokenizer.vocabulary}
    print(check_hugging_face_files(contents, tokenizer))
    return contents


class SavedModelTarget:
    """Reusable SavedModels in version folders with config and vocabulary."""

    config_of = operator.attrgetter("config")
    layout = staticmethod(lambda config: stored_by_path)

    def part_of(self, model: keras.Model) -> AlbertEncoder | AlbertPretrainer:
        """Returns the encoder of a model, with its masked-LM head if it has one."""
        if not isinstance(model, AlbertPretrainer):
            return getattr(model, "encoder", model)
        part = AlbertPretrainer(model.encoder, sentence_head=False)
        part.masked_lm_head.set_weights(model.masked_lm_head.get_weights())
        return part

    def check(self, output: str, companions: Companions) -> None:
        """Accepts everything: a new version does not touch existing ones."""

    @contextlib.contextmanager
    def write(
        self,
        output: str,
        model: AlbertEncoder | AlbertPretrainer,
        companions: Companions,
    ) -> Iterator["LoadedEncoder"]:
        """Writes a model, yields it as read back, and renames the folders on success."""
        tokenizer = companions.tokenizer
        if tokenizer is None:
            print("no vocabulary, therefore no preprocessor next to the encoder")
        with reusable.write_reusable(model, tokenizer, output) as (_, incomplete):
            yield LoadedEncoder(incomplete["encoder"], isinstance(model, AlbertPretrainer))


class LoadedEncoder:
    """A reusable SavedModel, for comparison with the model that it was made of."""

    def __init__(self, path: str, masked_lm: bool):
        self._loaded = tf.saved_model.load(path)
        self._masked_lm = masked_lm
        self.weights = (self._loaded.mlm if masked_lm else self._loaded).trainable_variables

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict:
        """Maps the model's inputs to the outputs that it has."""
        ids = {
            "input_word_ids": tf.constant(inputs["input_ids"]),
            "input_mask": tf.ones_like(inputs["input_ids"]),
            "input_type_ids": tf.constant(inputs["segment_ids"]),
        }
        if self._masked_lm:
            positions = tf.constant(inputs["masked_lm_positions"])
            outputs = self._loaded.mlm({**ids, "masked_lm_positions": positions})
            return {"masked_lm_logits": outputs["mlm_logits"]}
        outputs = self._loaded(ids)
        del outputs["default"]
        return outputs


TARGETS: dict[str, CheckpointTarget | HuggingFaceTarget | SavedModelTarget] = {
    "tf1": CheckpointTarget(config_in_tf1, lambda config: stored_as_original, save_tf1_checkpoint),
    "albert_tf": CheckpointTarget(
        operator.attrgetter("config"), lambda config: stored_by_path, save_checkpoint
    ),
    "hugging_face": HuggingFaceTarget(),
    "saved_model": SavedModelTarget(),
}


def _contents(companions: Companions) -> dict[str, bytes]:
    """Returns the files next to a checkpoint, name -> content."""
    contents = {CONFIG_FILE: files.to_json(companions.config.to_dict()).encode()}
    if tokenizer := companions.tokenizer:
        case = {"do_lower_case": tokenizer.lower_case}
        contents[vocabulary_name(tokenizer)] = tokenizer.vocabulary
        contents[TOKENIZER_CONFIG_FILE] = files.to_json(case).encode()
    if companions.head:
        contents |= companions.head.assets()
    return contents


def _exists_already(output: str) -> InputError:
    return InputError(f"--{_FLAG}: '{output}' exists already; remove it or name another")
