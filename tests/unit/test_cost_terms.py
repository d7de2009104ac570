"""Single terms of the cost model, each against a figure by hand; and that no stage is fuller than the model says."""

from dataclasses import replace

import numpy as np
import pytest

from planner import catalog
from planner.algebra.breakdown import explain
from planner.algebra.evaluation import evaluate as value_of
from planner.algebra.expressions import total
from planner.physics import collectives, compute, memory, stages, states, step
from planner.physics.placement import place
from planner.physics.setting import GIB, Link, Precision, Recompute, Schedule, Setting
from planner.schema.framework import Assumptions
from planner.stagewise import stage_memory

DEGREES = ("tp", "cp", "pp", "shard", "replica", "ep", "etp")
MODELS = ("deepseek-v3", "llama-3.1-405b", "mt-nlg-530b", "qwen3-235b-a22b", "bloom-176b", "llama-4-maverick")


def known(name):
    """The catalogue's name that has all the parts of ``name``."""
    words = name.replace(".", "").split("-")
    found = [item for item in catalog.names("model") if all(word in item.replace(".", "") for word in words)]
    return min(found, key=len) if found else None


def setting(model="gpt3-175b", sequence=2048, **assumptions):
    links = (Link("node", 8, 200e9, 3e-6), Link("network", 1, 20e9, 10e-6))
    part, shape = catalog.load_hardware("h100-sxm"), catalog.load_model(model)
    return Setting(shape, part, links, sequence, Assumptions(**assumptions), (Precision.BF16,), 80 * GIB)


def plan(**decisions):
    totals = {name: np.array([float(decisions.get(name, 1))]) for name in DEGREES}
    columns = totals | place(totals, (8, np.inf))
    others = {"vp": 1, "schedule": Schedule.ONE_F_ONE_B, "sequence_parallel": 1, "micro_batch": 1, "grad_accum": 64,
              "zero": 1, "recompute": Recompute.NONE, "precision": Precision.BF16}  # fmt: skip
    return columns | {name: np.array([float(decisions.get(name, usual))]) for name, usual in others.items()}


def price(expression, **decisions):
    return float(value_of(expression, plan(**decisions))[0])


def parts(expression, **decisions):
    return explain(expression, {name: float(value[0]) for name, value in plan(**decisions).items()}).flat()


# --- memory ---------------------------------------------------------------------------------------------------------


