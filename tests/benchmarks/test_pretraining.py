import dataclasses

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from benchmarks import bert_against_albert
from benchmarks.bert_against_albert import ALBERT, BERT, BertAgainstAlbertOptions
from benchmarks.harness import Round
from benchmarks.pretraining import __main__ as benchmark
from benchmarks.pretraining.candidates import (
    OURS,
    OURS_COMPILED,
    PRODUCTS,
    Workload,
    torch_forms,
    transformers_step,
)
from tests.benchmarks.samples import cells_of, rounds_of
from tests.helpers import tiny_config

B, S = 3, 11
CONFIG = tiny_config(num_hidden_layers=5)
WORKLOAD = Workload(CONFIG.to_dict(), B, S, "fp32")
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


def test_missed_goals_are_named():
    results = {
        SLOW_CEILING: rounds_of(1.3),
        CEILING: rounds_of(1.0),
        OURS: rounds_of(1.4),
        "keras_hub": rounds_of(1.3),
        "transformers": rounds_of(1.5),
    }
    misses = [miss.split(" as fast as ")[1] for miss in benchmark.find_misses(WORKLOAD, results)]
    assert misses == ["keras_hub; the goal is 1.00", f"{CEILING}; the goal is 0.77"]
    # The faster of our ways counts.
    results[OURS_COMPILED] = rounds_of(1.2)
    assert not list(benchmark.find_misses(WORKLOAD, results))


def test_table_of_given_rounds():
    results = {CEILING: rounds_of(0.5, 4.0), OURS: rounds_of(1.0, 8.0)}
    cells = cells_of(benchmark.table(WORKLOAD, results))[3]
    assert cells[:6] == [OURS, "4,500", "1.00", "4,500", "0.67", "7"]
    assert cells[-2:] == ["50 %", "100"]


@pytest.mark.parametrize("changes", [{}, {"sharing": "none", "embedding_size": 48}])
def test_gathered_loss_is_that_of_the_model_as_it_comes(changes):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from benchmarks.harness import hugging_face_config

    torch.manual_seed(1)
    config = hugging_face_config(tiny_config(**changes), classifier_dropout=0.0)
    model = transformers.AutoModelForPreTraining.from_config(config).eval()
    batch = WORKLOAD.batch()
    batch["masked_lm_weights"][1, -1] = 0.0  # padding
    gathered, as_it_comes = (
        forward(model, **make_inputs(model, batch)).item()
        for make_inputs, forward in (torch_forms(False, True), torch_forms(False, False))
    )
    assert type(model).__name__ == ("BertForPreTraining" if changes else "AlbertForPreTraining")
    assert gathered == pytest.approx(as_it_comes, rel=1e-5)
    workload = dataclasses.replace(WORKLOAD, config=tiny_config(**changes).to_dict())
    for precision in ("fp32", "bf16"):
        transformers_step(dataclasses.replace(workload, precision=precision), gathered=True)()
    transformers_step(workload)()


# BERT against ALBERT

OF_BERT = dataclasses.replace(CONFIG, sharing="none", embedding_size=48).to_dict()
WORKLOADS = {BERT: dataclasses.replace(WORKLOAD, config=OF_BERT), ALBERT: WORKLOAD}


def test_table_of_both_models():
    rounds = {
        f"{BERT}, {OURS}": [Round(1.2, 2.4, 900.0), Round(1.5, 2.4, 901.0)],
        f"{ALBERT}, {OURS}": [Round(1.0, 2.0, 300.0), Round(1.0, 2.0, 301.0)],
    }
    _, _, bert, albert = cells_of(bert_against_albert.table(WORKLOADS, rounds))
    # 4 bytes for each parameter of the block, which BERT has five times; the rest is the same but for E.
    assert bert == ["BERT, albert_tf", "0.1M", "1,350", "1.35", "2,400", "901", "0.4"]
    assert albert == ["ALBERT, albert_tf", "0.0M", "1,000", "1.00", "2,000", "301", "0.1"]


def test_models_of_the_large_size():
    options = BertAgainstAlbertOptions(precisions=("bf16",), shapes=("4x128", "1x512"))
    pairs = [list(options.workloads(preset)) for preset in ("bert_large", "large_v2")]
    assert [str(workload) for workload in pairs[0]] == ["bf16, 4 x 128", "bf16, 1 x 512"]
    configs = [workloads[0].albert_config for workloads in pairs]
    assert [config.sharing for config in configs] == ["none", "all"]
    assert [config.embedding_size for config in configs] == [1024, 128]
    assert [config.num_hidden_layers for config in configs] == [24, 24]
    assert [config.hidden_dropout_prob for config in configs] == [0.0, 0.0]
