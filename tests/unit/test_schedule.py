"""Orders of pipeline operations, deadlocks, traces, and the pipeline of a plan, by hand."""

import numpy as np
import pytest

from planner.errors import InputError
from planner.instance import load
from planner.physics.setting import Schedule
from planner.schedule.engine import Durations, simulate
from planner.schedule.of_plan import simulated
from planner.schedule.orders import Kind, Operation, orders
from planner.schedule.trace import trace_events
from planner.solving import optimise


def spelled(order):
    """F0 B0 ... with the chunk after a dot where it is not the first."""
    letters = {Kind.FORWARD: "F", Kind.BACKWARD: "B", Kind.WEIGHT: "W"}
    return " ".join(letters[kind] + str(number) + (f".{chunk}" if chunk else "") for kind, chunk, number in order)


def test_one_forward_one_backward_by_hand():
    first, last = orders(Schedule.ONE_F_ONE_B, 2, 1, 3)
    assert spelled(first) == "F0 F1 B0 F2 B1 B2"
    assert spelled(last) == "F0 B0 F1 B1 F2 B2"


def test_gpipe_by_hand():
    assert [spelled(order) for order in orders(Schedule.GPIPE, 2, 1, 2)] == ["F0 F1 B0 B1"] * 2


def test_interleaving_by_hand():
    # Narayanan et al. 2021, figure 4, for two stages of two chunks: 2 (2 - 0 - 1) + (2 - 1) 2 = 4 passes warm up
    first, last = orders(Schedule.INTERLEAVED, 2, 2, 4)
    assert spelled(first) == "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3"
    assert spelled(last).startswith("F0 F1 F0.1 B0.1 F1.1 B1.1")


def test_zero_bubble_by_hand():
    first, last = orders(Schedule.ZERO_BUBBLE, 2, 1, 3)
    assert spelled(first) == "F0 F1 B0 W0 F2 B1 W1 B2 W2"
    assert spelled(last) == "F0 B0 F1 B1 W0 F2 B2 W1 W2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((Schedule.GPIPE, 0, 1, 4), "pp = 0"), ((Schedule.GPIPE, 2, 1, 0), "micro-batches = 0"),
        ((Schedule.ONE_F_ONE_B, 2, 2, 4), "only an interleaved pipeline"),
        ((Schedule.INTERLEAVED, 4, 2, 6), "a multiple of pp = 4"),
    ],
)  # fmt: skip
def test_impossible_schedules(arguments, said):
    with pytest.raises(InputError, match=said):
        orders(*arguments)


def test_stages_that_wait_for_each_other_are_told():
    one = np.ones((2, 1))
    order = orders(Schedule.ONE_F_ONE_B, 2, 1, 2)
    order[0] = [Operation(Kind.BACKWARD, 0, 0), Operation(Kind.FORWARD, 0, 0)]
    with pytest.raises(InputError, match="wait for each other"):
        simulate(order, Durations(one, one, one))


def test_a_slow_stage_sets_the_pace():
    # three stages, the middle one twice as slow: it runs without a gap once it has begun, and the ends add their passes
    forward = np.array([[1.0], [2.0], [1.0]])
    timeline = simulate(orders(Schedule.GPIPE, 3, 1, 10), Durations(forward, forward, forward))
    assert timeline.makespan == pytest.approx(1 + 10 * 2 + 1 + 1 + 10 * 2 + 1)
    assert timeline.bubble[1] < timeline.bubble[0]


def test_the_trace_has_every_operation_in_microseconds():
    one = np.full((2, 1), 0.5)
    timeline = simulate(orders(Schedule.ONE_F_ONE_B, 2, 1, 3), Durations(one, 2 * one, one))
    events = [event for event in trace_events(timeline) if event["ph"] == "X"]
    assert len(events) == 12
    assert {event["dur"] for event in events} == {0.5e6, 1e6}
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(timeline.makespan * 1e6)


@pytest.mark.parametrize("name", ["gpt3-175b-64-a100", "bloom-176b-384-a100"])
def test_a_plan_takes_as_long_as_the_cost_model_says(name):
    instance = load(name)
    plan = optimise(instance).plans[0]
    found = simulated(instance.setting, plan)
    assert found.modelled == pytest.approx(float(optimise(instance).values[0]), rel=1e-6)
    assert found.step_time == pytest.approx(found.modelled, rel=0.01)  # stages are uneven by the head and the embedding
