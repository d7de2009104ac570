"""Trees of monomials tabulated on a space: the same values as the exact evaluation, in fewer monomials."""

import numpy as np
import pytest

from planner.algebra.evaluation import evaluate
from planner.algebra.expressions import Factor, Max, Monomial, Product, Sum, choice, power, term
from planner.algebra.space import Axis, Space
from planner.algebra.units import SECOND
from planner.milp.dominance import leaves_of
from planner.milp.tree import Tabulator, merge, split
from tests.property.spaces import SMALL_SEEDS, grid, small_instance

SPACE = Space(
    (
        Axis("a", {"a": np.array([1, 2, 4]), "b": np.array([3, 1, 2])}),
        Axis("c", {"c": np.array([1, 3, 5, 8])}),
        Axis("d", {"d": np.array([0, 1])}),
        Axis("e", {"e": np.array([2, 7])}),
    ),
    (),
    {"k": 3},
)
PLANS = grid(SPACE)


def value(node, plans):
    """A tree's value: sums of exponentials, and of maxima over their terms."""
    found = np.zeros(len(plans))
    for leaf in node.leaves:
        found += np.exp(leaf.logs(plans))
    for maximum in node.maxima:
        found += np.max([value(item, plans) for item in maximum.terms], axis=0)
    return found


def tree(expression):
    return Tabulator(SPACE).tree(expression)


def assert_same(expression):
    node = tree(expression)
    assert value(node, PLANS) == pytest.approx(evaluate(expression, SPACE.columns(PLANS)), rel=1e-12)
    return node


def seconds(coefficient, *factors):
    return term("t", SECOND, coefficient, *factors)


A, B, C, E = power("a"), power("b"), power("c"), power("e")
OVERHEAD = Factor("1+a/c", ("a", "c"), lambda a, c: 1 + a / c)


@pytest.mark.parametrize("seed", SMALL_SEEDS)
@pytest.mark.parametrize("what", ["objective", "peak_memory", "floor"])
def test_the_tree_has_the_exact_value(seed, what):
    instance, plans = small_instance(seed)
    chosen = plans[np.random.default_rng(seed).permutation(len(plans))[:100]]
    expression = getattr(instance, what)
    node = Tabulator(instance.space).tree(expression)
    assert value(node, chosen) == pytest.approx(evaluate(expression, instance.space.columns(chosen)), rel=1e-9)


def test_one_monomial_is_one_leaf():
    node = assert_same(seconds(2.5, A, power("c", -0.5), power("k", 2), OVERHEAD))
    assert len(node.leaves) == 1
    leaf = node.leaves[0]
    assert set(leaf.tables) == {0, 1}
    assert [joint.axes for joint in leaf.joints] == [(0, 1)]
    assert min(table.min() for table in leaf.tables.values()) == 0
    assert leaf.joints[0].logs.min() == 0


def test_products_of_sums_are_multiplied_out():
    node = assert_same(Product(seconds(1.0, A) + seconds(2.0, C), Monomial(1.0, (E,)) + Monomial(0.5, (OVERHEAD,))))
    assert not node.maxima


def test_a_sum_times_a_maximum():
    paid = Max((seconds(1.0, A), seconds(0.7, C)))
    node = assert_same(Product(Monomial(1.0, (E,)) + Monomial(3.0), paid))
    assert len(node.maxima) == 1, "the two multiples are collected into one"
    assert_same(Product(paid, Monomial(1.0, (E,)) + Monomial(3.0)))


def test_multiples_of_one_maximum_are_collected():
    paid = Max((seconds(1.0, A), seconds(0.7, C)))
    node = assert_same(
        Sum((Product(paid, Monomial(2.0, (E,))), paid, seconds(1.0), Product(Monomial(0.1, (B,)), paid)))
    )
    assert len(node.maxima) == 1


def test_multiples_that_vanish_stay_apart_and_right():
    paid = Max((seconds(1.0, A), seconds(0.7, C)))
    here, there = choice("d", {0: 1.0}, "d=0"), choice("d", {1: 2.0}, "d=1")
    assert_same(Sum((Product(paid, Monomial(2.0, (here, E))), Product(paid, Monomial(1.0, (there,))))))


def test_maxima_inside_maxima():
    inner = Max((seconds(1.0, A), seconds(0.7, C)))
    assert_same(Max((inner + seconds(1.0, E), seconds(2.0, B), inner * power("e", 0.5))))


