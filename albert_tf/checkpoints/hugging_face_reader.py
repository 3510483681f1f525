"""Reads the files of a Hugging Face folder, `config.json` and safetensors, without PyTorch.

The tensors are in `model.safetensors`, or in several files that `model.safetensors.index.json` lists.

The reader hides three things that have no counterpart in our models: the masked-LM head's `decoder`, a
second copy of the word table and the bias in old files; `position_ids`, which only count; and, in an
ALBERT with E == H, a projection that is the identity, as we write it. Layer norms of old BERT files, with
`gamma` and `beta`, get their present names.
"""

import os
from collections.abc import Mapping

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import hugging_face
from albert_tf.checkpoints.safetensors_files import FLOATS, IGNORED, read_tensors
from albert_tf.checkpoints.tensors import TensorReader
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.model_folder import CONFIG_FILE, OWN, ModelFolder
from albert_tf.options import check_layout
from albert_tf.options.models import FormatName

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_PICKLE_FILE = "pytorch_model.bin"
_WEIGHTS_FILES = (WEIGHTS_FILE, INDEX_FILE, _PICKLE_FILE)
# `weights_only` runs no code; `clone` separates tensors that share memory, which the format forbids.
_UNPICKLE = (
    """python -c "import torch, safetensors.torch as s; s.save_file({k: v.clone() for k, v in """
    """torch.load('pytorch_model.bin', weights_only=True).items()}, 'model.safetensors', """
    """{'format': 'pt'})\""""
)

# Copies -> the tensors that they repeat.
_COPIES = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Ends of old names -> those of today.
_RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def is_weights_file(path: str) -> bool:
    """Returns whether a path is that of weights in a Hugging Face folder."""
    return os.path.basename(path) in _WEIGHTS_FILES


def is_folder(folder: ModelFolder) -> bool:
    """Returns whether a folder is Hugging Face's, complete or not."""
    if any(map(folder.holds, _WEIGHTS_FILES)):
        return True
    return (
        folder.holds(CONFIG_FILE)
        and not files.matches(folder.path, "*.index")  # of TensorFlow's checkpoints
        and hugging_face.is_hugging_face(folder.values)
    )


def check_weights(path: str) -> None:
    """Raises an `InputError` if a Hugging Face folder has no weights that we can read, or is a file."""
    name, folder = os.path.basename(path), ModelFolder(path)
    if name in (WEIGHTS_FILE, INDEX_FILE):
        raise InputError(f"{path}: expected the folder that holds {CONFIG_FILE} and it")
    if any(map(folder.holds, (WEIGHTS_FILE, INDEX_FILE))):
        return
    if name == _PICKLE_FILE or folder.holds(_PICKLE_FILE):
        raise InputError(
            f"{path}: {_PICKLE_FILE} is a pickle, which can run any code; expected {WEIGHTS_FILE}. "
            f"With PyTorch installed, this command converts it in its folder: {_UNPICKLE}"
        )
    raise InputError(f"{path}: holds a {CONFIG_FILE} and no weights; expected {WEIGHTS_FILE}")


