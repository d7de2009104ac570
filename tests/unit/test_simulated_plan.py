"""The pipeline of a plan: passes, messages and memory as the cost model has them, and the step that they make."""

import numpy as np
import pytest

from planner.algebra.evaluation import Evaluator
from planner.errors import InputError
from planner.instance import load
from planner.physics import collectives, memory, stages, step
from planner.physics.setting import Recompute
from planner.schedule.of_plan import DUALPIPE, NAMES, simulated
from planner.schedule.stage_times import stage_times
from planner.solving import optimise

PROBLEMS = ("gpt3-175b-64-a100", "bloom-176b-384-a100", "mixtral-8x7b-64-h100")


@pytest.fixture(scope="module", params=PROBLEMS)
def solved(request):
    instance = load(request.param)
    outcome = optimise(instance)
    return instance.setting, dict(outcome.plans[0]), float(outcome.values[0])


def valued(expression, columns):
    return float(Evaluator({name: np.array([float(value)]) for name, value in columns.items()})(expression)[0])


def test_passes_and_messages_add_up_to_the_cost_model(solved):
    setting, plan, _ = solved
    times = stage_times(setting, plan)
    for stage in range(plan["pp"]):
        pick = stages.numbered(stage)
        first, last = stage == 0, stage == plan["pp"] - 1
        modelled = valued(step.stage_time(setting, pick, embeds=first, heads=last), plan)
        assert times.compute[stage].sum() + 2 * plan["vp"] * times.sending == pytest.approx(modelled, rel=1e-9)
    assert min(part.min() for part in (times.forward, times.backward, times.weight)) > 0
    transfer = valued(collectives.pipeline_transfer(setting), plan)
    assert 2 * plan["vp"] * times.sending == pytest.approx(transfer)
    assert times.transfer > 0


def test_full_recomputation_adds_a_forward_pass_backward_and_nothing_else(solved):
    setting, plan, _ = solved
    plain = stage_times(setting, {**plan, "recompute": int(Recompute.NONE)})
    full = stage_times(setting, {**plan, "recompute": int(Recompute.FULL)})
    assert full.forward == pytest.approx(plain.forward)
    assert full.weight == pytest.approx(plain.weight)
    inner = slice(1, -1)  # the output layer and the embedding are not computed again
    assert full.backward[inner] == pytest.approx(plain.backward[inner] + plain.forward[inner])
    assert (full.kept < plain.kept).all()


def test_stages_hold_what_the_cost_model_says(solved):
    setting, plan, _ = solved
    found = simulated(setting, plan)
    for stage in range(1, plan["pp"] - 1):  # chunks of these are even
        pick = stages.numbered(stage)
        held = sum(valued(memory.activations(setting, pick, moe), plan) for moe in (False, True)
                   if memory.moe_count(setting, pick, moe))  # fmt: skip
        assert found.held[stage] == pytest.approx(held * valued(memory.in_flight(setting, stage), plan))


def test_a_plan_takes_about_as_long_as_the_cost_model_says(solved):
    # beyond uneven stages, of the closed forms: of ZB-H1, that weight gradients are not a third; messages in the warm-up
    setting, plan, value = solved
    found = simulated(setting, plan)
    assert found.modelled == pytest.approx(value, rel=1e-6)
    assert found.step_time == pytest.approx(found.modelled, rel=0.03)
    assert found.timeline.makespan == pytest.approx(found.modelled_pipeline, rel=0.03)


def test_without_a_pipeline_the_simulation_is_the_closed_form():
    instance = load("llama3-8b-8-h100", ["pp=1", "cp=1"])
    plan = optimise(instance).plans[0]
    found = simulated(instance.setting, plan)
    assert found.timeline.bubble == pytest.approx([0.0], abs=1e-9)
    assert found.timeline.makespan == pytest.approx(found.modelled_pipeline, rel=1e-9)
    # the reduction is hidden by the last backward pass as it is, which the closed form takes to be two thirds
    assert found.step_time == pytest.approx(found.modelled, rel=0.005)


def test_other_schedules_of_one_plan(solved):
    setting, plan, _ = solved
    makespans = {}
    for name in NAMES:
        if name == "interleaved" and plan["vp"] == 1:
            with pytest.raises(InputError, match="vp = 1"):
                simulated(setting, plan, name)
            continue
        found = simulated(setting, plan, name)
        makespans[name] = found.timeline.makespan
        assert (found.modelled is None) == (name == DUALPIPE)
        assert (found.timeline.bubble > 0).all()
    assert makespans["zero-bubble"] < makespans["1f1b"] <= makespans["gpipe"] * 1.01
    with pytest.raises(InputError, match="schedule 'best': must be one of gpipe, 1f1b"):
        simulated(setting, plan, "best")
