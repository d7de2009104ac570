"""Separable lower bounds of joint factors: never above the table, and exact where that is asked."""

import highspy
import numpy as np
import pytest
from scipy.optimize import linprog

from planner.milp.dominance import leaves_of
from planner.milp.minorants import Minorants
from planner.milp.tree import Tabulator
from tests.property.spaces import SMALL_SEEDS, small_instance

ROUNDING = 1e-9


def random_table(seed):
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(1, 6, size=2 + seed % 2))
    kind = seed % 4
    if kind == 0:
        return random.uniform(0, 3, shape)
    if kind == 1:  # a smooth one, as the cost model has them
        return np.log1p(np.add.outer(np.arange(shape[0]), np.arange(shape[1])) / 3.0)
    if kind == 2:
        return np.round(random.exponential(4.0, shape))
    return np.where(random.random(shape) < 0.3, 40.0, random.random(shape))


def outer_sum(parts):
    total = np.zeros([len(part) for part in parts])
    for dimension, part in enumerate(parts):
        total = total + np.expand_dims(part, tuple(d for d in range(len(parts)) if d != dimension))
    return total


def assert_below(parts, table):
    assert (outer_sum(parts) <= table + ROUNDING).all()


@pytest.mark.parametrize("seed", range(16))
def test_bounds_at_fractional_choices_are_never_above_the_table(seed):
    table, random = random_table(seed), np.random.default_rng(seed)
    minorants = Minorants(table)
    for _ in range(5):
        weights = [random.dirichlet(np.full(size, 0.4)) for size in table.shape]
        parts, value = minorants.at(weights)
        assert_below(parts, table)
        assert value == pytest.approx(sum(float(w @ p) for w, p in zip(weights, parts, strict=True)), abs=1e-9)


@pytest.mark.parametrize("seed", [0, 2, 4, 6, 8])
def test_the_bound_between_two_points_is_the_convex_envelope(seed):
    """In two dimensions it is the cheapest transport between the two axes' weights."""
    table, random = random_table(seed), np.random.default_rng(seed)
    if table.ndim != 2:
        table = table[:, :, 0]
    first, second = (random.dirichlet(np.ones(size)) for size in table.shape)
    _, value = Minorants(table).at([first, second])
    assert value <= first @ table @ second + ROUNDING, "no more than the independent coupling"
    rows = [np.kron(np.eye(len(first)), np.ones(len(second))), np.kron(np.ones(len(first)), np.eye(len(second)))]
    transport = linprog(table.reshape(-1), A_eq=np.concatenate(rows), b_eq=np.concatenate([first, second]))
    assert value == pytest.approx(transport.fun, abs=0.05)  # the rest goes to the choice among ties


@pytest.mark.parametrize("seed", range(16))
def test_corners_are_exact_at_their_point_and_below_elsewhere(seed):
    table = random_table(seed)
    minorants = Minorants(table)
    for cell in np.ndindex(table.shape):
        parts = minorants.corner(cell)
        assert_below(parts, table)
        assert outer_sum(parts)[cell] == pytest.approx(table[cell], abs=1e-8)


@pytest.mark.parametrize("seed", range(16))
def test_covers_are_accurate_everywhere_or_as_many_as_allowed(seed):
    table, most = random_table(seed), 40
    cells = [tuple(0 for _ in table.shape)]
    found = Minorants(table).cover(cells, 0.05, most)
    assert 1 <= len(found) <= most
    for parts in found:
        assert_below(parts, table)
    best = np.max([outer_sum(parts) for parts in found], axis=0)
    assert best[cells[0]] == pytest.approx(table[cells[0]], abs=1e-8)
    assert len(found) == most or (table - best).max() <= 0.05
    assert len(Minorants(table).cover(cells, 0.05, 2)) <= 2


def test_a_separable_table_needs_one_bound():
    table = np.add.outer([0.0, 1.0, 5.0], [2.0, 0.0])
    assert len(Minorants(table).cover([(0, 0)], 1e-6, 10)) == 1


def test_a_table_deeper_than_a_bound_may_be_stays_below():
    table = np.array([[0.0, 200.0], [200.0, 0.0]])
    for cell in np.ndindex(2, 2):
        parts = Minorants(table).corner(cell)
        assert_below(parts, table)
        assert outer_sum(parts)[cell] == pytest.approx(table[cell], abs=1e-8)


@pytest.mark.parametrize("seed", SMALL_SEEDS[:10])
def test_joint_factors_of_random_instances_are_covered_from_below(seed):
    instance, plans = small_instance(seed)
    tree = Tabulator(instance.space).tree(instance.objective)
    joints = {joint.key: joint for leaf in leaves_of(tree) for joint in leaf.joints}
    for joint in joints.values():
        cell = tuple(int(plans[0][place]) for place in joint.axes)
        found = Minorants(joint.logs).cover([cell], 0.05, 12)
        for parts in found:
            assert_below(parts, joint.logs)
        assert outer_sum(found[0])[cell] == pytest.approx(joint.logs[cell], abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_bounds_stay_below_whatever_the_solver_returns(seed, monkeypatch):
    table, random = random_table(seed), np.random.default_rng(seed)
    minorants, solution = Minorants(table), highspy.Highs.getSolution

    def wrong(self):
        found = solution(self)
        found.col_value = list(np.array(found.col_value) + random.normal(size=len(found.col_value)))
        return found

    monkeypatch.setattr(highspy.Highs, "getSolution", wrong)
    for cell in np.ndindex(table.shape):
        assert_below(minorants.at([random.dirichlet(np.ones(size)) for size in table.shape])[0], table)
        parts = minorants.corner(cell)
        assert_below(parts, table)
        assert outer_sum(parts)[cell] == pytest.approx(table[cell], abs=1e-8)
