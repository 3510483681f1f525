"""Windows per second of prediction, beside transformers.

Both predict the same windows with a model of the same shape, the longest first, in batches padded to
their longest window, as users of either would make them. Each runs in a process of its own, and they
take turns. That the two give the same answers is what `make test-parity` is for.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import (
    TORCH,
    Candidate,
    Round,
    Rounds,
    hugging_face_config,
    median,
    ratio,
    take_turns,
    timed,
    torch_inputs,
)

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.features import Features

_BATCH_SIZE = 32
_ROUNDS = 5

HEADER = ("", "seconds", "windows/s", "times ours", "CPU seconds", "peak MiB")
OURS = "albert_tf"

# Predicts all windows once and waits until that is done.
Pass = Callable[[], object]


def our_pass(features: "Features") -> Pass:
    """Returns what `run_squad.py` does."""
    import tensorflow as tf

    from albert_tf.config import AlbertConfig
    from albert_tf.data.pipeline import evaluation_batches
    from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
    from albert_tf.training import Evaluator, make_strategy

    tf.config.set_visible_devices([], "GPU")
    strategy = make_strategy("one_device")
    with strategy.scope():
        encoder = AlbertEncoder(AlbertConfig.from_preset("base_v2"), with_pooler=False, seed=1)
        evaluator = Evaluator(AlbertSpanLabeler(encoder, seed=2), None, strategy)
    batches, _ = evaluation_batches(features, _BATCH_SIZE)
    return lambda: list(evaluator.predict_batches(batches))


def transformers_pass(features: "Features", compiled: bool = False) -> Pass:
    """Returns what users of Hugging Face's `AlbertForQuestionAnswering` do in PyTorch."""
    import torch
    from transformers import AlbertForQuestionAnswering

    from albert_tf.config import AlbertConfig

    shape = hugging_face_config(AlbertConfig.from_preset("base_v2"), classifier_dropout=0.1)
    model = AlbertForQuestionAnswering(shape).eval()
    forward = torch.compile(model, dynamic=True) if compiled else model
    batches = [torch_inputs(batch) for batch in _exact_batches(features)]

    def predict() -> None:
        with torch.inference_mode():
            for batch in batches:
                outputs = forward(**batch)
                outputs.start_logits.numpy(), outputs.end_logits.numpy()

    return predict


def _exact_batches(features: "Features") -> Iterator[dict[str, np.ndarray]]:
    """Yields batches, the longest first, each as long as its longest window."""
    from albert_tf.data.pipeline import make_batch

    order = np.argsort(-features.lengths, kind="stable")
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        yield make_batch(features, rows, fixed_length=int(features.lengths[rows].max()))


def start(
    make_pass: Callable[..., Pass],
    input_file: str,
    spm_model_file: str,
    num_windows: int,
    **arguments: Any,
) -> Callable[[int], Round]:
    """Returns what times a pass over some windows of a file in a candidate's process."""
    return timed(make_pass(make_features(input_file, spm_model_file, num_windows), **arguments))


CANDIDATES = {
    OURS: Candidate(start, {"make_pass": our_pass}),
    "transformers": Candidate(start, {"make_pass": transformers_pass}, TORCH),
    "transformers torch.compile": Candidate(
        start, {"make_pass": transformers_pass, "compiled": True}, TORCH
    ),
}


def measure(
    input_file: str, spm_model_file: str, num_windows: int, candidates: Sequence[str]
) -> dict[str, list[Round]]:
    """Predicts some windows of a file, in turn.

    Args:
        input_file: a file of SQuAD.
        spm_model_file: SentencePiece model.
        num_windows: number of windows.
        candidates: names of `CANDIDATES`, whose packages are installed.

    Returns:
        The rounds of each.
    """
    given = {
        "input_file": input_file,
        "spm_model_file": spm_model_file,
        "num_windows": num_windows,
    }
    return take_turns(
        "benchmarks.squad.prediction", dict.fromkeys(candidates, given), _ROUNDS, steps=1
    )


def rows(results: Rounds, num_windows: int) -> Iterator[list[str]]:
    """Yields a row of the table for each candidate; ours has to be among them."""
    for name, rounds in results.items():
        seconds = median(rounds)
        yield [
            name,
            f"{seconds:.1f}",
            f"{num_windows / seconds:.1f}",
            f"{ratio(results, name, OURS):.2f}",
            f"{median(rounds, 'cpu_seconds'):.1f}",
            f"{rounds[-1].peak_mib:,.0f}",
        ]


def make_features(input_file: str, spm_model_file: str, num_windows: int) -> "Features":
    """Returns windows drawn from the whole file, so that they are as long as its windows are."""
    from albert_tf.data.fine_tuning.features import Features
    from albert_tf.data.squad.conventions import WindowConfig
    from albert_tf.data.squad.questions import read_squad
    from albert_tf.data.squad.windows import WindowMaker
    from albert_tf.tokenization import AlbertTokenizer

    tokenizer = AlbertTokenizer(spm_model_file)
    windows = list(WindowMaker(tokenizer, WindowConfig())(read_squad(input_file)))
    drawn = np.random.default_rng(1).permutation(len(windows))[:num_windows]
    windows = [windows[index] for index in drawn]
    return Features(
        input_ids=np.concatenate([window.input_ids for window in windows]),
        lengths=np.array([len(window.input_ids) for window in windows], np.int32),
        first_lengths=np.array([window.question_length for window in windows], np.int32),
    )
