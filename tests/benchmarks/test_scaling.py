import dataclasses

import pytest
import tensorflow as tf

from albert_tf.errors import FlagError, InputError
from benchmarks.pretraining.candidates import Workload
from benchmarks.scaling import __main__ as command
from benchmarks.scaling import paper
from benchmarks.scaling.costs import Costs, measure, trace
from benchmarks.scaling.steps import ClusterOptions, compute_step, count_micro_batches, ring_bytes
from tests.helpers import tiny_config

B, S = 3, 11
BERT = {"sharing": "none", "embedding_size": 48}
OPTIONS = ClusterOptions(
    batch_size=16, teraflops=2, utilisation=0.5, memory_bandwidth=10, link_bandwidth=1, latency=50
)


def workload(precision="fp32", length=S, **changes):
    config = tiny_config(**{"num_hidden_layers": 2, **changes})
    return Workload(config.to_dict(), B, length, precision)


def operations_of_batched_products(graph):
    # TensorFlow's count is wrong if the first operand is transposed: it looks for another attribute.
    total = 0
    for operation in graph.get_operations():
        if operation.type == "BatchMatMulV2":
            inner = operation.inputs[0].shape[-2 if operation.get_attr("adj_x") else -1]
            total += 2 * inner * operation.outputs[0].shape.num_elements()
    return total


@pytest.mark.parametrize("changes", [{}, BERT])
def test_operations_are_those_that_tensorflow_counts_in_the_graph(changes):
    graph = trace(workload(**changes)).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    profile = tf.compat.v1.profiler.profile(graph, cmd="op", options={**options, "output": "none"})
    by_type = {}
    while profile.children:
        (profile,) = profile.children
        by_type[profile.name] = profile.float_ops
    sentence_head = 3 * 2 * B * 48 * 2
    counted = by_type["MatMul"] + operations_of_batched_products(graph)
    assert counted == workload(**changes).flops + sentence_head


def test_kept_bytes_of_a_layer():
    length = 31
    more_layers = [trace(workload(length=length, num_hidden_layers=n)).kept_bytes for n in (2, 3)]
    hidden, inner, heads = 48, 80, 4
    numbers = B * length * (10 * hidden + 2 * inner + heads * length)
    assert more_layers[1] - more_layers[0] == pytest.approx(4 * numbers, rel=0.01)


def test_layers_keep_less_in_16_bits():
    kept = {name: trace(workload(name, length=31)).kept_bytes for name in ("fp32", "bf16")}
    assert 0.5 < kept["bf16"] / kept["fp32"] < 1


def test_ring_sends_twice_the_size_at_most():
    assert ring_bytes(100, 1) == 0
    assert ring_bytes(100, 2) == 100
    assert ring_bytes(100, 4) == 150
    assert ring_bytes(100, 10**6) == pytest.approx(200, rel=1e-5)


def test_parts_of_a_step():
    costs = Costs(flops=10**12, parameters=10**8, activation_bytes=0)
    step = compute_step(costs, 4, OPTIONS)
    # 4 sequences; 28 bytes per parameter; 2 * 3 / 4 * 400 MB; two all-reduces of 6 messages
    assert step[:-1] == pytest.approx((4.0, 0.28, 0.6, 0.0006))
    assert step.seconds == pytest.approx(4.8806)
    assert (step.limit, step.micro_batches) == ("compute", 1)
    fast = dataclasses.replace(OPTIONS, teraflops=1000.0)
    assert compute_step(costs, 4, fast).limit == "bandwidth"
    assert compute_step(Costs(10**6, 10**3), 16, fast).limit == "latency"


def test_micro_batches_fit_into_memory():
    costs = Costs(flops=1, parameters=10, activation_bytes=100)
    assert count_micro_batches(costs, 12, 160 + 1200) == 1
    # 5 sequences would fit, but 12 is no multiple of 5; the sum of gradients takes 40 bytes.
    assert count_micro_batches(costs, 12, 160 + 40 + 500) == 3
    assert count_micro_batches(costs, 12, 160 + 500) == 3
    assert count_micro_batches(costs, 12, 160 + 40 + 399) == 4
    with pytest.raises(InputError, match=r"--memory=2.99e-07: a micro-batch of one sequence needs"):
        count_micro_batches(costs, 12, 160 + 40 + 99)


def test_speeds_of_the_paper():
    models = {name: measure(name, 512, "bf16", memory=False) for name in paper.SPEEDS}
    alone = paper.speeds(models)
    together = paper.speeds(models, paper.fit_communication(models))
    assert alone["bert_large"] == together["bert_large"] == 1.0
    assert together["large_v2"] == pytest.approx(1.7)
    # ALBERT-large computes as much as BERT-large, so operations alone explain none of its speed.
    assert alone["large_v2"] == pytest.approx(1.0, abs=0.02)
    for name in ("base_v2", "xlarge_v2", "xxlarge_v2"):
        assert alone[name] < together[name]
    assert "| xxlarge_v2 |    32 | 125,000 |             0.92 |" in paper.paper_tables(models)


def test_a_process_that_reads_for_all_limits_a_machine():
    options = command.ScalingOptions(text=0.36, cores=10, reading=20.0, making=1.0)
    assert command.hours_of_text(options, 1) == pytest.approx((10.0, 10.0))
    assert command.hours_of_text(options, 4) == pytest.approx((2.5, 2.5))
    more_cores = dataclasses.replace(options, cores=30)
    assert command.hours_of_text(more_cores, 2) == pytest.approx((2.5, 5 / 3))


def test_tables_and_plot(tmp_path):
    options = command.ScalingOptions(devices=("8", "16"), output_file=str(tmp_path / "plot.png"))
    models = {"large_v2": Costs(10**12, 10**7, 10**9)}
    steps = command.compute_steps(models, options)
    rows = command.steps_table(steps, options).splitlines()[2:]
    # 512 sequences of 1 GB on 72 GB
    assert [[cell.strip() for cell in row.split("|")[1:5]] for row in rows] == [
        ["large_v2", "8", "64", "8"],
        ["large_v2", "16", "64", "4"],
    ]
    command.draw(steps, options.output_file)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"devices": ("8", "3")},
            "--devices: received '3'; expected a divisor of --batch_size=4096",
        ),
        ({"machines": ("x",)}, "--machines: received 'x'; expected a positive integer"),
        ({"models": ("huge",)}, "--models: received 'huge'"),
        ({"utilisation": 2.0}, "--utilisation=2.0: expected at most 1"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(FlagError, match=message):
        command.ScalingOptions(**options)
