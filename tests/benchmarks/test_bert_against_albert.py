from benchmarks import bert_against_albert as benchmark
from benchmarks.bert_against_albert import ALBERT, BERT
from benchmarks.harness import Round
from benchmarks.pretraining.candidates import OURS, Workload
from tests.benchmarks.samples import cells_of
from tests.helpers import tiny_config

WORKLOADS = {
    BERT: Workload(tiny_config(sharing="none", embedding_size=48).to_dict(), 3, 11, "fp32"),
    ALBERT: Workload(tiny_config().to_dict(), 3, 11, "fp32"),
}


def test_table_of_given_rounds():
    rounds = {
        f"{BERT}, {OURS}": [Round(1.2, 2.4, 900.0), Round(1.5, 2.4, 901.0)],
        f"{ALBERT}, {OURS}": [Round(1.0, 2.0, 300.0), Round(1.0, 2.0, 301.0)],
    }
    _, _, bert, albert = cells_of(benchmark.table(WORKLOADS, rounds))
    # 4 bytes for each parameter of the block, which BERT has five times; the rest is the same but for E.
    assert bert == ["BERT, albert_tf", "0.1M", "1,350", "1.35", "2,400", "901", "0.4"]
    assert albert == ["ALBERT, albert_tf", "0.0M", "1,000", "1.00", "2,000", "301", "0.1"]


def test_models_of_the_large_size():
    options = benchmark.BertAgainstAlbertOptions(precisions=("bf16",), shapes=("4x128", "1x512"))
    pairs = [list(options.workloads(preset)) for preset in ("bert_large", "large_v2")]
    assert [str(workload) for workload in pairs[0]] == ["bf16, 4 x 128", "bf16, 1 x 512"]
    configs = [workloads[0].albert_config for workloads in pairs]
    assert [config.sharing for config in configs] == ["none", "all"]
    assert [config.embedding_size for config in configs] == [1024, 128]
    assert [config.num_hidden_layers for config in configs] == [24, 24]
    assert [config.hidden_dropout_prob for config in configs] == [0.0, 0.0]
