"""What several tests need."""

import contextlib
import json
import pathlib
import resource

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.backends import BACKEND
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.model_folder import read_own, replace_own

needs_tensorflow = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="uses TensorFlow's gradients, trainer or SavedModels"
)
ROOT = pathlib.Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


def shared_path(relative: str) -> pathlib.Path:
    """Returns a file or folder of the reference data next to the checkout, or skips the test."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"needs reference data that is not here: shared/{relative}")
    return path


def contents_of(folder):
    """Returns the content of each file below a folder, None for a folder, by relative paths."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in pathlib.Path(folder).rglob("*")
    }


@contextlib.contextmanager
def refused(message, folder=None):
    """Expects an error of one line that a pattern matches, and no change below a folder."""
    before = contents_of(folder) if folder else None
    with pytest.raises(InputError, match=message) as error:
        yield error
    assert "\n" not in str(error.value)
    assert folder is None or contents_of(folder) == before


@contextlib.contextmanager
def largest_file(num_bytes):
    """Refuses to make a file of this process larger, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def slow_except(values, *fast):
    """Returns the values of a parametrized test; all but those named run in `make test-all` only."""
    slow = pytest.mark.slow
    return [
        x if x in fast else pytest.param(*(x if isinstance(x, tuple) else (x,)), marks=slow)
        for x in values
    ]


def tiny_config(**changes):
    """Returns a config whose every size is another number."""
    sizes = {
        "vocab_size": 97,
        "embedding_size": 16,
        "hidden_size": 48,
        "num_attention_heads": 4,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
    }
    return AlbertConfig(**{**sizes, **changes})


def random_inputs(batch_size=3, length=11, vocab_size=97, seed=0):
    """Returns encoder inputs with padding in the last row and two segments."""
    rng = np.random.default_rng(seed)
    mask = np.ones((batch_size, length), np.int32)
    mask[-1, length // 2 :] = 0
    segments = np.zeros((batch_size, length), np.int32)
    segments[:, length // 3 :] = 1
    return {
        "input_ids": rng.integers(5, vocab_size, (batch_size, length), np.int32),
        "input_mask": mask,
        "segment_ids": segments * mask,
    }


def random_pretraining_batches(count, batch_size=8, length=11, predictions=4, vocab_size=97):
    """Returns batches for `AlbertPretrainer` with uneven numbers of predictions."""
    rng = np.random.default_rng(7)
    rows = count * batch_size
    inputs = random_inputs(rows, length, vocab_size)
    return tf.data.Dataset.from_tensor_slices(
        {
            **inputs,
            "masked_lm_positions": rng.integers(0, length // 2, (rows, predictions), np.int32),
            "masked_lm_ids": rng.integers(5, vocab_size, (rows, predictions), np.int32),
            "masked_lm_weights": (rng.random((rows, predictions)) < 0.7).astype(np.float32),
            "next_sentence_labels": rng.integers(0, 2, (rows, 1), np.int32),
        }
    ).batch(batch_size, drop_remainder=True)


def assert_same_weights(model, expected):
    for ours, theirs in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=ours.path)


def assert_agrees(differences):
    """Fails where something of ours is too far from the reference, or nothing was compared."""
    assert differences
    for difference in differences:
        assert difference.compared > 0, difference
        assert difference.agrees, difference


def post_processor(pieces):
    """Returns that of the `tokenizer.json` of a vocabulary, as transformers writes it."""
    begin, first, second, end = (
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    )
    last = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, first, end],
        "pair": [begin, first, end, second, last],
        "special_tokens": {
            name: {"id": name, "ids": [pieces.index(name)], "tokens": [name]}
            for name in ("[CLS]", "[SEP]")
        },
    }


def change_json(path, **changes):
    """Changes keys of a JSON file; None removes one."""
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: each for key, each in values.items() if each is not None}))


def change_kind(folder, **changes):
    """Changes keys of the kind in a model's folder; None removes one."""
    values = {**read_own(str(folder))["kind"], **changes}
    kind = {key: each for key, each in values.items() if each is not None}
    replace_own(str(folder), kind=kind)


def assert_share(successes, trials, expected):
    """Within four standard deviations, which a correct draw leaves once in 16,000 seeds."""
    assert abs(successes / trials - expected) < 4 * np.sqrt(expected * (1 - expected) / trials)


def write_wordpiece(path, pieces):
    """Writes a WordPiece vocabulary of the special pieces and these, and returns its path."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*special, *pieces]), encoding="utf-8")
    return str(path)
