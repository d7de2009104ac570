"""Simulated pipelines against the literature's closed forms and the cost model's, and against a slower simulation."""

import random
from itertools import pairwise

import numpy as np
import pytest

from planner.physics import stages
from planner.physics.setting import Schedule
from planner.schedule import closed_forms
from planner.schedule.dualpipe import bidirectional, bidirectional_routes
from planner.schedule.engine import Durations, simulate
from planner.schedule.orders import Kind, orders, routes

CASES, BATCHES = 1200, 12


def drawn(seed):
    """A random pipeline: schedule, stages, chunks and micro-batches that the schedule allows."""
    choose = random.Random(seed)
    schedule = choose.choice(list(Schedule))
    pp = choose.randint(2 if schedule is Schedule.INTERLEAVED else 1, 12)
    if schedule is Schedule.INTERLEAVED:
        return schedule, pp, choose.randint(1, 5), pp * choose.randint(1, 6)
    return schedule, pp, 1, choose.randint(pp, 6 * pp)


def drawn_bidirectional(seed):
    """Stages and micro-batches that a bidirectional pipeline allows."""
    choose = random.Random(seed)
    pp = 2 * choose.randint(1, 6)
    return pp, 2 * pp + 2 * choose.randint(0, 2 * pp)


def even(pp, vp, forward=1.0, backward=1.0, weight=1.0, joint=1.0):
    """The same times for each of the stages, chunks together."""
    one = np.full((pp, vp), 1.0 / vp)
    return Durations(forward * one, backward * one, weight * one, joint=joint)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_even_stages_take_what_the_closed_form_says(batch):
    for seed in range(batch, CASES, BATCHES):
        schedule, pp, vp, micro_batches = drawn(seed)
        choose = random.Random(-seed)
        forward, backward, weight = (choose.uniform(0.1, 2.0) for _ in range(3))
        if schedule is Schedule.ZERO_BUBBLE:
            weight = min(forward, backward, weight)
        timeline = simulate(orders(schedule, pp, vp, micro_batches), even(pp, vp, forward, backward, weight))
        work = micro_batches * (forward + backward + weight)
        expected = work + closed_forms.bubble(schedule, pp, vp, forward, backward, weight)
        assert timeline.makespan == pytest.approx(expected, rel=1e-12), (seed, schedule.name, pp, vp, micro_batches)
        assert timeline.busy == pytest.approx(np.full(pp, work))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_cost_model_has_the_same_bubble_where_the_three_passes_are_equal(batch):
    for seed in range(batch, CASES, BATCHES):
        schedule, pp, vp, micro_batches = drawn(seed)
        timeline = simulate(orders(schedule, pp, vp, micro_batches), even(pp, vp))
        assert timeline.makespan / 3 - micro_batches == pytest.approx(stages.bubble_slots(schedule, pp, vp), abs=1e-9)


def test_the_cost_model_has_the_same_bubble_for_any_passes_but_of_zb_h1():
    # ZB-H1 waits (pp - 1) (F + B - W), a third of 1F1B's only where W is a third of a micro-batch
    for seed in range(CASES):
        schedule, pp, vp, _ = drawn(seed)
        choose = random.Random(-seed)
        passes = [choose.uniform(0.1, 2.0) for _ in range(3)]
        theory, modelled = closed_forms.bubble(schedule, pp, vp, *passes), stages.bubble_slots(schedule, pp, vp)
        if schedule is Schedule.ZERO_BUBBLE:
            beyond = (pp - 1) * 2 * (1 / 3 - passes[2] / sum(passes))
            assert theory / sum(passes) - modelled == pytest.approx(beyond, abs=1e-12)
        else:
            assert theory / sum(passes) == pytest.approx(modelled)


