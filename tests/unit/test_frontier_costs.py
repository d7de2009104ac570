"""The frontier theory against figures of an independent implementation of the same formulas, and against hand counts."""

import numpy as np
import pytest

from planner.algebra.breakdown import explain
from planner.frontier import costs
from planner.frontier.closed_forms import (
    Growth,
    Node,
    bandwidth_limit,
    latency_limit,
    limits_at,
    node_of,
)
from planner.frontier.loading import load_frontier
from planner.frontier.matmul import product_time
from planner.frontier.problem import frontier_of
from planner.frontier.result import shares
from planner.frontier.scaling import Model, model_of_budget, model_of_width, nearest
from planner.frontier.setting import ORDINARY, ZERO_BUBBLE, setting_of

#: (device, rows, inner, columns, seconds of a plain product, seconds of a weight gradient).
PRODUCTS = [
    ("v100", 4096, 4096, 4096, 1.220504639e-03, 1.220504639e-03),
    ("v100", 3072, 3328, 384, 7.396901500e-05, 7.396901500e-05),
    ("v100", 100, 1000, 7, 4.517111111e-06, 4.517111111e-06),
    ("v100", 8192, 8192, 64, 1.741008671e-04, 3.153099613e-04),
    ("v100", 8192, 8192, 590, 7.075026817e-04, 7.075026817e-04),
    ("a100", 4096, 4096, 4096, 5.229633879e-04, 5.229633879e-04),
    ("a100", 3072, 3328, 384, 3.411924628e-05, 3.411924628e-05),
    ("a100", 100, 1000, 7, 4.509903537e-06, 4.509903537e-06),
    ("a100", 8192, 8192, 64, 9.466283836e-05, 1.801429778e-04),
    ("a100", 8192, 8192, 590, 3.042366461e-04, 3.042366461e-04),
    ("h100", 4096, 4096, 4096, 2.029389090e-04, 2.029389090e-04),
    ("h100", 3072, 3328, 384, 1.670284107e-05, 1.872439497e-05),
    ("h100", 100, 1000, 7, 4.504781866e-06, 4.504781866e-06),
    ("h100", 8192, 8192, 64, 4.802355045e-05, 8.930083346e-05),
    ("h100", 8192, 8192, 590, 1.234340754e-04, 1.192224943e-04),
]