def test_a_product_of_two_maxima_is_refused():
    paid = Max((seconds(1.0, A), seconds(0.7, C)))
    with pytest.raises(TypeError, match="two maxima"):
        tree(Product(paid, paid))


def test_monomials_that_vanish_for_some_values():
    gone = choice("d", {1: 2.0}, "d=1")
    node = assert_same(seconds(1.0, C, gone) + seconds(2.0, C))
    assert len(node.leaves) == 1, "they differ in one axis"
    node = assert_same(seconds(1.0, C, gone) + seconds(2.0, E))
    assert sum(np.isneginf(leaf.logs(PLANS)).any() for leaf in node.leaves) == 1


def test_monomials_that_vanish_everywhere_are_left_out():
    nowhere = choice("d", {5: 1.0}, "d=5")
    assert not tree(seconds(1.0, A, nowhere)).leaves
    assert not tree(seconds(0.0, A)).leaves
    assert len(assert_same(seconds(1.0, A, nowhere) + seconds(1.0, C)).leaves) == 1
    assert_same(Max((seconds(1.0, A, nowhere), seconds(1.0, C))))


def test_a_factor_of_several_axes_that_vanishes_somewhere_is_refused():
    hole = Factor("a>c", ("a", "c"), lambda a, c: np.maximum(a - c, 0.0))
    with pytest.raises(ValueError, match="a>c: vanishes"):
        tree(seconds(1.0, hole))


def test_two_columns_of_one_axis_make_no_joint_factor():
    node = assert_same(seconds(1.0, Factor("a+b", ("a", "b"), lambda a, b: a + b - 3)))
    assert not node.leaves[0].joints


def test_merging_collects_monomials_that_differ_in_one_axis():
    expression = Sum(
        tuple(seconds(c, E, power("a", exponent)) for c, exponent in ((1.0, 1), (2.0, 2), (3.0, -1), (4.0, 0)))
    )
    assert len(assert_same(expression).leaves) == 1
    apart = [leaf for item in expression.terms for leaf in tree(item).leaves]
    together = merge(apart)
    assert len(apart) == 4
    assert len(together) == 1
    assert np.exp(together[0].logs(PLANS)) == pytest.approx(sum(np.exp(leaf.logs(PLANS)) for leaf in apart))


def test_merging_does_not_mix_what_differs_in_two_axes():
    assert len(assert_same(seconds(1.0, A, C) + seconds(1.0, power("a", 2), power("c", 3))).leaves) == 2


def test_merging_does_not_mix_different_joint_factors():
    other = Factor("2+a/c", ("a", "c"), lambda a, c: 2 + a / c)
    assert len(assert_same(seconds(1.0, E, OVERHEAD) + seconds(1.0, E, other)).leaves) == 2
    assert len(assert_same(seconds(1.0, E, OVERHEAD) + seconds(3.0, B, E, OVERHEAD)).leaves) == 1


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_merging_reduces_leaves_and_keeps_the_value(seed):
    instance, plans = small_instance(seed)
    tabulator = Tabulator(instance.space)
    leaves = list(leaves_of(tabulator.tree(instance.objective)))
    leaves += list(leaves_of(tabulator.tree(instance.peak_memory)))
    merged = merge(leaves)
    assert len(merged) <= len(leaves)
    assert merge(merged) == merged or len(merge(merged)) == len(merged)
    before = sum(np.exp(leaf.logs(plans)) for leaf in leaves)
    assert sum(np.exp(leaf.logs(plans)) for leaf in merged) == pytest.approx(before, rel=1e-9)


def test_split_drops_directions_that_do_not_matter():
    logs = np.log(np.array([[2.0, 3.0, 4.0]] * 2))
    low, tables, joints = split(logs, (4, 7), "x")
    assert (low, set(tables), joints) == (0.0, {7}, ())
    assert np.exp(tables[7]) == pytest.approx([2.0, 3.0, 4.0])
    low, tables, joints = split(np.full((2, 3), 1.5), (4, 7), "x")
    assert (low, tables, joints) == (1.5, {}, ())
    low, tables, (joint,) = split(np.array([[0.0, 1.0], [3.0, 0.5]]) - 2.0, (4, 7), "x")
    assert (low, tables, joint.axes) == (-2.0, {}, (4, 7))
    assert joint.logs.tolist() == [[0.0, 1.0], [3.0, 0.5]]
