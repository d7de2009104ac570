"""Defects found in other planners and estimators, each as a test that this cost model passes."""

import numpy as np
import pandas as pd
import pytest

from planner import catalog
from planner.algebra.breakdown import explain
from planner.algebra.evaluation import evaluate as value_of
from planner.evaluation import evaluate
from planner.physics import memory, stages, states, step
from planner.physics.placement import place
from planner.physics.setting import GIB, Link, Precision, Recompute, Schedule, Setting
from planner.schema.framework import Assumptions

DEGREES = ("tp", "cp", "pp", "shard", "replica", "ep", "etp")


def setting(model="gpt3-175b", hardware="a100-sxm-80", sequence=2048, kernel_latency=None, **model_changes):
    part = catalog.load_hardware(hardware)
    if kernel_latency is not None:
        efficiency = part.efficiency.model_copy(update={"kernel_latency_us": kernel_latency})
        part = part.model_copy(update={"efficiency": efficiency})
    links = (Link("node", 8, 234e9, 3.4e-6), Link("network", 1, 21e9, 14e-6))
    shape = catalog.load_model(model).model_copy(update=model_changes)
    return Setting(shape, part, links, sequence, Assumptions(), (Precision.BF16,), 80 * GIB)


def plan(**decisions):
    totals = {name: np.array([float(decisions.get(name, 1))]) for name in DEGREES}
    columns = totals | place(totals, (8, np.inf))
    others = {"vp": 1, "schedule": Schedule.ONE_F_ONE_B, "sequence_parallel": 1, "micro_batch": 1, "grad_accum": 1,
              "zero": 1, "recompute": Recompute.NONE, "precision": Precision.BF16}  # fmt: skip
    columns |= {name: np.array([float(decisions.get(name, usual))]) for name, usual in others.items()}
    return columns


def seconds(given, **decisions):
    return float(value_of(step.step_time(given), plan(**decisions))[0])


def peak(given, **decisions):
    return float(value_of(memory.peak(given), plan(**decisions))[0])


def held(given, pick=stages.first, **decisions):
    """Bytes of weights, gradients and optimizer states, by name."""
    found = {"weights": 0.0, "gradients": 0.0, "optimizer states": 0.0}
    for item in states.memory(given, pick):
        if item.name in found:
            found[item.name] += float(value_of(item, plan(**decisions))[0])
    return found


def parts(expression, **decisions):
    return explain(expression, {name: float(value[0]) for name, value in plan(**decisions).items()}).flat()


# --- EleutherAI cookbook: states are not divided at ZeRO 0; DeepSpeed autotuner: divided twice ----------------------


def test_states_without_zero_are_divided_by_tensor_and_pipeline_ranks():
    # Megatron-LM measured 45.6 GiB of states for GPT-3 175B at tp 8, pp 8; the cookbook says 2,616. By hand: 12 of 96
    # layers of 12 d^2 and the embedding, (12 * 12 * 12288^2 + 50257 * 12288) / 8 ranks * 18 bytes = 46.8 GiB.
    layers, embedding = 12 * 12 * 12288**2, 50257 * 12288
    by_hand = (layers + embedding) / 8 * 18
    found = sum(held(setting(), tp=8, pp=8, zero=0).values())
    assert found == pytest.approx(by_hand, rel=3e-3)  # biases, norms and positions
    assert found / GIB == pytest.approx(45.6, rel=0.04)
    middle = sum(held(setting(), stages.second, tp=8, pp=8, zero=0).values())
    assert middle / GIB == pytest.approx(45.6, rel=0.01)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_states_are_divided_once_by_each_degree(zero):
    given = setting()
    one = held(given, tp=1, pp=8, shard=4, zero=zero)
    assert {name: size / 8 for name, size in one.items()} == pytest.approx(held(given, tp=8, pp=8, shard=4, zero=zero))
    whole = held(given, pp=8, zero=0)
    sharded = {
        name: size / 4 if zero >= least else size for (name, size), least in zip(whole.items(), (3, 2, 1), strict=True)
    }
    assert one == pytest.approx(sharded)


# --- SimuMax: ZeRO 2 and 3 are accepted and ignored -----------------------------------------------------------------


def test_every_zero_stage_takes_less_memory_and_two_and_three_more_time():
    given = setting()
    memories = [peak(given, tp=8, pp=8, shard=16, zero=zero, grad_accum=16) for zero in range(4)]
    assert memories == sorted(memories, reverse=True)
    assert len(set(memories)) == 4
    times = [seconds(given, tp=8, shard=64, zero=zero, grad_accum=16) for zero in (1, 2, 3)]
    assert times == sorted(times)
    assert len(set(times)) == 3


# --- Metis: the bandwidth between nodes is that inside --------------------------------------------------------------


def test_only_plans_that_cross_nodes_feel_the_network():
    row = {
        "model": "llama3-8b", "seq_len": 4096, "gpu": "H100", "gpus_per_node": 8, "precision": "bf16", "micro_batch": 1,
        "zero_stage": "zero1", "recompute": "none", "sp": True, "cp": 1,
    }  # fmt: skip
    inside = row | {"n_gpus": 8, "tp": 8, "pp": 1, "dp": 1, "global_batch": 8}
    across = row | {"n_gpus": 64, "tp": 8, "pp": 1, "dp": 8, "global_batch": 64}
    tensor = row | {"n_gpus": 16, "tp": 16, "pp": 1, "dp": 1, "global_batch": 8}
    pipeline = row | {"n_gpus": 16, "tp": 8, "pp": 2, "dp": 1, "global_batch": 8}
    plans = [inside, across, tensor, pipeline]
    fast = evaluate(pd.DataFrame(plans).assign(interconnect="8x400Gb IB"))
    slow = evaluate(pd.DataFrame(plans).assign(interconnect="8x25Gb IB"))
    assert (fast.pred_error == "").all()
    grown = (slow.pred_step_time_s / fast.pred_step_time_s).tolist()
    assert grown[0] == 1
    assert min(grown[1:]) > 1.001
    assert grown[2] > 2  # tensor ranks in two nodes


