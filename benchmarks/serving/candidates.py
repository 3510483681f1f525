"""How each runtime answers texts with labels, and ids with probabilities.

All read their model from one folder, which `__main__.write_folder` makes.
"""

import functools
import importlib
import itertools
import json
import os
import pathlib
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks import harness
from benchmarks.harness import HUGGING_FACE_INPUTS, TORCH, Candidate

LABELS = ("negative", "positive")
MAX_SEQ_LENGTH = 128
# The ids of the forward pass that is compared with its products.
FORWARD_BATCH_SIZE, FORWARD_LENGTH = 8, 128
_FIRST_ORDINARY_ID = 5

# Files of the folder. Our exports are at <precision>/<form>/1.
CONFIG = "albert_config.json"
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
    """Answers to B texts.

    Attributes:
        labels: B names of classes.
        probabilities: float32 (B, 2).
    """

    labels: list[str]
    probabilities: np.ndarray


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


def albert_tf_predict(folder: str, precision: str, num_threads: int) -> Predict:
    """Loads the SavedModel that takes ids; `albert_tf_answer` has set the number of threads."""
    import tensorflow as tf

    model = tf.saved_model.load(os.path.join(folder, f"{precision}/ids/1"))

    def predict(inputs: Inputs) -> np.ndarray:
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        return model.signatures["serving_default"](**tensors)["probabilities"].numpy()

    return predict


def openvino_answer(folder: str, precision: str, num_threads: int) -> Answer:
    """Loads the OpenVINO model that takes text."""
    import openvino
    import openvino_tokenizers  # noqa: F401, whose operators the model has

    path = os.path.join(folder, f"{precision}/openvino/1/model.xml")
    run = openvino.Core().compile_model(path, "CPU", _openvino_config(precision, num_threads))

    def answer(texts: Sequence[str]) -> Answers:
        outputs = run({"text_a": list(texts)})
        return Answers([str(label) for label in outputs["label"]], outputs["probabilities"])

    return answer


def openvino_predict(folder: str, precision: str, num_threads: int) -> Predict:
    """Converts the SavedModel that takes ids; its weights are fp32, also where it computes in bf16."""
    import openvino

    model = openvino.convert_model(os.path.join(folder, "fp32/ids/1"))
    run = openvino.compile_model(model, "CPU", _openvino_config(precision, num_threads))
    return lambda inputs: run(dict(inputs))["probabilities"]