def test_zb_h1_takes_longer_than_its_closed_form_where_weight_gradients_are_long():
    choose = random.Random(1)
    for _ in range(100):
        pp = choose.randint(2, 10)
        forward, backward = choose.uniform(0.5, 2.0), choose.uniform(0.5, 2.0)
        weight = min(forward, backward) * choose.uniform(1.1, 2.0)
        timeline = simulate(orders(Schedule.ZERO_BUBBLE, pp, 1, 4 * pp), even(pp, 1, forward, backward, weight))
        waiting = timeline.makespan - timeline.busy[0]
        assert waiting > closed_forms.bubble(Schedule.ZERO_BUBBLE, pp, 1, forward, backward, weight) + 1e-9


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_bidirectional_pipeline_waits_as_long_as_published(batch):
    for seed in range(batch, 480, BATCHES):
        pp, micro_batches = drawn_bidirectional(seed)
        choose = random.Random(-seed)
        forward = choose.uniform(0.5, 2.0)
        weight = forward * choose.random()
        joint = choose.uniform((forward + weight) / (2 * forward + weight), 1.0)
        durations = even(pp, 1, forward, forward, weight, joint)
        both = Durations(*(np.repeat(part, 2, axis=1) for part in (durations.forward, durations.backward,
                                                                   durations.weight)), joint=joint)  # fmt: skip
        timeline = simulate(bidirectional(pp, micro_batches), both, bidirectional_routes(pp))
        expected = closed_forms.bidirectional_bubble(pp, forward, forward, weight, joint * (2 * forward + weight))
        middle = timeline.makespan - timeline.busy[pp // 2]
        assert middle == pytest.approx(expected, abs=1e-9 * timeline.makespan), (seed, pp, micro_batches)
        assert timeline.most_in_flight() == [closed_forms.bidirectional_in_flight(pp)] * pp


@pytest.mark.parametrize("batch", range(BATCHES))
def test_stages_hold_as_many_as_the_closed_forms_and_the_cost_model_say(batch):
    for seed in range(batch, CASES, BATCHES):
        schedule, pp, vp, micro_batches = drawn(seed)
        timeline = simulate(orders(schedule, pp, vp, micro_batches), even(pp, vp))
        held, until_input = timeline.most_in_flight(), timeline.most_in_flight(weight=False)
        theory = [closed_forms.in_flight(schedule, pp, vp, stage, micro_batches) for stage in range(pp)]
        if schedule is Schedule.ZERO_BUBBLE:
            assert until_input == theory
            assert held == [closed_forms.awaiting_weight_gradient(pp, micro_batches)] * pp
        else:
            assert held == theory
        for stage, chunks in enumerate(held):
            modelled = min(stages.in_flight(schedule, pp, vp, stage), micro_batches)
            if schedule is Schedule.INTERLEAVED and micro_batches == pp:
                modelled = micro_batches
            assert chunks / vp == pytest.approx(modelled), (seed, schedule.name, pp, vp, micro_batches, stage)


def any_pipeline(seed):
    """Orders, routes and chunks of a random pipeline, bidirectional ones among them."""
    if seed % 5 == 0:
        pp, micro_batches = drawn_bidirectional(seed)
        return bidirectional(pp, micro_batches), bidirectional_routes(pp), pp, 2
    schedule, pp, vp, micro_batches = drawn(seed)
    return orders(schedule, pp, vp, micro_batches), routes(pp, vp), pp, vp


def test_every_order_has_every_pass_once():
    for seed in range(240):
        order, ways, _, _ = any_pipeline(seed)
        expected = set()
        for place, operations in enumerate(order):
            assert len(set(operations)) == len(operations)
            for kind, chunk, number, _ in operations:
                expected.add((kind, place, chunk, number))
        forward = {operation[1:] for operation in expected if operation[0] is Kind.FORWARD}
        backward = {operation[1:] for operation in expected if operation[0] in (Kind.BACKWARD, Kind.INPUT)}
        split = {operation[1:] for operation in expected if operation[0] is Kind.INPUT}
        weight = {operation[1:] for operation in expected if operation[0] is Kind.WEIGHT}
        numbers = {number for _, _, number in forward}
        assert numbers == set(range(len(numbers)))
        assert forward == backward
        assert weight == split
        assert len(forward) == sum(len(way) for way in ways) * len(numbers) // len(ways)


def relaxed(order, ways, durations):
    """Ends of all operations by raising them until every constraint holds: slow, and without any order of events."""
    end = {}
    after = {}
    for way in ways:
        after |= {(a, Kind.FORWARD): b for b, a in pairwise(way)} | {(a, Kind.BACKWARD): b for a, b in pairwise(way)}
    backward = {Kind.BACKWARD: Kind.BACKWARD, Kind.INPUT: Kind.BACKWARD}
    changed = True
    while changed:
        changed = False
        for stage, operations in enumerate(order):
            clock, place = 0.0, 0
            while place < len(operations):
                group = operations[place : place + 1 + operations[place].joined]
                start, lasts, sends = clock, 0.0, 0.0
                for kind, chunk, number, _ in group:
                    here = (stage, chunk)
                    kind_of_input = backward.get(kind, kind)
                    lasts += durations.of(kind)[stage, chunk]
                    if kind is not Kind.FORWARD:
                        needed = Kind.BACKWARD if kind is Kind.WEIGHT else Kind.FORWARD
                        start = max(start, end.get((needed, here, number), 0.0))
                    source = after.get((here, kind_of_input))
                    if source is not None:
                        message = 0.0
                        if source[0] != stage:
                            message = durations.sending[source[0], stage] + durations.transfer[source[0], stage]
                        start = max(start, end.get((kind_of_input, source, number), 0.0) + message)
                    target = next(
                        (to for (to, way), came in after.items() if way is kind_of_input and came == here), None
                    )
                    if target is not None and target[0] != stage:
                        sends += durations.sending[stage, target[0]]
                clock = start + lasts * (durations.joint if len(group) == 2 else 1.0)
                for kind, chunk, number, _ in group:
                    key = (backward.get(kind, kind), (stage, chunk), number)
                    changed |= end.get(key) != clock
                    end[key] = clock
                clock += sends
                place += len(group)
    return end


@pytest.mark.parametrize("batch", range(BATCHES))
def test_uneven_stages_and_messages_give_what_relaxation_gives(batch):
    draw = np.random.default_rng(batch)
    for seed in range(batch, 72, BATCHES):
        order, ways, pp, vp = any_pipeline(seed)
        durations = Durations(
            *(draw.uniform(0.1, 2.0, (pp, vp)) for _ in range(3)), transfer=draw.uniform(0, 0.5, (pp, pp)),
            sending=draw.uniform(0, 0.2, (pp, pp)), joint=float(draw.uniform(0.6, 1.0)),
        )  # fmt: skip
        timeline = simulate(order, durations, ways)
        expected = relaxed(order, ways, durations)
        kinds = {Kind.INPUT: Kind.BACKWARD}
        for stage, operations in enumerate(order):
            wanted = [expected[kinds.get(kind, kind), (stage, chunk), number] for kind, chunk, number, _ in operations]
            assert timeline.ends[stage] == pytest.approx(wanted, rel=1e-12)
        assert (timeline.bubble > -1e-9).all()
