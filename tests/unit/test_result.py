"""The result document: complete, consistent with the cost model, and honest about what is missing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from planner.algebra.evaluation import evaluate
from planner.errors import InputError, MismatchError
from planner.instance import Instance, load
from planner.outcome import Outcome, Status
from planner.result import Plan, conflicts, no_plan, recomputed_flop
from planner.search.exhaustive import exhaust
from planner.stagewise import stage_uses

DENSE = ("gpt3-175b-64-a100", ["cp=1", "sequence_parallel=true", "zero=1", "replicas=1"])
MIXTURE = ("mixtral-8x7b-64-h100", ["cp=1", "zero=1", "replicas=1", "tp=[1,2]", "etp=1", "recompute=\"none\"",
                                    "schedule=\"interleaved\"", "micro_batch=1"])  # fmt: skip
FREE = ("llama3-8b-64-h100-free", ["cp=1", "pp=1", "zero=1", "replicas=1", 'recompute="full"', "micro_batch=1"])


def outcome_of(instance: Instance, keep: int = 3) -> Outcome:
    found = exhaust(instance.space, instance.objective, instance.peak_memory, instance.setting.capacity, keep=keep)
    columns = instance.space.columns(found.best)
    plans = tuple({name: int(values[row]) for name, values in columns.items()} for row in range(len(found.best)))
    status = Status.OPTIMAL if plans else Status.INFEASIBLE
    values = tuple(float(value) for value in found.values)
    bound = values[0] if values else float("inf")
    return Outcome(status, plans, values, bound, least_memory=found.least_memory, statistics={"plans": found.plans})


@pytest.fixture(scope="module", params=[DENSE, MIXTURE, FREE], ids=["dense", "mixture", "free batch"])
def solved(request: pytest.FixtureRequest) -> tuple[Instance, Outcome, Plan]:
    name, overrides = request.param
    instance = load(name, overrides)
    outcome = outcome_of(instance)
    plan = Plan.of(instance, outcome, seed=3)
    assert plan is not None
    return instance, outcome, plan


def test_parts_add_up_to_the_exact_evaluation(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, outcome, plan = solved
    columns = {name: np.array([float(value)]) for name, value in outcome.plans[0].items()}
    assert sum(plan.time_s.values()) == pytest.approx(plan.step_time_s, rel=1e-12)
    assert plan.step_time_s == pytest.approx(float(evaluate(instance.step_time, columns)[0]), rel=1e-12)
    assert sum(plan.memory_bytes["by_part"].values()) == pytest.approx(plan.memory_bytes["total"], rel=1e-12)


def test_the_fullest_stage_is_the_peak(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, outcome, plan = solved
    for found in outcome.plans:
        columns = {name: np.array([float(value)]) for name, value in found.items()}
        peak = float(evaluate(instance.peak_memory, columns)[0])
        assert max(use.total for use in stage_uses(instance.setting, found)) == pytest.approx(peak, rel=1e-12)
    assert plan.memory_bytes["total"] <= plan.memory_bytes["capacity"]
    assert len(plan.memory_bytes["per_stage"]) == len(plan.plan["stages"]) == plan.plan["pp"]


def test_stages_hold_the_whole_model(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, _, plan = solved
    stages = plan.plan["stages"]
    assert sum(stage["layers"] for stage in stages) == instance.model.layers + instance.model.mtp_layers
    assert [stage["embedding"] for stage in stages] == [True] + [False] * (len(stages) - 1)
    assert [stage["output_layer"] for stage in stages] == [False] * (len(stages) - 1) + [True]


def test_degrees_multiply_to_the_accelerators(solved: tuple[Instance, Outcome, Plan]) -> None:
    _, _, plan = solved
    chosen = plan.plan
    assert chosen["dp"] * chosen["tp"] * chosen["cp"] * chosen["pp"] == chosen["gpus"]
    assert chosen["edp"] * chosen["ep"] * chosen["etp"] * chosen["pp"] == chosen["gpus"]
    assert chosen["dp"] * chosen["micro_batch"] * chosen["grad_accum"] == chosen["global_batch"]
    for degree, parts in chosen["placement"].items():
        assert np.prod(parts) == chosen[degree]


def test_utilisation_follows_from_the_step_time(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, _, plan = solved
    flop = instance.model_flop * plan.plan["global_batch"]
    assert plan.tflops_per_gpu == pytest.approx(flop / plan.step_time_s / plan.plan["gpus"] / 1e12)
    assert 0 < plan.mfu <= plan.hfu < 1
    assert (plan.hfu > plan.mfu * 1.2) == (plan.plan["recompute"] == "full")


def test_the_bound_is_of_a_step(solved: tuple[Instance, Outcome, Plan]) -> None:
    _, _, plan = solved
    assert plan.bound_step_time_s == pytest.approx(plan.step_time_s)
    assert plan.gap == 0.0


def test_json_round_trip(solved: tuple[Instance, Outcome, Plan]) -> None:
    _, _, plan = solved
    document = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert Plan.from_json(document) == plan
    assert document["seed"] == 3
    assert set(document["versions"]) == {"planner", "pyomo", "highspy", "python"}


def test_an_incomplete_document_is_refused(solved: tuple[Instance, Outcome, Plan]) -> None:
    document = solved[2].to_json()
    del document["gap"]
    document["gaps"] = 0
    with pytest.raises(InputError, match=r"gap: is missing\n.*gaps: is not a known key"):
        Plan.from_json(document)


def test_alternatives_are_no_better(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, _, plan = solved
    if "global_batch" not in instance.space.owner:  # with a free batch the time of a sequence counts
        assert all(other["step_time_s"] >= plan.step_time_s for other in plan.alternatives)


def test_without_a_bound_nothing_is_claimed(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, outcome, _ = solved
    plan = Plan.of(instance, replace(outcome, status=Status.FEASIBLE, bound=-float("inf"), stopped="time limit"))
    assert plan is not None
    assert plan.bound_step_time_s is None
    assert plan.gap is None
    assert plan.stopped == "time limit"


def test_a_wrong_price_is_a_mismatch(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, outcome, _ = solved
    with pytest.raises(MismatchError, match="costs"):
        Plan.of(instance, replace(outcome, values=(outcome.values[0] * 1.01, *outcome.values[1:])))


def test_a_broken_rule_is_a_mismatch(solved: tuple[Instance, Outcome, Plan]) -> None:
    instance, outcome, _ = solved
    broken = {**outcome.plans[0], "grad_accum": outcome.plans[0]["grad_accum"] + 1}
    with pytest.raises(MismatchError, match="breaks a rule"):
        Plan.of(instance, replace(outcome, plans=(broken,)))


def test_recomputed_work() -> None:
    """Full recomputation adds the forward pass, a third of the model's work but for the output layer."""
    instance = load("gpt3-175b-64-a100")
    assert recomputed_flop(instance, 0) == 0
    assert 0 < recomputed_flop(instance, 1) < 0.05 * instance.model_flop  # unfused attention: the scores again
    assert 0.32 < recomputed_flop(instance, 2) / instance.model_flop < 1 / 3


def test_too_little_memory_is_explained() -> None:
    instance = load("megatron-22b-8-a100", ["memory_gib=10"])
    outcome = outcome_of(instance)
    assert Plan.of(instance, outcome) is None
    document = no_plan(instance, outcome)
    assert document["reason"].startswith("no plan fits: the least any plan needs is ")
    assert document["reason"].endswith(f"of {instance.setting.capacity / 2**30:.1f} GiB usable")
    json.dumps(document, allow_nan=False)


def test_contradicting_rules_are_named() -> None:
    instance = load("megatron-22b-8-a100", ["dp=8", "tp=4"])
    assert conflicts(instance.space) == ["dp as restricted"]
    assert conflicts(load("megatron-22b-8-a100").space) == []


def test_stopping_before_any_plan_proves_nothing() -> None:
    instance = load("megatron-22b-8-a100")
    document = no_plan(instance, Outcome(Status.UNKNOWN, (), (), 0.0, stopped="time limit"))
    assert "time limit" in document["reason"]
    assert document["least_memory_bytes"] is None