def test_every_stage_has_a_candidate_that_holds_no_less():
    for name in catalog.names("model"):
        model = catalog.load_model(name)
        numbers = {0, 1, *stages.fullest_inside(model)}
        for pp in range(1, min(model.layers, 64) + 1):
            for vp in range(1, min(4, model.layers // pp) + 1):
                content = stages.stages(model, pp, vp)
                for position, stage in enumerate(content[:-1]):
                    assert any(content[number].dense >= stage.dense and content[number].moe >= stage.moe
                               for number in numbers if number <= position), (name, pp, vp, position)  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_no_stage_is_fuller_than_the_peak(name):
    model = known(name)
    assert model is not None
    given = setting(model, 4096)
    peak, layers = memory.peak(given), given.model.layers
    pipelines = [(pp, 1, kind) for pp in (1, 2, 3, 4, 7, 8, 16, 20, 24, 31, 32, 48, layers) if pp <= layers
                 for kind in (Schedule.ONE_F_ONE_B, Schedule.GPIPE)]  # fmt: skip
    pipelines += [(pp, vp, Schedule.INTERLEAVED) for pp in (2, 4, 8, 15) for vp in (2, 3) if pp * vp <= layers]
    for pp, vp, kind in pipelines:
        every = [stage_memory(given, stage, pp) for stage in range(pp)]
        for ep, grad_accum in ((1, 4), (8, 64)):
            decisions = {"pp": pp, "vp": vp, "schedule": kind, "shard": 8, "ep": ep, "grad_accum": grad_accum}
            fullest = max(price(item, **decisions) for item in every)
            assert price(peak, **decisions) == pytest.approx(fullest, rel=1e-12), decisions


def test_the_first_stage_of_mixtures_alone_can_be_the_fullest():
    given = setting(known("deepseek-v3"), 4096)
    content = [(stage.dense, stage.moe) for stage in stages.stages(given.model, 32, 1)[:4]]
    assert content == [(1, 0), (2, 0), (0, 2), (0, 2)]
    use = [price(stage_memory(given, stage, 32), pp=32) for stage in range(32)]
    assert int(np.argmax(use)) == 2


def test_activations_are_those_of_korthikanti():
    # arXiv 2205.05198: s b h (34 + 5 a s / h), of which 2 s b h are dropout masks and 5 a s / h unfused scores
    given = setting()
    found = sum(parts(memory.kept(given, False)).values())
    assert found == pytest.approx(32 * 2048 * given.model.d_model)


def test_normed_queries_and_keys_are_kept_before_and_after():
    model = catalog.load_model(known("qwen3-235b"))
    given = setting(known("qwen3-235b"))
    without = replace(given, model=model.model_copy(update={"qk_norm": "none"}))
    extra = 2 * 2048 * (model.heads + model.kv_heads) * model.head_dim
    assert price(memory.kept(given, True)) - price(memory.kept(without, True)) == pytest.approx(extra)


def test_the_layer_at_work_holds_its_gradients():
    # GPT-3: gradients of the feed-forward's two wide tensors, 2 x 4 d, 16-bit, over tp; two of d; two gathered
    d = 12288
    found = price(memory.working_set(setting()), tp=8)
    assert found == pytest.approx(2 * 2048 * (2 * 4 * d / 8 + 2 * d / 8 + 2 * d))


@pytest.mark.parametrize(("loss", "entry"), [("fused", 8), ("unfused", 14)])
def test_bytes_of_a_logit(loss, entry):
    assert price(memory.logits(setting(loss=loss)), tp=8) == pytest.approx(2048 * 50257 * entry / 8)


def test_an_unfused_loss_takes_time():
    seconds = [price(compute.head(setting(loss=loss))) for loss in ("fused", "unfused")]
    assert seconds[1] - seconds[0] == pytest.approx(24 * 2048 * 50257 / setting().memory_rate)


def test_resharding_once_a_step_trades_memory_for_communication():
    usual, late = setting(), setting(reshard="step")
    for zero in (2, 3):
        decisions = {"tp": 8, "shard": 64, "zero": zero, "grad_accum": 16}
        assert price(states.reduction(late), **decisions) < price(states.reduction(usual), **decisions)
        assert price(memory.peak(late), **decisions) > price(memory.peak(usual), **decisions)
    # the states then are those of ZeRO 1, and ZeRO 3 holds its own shard of the weights beside the gathered ones
    held = [sum(price(item, zero=zero, shard=64) for item in states.memory(late, stages.first)) for zero in (1, 2, 3)]
    assert held[0] == held[1]
    elements = stages.dense_parameters(late.model, stages.first(late.model, 1, 1), 1)
    assert held[2] - held[1] == pytest.approx(2 * elements / 64)


# --- time -----------------------------------------------------------------------------------------------------------


def test_kernels_of_a_dense_layer():
    cheap, rest, backward = compute.kernels(catalog.load_model(known("llama-3.1-405b")), False, fused=True)
    assert (cheap, rest, backward) == (2 + 1, 1 + 2 + 1 + 2, 4 + 1 + 1 + 2 + 3 + 2)
    assert cheap + rest + backward + 12 == 34


def test_context_parallelism_is_not_free_of_latency():
    given = setting(sequence=16)
    ring, launch = 7 * 3 * (3e-6 + given.kernel_latency), 7 * 6 * given.kernel_latency
    found = parts(step.layer_time(given, False), cp=8, shard=8)
    assert ring < launch  # and short pieces take no time: the launches are what is paid
    assert found["context-parallel launches"] == pytest.approx(launch)
    assert "context-parallel launches" not in parts(step.layer_time(given, False))


def test_every_tensor_collective_is_a_launch():
    given = setting()
    found = parts(step.layer_time(given, False), tp=8)["tensor-parallel latency"]
    assert found == pytest.approx(8 * (7 * 3e-6 + given.collective_latency(0)))  # around a ring of 8


@pytest.mark.parametrize(("zero", "calls"), [(0, 2), (1, 2), (2, 1 + 4), (3, 3 * 4)])
def test_collectives_of_data_ranks_are_bucketed_by_layer(zero, calls):
    given = setting()
    found = parts(states.reduction(given), shard=8, zero=zero, grad_accum=4)["data-parallel latency"]
    hops = 3 if zero == 0 else 7  # rounds of a tree to all-reduce, hops of a ring to shard
    assert found == pytest.approx(96 * calls * (hops * 3e-6 + given.collective_latency(0)))


def test_a_ring_crosses_the_outer_tier_once_for_each_node():
    # 32 ranks on 4 nodes of 8: 31 hops, of which 3 are between nodes; both tiers are launched on
    given = setting()
    seconds = price(total("", collectives.ring_latencies(given, "shard", "", 1.0)), shard=32)
    launches = given.collective_latency(0) + given.collective_latency(1)
    assert seconds == pytest.approx(28 * 3e-6 + 3 * 10e-6 + launches)


def test_a_tied_embedding_is_reduced_between_the_first_and_the_last_stage():
    given = setting()
    assert given.model.tied_embeddings
    found = parts(step.step_time(given), tp=8, pp=8)["tied embedding"]
    assert found == pytest.approx(4 * 50257 * 12288 / 8 / 20e9)
    assert "tied embedding" not in parts(step.step_time(given), tp=8)
    untied = replace(given, model=given.model.model_copy(update={"tied_embeddings": False}))
    assert "tied embedding" not in parts(step.step_time(untied), tp=8, pp=8)


def test_weight_gradients_are_read_and_written_where_memory_is_the_limit():
    # a product of one token: forward and input gradient read the weights, the weight gradient adds to fp32 sums
    given = setting(sequence=1)
    four, two = given, replace(given, assumptions=Assumptions(gradient_bytes=2))
    elements = sum(inner * outer for inner, outer, _ in compute.product_shapes(given.model, False))
    wide, narrow = (price(compute.products(item, False, Precision.BF16)) for item in (four, two))
    assert wide - narrow == pytest.approx(4 * elements / given.memory_rate)


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [1, 10**6])
def test_tabulated_calls_once_for_each_combination(large):
    calls = []

    def function(a, b):
        calls.append((a, b))
        return a + 0.5 * b

    a, b = np.array([1.0, 3.0, 1.0, large]), np.array([2.0, 0.0, 2.0, large])
    assert stages.tabulated(function, a, b).tolist() == [2.0, 3.0, 2.0, 1.5 * large]
    assert len(calls) == len(set(calls)) == 3


def test_products_are_the_same_with_and_without_a_table():
    given = setting()
    table = next(item for item in compute.products(given, False, Precision.BF16).factors if item.columns[0] == "tp")
    tp, micro, cp = np.array([1.0, 2.0, 8.0]), np.array([1.0, 4.0, 2.0]), np.array([1.0, 1.0, 4.0])
    together = table.function(tp, micro, cp)
    halves = table.function(tp, micro + np.array([0, 0, 0.5]), cp)  # a broken micro-batch takes no table
    assert halves[:2].tolist() == together[:2].tolist()
    assert halves[2] > together[2]
