"""The presolve drops only what the bounds exclude, and only values that another one beats."""

import numpy as np
import pytest

from planner.algebra.evaluation import evaluate
from planner.algebra.expressions import Monomial, choice, power
from planner.algebra.space import Allowed, AtMost, Axis, Equal, Space
from planner.milp import presolve
from planner.milp.dominance import undominated
from planner.milp.presolve import Bound, Contraction, contracted, selections, useful_relations
from planner.milp.tree import Tabulator
from planner.physics import heuristics
from planner.search.enumeration import Enumerator
from tests.property.spaces import SMALL_SEEDS, small_instance


def sum_of(leaves, plans):
    return np.sum([np.exp(leaf.logs(plans)) for leaf in leaves], axis=0) if leaves else np.zeros(len(plans))


def live_masks(instance):
    enumerator = Enumerator(instance.space)
    return enumerator, enumerator.propagate(enumerator.everything)


def never():
    return False


def rows_of(plans):
    return {tuple(row) for row in plans.tolist()}


def opened(plans, places):
    """The plans with -1 on every axis but ``places``."""
    left = np.full_like(plans, -1)
    left[:, places] = plans[:, places]
    return left


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_the_floor_is_nowhere_above_the_objective(seed):
    instance, plans = small_instance(seed)
    columns = instance.space.columns(plans)
    assert (evaluate(instance.floor, columns) <= evaluate(instance.objective, columns) * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_the_floor_and_the_memory_do_not_depend_on_the_placement(seed):
    instance, plans = small_instance(seed)
    totals, parts = heuristics.joining_order(instance.space)
    assert sorted(totals + parts) == list(range(len(instance.space.axes)))
    columns, open_columns = instance.space.columns(plans), instance.space.columns(opened(plans, totals))
    for expression in (instance.floor, instance.peak_memory):
        assert evaluate(expression, open_columns).tolist() == evaluate(expression, columns).tolist()


@pytest.mark.parametrize("seed", SMALL_SEEDS)
@pytest.mark.parametrize("what", ["objective", "floor", "peak_memory"])
def test_selections_are_nowhere_above_the_tree_and_equal_at_their_plan(seed, what):
    instance, plans = small_instance(seed)
    expression = getattr(instance, what)
    exact = evaluate(expression, instance.space.columns(plans))
    tree = Tabulator(instance.space).tree(expression)
    for row in np.random.default_rng(seed).integers(len(plans), size=3):
        found = selections(tree, plans[row])
        largest = max(sum_of(leaves, plans[row : row + 1])[0] for leaves in found)
        assert largest == pytest.approx(exact[row], rel=1e-9)
        for leaves in found:
            assert (sum_of(leaves, plans) <= exact * (1 + 1e-9)).all()


def bounds_and_plans(instance, plans, share):
    """Bounds of the floor, the objective and the memory at a quantile of each, and which plans keep to all of them."""
    columns, tabulator, found = instance.space.columns(plans), Tabulator(instance.space), []
    cost, memory = evaluate(instance.objective, columns), evaluate(instance.peak_memory, columns)
    best = plans[int(np.argmin(cost))]
    cutoff, capacity = float(np.quantile(cost, share)), float(np.quantile(memory, 1 - share / 2))
    for expression, limit in ((instance.floor, cutoff), (instance.objective, cutoff), (instance.peak_memory, capacity)):
        found.append([Bound(leaves, limit) for leaves in selections(tabulator.tree(expression), best)])
    return found, (cost <= cutoff) & (memory <= capacity)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("seed", SMALL_SEEDS[1::2])
def test_joining_never_drops_what_has_a_completion_within_the_bounds(seed, share, monkeypatch):
    monkeypatch.setattr(presolve, "CHUNK", 37)
    instance, plans = small_instance(seed)
    enumerator, masks = live_masks(instance)
    (floor, objective, memory), good = bounds_and_plans(instance, plans, share)
    totals, parts = heuristics.joining_order(instance.space)
    relations = useful_relations(instance.space, totals)
    everything = np.full((1, len(instance.space.axes)), -1)
    core = Contraction(enumerator, masks, floor, memory, relations).join(totals, everything, [], never)
    assert rows_of(opened(plans[good], totals)) <= rows_of(core)
    assert (core[:, parts] == -1).all()
    assert len(rows_of(core)) == len(core)
    whole = Contraction(enumerator, masks, objective, memory, relations).join(parts, core, totals, never)
    assert rows_of(plans[good]) <= rows_of(whole)
    assert rows_of(whole) <= rows_of(plans), "all axes joined: the rules are kept exactly"


def test_joining_drops_most_of_what_costs_more():
    left = total = 0
    for seed in SMALL_SEEDS[::4]:
        instance, plans = small_instance(seed)
        enumerator, masks = live_masks(instance)
        (_, objective, memory), _ = bounds_and_plans(instance, plans, 0.1)
        totals, parts = heuristics.joining_order(instance.space)
        everything = np.full((1, len(instance.space.axes)), -1)
        contraction = Contraction(enumerator, masks, objective, memory, useful_relations(instance.space, totals))
        left += len(contraction.join(totals + parts, everything, [], never))
        total += len(plans)
    assert left < 0.6 * total


@pytest.mark.parametrize("seed", SMALL_SEEDS[::3])
def test_tighter_limits_drop_no_more_than_they_say(seed):
    instance, plans = small_instance(seed)
    enumerator, masks = live_masks(instance)
    (_, objective, memory), good = bounds_and_plans(instance, plans, 0.6)
    cost = evaluate(instance.objective, instance.space.columns(plans))
    totals, parts = heuristics.joining_order(instance.space)
    everything = np.full((1, len(instance.space.axes)), -1)
    contraction = Contraction(enumerator, masks, objective, memory, useful_relations(instance.space, totals))
    assert contraction.root() * objective[0].limit <= cost.min() * (1 + 1e-9)
    for factor in (0.9, 0.7):
        tight = contraction.tightened(factor)
        tighter = tight.join(totals + parts, everything, [], never)
        dearer = cost[good & (cost > factor * objective[0].limit)] / (factor * objective[0].limit)
        left_out = rows_of(plans[good]) - rows_of(tighter)
        assert not left_out or tight.dropped <= dearer.max() * (1 + 1e-9)
        assert rows_of(plans[good & (cost <= factor * objective[0].limit)]) <= rows_of(tighter)
        assert rows_of(tighter) <= rows_of(contraction.join(totals + parts, everything, [], never))


def test_joining_stops_when_it_is_told_and_when_too_much_is_left(monkeypatch):
    instance, _ = small_instance(SMALL_SEEDS[0])
    enumerator, masks = live_masks(instance)
    totals, _ = heuristics.joining_order(instance.space)
    everything = np.full((1, len(instance.space.axes)), -1)
    contraction = Contraction(enumerator, masks, [], [], [])
    assert contraction.join(totals, everything, [], lambda: True) is None
    monkeypatch.setattr(presolve, "MOST_SURVIVORS", 1)
    assert contraction.join(totals, everything, [], never) is None


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_without_bounds_joining_is_enumeration(seed):
    instance, plans = small_instance(seed)
    enumerator, masks = live_masks(instance)
    totals, parts = heuristics.joining_order(instance.space)
    everything = np.full((1, len(instance.space.axes)), -1)
    found = Contraction(enumerator, masks, [], [], []).join(totals + parts, everything, [], never)
    assert rows_of(found) == rows_of(plans)
    assert len(found) == len(plans)


@pytest.mark.parametrize("seed", SMALL_SEEDS[:8])
def test_a_contracted_space_has_the_plans_of_the_core(seed):
    instance, plans = small_instance(seed)
    space = instance.space
    _, masks = live_masks(instance)
    totals, _ = heuristics.joining_order(space)
    core = np.unique(opened(plans[::3], totals), axis=0)
    smaller = contracted(space, masks, core, totals, plans[-1])
    inner = np.concatenate(list(Enumerator(smaller.space).combinations()))
    lifted = smaller.lift(inner, space)
    kept = rows_of(core) | rows_of(opened(plans[-1:], totals))
    assert rows_of(lifted) == {tuple(p) for p, o in zip(plans.tolist(), opened(plans, totals).tolist(), strict=True)
                               if tuple(o) in kept}  # fmt: skip
    for plan, own in zip(lifted[:20], inner[:20], strict=True):
        assert smaller.drop(plan[None, :], space).tolist() == [own.tolist()]
    columns = smaller.space.columns(inner)
    for name, values in space.columns(lifted).items():
        assert columns[name].tolist() == values.tolist()
    outside = [plan for plan in plans if tuple(opened(plan[None, :], totals)[0]) not in kept]
    assert len(smaller.drop(np.array(outside[:5], dtype=np.int64).reshape(-1, len(space.axes)), space)) == 0


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_without_dominated_values_the_optimum_stays(seed):
    instance, plans = small_instance(seed)
    enumerator, masks = live_masks(instance)
    tabulator = Tabulator(instance.space)
    expressions = (instance.objective, instance.floor, instance.peak_memory)
    left = undominated(enumerator, masks, [tabulator.tree(expression) for expression in expressions])
    assert all(not (after & ~before).any() and after.any() for before, after in zip(masks, left, strict=True))
    columns = instance.space.columns(plans)
    cost, floor, memory = (evaluate(expression, columns) for expression in expressions)
    kept = np.all([mask[plans[:, place]] for place, mask in enumerate(left)], axis=0)
    for plan in np.flatnonzero(~kept):
        no_worse = kept & (cost <= cost[plan] * (1 + 1e-9)) & (memory <= memory[plan] * (1 + 1e-9))
        assert (no_worse & (floor <= floor[plan] * (1 + 1e-9))).any()


def test_some_values_are_dominated():
    dropped = 0
    for seed in SMALL_SEEDS[::4]:
        instance, _ = small_instance(seed)
        enumerator, masks = live_masks(instance)
        tree = Tabulator(instance.space).tree(instance.objective)
        left = undominated(enumerator, masks, [tree])
        dropped += sum(int((before & ~after).sum()) for before, after in zip(masks, left, strict=True))
    assert dropped


def crafted(costs, *relations):
    """Two axes, the first of which costs ``costs``; which of its values are left."""
    first = Axis("a", {"a": np.arange(1, len(costs) + 1)})
    space = Space((first, Axis("b", {"b": np.array([1, 2, 3])})), relations)
    table = dict(enumerate(costs, start=1))
    expression = Monomial(1.0, (choice("a", table, "cost"), power("b")))
    enumerator = Enumerator(space)
    return undominated(enumerator, enumerator.everything, [Tabulator(space).tree(expression)])[0].tolist()


def test_the_cheapest_of_like_values_stays_and_of_equal_ones_one():
    assert crafted([3.0, 1.0, 2.0]) == [False, True, False]
    assert sum(crafted([2.0, 1.0, 1.0])) == 1
    assert not crafted([2.0, 1.0, 1.0])[0]


def test_a_value_that_is_allowed_where_the_cheaper_one_is_not_stays():
    assert crafted([3.0, 1.0], Allowed("not 2 with 3", ("a", "b"), lambda a, b: ~((a == 2) & (b == 3)))) == [True, True]
    assert crafted([3.0, 1.0], Allowed("not 1 with 3", ("a", "b"), lambda a, b: ~((a == 1) & (b == 3)))) == [
        False,
        True,
    ]


def test_a_value_that_weighs_differently_in_a_relation_stays():
    assert crafted([3.0, 1.0], AtMost("ab", ("a", "b"), 5)) == [True, True]
    assert crafted([1.0, 3.0, 2.0], Equal("ab", {"a": 1, "b": 1}, 6)) == [True, True, True]
