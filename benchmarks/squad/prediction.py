"""Windows per second of prediction, beside transformers.

Both predict the same windows with the same random weights of ALBERT-base, in the same process one after
the other, each from batches of windows of similar length, padded to the longest of the batch, as users of
either would make them. Each first predicts all of them once, which is not timed: there both prepare
what they need.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_hugging_face
from albert_tf.data.features import Features
from albert_tf.data.input_pipeline import evaluation_batches
from albert_tf.data.squad import read_squad
from albert_tf.data.squad_features import WindowMaker, WindowRule
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.training import Evaluator

BATCH_SIZE = 32
ROUNDS = 3
HEADER = ("who", "windows", "tokens", "seconds, best of 3", "windows/s", "load")


def measure(input_file: str, spm_model_file: str, num_windows: int) -> Iterator[Sequence[str]]:
    """Yields a row of the table for us and for transformers.

    Raises:
        InputError: PyTorch or transformers is missing, or the two differ in what they predict.
    """
    features = _make_features(input_file, spm_model_file, num_windows)
    config = AlbertConfig.from_preset("base_v2")
    model = AlbertSpanLabeler(AlbertEncoder(config, with_pooler=False, seed=1), seed=2)
    batches, _ = evaluation_batches(features, BATCH_SIZE)
    contenders = {"albert_tf": _ours(model), "transformers, PyTorch": _theirs(model)}
    logits = {}
    for name, predict in contenders.items():
        list(predict(batches))  # prepares each length
        seconds = []
        for _ in range(ROUNDS):
            start = time.monotonic()
            logits[name] = list(predict(batches))
            seconds.append(time.monotonic() - start)
        numbers = (
            (len(features), ",d"),
            (features.lengths.sum(), ",d"),
            (min(seconds), ".1f"),
            (len(features) / min(seconds), ".1f"),
            (os.getloadavg()[0], ".1f"),
        )
        yield [name, *(format(number, style) for number, style in numbers)]
    _check_equal(*logits.values())


def _make_features(input_file: str, spm_model_file: str, num_windows: int) -> Features:
    """Returns windows drawn from the whole file, so that they are as long as its windows are."""
    tokenizer = AlbertTokenizer(spm_model_file)
    windows = list(WindowMaker(tokenizer, WindowRule())(read_squad(input_file)))
    drawn = np.random.default_rng(1).permutation(len(windows))[:num_windows]
    windows = [windows[index] for index in drawn]
    return Features(
        input_ids=np.concatenate([window.input_ids for window in windows]),
        lengths=np.array([len(window.input_ids) for window in windows], np.int32),
        first_lengths=np.array([window.question_length for window in windows], np.int32),
    )


# Batches -> start logits of each, (B, S).
_Predict = Callable[[tf.data.Dataset], Iterator[np.ndarray]]


def _ours(model: AlbertSpanLabeler) -> _Predict:
    evaluator = Evaluator(model, None, tf.distribute.get_strategy())

    def predict(batches: tf.data.Dataset) -> Iterator[np.ndarray]:
        for outputs in evaluator.predict_batches(batches):
            yield outputs["start_logits"]

    return predict


def _theirs(model: AlbertSpanLabeler) -> _Predict:
    try:
        import torch
        from transformers import AlbertForQuestionAnswering
    except ImportError as error:
        raise InputError(f"{error}; expected what requirements-parity.txt lists") from error
    with tempfile.TemporaryDirectory() as folder:
        save_hugging_face(model, f"{folder}/model")
        theirs = AlbertForQuestionAnswering.from_pretrained(f"{folder}/model").eval()

    def predict(batches: tf.data.Dataset) -> Iterator[np.ndarray]:
        with torch.inference_mode():
            for batch in batches.as_numpy_iterator():
                outputs = theirs(
                    input_ids=torch.from_numpy(batch["input_ids"]).long(),
                    attention_mask=torch.from_numpy(batch["input_mask"]).long(),
                    token_type_ids=torch.from_numpy(batch["segment_ids"]).long(),
                )
                yield outputs.start_logits.numpy()

    return predict


def _check_equal(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
    largest = max(np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True))
    if not largest < 1e-3:
        raise InputError(f"the logits differ by {largest}; expected the same model")
