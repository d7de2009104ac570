"""Gains, wishes and repairs are what solving anew says, and no smaller repair of its kind would do."""

import contextlib

import pytest

from planner.errors import InputError
from planner.insight.changes import changes
from planner.insight.explaining import gains, resources, whatif
from planner.insight.repairing import repairs
from planner.instance import load
from planner.outcome import Status
from planner.solving import optimise

SMALL = ["tp={max=8}", "cp=1", "vp={max=4}", "replicas=1"]

#: Problems without a plan, each for another reason, and kinds of repair that must be among those proposed.
BROKEN = {
    "too few accelerators": ("gpt3-175b-64-a100", ["gpus=16"], {"accelerators", "memory"}),
    "no recomputation allowed": ("llama3-8b-8-h100", ["recompute=none", "cp=1", "tp=1", "micro_batch=2"], {"recompute"}),
    "one micro-batch too large": ("llama3-8b-8-h100", ["micro_batch=16", "recompute=none", "cp=1"], {"micro_batch"}),
    "no sharding allowed": ("llama3-8b-8-h100", ["zero=0", "tp=1", "cp=1", "pp=1"], {"zero", "tp", "pp"}),
    "no tensor parallelism": ("megatron-22b-8-a100", ["tp=1", "pp=1", "cp=1"], {"tp", "pp"}),
    "a small memory": ("llama3-8b-8-h100", ["memory_gib=10"], {"memory", "accelerators"}),
    "little of the memory": ("llama3-8b-8-h100", ["memory_fraction=0.15"], {"memory"}),
    "a device of 24 GiB": ("llama2-7b-4x24gb", ["gpus=1"], {"memory", "accelerators"}),
    "long sequences without context ranks": ("llama3-8b-8-h100", ["sequence_length=262144", "cp=1", "tp=1"], {"cp", "tp"}),
    "fat states": ("llama3-8b-8-h100", ["assumptions.optimizer_bytes=90"], {"optimizer", "memory"}),
}  # fmt: skip


def kind_of(repair):
    """The kind of a repair, from its override."""
    key = repair.override.partition("=")[0]
    return {"memory_gib": "memory", "gpus": "accelerators", "": "accelerators", "assumptions.optimizer_bytes": "optimizer",
            "assumptions.gradient_bytes": "gradients"}.get(key, key)  # fmt: skip


@pytest.fixture(scope="module")
def solved():
    instance = load("gpt3-175b-64-a100", SMALL)
    return instance, optimise(instance).plans[0]


def test_a_wish_is_the_problem_with_that_decision_fixed(solved):
    instance, plan = solved
    wished = load("gpt3-175b-64-a100", [*SMALL[1:], "tp=4"])
    found = whatif(instance, plan, wished)
    best, own = optimise(wished).values[0], optimise(instance).values[0]
    assert found.step_time == pytest.approx(best, rel=1e-3)
    assert found.price == pytest.approx(best / own - 1, abs=2e-3)
    assert sum(found.seconds.values()) == pytest.approx(found.step_time - own, rel=1e-6)
    assert found.plan["tp"] == 4


def test_an_impossible_wish_has_its_reason(solved):
    instance, plan = solved
    found = whatif(instance, plan, load("gpt3-175b-64-a100", [*SMALL, "memory_gib=10"]))
    assert found.plan is None
    assert "the least any plan needs" in found.reason


def test_gains_are_those_of_solving_anew(solved):
    instance, plan = solved
    found = {gain.words: gain for gain in gains(instance, plan)}
    own = optimise(instance).values[0]
    for change in changes(instance):
        gain = found[change.words]
        assert gain.step_time == pytest.approx(optimise(change.instance).values[0], rel=2e-3)
        assert gain.step_time <= own * 1.001  # more of anything is never worse
        if gain.kept_step_time is not None:
            assert gain.step_time <= gain.kept_step_time * 1.001  # the best plan then is no worse than this one


def test_what_a_step_waits_for_adds_up():
    parts = {"matrix products": 3.0, "attention core": 1.0, "tensor-parallel latency": 0.5, "pipeline bubble": 0.25}
    assert resources(parts) == {"matrix rate": 4.0, "latency": 0.5, "other stages": 0.25}


@pytest.mark.parametrize("name", BROKEN)
def test_each_repair_gives_a_plan_and_nothing_smaller_does(name):
    problem, overrides, expected = BROKEN[name]
    broken = load(problem, overrides)
    assert optimise(broken, gap=0.9).status is Status.INFEASIBLE
    found = list(repairs(broken))
    assert expected <= {kind_of(repair) for repair in found}
    for repair in found:
        key, _, value = repair.override.partition("=")
        kept = [override for override in overrides if override.partition("=")[0] != key]
        if not repair.override:
            assert repair.plan["gpus"] > broken.cluster.accelerators
            continue  # the cluster would have to grow
        assert optimise(load(problem, [*kept, repair.override]), gap=0.9).plans
        less = {"memory_gib": f"memory_gib={0.99 * float(value):.2f}" if key == "memory_gib" else "",
                "gpus": f"gpus={{max={int(value) - 1}}}" if key == "gpus" else ""}.get(key)  # fmt: skip
        if less:
            with contextlib.suppress(InputError):  # no plan for want of a divisor
                assert optimise(load(problem, [*kept, less]), gap=0.9).status is Status.INFEASIBLE


def test_a_problem_with_a_plan_needs_no_repair():
    with pytest.raises(InputError, match="nothing to repair"):
        list(repairs(load("llama3-8b-8-h100")))
