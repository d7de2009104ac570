"""Simulated pipelines against the closed forms of the cost model: exactly, where stages are even and exchanges free."""

import random

import numpy as np
import pytest

from planner.physics import stages
from planner.physics.setting import Schedule
from planner.schedule.engine import Durations, simulate
from planner.schedule.orders import Kind, orders

CASES, BATCHES = 1200, 12


def drawn(seed):
    """A random pipeline: schedule, stages, chunks and micro-batches that the schedule allows."""
    choose = random.Random(seed)
    schedule = choose.choice(list(Schedule))
    pp = choose.randint(2 if schedule is Schedule.INTERLEAVED else 1, 12)
    if schedule is Schedule.INTERLEAVED:
        return schedule, pp, choose.randint(1, 5), pp * choose.randint(1, 6)
    return schedule, pp, 1, choose.randint(pp, 6 * pp)


def even(schedule, pp, vp):
    """Forward, input's gradient and weight's gradient of one unit each for the whole stage."""
    one = np.full((pp, vp), 1.0 / vp)
    return Durations(one, one if schedule is Schedule.ZERO_BUBBLE else 2 * one, one)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_even_stages_take_what_the_closed_form_says(batch):
    for seed in range(batch, CASES, BATCHES):
        schedule, pp, vp, micro_batches = drawn(seed)
        timeline = simulate(orders(schedule, pp, vp, micro_batches), even(schedule, pp, vp))
        expected = 3 * (micro_batches + stages.bubble_slots(schedule, pp, vp))
        assert timeline.makespan == pytest.approx(expected, rel=1e-12), (seed, schedule.name, pp, vp, micro_batches)
        assert timeline.busy == pytest.approx(np.full(pp, 3.0 * micro_batches))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_stage_holds_more_than_the_cost_model_says(batch):
    for seed in range(batch, CASES, BATCHES):
        schedule, pp, vp, micro_batches = drawn(seed)
        held = simulate(orders(schedule, pp, vp, micro_batches), even(schedule, pp, vp)).most_in_flight()
        for stage, chunks in enumerate(held):
            modelled = min(stages.in_flight(schedule, pp, vp, stage), micro_batches)
            if schedule is Schedule.INTERLEAVED and micro_batches == pp:
                modelled = micro_batches
            assert chunks / vp == pytest.approx(modelled), (seed, schedule.name, pp, vp, micro_batches, stage)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_uneven_stages_keep_every_dependency(batch):
    draw = np.random.default_rng(batch)
    for seed in range(batch, 240, BATCHES):
        schedule, pp, vp, micro_batches = drawn(seed)
        durations = Durations(
            *(draw.uniform(0.1, 2.0, (pp, vp)) for _ in range(3)), transfer=float(draw.uniform(0, 0.5))
        )
        order = orders(schedule, pp, vp, micro_batches)
        timeline = simulate(order, durations)
        ends = {(operation.kind, operation.chunk * pp + stage, operation.micro_batch): end
                for stage, operations in enumerate(order)
                for operation, end in zip(operations, timeline.ends[stage], strict=True)}  # fmt: skip
        way = durations.transfer if pp > 1 else 0.0
        for stage, operations in enumerate(order):
            previous = 0.0
            for operation, start, end in zip(operations, timeline.starts[stage], timeline.ends[stage], strict=True):
                assert start >= previous - 1e-12
                previous = end
                place = operation.chunk * pp + stage
                if operation.kind is Kind.FORWARD and place:
                    assert start >= ends[Kind.FORWARD, place - 1, operation.micro_batch] + way - 1e-12
                if operation.kind is Kind.BACKWARD and place < pp * vp - 1:
                    assert start >= ends[Kind.BACKWARD, place + 1, operation.micro_batch] + way - 1e-12
                if operation.kind is Kind.BACKWARD:
                    assert start >= ends[Kind.FORWARD, place, operation.micro_batch] - 1e-12
                if operation.kind is Kind.WEIGHT:
                    assert start >= ends[Kind.BACKWARD, place, operation.micro_batch] - 1e-12
        assert timeline.makespan >= timeline.busy.max() - 1e-9