def _openvino_config(precision: str, num_threads: int) -> dict[str, Any]:
    # In an int8 model, what is not quantized is computed in fp32.
    hint = "bf16" if precision == "bf16" else "f32"
    return {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": num_threads}


def transformers_predict(
    folder: str, precision: str, num_threads: int, compiled: bool = False
) -> Predict:
    """Loads Hugging Face's model in PyTorch, in bf16 with the weights in bf16, too."""
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.set_num_threads(num_threads)
    model = AutoModelForSequenceClassification.from_pretrained(
        os.path.join(folder, HUGGING_FACE),
        dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[precision],
    ).eval()
    forward = model
    if compiled:
        import torch._inductor.config

        # An empty cache, as in a new container.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "torch_compile", precision)
        torch._inductor.config.freezing = True
        forward = torch.compile(model, dynamic=True)

    def predict(inputs: Inputs) -> np.ndarray:
        tensors = {name: torch.from_numpy(array) for name, array in _their_names(inputs).items()}
        with torch.inference_mode():
            return forward(**tensors).logits.float().softmax(-1).numpy()

    return predict


def onnx_runtime_predict(folder: str, precision: str, num_threads: int) -> Predict:
    """Loads the ONNX file; CPUs have no kernels for bf16."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    session = onnxruntime.InferenceSession(
        os.path.join(folder, f"{precision}/onnx/1/model.onnx"),
        options,
        providers=["CPUExecutionProvider"],
    )
    return lambda inputs: session.run(["probabilities"], dict(inputs))[0]


def _their_names(inputs: Inputs) -> dict[str, np.ndarray]:
    """Returns the inputs under the names and in the dtype of Hugging Face's models."""
    return {theirs: inputs[ours].astype(np.int64) for theirs, ours in HUGGING_FACE_INPUTS.items()}


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
        return _pack(processor.encode([_normalize(text) for text in texts]), cls_id, sep_id)

    return tokenize


def _normalize(text: str) -> str:
    """Returns lower-case text without accents, which the vocabulary was made of."""
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


def _tokenize_and_predict(tokenize: Tokenize, predict: Predict) -> Answer:
    def answer(texts: Sequence[str]) -> Answers:
        probabilities = predict(tokenize(texts))
        return Answers([LABELS[index] for index in probabilities.argmax(axis=-1)], probabilities)

    return answer


def start(
    make_answer: Callable[[str, str, int], Answer] | None,
    make_predict: Callable[..., Predict],
    imports: Sequence[str],
    folder: str,
    precision: str,
    num_threads: int,
    **arguments: Any,
) -> Callable[[list], Any]:
    """Loads a candidate, and returns a function that answers the questions of `__main__`.

    Args:
        make_answer: loads its model that takes text; None for runtimes without a tokenizer.
        make_predict: loads its model that takes ids.
        imports: its libraries, whose import is not part of the loading time.
        folder: holds the models and the texts.
        precision: `fp32`, `bf16` or `int8`.
        num_threads: number of threads for one operator.
        **arguments: more of `make_predict`.
    """
    texts = json.loads(pathlib.Path(folder, TEXTS).read_text())
    for module in imports:
        importlib.import_module(module)
    model = folder, precision, num_threads
    load_predict = functools.cache(lambda: make_predict(*model, **arguments))
    begin = time.perf_counter()
    if make_answer is None:
        answer = _tokenize_and_predict(sentencepiece_tokenizer(folder), load_predict())
    else:
        answer = make_answer(*model)
    answer(texts[:1])
    started = [time.time() - psutil.Process().create_time(), time.perf_counter() - begin]

    @functools.cache
    def time_forward() -> Callable[[int], harness.Round]:
        config = json.loads(pathlib.Path(folder, CONFIG).read_text())
        predict, inputs = load_predict(), _full_inputs(config)
        return harness.timed(lambda: predict(inputs))

    questions = {
        "start": lambda: started,
        "answer": lambda batch_size: _answer_all(answer, texts, batch_size),
        "time": lambda batch_size: _time_all(answer, texts, batch_size),
        "forward": lambda steps: time_forward()(steps),
    }
    return lambda question: questions[question[0]](*question[1:])


def _answer_all(answer: Answer, texts: Sequence[str], batch_size: int) -> Answers:
    labels, probabilities = zip(*map(answer, _batches(texts, batch_size)), strict=True)
    return Answers(
        list(itertools.chain.from_iterable(labels)), np.concatenate(probabilities).tolist()
    )


def _time_all(answer: Answer, texts: Sequence[str], batch_size: int) -> list:
    """Returns the seconds of each batch, the CPU seconds of all, and the memory after them."""
    times = [
        harness.time_step(lambda batch=batch: answer(batch))
        for batch in _batches(texts, batch_size)
    ]
    seconds, cpu_seconds = zip(*times, strict=True)
    return [seconds, sum(cpu_seconds), harness.memory_mib("VmRSS")]


def _batches(texts: Sequence[str], batch_size: int) -> Iterator[Sequence[str]]:
    for first in range(0, len(texts), batch_size):
        yield texts[first : first + batch_size]


def _full_inputs(config: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns inputs without padding."""
    shape = (FORWARD_BATCH_SIZE, FORWARD_LENGTH)
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(_FIRST_ORDINARY_ID, config["vocab_size"], shape, np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
    }


def start_products(
    folder: str, precision: str, num_threads: int
) -> Callable[[list], harness.Round]:
    """Returns a function that times the matrix products of the forward pass alone."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    from benchmarks.pretraining.candidates import Workload, product_steps

    config = json.loads(pathlib.Path(folder, CONFIG).read_text())
    workload = Workload(config, FORWARD_BATCH_SIZE, FORWARD_LENGTH, precision)
    run = harness.timed(*product_steps(workload.encoder_products(), precision))
    return lambda question: run(question[1])


def _candidate(
    make_answer: Callable[[str, str, int], Answer] | None,
    make_predict: Callable[..., Predict],
    imports: Sequence[str],
    packages: Sequence[str] = (),
    **arguments: Any,
) -> Candidate:
    return Candidate(
        start,
        {
            "make_answer": make_answer,
            "make_predict": make_predict,
            "imports": imports,
            **arguments,
        },
        packages,
    )


_TORCH_IMPORTS = ("sentencepiece", "transformers.models.albert.modeling_albert")

OURS, OPENVINO, ONNX_RUNTIME = "albert_tf", "OpenVINO", "ONNX Runtime"
TRANSFORMERS, COMPILED = "transformers", "transformers torch.compile"
PRODUCTS = "products"
RUNTIMES = {
    OURS: _candidate(albert_tf_answer, albert_tf_predict, ("tensorflow", "tensorflow_text")),
    OPENVINO: _candidate(
        openvino_answer,
        openvino_predict,
        ("openvino", "openvino_tokenizers"),
        ("openvino", "openvino_tokenizers", "nncf"),
    ),
    ONNX_RUNTIME: _candidate(
        None, onnx_runtime_predict, ("sentencepiece", "onnxruntime"), ("onnxruntime", "tf2onnx")
    ),
    TRANSFORMERS: _candidate(None, transformers_predict, _TORCH_IMPORTS, TORCH),
    COMPILED: _candidate(None, transformers_predict, _TORCH_IMPORTS, TORCH, compiled=True),
}
CANDIDATES = RUNTIMES | {PRODUCTS: Candidate(start_products)}

# The precisions of each runtime. CPUs have no bf16 kernels in ONNX Runtime.
PRECISIONS = {
    OURS: ("fp32", "bf16", "int8"),
    OPENVINO: ("fp32", "bf16", "int8"),
    ONNX_RUNTIME: ("fp32", "int8"),
    TRANSFORMERS: ("fp32", "bf16"),
    COMPILED: ("fp32", "bf16"),
}


def files(name: str, precision: str) -> tuple[str, ...]:
    """Returns the files and folders of a runtime, in the folder of all."""
    return {
        OURS: (f"{precision}/text/1",),
        OPENVINO: (f"{precision}/openvino/1",),
        ONNX_RUNTIME: (f"{precision}/onnx/1", VOCABULARY),
        TRANSFORMERS: (HUGGING_FACE,),
        COMPILED: (HUGGING_FACE,),
    }[name]