class FolderReader(TensorReader):
    """Reads a Hugging Face folder, given its config."""

    format_name: FormatName = "hugging_face"
    description = "Hugging Face"
    _tensors: dict[str, np.ndarray]

    def __init__(self, folder: ModelFolder, config: hugging_face.HuggingFaceConfig):
        self.config = config
        self.sha256: dict[str, str] = {}
        self._tensors = self._read_tensors(folder)
        self._drop_copies(folder.path)
        self._drop_identity()
        super().__init__(folder.path, self._tensors)
        model_type = self.config.model_type
        self.layout = hugging_face.layout_of(model_type)
        if model_type == OWN:
            self.format_name, self.description = "albert_tf", "albert_tf"
            return
        prefix = f"{model_type}."
        # Names of an encoder without heads have no prefix.
        is_bare = not any(name.startswith(prefix) for name in self.shapes)
        model_name = {"albert": "", "bert": ", BERT"}[model_type]
        self.description += f", {model_type.capitalize()}Model" if is_bare else model_name
        self.encoder_prefixes = ("embeddings.", "encoder.", "pooler.") if is_bare else (prefix,)
        self.layout = hugging_face.layout_of(model_type, is_bare)
        self.head_names = hugging_face.heads_of(model_type)

    def _get(self, name: str) -> np.ndarray:
        return self._tensors[name].astype(np.float32)

    def is_no_weight(self, name: str) -> bool:
        """Returns False: the folders hold weights only."""
        return False

    def holds(self, path: str) -> bool:
        """Returns whether all tensors of a variable are present.

        There, heads of texts and of tokens have the same names; the architecture tells them apart.
        """
        if self.config.is_own:
            return super().holds(path)
        architecture = self.config.architecture or ""
        other = "/head/" if architecture.endswith("ForTokenClassification") else "/token_head/"
        return not (architecture and other in path) and super().holds(path)

    def may_lack(self, path: str) -> bool:
        """Returns whether a variable belongs to the pooler, which some of their models lack."""
        return "/pooler/" in path

    def check_config(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if a config describes another model than the folder's.

        Dropout rates and initial values may differ, and the number of layers that share all weights. So
        may the two forms of gelu: Hugging Face's old files leave the choice to the user
        (docs/fidelity.md), who made it with the config.
        """
        ours = hugging_face.equivalent_config(config, self.config.model_type).to_dict()
        theirs = self.config.encoder.to_dict()
        if {ours["hidden_act"], theirs["hidden_act"]} == {"gelu", "gelu_erf"}:
            del theirs["hidden_act"]
        if self.config.encoder.has_one_layer:
            del theirs["num_hidden_layers"]
        for name, value in theirs.items():
            if not name.endswith("_prob") and name != "initializer_range" and ours[name] != value:
                raise InputError(
                    f"{CONFIG_FILE} has {name} {value!r}; the model's config has {ours[name]!r}"
                )

    def _read_tensors(self, folder: ModelFolder) -> dict[str, np.ndarray]:
        """Returns the tensors of the folder's single file or, without it, of the files in its index."""
        if folder.holds(WEIGHTS_FILE):
            return self._read_file(folder, WEIGHTS_FILE)
        path = os.path.join(folder.path, INDEX_FILE)
        file_of = _read_index(path)
        tensors: dict[str, np.ndarray] = {}
        for file in sorted(set(file_of.values())):
            tensors |= self._read_file(folder, file)
        for name, file in file_of.items():
            if _present_name(name) not in tensors and not name.endswith(IGNORED):
                raise InputError(f"{path}: lists '{name}' in {file}, which does not hold it")
        return tensors

    def _read_file(self, folder: ModelFolder, name: str) -> dict[str, np.ndarray]:
        path = os.path.join(folder.path, name)
        self.sha256[name] = folder.check_sum(path)
        tensors = read_tensors(path, FLOATS)
        return {_present_name(name): tensor for name, tensor in tensors.items()}

    def _drop_copies(self, directory: str) -> None:
        for copy, name in _COPIES.items():
            if copy not in self._tensors:
                continue
            if name not in self._tensors:
                self._tensors[name] = self._tensors.pop(copy)
            elif not np.array_equal(self._tensors.pop(copy), self._tensors[name], equal_nan=True):
                raise InputError(
                    f"{directory}: '{copy}' differs from '{name}'; in our models they are one variable"
                )

    def _drop_identity(self) -> None:
        for prefix in ("", "albert."):
            names = [prefix + hugging_face.PROJECTION + name for name in ("weight", "bias")]
            weight, bias = map(self._tensors.get, names)
            if weight is None or bias is None:
                continue
            if np.array_equal(weight, np.eye(bias.size)) and not bias.any():
                del self._tensors[names[0]], self._tensors[names[1]]


def _read_index(path: str) -> Mapping[str, str]:
    """Returns the file of each tensor; refuses other JSON, and files outside of the folder."""
    index = files.read_json(path)
    check_layout(index, {"weight_map": dict}, path)
    file_of = index["weight_map"]
    if not file_of:
        raise InputError(f"{path}: weight_map is empty; expected the file of each tensor")
    for name, file in file_of.items():
        if not isinstance(file, str) or os.path.basename(file) != file or file in ("", ".", ".."):
            raise InputError(
                f"{path}: '{name}' is in {file!r}; expected the name of a file in this folder"
            )
    return file_of


def _present_name(name: str) -> str:
    for old, new in _RENAMED.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
