"""How each runtime answers texts with labels, and ids with probabilities.

Each runs in a process of its own and imports there what it needs: this module imports neither TensorFlow
nor PyTorch, which would count as the memory and the start of all.
"""

import dataclasses
import functools
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.serving import layout
from benchmarks.serving.layout import Precision

# `input_ids`, `input_mask` and `segment_ids`, int32 (B, S).
Inputs = Mapping[str, np.ndarray]
# Texts -> inputs, padded to the longest text.
Tokenize = Callable[[Sequence[str]], Inputs]
# Inputs -> probabilities, float32 (B, 2).
Predict = Callable[[Inputs], np.ndarray]


class Answers(NamedTuple):
    """What is said of B texts.

    Attributes:
        labels: B names of classes.
        probabilities: float32 (B, 2).
    """

    labels: list[str]
    probabilities: np.ndarray


# Texts -> answers.
Answer = Callable[[Sequence[str]], Answers]


def albert_tf_answer(folder: str, precision: Precision) -> Answer:
    """Loads the SavedModel that takes text."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, whose operators the model has

    model = tf.saved_model.load(os.path.join(folder, layout.text_model(precision)))

    def answer(texts: Sequence[str]) -> Answers:
        outputs = model.signatures["serving_default"](text_a=tf.constant(texts))
        labels = [label.decode() for label in outputs["label"].numpy()]
        return Answers(labels, outputs["probabilities"].numpy())

    return answer


def albert_tf_predict(folder: str, precision: Precision) -> Predict:
    """Loads the SavedModel that takes ids."""
    import tensorflow as tf

    model = tf.saved_model.load(os.path.join(folder, layout.ids_model(precision)))

    def predict(inputs: Inputs) -> np.ndarray:
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        return model.signatures["serving_default"](**tensors)["probabilities"].numpy()

    return predict


def openvino_predict(folder: str, precision: Precision) -> Predict:
    """Converts the SavedModel that takes ids; its weights are fp32, also where it computes in bf16."""
    import openvino

    model = openvino.convert_model(os.path.join(folder, layout.ids_model("fp32")))
    hint = {"fp32": "f32", "bf16": "bf16"}[precision]
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint})
    return lambda inputs: compiled(dict(inputs))["probabilities"]


def transformers_predict(folder: str, precision: Precision, compiled: bool = False) -> Predict:
    """Loads Hugging Face's model in PyTorch, in bf16 with the weights in bf16, too."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(
        os.path.join(folder, layout.HUGGING_FACE),
        dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[precision],
    ).eval()
    # An empty cache, as that of a container that starts anew.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, layout.COMPILED, precision)
    forward = torch.compile(model, dynamic=True) if compiled else model

    def predict(inputs: Inputs) -> np.ndarray:
        tensors = {name: torch.from_numpy(array) for name, array in _their_names(inputs).items()}
        with torch.inference_mode():
            return forward(**tensors).logits.float().softmax(-1).numpy()

    return predict


def onnx_runtime_predict(folder: str, precision: Precision) -> Predict:
    """Loads the exported model; there is none in bf16, for which the CPU has no kernels."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        os.path.join(folder, layout.ONNX), providers=["CPUExecutionProvider"]
    )

    def predict(inputs: Inputs) -> np.ndarray:
        (logits,) = session.run(["logits"], _their_names(inputs))
        exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    return predict


def _their_names(inputs: Inputs) -> dict[str, np.ndarray]:
    """Returns the inputs as the models of Hugging Face take them."""
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {theirs: inputs[ours].astype(np.int64) for theirs, ours in names.items()}


def albert_tf_tokenizer(folder: str) -> Tokenize:
    """Loads our tokenizer; it brings TensorFlow along, and its memory."""
    from albert_tf.tokenization import AlbertTokenizer

    tokenizer = AlbertTokenizer(os.path.join(folder, layout.VOCABULARY))
    return lambda texts: _pack(tokenizer.encode_batch(texts), tokenizer.cls_id, tokenizer.sep_id)


def sentencepiece_tokenizer(folder: str) -> Tokenize:
    """Loads the vocabulary as the other runtimes' users do who want ALBERT's ids.

    What version 5 of `transformers` makes of a vocabulary drops the word mark before punctuation that
    is a symbol of its own, and so gives other ids than ALBERT was trained with.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(
        model_file=os.path.join(folder, layout.VOCABULARY)
    )
    cls_id, sep_id = (processor.piece_to_id(piece) for piece in ("[CLS]", "[SEP]"))

    def tokenize(texts: Sequence[str]) -> Inputs:
        return _pack(processor.encode([_normalize(text) for text in texts]), cls_id, sep_id)

    return tokenize