#: (device, (width, layers, experts, batch), microbatches, parts on both levels, vp, run seconds, utilisation, seconds of
#: tensor, data, pipeline-and-expert traffic and of latency); a second run time is that of the zero-bubble schedule.
RUNS = [
    ("a100", (53248, 576, 1, 25165824), 128, "1x512 4x4 2x16 1x64 1x1", 1, ORDINARY, 8.12494867e06, 0.48184355,
     4.127325e06, 6.611165e05, 8.359744e03, 1.091499e05),
    ("a100", (53248, 576, 1, 25165824), 128, "1x512 4x4 2x16 1x64 1x1", 1, ZERO_BUBBLE, 5.58993217e06, 0.70035806,
     4.127325e06, 6.611165e05, 8.359744e03, 1.091499e05),
    ("h100", (12288, 192, 1, 7340032), 128, "1x1 4x1 2x4 1x64 1x1", 1, ORDINARY, 6.80196034e06, 0.46831651,
     2.564941e06, 0.0, 1.402702e05, 1.727605e03),
    ("h100", (12288, 192, 1, 7340032), 128, "1x1 4x1 2x4 1x64 1x1", 1, ZERO_BUBBLE, 4.55722403e06, 0.69899358,
     2.564941e06, 0.0, 1.402702e05, 1.727605e03),
    ("h100", (32768, 384, 1, 16777216), 256, "1x16 4x2 2x8 1x128 1x1", 1, ORDINARY, 1.09683599e07, 0.45894097,
     5.573205e06, 5.937363e04, 8.378279e04, 2.831155e04),
    ("h100", (53248, 576, 1, 25165824), 128, "1x256 2x4 4x16 1x64 1x1", 1, ORDINARY, 6.61027871e06, 0.37335739,
     4.127325e06, 3.299113e05, 8.359744e03, 1.091499e05),
    ("h100", (53248, 576, 1, 25165824), 128, "1x256 2x4 4x16 1x64 1x1", 1, ZERO_BUBBLE, 4.46561973e06, 0.55266604,
     4.127325e06, 3.299113e05, 8.359744e03, 1.091499e05),
    ("h100", (98304, 896, 1, 50331648), 128, "1x1024 4x8 2x32 1x128 1x1", 7, ORDINARY, 6.02165606e06, 0.36001550,
     4.291229e06, 5.812933e05, 3.632576e04, 4.994158e05),
    ("h100", (12288, 192, 8, 29360128), 128, "1x1 4x1 2x4 1x64 1x8", 1, ORDINARY, 6.81382891e06, 0.46750078,
     2.564941e06, 0.0, 3.896394e05, 3.819216e03),
    ("h100", (32768, 384, 20, 125829120), 256, "1x16 4x2 2x8 1x128 1x20", 1, ZERO_BUBBLE, 7.56697126e06, 0.66523706,
     5.573205e06, 1.583297e05, 2.442235e05, 8.153727e04),
    ("h100", (53248, 576, 36, 301989888), 64, "1x256 4x4 2x16 1x64 1x36", 9, ORDINARY, 6.01646453e06, 0.41020709,
     4.127325e06, 9.897340e05, 7.629926e04, 3.633345e05),
    ("h100", (98304, 896, 64, 805306368), 256, "1x256 4x32 2x64 1x128 1x64", 1, ORDINARY, 1.25739909e07, 0.08620531,
     6.800507e06, 2.897943e05, 1.791936e04, 1.997663e06),
]  # fmt: skip

#: (width, experts, layers, parameters, compute, sequences of a batch by the default rule, by DeepSeek's).
SCALES = [
    (12288, 1, 192, 231928233984, 6.454884686e24, 3584, 18432),
    (12288, 8, 192, 1855425871872, 5.163907749e25, 14336, 98304),
    (24576, 1, 320, 1546188226560, 2.868837638e26, 6144, 65536),
    (24576, 16, 320, 24739011624960, 4.590140221e27, 40960, 655360),
    (53248, 1, 576, 13065290514432, 2.048421795e28, 12288, 262144),
    (53248, 36, 576, 470350458519552, 7.374318461e29, 147456, 5308416),
    (98304, 1, 896, 69269232549888, 5.757871894e29, 24576, 786432),
    (98304, 64, 896, 4433230883192832, 3.685038012e31, 393216, 25165824),
    (196608, 1, 1536, 474989023199232, 2.707374866e31, 40960, 2621440),
    (196608, 128, 1536, 60798594969501696, 3.465439828e33, 1048576, 150994944),
]

PRINTED = 5e-7  # what the figures with seven digits allow


def setting(device, width, layers, experts, batch, **factors):
    problem = load_frontier(f"frontier-{device}-dense")
    parameters = 2.0 * width * 4 * width * layers * experts
    model = Model(width, 4 * width, layers, experts, 120.0 * parameters**2 / experts, batch)
    return setting_of(problem.problem, problem.device, model)


def columns(parts, microbatches, vp, schedule):
    order = ("dp", "tp_model", "tp_ff", "pp", "ep")
    given = {name: [int(value) for value in text.split("x")] for name, text in zip(order, parts.split(), strict=True)}
    return costs.columns_of(given, microbatches, vp, schedule)


@pytest.mark.parametrize(("device", "rows", "inner", "count", "plain", "gradient"), PRODUCTS)
def test_a_matrix_product_takes_as_long_as_published(device, rows, inner, count, plain, gradient):
    accelerator = load_frontier(f"frontier-{device}-dense").setting.accelerator
    shape = [np.array([float(size)]) for size in (rows, inner, count)]
    assert product_time(accelerator, *shape, False)[0] == pytest.approx(plain, rel=1e-9)
    assert product_time(accelerator, *shape, True)[0] == pytest.approx(gradient, rel=1e-9)


