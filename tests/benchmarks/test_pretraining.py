import dataclasses

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError
from benchmarks.harness import Round
from benchmarks.pretraining import __main__ as benchmark
from benchmarks.pretraining.candidates import (
    OURS,
    OURS_COMPILED,
    PRODUCTS,
    Workload,
    gathered_loss,
    transformers_step,
)
from tests.helpers import tiny_config

B, S = 3, 11
WORKLOAD = Workload(tiny_config().to_dict(), B, S, "fp32")
CEILING, SLOW_CEILING, _ = PRODUCTS


def test_products_of_the_base_size():
    config = AlbertConfig.from_preset("base_v2")
    workload = Workload(config.to_dict(), 8, 128, "bf16")
    tokens, predicted = 8 * 128, 8 * 19
    block = 4 * 768 * 768 + 2 * 768 * 3072 + 2 * 128 * 768
    rest = tokens * 128 * 768 + 8 * 768 * 768 + predicted * 128 * (768 + 30000)
    assert workload.flops == 3 * 2 * (12 * tokens * block + rest)
    assert len({product.count for product in workload.forward_products()}) == 3


def test_batch_is_a_masked_one():
    batch = WORKLOAD.batch()
    assert batch["input_ids"].shape == (B, S)
    positions = batch["masked_lm_positions"]
    assert positions.shape == (B, 2)
    assert (np.diff(positions) > 0).all()
    assert positions.max() < S


@pytest.mark.slow
def test_ours_is_timed_next_to_the_products():
    results = benchmark.measure(WORKLOAD, [CEILING, OURS], rounds=2, steps=2)
    assert {name: len(rounds) for name, rounds in results.items()} == {CEILING: 2, OURS: 2}
    for rounds in results.values():
        assert all(one.seconds > 0 and one.peak_mib > 50 for one in rounds)
    lines = benchmark.table(WORKLOAD, results).split("\n")
    assert [line.split("|")[1].strip() for line in lines[2:]] == [CEILING, OURS]


def rounds_of(*seconds):
    return [Round(one, one, 100.0) for one in seconds]


def test_missed_goals_are_named():
    results = {
        SLOW_CEILING: rounds_of(1.3),
        CEILING: rounds_of(1.0),
        OURS: rounds_of(1.4),
        "keras_hub": rounds_of(1.3),
        "transformers": rounds_of(1.5),
    }
    misses = [miss.split(" takes ")[0] for miss in benchmark.find_misses(WORKLOAD, results)]
    assert misses == ["fp32, 3 x 11: keras_hub", "fp32, 3 x 11: albert_tf"]
    # The faster of our ways counts.
    results[OURS_COMPILED] = rounds_of(1.2)
    assert not list(benchmark.find_misses(WORKLOAD, results))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shapes": ("8x128", "8")}, "--shapes: received '8'"),
        ({"precisions": ("fp16",)}, "--precisions: received 'fp16'"),
        ({"rounds": 0}, "--rounds=0: expected at least 1"),
    ],
)
def test_options_are_checked(values, message):
    with pytest.raises(FlagError, match=message):
        benchmark.PretrainingBenchmarkOptions(**values)


@pytest.mark.parametrize("changes", [{}, {"sharing": "none", "embedding_size": 48}])
def test_gathered_loss_is_that_of_the_model_as_it_comes(changes):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from benchmarks.harness import hugging_face_config, torch_inputs
    from benchmarks.torch_pretraining import _as_it_comes

    torch.manual_seed(1)
    config = hugging_face_config(tiny_config(**changes), classifier_dropout=0.0)
    model = transformers.AutoModelForPreTraining.from_config(config).eval()
    batch = WORKLOAD.batch()
    batch["masked_lm_weights"][1, -1] = 0.0  # padding
    gathered = gathered_loss(
        model,
        torch_inputs(batch),
        *(torch.from_numpy(batch[f"masked_lm_{name}"]).long() for name in ("positions", "ids")),
        torch.from_numpy(batch["next_sentence_labels"][:, 0]).long(),
        torch.from_numpy(batch["masked_lm_weights"]),
    )
    inputs = _as_it_comes(batch)
    if changes:
        inputs["next_sentence_label"] = inputs.pop("sentence_order_label")
    assert type(model).__name__ == ("BertForPreTraining" if changes else "AlbertForPreTraining")
    assert gathered.item() == pytest.approx(model(**inputs).loss.item(), rel=1e-5)
    workload = dataclasses.replace(WORKLOAD, config=tiny_config(**changes).to_dict())
    for precision in ("fp32", "bf16"):
        transformers_step(dataclasses.replace(workload, precision=precision), gathered=True)()
    transformers_step(workload)()
