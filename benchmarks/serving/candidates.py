"""How each runtime answers texts with labels; all read the folder that `__main__.write_folder` makes."""

import functools
import importlib
import json
import os
import pathlib
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.harness import Candidate, memory_mib, time_step
from benchmarks.hugging_face import NAMES_THERE, TORCH, torch_device, torch_inputs

LABELS = ("negative", "positive")
MAX_SEQ_LENGTH = 128

# Files of the folder. Our exports are at <precision>/<form>/1.
TEXTS = "texts.json"
VOCABULARY = "spiece.model"
HUGGING_FACE = "hugging_face"

# `input_ids`, `input_mask` and `segment_ids`, int32 (B, S).
Inputs = Mapping[str, np.ndarray]
# Texts -> inputs, padded to the longest text.
Tokenize = Callable[[Sequence[str]], Inputs]
# Inputs -> probabilities, float32 (B, 2).
Predict = Callable[[Inputs], np.ndarray]


class Answers(NamedTuple):
    """Answers to B texts."""

    labels: list[str]
    probabilities: np.ndarray  # float32 (B, 2)


# Texts -> answers.
Answer = Callable[[Sequence[str]], Answers]


def albert_tf_answer(folder: str, precision: str, num_threads: int) -> Answer:
    """Loads the SavedModel that takes text."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, whose operators the model has

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    model = tf.saved_model.load(os.path.join(folder, f"{precision}/text/1"))

    def answer(texts: Sequence[str]) -> Answers:
        outputs = model.signatures["serving_default"](text_a=tf.constant(texts))
        labels = [label.decode() for label in outputs["label"].numpy()]
        return Answers(labels, outputs["probabilities"].numpy())

    return answer


def loaded_answer(folder: str, precision: str, num_threads: int) -> Answer:
    """Loads the weights for `predict` in Python."""
    import tensorflow as tf

    import albert_tf

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    model = albert_tf.load(os.path.join(folder, HUGGING_FACE))

    def answer(texts: Sequence[str]) -> Answers:
        return _with_labels(model.predict(list(texts)).probabilities)

    return answer


def openvino_answer(folder: str, precision: str, num_threads: int) -> Answer:
    """Loads the OpenVINO model that takes text."""
    import openvino
    import openvino_tokenizers  # noqa: F401, whose operators the model has

    path = os.path.join(folder, f"{precision}/openvino/1/model.xml")
    # In an int8 model, what is not quantized is computed in fp32.
    hint = "bf16" if precision == "bf16" else "f32"
    config = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": num_threads}
    run = openvino.Core().compile_model(path, "CPU", config)

    def answer(texts: Sequence[str]) -> Answers:
        outputs = run({"text_a": list(texts)})
        return Answers([str(label) for label in outputs["label"]], outputs["probabilities"])

    return answer


def transformers_answer(
    folder: str, precision: str, num_threads: int, compiled: bool = False
) -> Answer:
    """Loads Hugging Face's model in PyTorch, in bf16 with the weights in bf16, too."""
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.set_num_threads(num_threads)
    model = AutoModelForSequenceClassification.from_pretrained(
        os.path.join(folder, HUGGING_FACE),
        dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[precision],
    )
    model = model.eval().to(torch_device())
    forward = model
    if compiled:
        import torch._inductor.config

        # An empty cache, as in a new container.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "torch_compile", precision)
        torch._inductor.config.freezing = True
        forward = torch.compile(model, dynamic=True)

    def predict(inputs: Inputs) -> np.ndarray:
        with torch.inference_mode():
            return forward(**torch_inputs(inputs)).logits.float().softmax(-1).cpu().numpy()

    return _tokenize_and_predict(folder, predict)


def onnx_runtime_answer(folder: str, precision: str, num_threads: int) -> Answer:
    """Loads the ONNX file; CPUs have no kernels for bf16."""
    import onnxruntime

    name = "model_quantized.onnx" if precision == "int8" else "model.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    session = onnxruntime.InferenceSession(
        os.path.join(folder, f"{precision}/onnx/1/onnx/{name}"),
        options,
        providers=["CPUExecutionProvider"],
    )

    def predict(inputs: Inputs) -> np.ndarray:
        feed = {theirs: inputs[ours].astype(np.int64) for theirs, ours in NAMES_THERE.items()}
        return session.run(["probabilities"], feed)[0]

    return _tokenize_and_predict(folder, predict)


def albert_tf_tokenizer(folder: str) -> Tokenize:
    """Loads our tokenizer; it brings TensorFlow along, and its memory."""
    from albert_tf.tokenization import AlbertTokenizer

    tokenizer = AlbertTokenizer(os.path.join(folder, VOCABULARY))
    return lambda texts: _pack(tokenizer.encode_batch(texts), tokenizer.cls_id, tokenizer.sep_id)


