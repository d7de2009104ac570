"""Normal forms of monomials bound them at every feasible plan, whatever the linear program's rounding."""

import highspy
import numpy as np
import pytest

from planner.algebra.space import Axis, Equal, Space
from planner.milp.dominance import leaves_of
from planner.milp.relaxation import MARGIN, Relaxation
from planner.milp.tree import Leaf, Tabulator, make_leaf
from planner.search.enumeration import Enumerator
from tests.property.spaces import SMALL_SEEDS, grid, random_space, small_instance

ROUNDING = 1e-9


def bound(form, plans):
    """The normal form at plans: minus infinity where the leaf vanishes, plus infinity outside the box."""
    found = np.full(len(plans), form.least)
    dead = np.zeros(len(plans), dtype=bool)
    for place, costs in form.costs.items():
        here = costs[plans[:, place]]
        dead |= here == -np.inf
        found += np.where(here == -np.inf, 0.0, here)
    for axes, table in form.remainders:
        found += table[tuple(plans[:, place] for place in axes)]
    return np.where(dead, -np.inf, found)


def assert_nonnegative_on_the_box(form, masks):
    for place, costs in form.costs.items():
        assert (costs[masks[place]] >= 0).sum() + (costs[masks[place]] == -np.inf).sum() == masks[place].sum()
        assert (costs[~masks[place]] == np.inf).all()
    for axes, table in form.remainders:
        assert (table[np.ix_(*(np.flatnonzero(masks[place]) for place in axes))] >= 0).all()


def leaves_and_plans(seed):
    instance, plans = small_instance(seed)
    tabulator = Tabulator(instance.space)
    leaves = [leaf for what in (instance.objective, instance.floor, instance.peak_memory)
              for leaf in leaves_of(tabulator.tree(what))]  # fmt: skip
    distinct = {(leaf.shape(), round(leaf.constant, 9)): leaf for leaf in leaves}
    enumerator = Enumerator(instance.space)
    masks = enumerator.propagate(enumerator.everything)
    return instance.space, list(distinct.values())[:60], plans, masks


@pytest.mark.parametrize("seed", SMALL_SEEDS[::2])
def test_a_normal_form_is_nowhere_above_its_monomial(seed):
    space, leaves, plans, masks = leaves_and_plans(seed)
    relaxation = Relaxation(space, masks, space.rows)
    for leaf in leaves:
        form, logs = relaxation.normal_form(leaf), leaf.logs(plans)
        if form is None:
            assert np.isneginf(logs).all()
            continue
        assert_nonnegative_on_the_box(form, masks)
        below = bound(form, plans)
        assert (np.isneginf(below) == np.isneginf(logs)).all()
        alive = np.isfinite(logs)
        assert (below[alive] <= logs[alive] + ROUNDING).all()


@pytest.mark.parametrize("seed", SMALL_SEEDS[::2])
def test_with_equalities_only_a_normal_form_is_its_monomial(seed):
    space, leaves, plans, masks = leaves_and_plans(seed)
    relaxation = Relaxation(space, masks, [row for row in space.rows if row.lower == row.upper])
    for leaf in leaves:
        form, logs = relaxation.normal_form(leaf), leaf.logs(plans)
        if form is not None:
            alive = np.isfinite(logs)
            assert bound(form, plans)[alive] == pytest.approx(logs[alive] - MARGIN, abs=1e-8)


@pytest.mark.parametrize("seed", SMALL_SEEDS[:4])
def test_a_normal_form_is_a_bound_whatever_multipliers_the_solver_returns(seed, monkeypatch):
    space, leaves, plans, masks = leaves_and_plans(seed)
    random, solution = np.random.default_rng(seed), highspy.Highs.getSolution

    def wrong(self):
        found = solution(self)
        found.row_dual = list(np.array(found.row_dual) + random.normal(size=len(found.row_dual)))
        return found

    monkeypatch.setattr(highspy.Highs, "getSolution", wrong)
    relaxation = Relaxation(space, masks, space.rows)
    for leaf in leaves:
        form, logs = relaxation.normal_form(leaf), leaf.logs(plans)
        if form is not None:
            assert_nonnegative_on_the_box(form, masks)
            alive = np.isfinite(logs)
            assert (bound(form, plans)[alive] <= logs[alive] + ROUNDING).all()