@pytest.mark.parametrize("run", RUNS)
def test_a_plan_costs_as_much_as_published(run):
    device, shape, microbatches, parts, vp, schedule, seconds, used, tensor, data, points, latency = run
    here = setting(device, *shape)
    plan = columns(parts, microbatches, vp, schedule)
    found = explain(costs.run_time(here), plan).value
    assert found == pytest.approx(seconds, rel=5e-9)
    assert costs.utilisation_of(here, found, plan["gpus"]) == pytest.approx(used, abs=5.1e-9)

    def total(expression):
        return 0.0 if expression is None else explain(expression, plan).value * here.batches

    assert total(costs.all_tensor_traffic(here)) == pytest.approx(tensor, rel=PRINTED)
    assert total(costs.data_traffic(here)) == pytest.approx(data, rel=PRINTED)
    assert total(costs.all_point_to_point(here)) == pytest.approx(points, rel=PRINTED)
    waits = costs.total_of("", [costs.latency(here), *costs.data_latency(here)])
    assert total(waits) == pytest.approx(latency, rel=PRINTED)
    assert sum(shares(here, plan).values()) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(("width", "experts", "layers", "parameters", "compute", "default", "deepseek"), SCALES)
def test_models_and_batches_grow_as_published(width, experts, layers, parameters, compute, default, deepseek):
    kind = "sparse" if experts > 1 else "dense"
    problem = load_frontier(f"frontier-h100-{kind}").problem
    model = model_of_width(problem, width)
    assert (model.layers, model.experts) == (layers, experts)
    assert model.parameters == parameters
    assert model.compute == pytest.approx(compute, rel=1e-9)
    assert model.tokens == pytest.approx(20 * parameters, rel=1e-12)
    assert model.batch == default * 2048
    other = load_frontier(f"frontier-h100-{kind}", ["batch.rule=deepseek"]).problem
    assert model_of_width(other, width).batch == deepseek * 2048


def test_rounding_takes_the_nearest_number_and_the_smaller_of_two():
    assert [nearest(value) for value in (1, 2.4, 2.5, 6, 13, 300)] == [1, 2, 2, 6, 12, 288]


def test_a_budget_gets_the_nearest_model_and_all_of_its_tokens():
    problem = load_frontier("frontier-h100-dense").problem
    model = model_of_budget(problem, 1e27)
    assert model.compute == 1e27
    assert 6 * model.parameters * model.tokens == pytest.approx(1e27, rel=1e-12)
    assert 14 < model.tokens / model.parameters < 29


def test_a_hand_count_of_the_interfaces_of_a_pipeline():
    """4 stages of 2 chunks, 2 x 2 over two levels, 12 layers: 7 hops; of 8 chunks in a ring of 4 every other stays inside."""
    here = setting("h100", 12288, 12, 1, 7340032)
    plan = columns("1x1 4x1 1x1 2x2 1x1", 8, 2, ORDINARY)

    def count(level):
        values = {name: np.array([float(value)]) for name, value in plan.items()}
        found = 1.0
        for factor in costs.interfaces(here, level):
            found *= factor.function(*(values[column] for column in factor.columns))[0]
        return found

    assert [count(-1), count(0), count(1)] == [12 - 8, 4, 3]