# --- Megatron-LM's formula: mixtures are priced as dense layers -----------------------------------------------------


def test_activations_of_a_mixture_are_those_of_its_experts():
    given = setting("mixtral-8x7b", "h100-sxm", 4096)
    model, tokens = given.model, 4096 * 2  # 16-bit
    top_k = model.moe.top_k
    found = parts(memory.activations(given, stages.first, True))
    # a token's hidden states of both experts, gate, up and activation, and its copies before and after them
    assert found["expert activations"] == pytest.approx(32 * tokens * top_k * (3 * 14336 + 2 * 4096))
    assert found["activations"] == pytest.approx(32 * tokens * (4 * 4096 + 2 * (32 + 8) * 128))


def test_more_experts_take_weights_but_no_activations():
    given = setting("mixtral-8x7b", "h100-sxm", 4096)
    moe = given.model.moe.model_copy(update={"experts": 16})
    more = setting("mixtral-8x7b", "h100-sxm", 4096, moe=moe)
    assert sum(held(more).values()) > 1.8 * sum(held(given).values())
    few, many = (parts(memory.activations(item, stages.first, True)) for item in (given, more))
    assert few == many


def test_expert_parameters_have_divisors_of_their_own():
    given = setting("mixtral-8x7b", "h100-sxm", 4096)
    experts = stages.expert_parameters(given.model, stages.first(given.model, 1, 1))
    dense = stages.dense_parameters(given.model, stages.first(given.model, 1, 1), 1)
    found = held(given, tp=2, shard=16, ep=4, etp=2, zero=1)
    assert found["weights"] == pytest.approx(2 * (dense / 2 + experts / 8))
    # optimizer states: dense ones over 16 data ranks, experts' over the 32 / 8 ranks that hold the same experts
    assert found["optimizer states"] == pytest.approx(12 * (dense / 2 / 16 + experts / 8 / 4))


# --- Calculon: no vocabulary, no grouped queries, layers must divide ------------------------------------------------


def test_a_larger_vocabulary_takes_memory_and_time():
    small, large = setting(), setting(vocab=250880)
    decisions = {"tp": 8, "pp": 8, "grad_accum": 8}
    assert seconds(large, **decisions) > 1.01 * seconds(small, **decisions)
    assert parts(step.step_time(large), tp=8)["output layer and loss"] > 0
    few, many = (parts(memory.logits(item), **decisions)["logits and loss"] for item in (small, large))
    assert many / few == pytest.approx(250880 / 50257)
    assert few == pytest.approx(2048 * 50257 * 8 / 8)  # 16-bit logits, fp32 copy, 16-bit gradient over 8 ranks
    assert sum(held(large, stages.last, **decisions).values()) > sum(held(small, stages.last, **decisions).values())


def test_grouped_queries_matter():
    given, grouped = setting(), setting(kv_heads=8)
    assert peak(grouped, tp=8, pp=8) < peak(given, tp=8, pp=8)
    assert seconds(grouped, tp=8, pp=8) < seconds(given, tp=8, pp=8)


@pytest.mark.parametrize("layers", [95, 97, 90])
def test_layers_need_not_divide_among_stages(layers):
    assert np.isfinite(seconds(setting(layers=layers), tp=8, pp=8, grad_accum=8))
    counts = [stage.layers for stage in stages.stages(setting(layers=layers).model, 8, 1)]
    assert sum(counts) == layers
    assert max(counts) - min(counts) == 1


# --- llm-analysis: no pipeline bubble -------------------------------------------------------------------------------


def test_the_pipeline_idles():
    given = setting()
    alone = parts(step.step_time(given), tp=8, pp=8, grad_accum=1)["pipeline bubble"]
    assert parts(step.step_time(given), tp=8, pp=8, grad_accum=64)["pipeline bubble"] == pytest.approx(alone)
    assert parts(step.step_time(given), tp=8, pp=1, grad_accum=8).get("pipeline bubble", 0) == 0
    chunks = {"vp": 3, "schedule": Schedule.INTERLEAVED, "grad_accum": 64}
    interleaved = parts(step.step_time(given), tp=8, pp=8, **chunks)["pipeline bubble"]
    assert interleaved == pytest.approx(alone / 3, rel=0.05)  # and three times the messages
    eight, sixty_four = (seconds(given, tp=8, pp=8, grad_accum=count) / count for count in (8, 64))
    assert eight / sixty_four == pytest.approx((8 + 7) / 8 / ((64 + 7) / 64), rel=0.1)


# --- Calculon on small models: no launch overhead -------------------------------------------------------------------


def test_kernel_launches_take_time_on_small_models():
    without, usual = (setting("gpt2", sequence=1024, kernel_latency=latency) for latency in (0.0, 4.0))
    assert seconds(usual) > 1.1 * seconds(without)
    without, usual = (setting(kernel_latency=latency) for latency in (0.0, 4.0))
    assert seconds(usual) < 1.02 * seconds(without)


# --- torchtitan issue 773: nothing is free --------------------------------------------------------------------------


def test_recomputation_takes_time_and_saves_memory():
    given = setting()
    times = [seconds(given, tp=8, pp=8, grad_accum=8, recompute=kind) for kind in Recompute]
    memories = [peak(given, tp=8, pp=8, grad_accum=8, recompute=kind) for kind in Recompute]
    assert times == sorted(times)
    assert memories == sorted(memories, reverse=True)
    assert len(set(times)) == len(set(memories)) == 3
