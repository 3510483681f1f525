"""What is stored at a path: config, head, weights and advice of a model, in any format.

Everything that asks what a folder or a checkpoint holds asks a `StoredModel`, which reads each file when
it is first needed, and once. What the model predicts is a question for `albert_tf.kinds.stored`, its
tokenizer one for `albert_tf.tokenization.vocabulary_files`, each with the same object.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from albert_tf import files
from albert_tf.accounting import account_for_files, is_keras_hub
from albert_tf.checkpoints import keras_hub
from albert_tf.checkpoints.heads import CLASSIFIER_BIAS, Head, read_head
from albert_tf.checkpoints.hugging_face import HuggingFaceConfig, ProblemType, is_hugging_face
from albert_tf.checkpoints.hugging_face_reader import (
    FolderReader,
    check_weights,
    is_folder,
    is_weights_file,
)
from albert_tf.checkpoints.names import (
    BERT_LAYER,
    SHARED,
    BertReader,
    BrightmartReader,
    OriginalReader,
)
from albert_tf.checkpoints.tensors import (
    StateReader,
    TensorReader,
    find_checkpoint,
    open_tensors,
    strip_scope,
)
from albert_tf.config import (
    ALBERT_CONFIG_FILE,
    BERT_CONFIG_FILE,
    AlbertConfig,
    of_published_file,
)
from albert_tf.errors import InputError, name_place
from albert_tf.model_folder import (
    CONFIG_FILE,
    RECOMMENDED_RATE,
    TRAINED_LAYERS,
    ModelFolder,
    is_state,
    read_values,
)
from albert_tf.sources import find_model

# Names of config files. The last one is that of TensorFlow Hub's modules.
_CONFIG_FILES = (
    ALBERT_CONFIG_FILE,
    CONFIG_FILE,
    BERT_CONFIG_FILE,
    os.path.join("assets", ALBERT_CONFIG_FILE),
)
# What names begin with -> whose checkpoint of TensorFlow it is.
_TENSORFLOW_READERS = {SHARED: BrightmartReader, BERT_LAYER: BertReader, "bert/": OriginalReader}
_READERS: tuple[type[TensorReader], ...] = (
    FolderReader,
    *_TENSORFLOW_READERS.values(),
    keras_hub.KerasHubReader,
)
# All that can be read, for messages.
_FORMATS = "; ".join(reader.description for reader in _READERS)


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """A model as it is stored. An error in a file shows when the file is first needed.

    It holds the tensors of the checkpoint from the first question about them on, so it should not outlive
    the loading of the model.

    Attributes:
        path: a folder, a file or the prefix of a checkpoint, such as `find_model` returns.
        config_file: the file with the config; None if there is none.
        modules: the folder of sentence-transformers around that of the model, if there is one.
    """

    path: str
    config_file: str | None
    modules: str | None = None

    @classmethod
    def at(cls, path: str) -> Self:
        """Returns the model at a path, with the config beside it.

        A folder of sentence-transformers may hold the model in one of its own, see `ModelFolder.of`.
        """
        folder = ModelFolder.of(path)
        name = next(filter(folder.holds, _CONFIG_FILES), None)
        return cls(
            path=path if folder.modules is None else folder.path,
            config_file=None if name is None else os.path.join(folder.path, name),
            modules=folder.modules,
        )

    @classmethod
    def find(cls, name: str) -> Self:
        """Returns the model of a name as for `albert_tf.load`, which is downloaded if necessary."""
        return cls.at(find_model(name))

    @classmethod
    def of_config(cls, config_file: str) -> Self:
        """Returns the model that a config file describes, to ask nothing of its weights."""
        return cls(config_file, config_file)

    def described_by(self, config_file: str | None) -> Self:
        """Returns the same weights with another config, unless it is None."""
        return self if config_file is None else dataclasses.replace(self, config_file=config_file)

    @functools.cached_property
    def folder(self) -> ModelFolder:
        """The folder whose files describe the model."""
        return ModelFolder.of(self.path)

    @functools.cached_property
    def _values(self) -> Any:
        """The content of the config file."""
        if self.config_file is None:
            raise InputError(f"{self.path}: has no {CONFIG_FILE} next to it")
        if self.config_file == self.folder.config_file:
            return self.folder.values
        return read_values(self.config_file)

    @property
    def config(self) -> AlbertConfig:
        """The encoder's config; brightmart's as it was published."""
        return self._parsed[0]

    @property
    def trained_layers(self) -> Sequence[int]:
        """The numbers of layers that the model was trained with."""
        return self._parsed[1]

    @functools.cached_property
    def _parsed(self) -> tuple[AlbertConfig, Sequence[int]]:
        """The config, whose keys tell its format, and the numbers of layers that are noted in it."""
        values = self._values
        with name_place(self.config_file or self.path):
            if is_hugging_face(values):
                config = HuggingFaceConfig.from_dict(values).encoder
            elif is_keras_hub(values):
                config = keras_hub.config_from_dict(values)
            else:
                config = AlbertConfig.from_dict(
                    of_published_file(values, self.config_file or self.path)
                )
            trained = values.get(TRAINED_LAYERS, [config.num_hidden_layers])
            if not isinstance(trained, list) or not all(
                isinstance(number, int) for number in trained
            ):
                raise InputError(f"{TRAINED_LAYERS} {trained!r} is not a list of numbers")
        return config, trained

    @property
    def advice(self) -> dict[str, Any]:
        """The keys of the config that say how to use pre-trained weights, with their values."""
        return {
            key: self._values[key]
            for key in (RECOMMENDED_RATE, TRAINED_LAYERS)
            if key in self._values
        }

    @property
    def recommended_rate(self) -> float | None:
        """The learning rate that the model recommends, measured with AdamW without bias correction."""
        rate = self.advice.get(RECOMMENDED_RATE)
        if rate is not None and (not isinstance(rate, int | float) or not 0 < rate < 1):
            raise InputError(
                f"{self.config_file}: {RECOMMENDED_RATE} {rate!r} is not a number in (0, 1)"
            )
        return None if rate is None else float(rate)

    @property
    def own(self) -> Mapping[str, Any]:
        """What this package has noted in the folder, see `albert_tf.model_folder`."""
        return self.folder.own

    @functools.cached_property
    def hugging_face(self) -> HuggingFaceConfig | None:
        """The `config.json` of a folder of Hugging Face's; None for other formats."""
        if not files.is_folder(self.path) or not is_folder(self.folder):
            return None
        with name_place(self.folder.config_file):
            return HuggingFaceConfig.from_dict(self.folder.values)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of a classifier's classes; empty if they are only `LABEL_0` and so on, or unknown."""
        return self.hugging_face.label_names if self.hugging_face else ()

    @functools.cached_property
    def _task(self) -> keras_hub.ClassifierTask:
        """What a classifier's preset of KerasHub says; nothing for other formats."""
        if isinstance(self.reader, keras_hub.KerasHubReader):
            return keras_hub.read_task(self.folder)
        return keras_hub.ClassifierTask()

    @property
    def problem_type(self) -> ProblemType | None:
        """The meaning of a classifier's outputs; None if its files do not say it."""
        theirs = self.hugging_face or self._task
        return theirs.problem_type

    @property
    def max_seq_length(self) -> int | None:
        """The number of tokens to which a classifier truncates texts; None if its files name none."""
        return self._task.max_seq_length

    @functools.cached_property
    def reader(self) -> TensorReader:
        """The open checkpoint, whose files and names of tensors tell its format."""
        if is_state(self.path):
            return StateReader(self.path)
        is_directory = files.is_folder(self.path)
        if is_directory and keras_hub.is_preset(self.folder):
            return keras_hub.KerasHubReader(self.folder)
        if is_weights_file(self.path) or (is_directory and is_folder(self.folder)):
            check_weights(self.path)
            account_for_files(self.folder.path, self.folder.names())
            assert self.hugging_face is not None, "`is_folder` and `check_weights` need its config"
            return FolderReader(self.folder, self.hugging_face)
        return _open_tensorflow(find_checkpoint(self.path))

    @functools.cached_property
    def head(self) -> Head:
        """Which model the checkpoint holds."""
        with name_place(self.reader.prefix):
            return read_head(self.reader)

    def shape_of(self, variable_path: str) -> tuple[int, ...] | None:
        """Returns the shape of one of our variables in the checkpoint; None if it is not there."""
        if not self.reader.holds(variable_path):
            return None
        return tuple(self.reader.shape(self.reader.layout(variable_path)))

    @property
    def is_fine_tuned(self) -> bool:
        """Whether the model was trained on a task: by this package, or as a classifier of texts."""
        return self.own.get("kind") is not None or self.shape_of(CLASSIFIER_BIAS) is not None


def _open_tensorflow(prefix: str) -> TensorReader:
    tensors = open_tensors(prefix)
    names = [*map(strip_scope, tensors.get_variable_to_shape_map())]
    for start, reader_class in _TENSORFLOW_READERS.items():
        if any(name.startswith(start) for name in names):
            return reader_class(prefix, tensors)
    raise InputError(
        f"{prefix}: holds '{min(names, default='nothing')}'; expected a model in one of these formats: "
        f"{_FORMATS}"
    )