def _normalize(text: str) -> str:
    """Returns lower-case text without accents, which the vocabulary was made of."""
    decomposed = unicodedata.normalize("NFKD", " ".join(text.split()))
    return "".join(char for char in decomposed if not unicodedata.combining(char)).lower()


def _pack(rows: Sequence[Sequence[int]], cls_id: int, sep_id: int) -> Inputs:
    """Puts the special ids around rows of ids that fit, and pads."""
    rows = [[cls_id, *ids[: layout.MAX_SEQ_LENGTH - 2], sep_id] for ids in rows]
    lengths = np.array([[len(row)] for row in rows])
    mask = np.arange(lengths.max()) < lengths  # (B, S)
    input_ids = np.zeros(mask.shape, np.int32)
    input_ids[mask] = np.concatenate(rows)
    return {
        "input_ids": input_ids,
        "input_mask": mask.astype(np.int32),
        "segment_ids": np.zeros_like(input_ids),
    }


def tokenize_and_predict(
    folder: str,
    precision: Precision,
    make_tokenizer: Callable[[str], Tokenize],
    make_predict: Callable[[str, Precision], Predict],
) -> Answer:
    """Loads a tokenizer, and what takes its ids."""
    tokenize, predict = make_tokenizer(folder), make_predict(folder, precision)

    def answer(texts: Sequence[str]) -> Answers:
        probabilities = predict(tokenize(texts))
        labels = [layout.LABELS[index] for index in probabilities.argmax(axis=-1)]
        return Answers(labels, probabilities)

    return answer


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A runtime.

    Attributes:
        make_answer: loads what takes texts, of a folder and a precision.
        make_predict: loads what takes ids.
        files: what it needs of the folder, by precision.
        imports: what it imports, which is not part of its load.
        precisions: what it can compute in.
        packages: what has to be installed beside our own requirements.
    """

    make_answer: Callable[[str, Precision], Answer]
    make_predict: Callable[[str, Precision], Predict]
    files: Callable[[Precision], Sequence[str]]
    imports: tuple[str, ...]
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    packages: tuple[str, ...] = ()


def _candidate(
    make_tokenizer: Callable[[str], Tokenize],
    make_predict: Callable[[str, Precision], Predict],
    files: Sequence[str],
    imports: tuple[str, ...],
    **others,
) -> Candidate:
    """Makes a candidate whose tokenizer is beside its model."""
    make_answer = functools.partial(
        tokenize_and_predict, make_tokenizer=make_tokenizer, make_predict=make_predict
    )
    return Candidate(make_answer, make_predict, lambda precision: files, imports, **others)


_TORCH = ("torch", "transformers")
_TORCH_IMPORTS = ("sentencepiece", "transformers.models.albert.modeling_albert")

OURS = "albert_tf"
CANDIDATES = {
    OURS: Candidate(
        albert_tf_answer,
        albert_tf_predict,
        lambda precision: [layout.text_model(precision)],
        imports=("tensorflow", "tensorflow_text"),
    ),
    "albert_tf in OpenVINO": _candidate(
        albert_tf_tokenizer,
        openvino_predict,
        [layout.ids_model("fp32"), layout.VOCABULARY],
        imports=("albert_tf", "openvino"),
        packages=("openvino",),
    ),
    "transformers": _candidate(
        sentencepiece_tokenizer,
        transformers_predict,
        [layout.HUGGING_FACE],
        imports=_TORCH_IMPORTS,
        packages=_TORCH,
    ),
    "transformers torch.compile": _candidate(
        sentencepiece_tokenizer,
        functools.partial(transformers_predict, compiled=True),
        [layout.HUGGING_FACE],
        imports=_TORCH_IMPORTS,
        packages=_TORCH,
    ),
    "ONNX Runtime": _candidate(
        sentencepiece_tokenizer,
        onnx_runtime_predict,
        [layout.ONNX, layout.VOCABULARY],
        imports=("sentencepiece", "onnxruntime"),
        precisions=("fp32",),
        packages=("onnxruntime", "onnxscript", *_TORCH),
    ),
}