def test_three_levels_agree_with_two_where_the_middle_one_is_like_the_outer_one():
    text = ["network.names=[\"a\", \"b\", \"c\"]", "network.sizes=[8, 4]", "network.bandwidth_gb_per_s=[900, 100, 100]",
            "network.latency_us=[1.125, 1.125, 1.125]"]  # fmt: skip
    three = load_frontier("frontier-h100-dense", [*text, "width=24576"])
    two = load_frontier("frontier-h100-dense", ["width=24576"])
    inner = columns("1x4 2x2 4x2 1x8 1x1", 16, 5, ORDINARY)
    order = ("dp", "tp_model", "tp_ff", "pp", "ep")
    lists = [[1, 1, 4], [2, 2, 1], [4, 2, 1], [1, 1, 8], [1, 1, 1]]
    outer = costs.columns_of(dict(zip(order, lists, strict=True)), 16, 5, ORDINARY)
    less = explain(three.run_time, outer).value  # traffic on two levels overlaps: never slower than all of it on one
    assert less <= explain(two.run_time, inner).value * (1 + 1e-12)
    lists = [[1, 1, 4], [2, 1, 2], [4, 1, 2], [1, 4, 2], [1, 1, 1]]
    spread = costs.columns_of(dict(zip(order, lists, strict=True)), 16, 5, ORDINARY)
    hidden = explain(costs.latency(three.setting), spread).value
    assert hidden == pytest.approx(explain(costs.latency(two.setting), inner).value, rel=1e-12)


def test_quirks_can_be_switched():
    plan = columns("1x256 2x4 4x16 1x64 1x1", 128, 1, ZERO_BUBBLE)
    usual = load_frontier("frontier-h100-dense", ["width=53248"])
    waits = load_frontier("frontier-h100-dense", ["width=53248", "zero_bubble_latency=true", "network_latency=1000"])
    slow = load_frontier("frontier-h100-dense", ["width=53248", "network_latency=1000"])
    assert explain(waits.run_time, plan).value > explain(slow.run_time, plan).value
    exposed = load_frontier("frontier-h100-dense", ["width=53248", "overlap_tensor=false"])
    assert explain(exposed.run_time, plan).value > explain(usual.run_time, plan).value
    hidden = load_frontier("frontier-h100-dense", ["width=53248", "overlap_data=true"])
    assert explain(hidden.run_time, plan).value < explain(usual.run_time, plan).value
    for frontier in (usual, waits, exposed, hidden):
        parts = shares(frontier.setting, plan)
        assert sum(parts.values()) == pytest.approx(explain(frontier.run_time, plan).value, rel=1e-12)


def test_all_registers_matter_only_where_they_exceed_the_cache():
    first = load_frontier("frontier-v100-dense", ["registers_of_one=false"]).setting.accelerator
    second = load_frontier("frontier-v100-dense").setting.accelerator
    shape = [np.array([8192.0]), np.array([8192.0]), np.array([64.0])]
    assert product_time(first, *shape, False)[0] < product_time(second, *shape, False)[0]
    large = load_frontier("frontier-h100-dense", ["registers_of_one=false"]).setting.accelerator
    usual = load_frontier("frontier-h100-dense").setting.accelerator
    assert product_time(large, *shape, False)[0] == product_time(usual, *shape, False)[0]


#: Critical compute by exponent, and the latency wall, from the authors' notebook (alpha 0 and 0.2) and recomputed (others).
EXPONENTS = (-0.2, -0.1, 0.0, 0.0513, 0.1, 1 / 6, 0.2)
CRITICAL = {
    "v100": (279.07, 26791, (1.45e26, 3.63e26, 1.305e27, 3.14e27, 8.91e27, 6.09e28, 2.19e29)),
    "a100": (401.12, 16633, (1.24e27, 4.42e27, 2.622e28, 8.89e28, 3.79e29, 5.48e30, 3.25e31)),
    "h100": (590.35, 26385, (9.93e26, 3.41e27, 1.924e28, 6.30e28, 2.58e29, 3.45e30, 1.94e31)),
}
WALL = (1.57e29, 1.26e30, 2.305e31, 1.70e32, 1.82e33, 1.43e35, 2.63e36)