def sentencepiece_tokenizer(folder: str) -> Tokenize:
    """Loads the vocabulary as users of other runtimes do to get ALBERT's ids.

    What version 5 of `transformers` makes of a vocabulary drops the word mark before punctuation that
    is a symbol of its own, and so gives other ids than ALBERT was trained with.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, VOCABULARY))
    cls_id, sep_id = (processor.piece_to_id(piece) for piece in ("[CLS]", "[SEP]"))

    def tokenize(texts: Sequence[str]) -> Inputs:
        return _pack(processor.encode([normalize(text) for text in texts]), cls_id, sep_id)

    return tokenize


def normalize(text: str) -> str:
    """Returns lower-case text without accents, which the vocabulary was made of.

    `normalize_text` of our package does the same, but other runtimes are used without that package: the
    memory and the time of its import would count as theirs.
    """
    decomposed = unicodedata.normalize("NFKD", " ".join(text.split()))
    return "".join(char for char in decomposed if not unicodedata.combining(char)).lower()


def _pack(rows: Sequence[Sequence[int]], cls_id: int, sep_id: int) -> Inputs:
    """Puts the special ids around rows of ids that fit, and pads."""
    rows = [[cls_id, *ids[: MAX_SEQ_LENGTH - 2], sep_id] for ids in rows]
    lengths = np.array([[len(row)] for row in rows])
    mask = np.arange(lengths.max()) < lengths  # (B, S)
    input_ids = np.zeros(mask.shape, np.int32)
    input_ids[mask] = np.concatenate(rows)
    return {
        "input_ids": input_ids,
        "input_mask": mask.astype(np.int32),
        "segment_ids": np.zeros_like(input_ids),
    }


def _tokenize_and_predict(folder: str, predict: Predict) -> Answer:
    tokenize = sentencepiece_tokenizer(folder)

    return lambda texts: _with_labels(predict(tokenize(texts)))


def _with_labels(probabilities: np.ndarray) -> Answers:
    return Answers([LABELS[index] for index in probabilities.argmax(axis=-1)], probabilities)


def start(
    load: Callable[..., Answer], imports: Sequence[str], folder: str, **arguments: Any
) -> Callable[[list], Any]:
    """Loads a candidate, and returns a function that answers the questions of `__main__`.

    The libraries in `imports` are imported first, as that is not part of the loading time.
    """
    texts = json.loads(pathlib.Path(folder, TEXTS).read_text())
    for module in imports:
        importlib.import_module(module)
    begin = time.perf_counter()
    answer = load(folder, **arguments)
    answer(texts[:1])
    started = [time.time() - psutil.Process().create_time(), time.perf_counter() - begin]

    def batches(size: int) -> Iterator[Sequence[str]]:
        return (texts[first : first + size] for first in range(0, len(texts), size))

    def answer_all(batch_size: int) -> Answers:
        labels, probabilities = zip(*map(answer, batches(batch_size)), strict=True)
        return Answers([label for of in labels for label in of], np.vstack(probabilities).tolist())

    def time_all(batch_size: int) -> list:
        """Returns the seconds of each batch, the CPU seconds of all, and the memory after them."""
        times = [time_step(functools.partial(answer, batch)) for batch in batches(batch_size)]
        seconds, cpu_seconds = zip(*times, strict=True)
        return [seconds, sum(cpu_seconds), memory_mib("VmRSS")]

    questions = {"start": lambda: started, "answer": answer_all, "time": time_all}
    return lambda question: questions[question[0]](*question[1:])


def _candidate(
    load: Callable[..., Answer],
    imports: Sequence[str],
    packages: Sequence[str] = (),
    **arguments: Any,
) -> Candidate:
    return Candidate(start, {"load": load, "imports": imports, **arguments}, packages)


_TORCH_IMPORTS = ("sentencepiece", "transformers.models.albert.modeling_albert")
_OPENVINO_IMPORTS = ("openvino", "openvino_tokenizers")
OURS, LOADED = "albert_tf", "albert_tf.load"
OPENVINO, ONNX_RUNTIME = "OpenVINO", "ONNX Runtime"
TRANSFORMERS, COMPILED = "transformers", "transformers torch.compile"
CANDIDATES = {
    OURS: _candidate(albert_tf_answer, ("tensorflow", "tensorflow_text")),
    LOADED: _candidate(loaded_answer, ("tensorflow",)),
    OPENVINO: _candidate(openvino_answer, _OPENVINO_IMPORTS, (*_OPENVINO_IMPORTS, "nncf")),
    ONNX_RUNTIME: _candidate(
        onnx_runtime_answer, ("sentencepiece", "onnxruntime"), ("onnxruntime", "tf2onnx")
    ),
    TRANSFORMERS: _candidate(transformers_answer, _TORCH_IMPORTS, TORCH),
    COMPILED: _candidate(transformers_answer, _TORCH_IMPORTS, TORCH, compiled=True),
}
# The precisions of each runtime.
PRECISIONS = {
    OURS: ("fp32", "bf16"),
    LOADED: ("fp32",),
    OPENVINO: ("fp32", "bf16", "int8"),
    ONNX_RUNTIME: ("fp32", "int8"),
    TRANSFORMERS: ("fp32", "bf16"),
    COMPILED: ("fp32", "bf16"),
}
# The files and folders of each runtime.
FILES = {
    OURS: ("{precision}/text/1",),
    LOADED: (HUGGING_FACE,),
    OPENVINO: ("{precision}/openvino/1",),
    ONNX_RUNTIME: ("{precision}/onnx/1", VOCABULARY),
    TRANSFORMERS: (HUGGING_FACE,),
    COMPILED: (HUGGING_FACE,),
}