@pytest.mark.parametrize("seed", SMALL_SEEDS[1:9:2])
def test_a_normal_form_on_a_smaller_box_is_a_bound_there(seed):
    space, leaves, plans, masks = leaves_and_plans(seed)
    random = np.random.default_rng(seed)
    keep = plans[int(random.integers(len(plans)))]
    smaller = [mask & (random.random(len(mask)) < 0.6) for mask in masks]
    for mask, value in zip(smaller, keep, strict=True):
        mask[value] = True
    inside = plans[np.all([mask[plans[:, place]] for place, mask in enumerate(smaller)], axis=0)]
    assert len(inside)
    relaxation = Relaxation(space, smaller, space.rows)
    for leaf in leaves:
        form, logs = relaxation.normal_form(leaf), leaf.logs(inside)
        if form is not None:
            alive = np.isfinite(logs)
            assert (bound(form, inside)[alive] <= logs[alive] + ROUNDING).all()


def random_leaf(space, seed):
    random = np.random.default_rng(seed)
    tables = {place: random.normal(size=axis.size) * 3 for place, axis in enumerate(space.axes) if axis.size > 1}
    for place, table in tables.items():
        if random.random() < 0.3:
            tables[place] = np.where(random.random(len(table)) < 0.4, -np.inf, table)
            tables[place][0] = 0.0
    return make_leaf(0.7, tables, (), "random")


@pytest.mark.parametrize("seed", range(40))
def test_normal_forms_of_random_monomials_on_random_spaces(seed):
    space = random_space(seed)
    enumerator = Enumerator(space)
    masks = enumerator.propagate(enumerator.everything)
    plans = grid(space)
    plans = plans[space.holds(space.columns(plans))]
    if masks is None or not len(plans):
        return
    leaf = random_leaf(space, seed)
    form, logs = Relaxation(space, masks, space.rows).normal_form(leaf), leaf.logs(plans)
    if form is None:
        assert np.isneginf(logs).all()
        return
    assert_nonnegative_on_the_box(form, masks)
    alive = np.isfinite(logs)
    assert (bound(form, plans)[alive] <= logs[alive] + ROUNDING).all()
    assert np.isneginf(bound(form, plans)[~alive]).all()


def test_the_least_value_is_the_relaxation_s_minimum():
    """A b = 8: the cheapest of the tables a + 2 b in logarithms is at b = 1."""
    values = np.array([1, 2, 4, 8])
    space = Space((Axis("a", {"a": values}), Axis("b", {"b": values})), (Equal("ab", {"a": 1, "b": 1}, 8),))
    leaf = make_leaf(0.0, {0: np.log(values), 1: 2 * np.log(values)}, (), "a b b")
    masks = [np.ones(4, dtype=bool)] * 2
    form = Relaxation(space, masks, space.rows).normal_form(leaf)
    assert form.least == pytest.approx(np.log(8), abs=1e-6)
    assert np.exp(bound(form, np.array([[3, 0], [0, 3]]))) == pytest.approx([8, 64], rel=1e-8)
    without = Relaxation(space, masks, []).normal_form(leaf)
    assert without.least == pytest.approx(0.0, abs=1e-6)


def test_a_monomial_that_vanishes_on_the_box_has_no_normal_form():
    space = Space((Axis("a", {"a": np.array([1, 2, 3])}),), ())
    leaf = Leaf(0.0, {0: np.array([0.0, -np.inf, -np.inf])}, (), "gone", {0: b""})
    relaxation = Relaxation(space, [np.array([False, True, True])], [])
    assert relaxation.normal_form(leaf) is None