@pytest.mark.parametrize("device", CRITICAL)
def test_closed_forms_give_the_published_limits(device):
    batch, shard, critical = CRITICAL[device]
    node = node_of(load_frontier(f"frontier-{device}-dense").setting)
    assert node.smallest_batch == pytest.approx(batch, rel=2e-5)
    assert node.smallest_shard == pytest.approx(shard, rel=2e-5)
    assert node.wait == pytest.approx(9e-6, rel=1e-12)
    for exponent, limit, wall in zip(EXPONENTS, critical, WALL, strict=True):
        growth = Growth(exponent=exponent)
        assert bandwidth_limit(node, growth, published=True) == pytest.approx(limit, rel=4e-3)
        assert latency_limit(9e-6, growth, published=True) == pytest.approx(wall, rel=5e-3)


def test_the_units_of_the_closed_forms_are_a_known_factor():
    growth = Growth(exponent=0.1)
    node = Node(arithmetic=4e15, memory=7e12, network=2e11, wait=9e-6)
    exponent = 1 / (1 - 2 * growth.exponent)
    ratio = bandwidth_limit(node, growth) / bandwidth_limit(node, growth, published=True)
    assert ratio == pytest.approx(2 ** (2 * growth.exponent * exponent), rel=1e-12)


def test_factors_scale_what_they_name():
    base = load_frontier("frontier-h100-dense").setting
    scaled = load_frontier("frontier-h100-dense", ["peak=2", "memory_bandwidth=3", "network_bandwidth=4", "latency=0.5",
                                                    "memory=5", "cache_bandwidth=6"]).setting  # fmt: skip
    assert scaled.accelerator.peak == 2 * base.accelerator.peak
    assert scaled.accelerator.memory_bandwidth == 3 * base.accelerator.memory_bandwidth
    assert scaled.levels[1].bandwidth == 4 * base.levels[1].bandwidth
    assert scaled.levels[0].latency == 0.5 * base.levels[0].latency
    assert scaled.accelerator.kernel_latency == 0.5 * base.accelerator.kernel_latency
    assert scaled.accelerator.memory == 5 * base.accelerator.memory
    assert scaled.accelerator.cache_bandwidth == 6 * base.accelerator.cache_bandwidth
    assert scaled.accelerator.clock == base.accelerator.clock


def test_facts_of_the_paper():
    """An H100 needs 299 8-bit multiply-adds a byte of memory traffic; an A100 multiplies 12288 x 6144 x 2048 in 1 ms."""
    h100 = load_frontier("frontier-h100-dense").setting.accelerator
    eight_bit = 2 * h100.peak  # FLOP/s at half the width
    assert eight_bit / 2 / h100.memory_bandwidth == pytest.approx(299, rel=0.02)
    a100 = load_frontier("frontier-a100-dense").setting.accelerator
    shape = [np.array([size]) for size in (12288.0, 6144.0, 2048.0)]
    assert product_time(a100, *shape, False)[0] == pytest.approx(1e-3, rel=0.2)
    assert frontier_of(load_frontier("frontier-a100-dense").problem, load_frontier("frontier-a100-dense").device)


def test_the_limits_of_one_model_are_the_closed_forms_for_its_batch_and_depth():
    frontier = load_frontier("frontier-h100-dense", ["width=53248"])
    limits = limits_at(frontier)
    growth = Growth(ratio=25165824 / 576)
    node = node_of(frontier.setting)
    assert limits["bandwidth"] == pytest.approx(bandwidth_limit(node, growth, 0.25 * 3.154e7), rel=1e-12)
    assert limits["latency"] == pytest.approx(latency_limit(9e-6, growth, 0.25 * 3.154e7), rel=1e-12)
    assert limits["memory"] > limits["bandwidth"]
    assert limits["network"] > limits["bandwidth"]
    free = limits_at(load_frontier("frontier-h100-dense", ["width=53248", "latency=0"]))
    assert free["latency"] is None
    sparse = load_frontier("frontier-h100-sparse", ["width=53248"])
    same = Growth(ratio=sparse.model.batch / 576)
    assert limits_at(sparse)["latency"] == pytest.approx(latency_limit(9e-6, same, 0.25 * 3.154e7) / 36, rel=1e-12)
