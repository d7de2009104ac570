"""Expressions as maxima of posynomials over a space, tabulated by axis.

Products are multiplied out, so that an expression is a tree of sums and maxima over monomials. Choosing one term of every
maximum gives a posynomial that is nowhere above the expression, and is equal to it where the chosen terms are the largest.
The program needs only those that matter near good plans; more are added when a plan shows that they do.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.algebra.expressions import Array, Expression, Factor, Max, Monomial, Product, Sum

if TYPE_CHECKING:
    from planner.algebra.space import Integers, Space

Tree: TypeAlias = "Monomial | SumOf | MaxOf"


@dataclass(frozen=True)
class SumOf:
    """A sum in a tree without products."""

    terms: tuple[Tree, ...]


@dataclass(frozen=True)
class MaxOf:
    """A maximum in a tree without products. Copies that products have made of one maximum share its ``origin``."""

    terms: tuple[Tree, ...]
    origin: int


def multiply_out(expression: Expression) -> Tree:
    """The expression with products distributed over sums and maxima."""
    if isinstance(expression, Monomial):
        return expression
    if isinstance(expression, Product):
        return _times(multiply_out(expression.left), multiply_out(expression.right))
    assert isinstance(expression, Sum | Max)
    parts = tuple(multiply_out(item) for item in expression.terms)
    return SumOf(parts) if isinstance(expression, Sum) else MaxOf(parts, id(expression))


def _times(left: Tree, right: Tree) -> Tree:
    if isinstance(left, Monomial) and isinstance(right, Monomial):
        product = left * right
        assert isinstance(product, Monomial)
        return product
    if not isinstance(right, Monomial):  # distribute over the composite side, maxima outermost
        composite, other = (right, left) if isinstance(right, MaxOf) or isinstance(left, Monomial) else (left, right)
    else:
        composite, other = left, right
    assert isinstance(composite, SumOf | MaxOf)
    parts = tuple(_times(item, other) for item in composite.terms)
    return MaxOf(parts, composite.origin) if isinstance(composite, MaxOf) else SumOf(parts)


@dataclass(frozen=True)
class Joint:
    """A factor of two or three axes: ``logs`` over their grid, minus infinity where it vanishes."""

    axes: tuple[int, ...]
    logs: Array
    label: str


@dataclass(frozen=True)
class Leaf:
    """A monomial on a space: ``log value = constant + sum of tables[axis][value] + joints``; -inf where it vanishes.

    Axes that are not in ``tables`` and not in ``joints`` do not matter.
    """

    constant: float
    tables: dict[int, Array]
    joints: tuple[Joint, ...] = ()

    def logs(self, indices: Integers) -> Array:
        """Logarithm of the leaf at plans of shape (plans, axes); shape (plans,)."""
        value = np.full(len(indices), self.constant)
        for place, table in self.tables.items():
            value += table[indices[:, place]]
        for joint in self.joints:
            value += joint.logs[tuple(indices[:, place] for place in joint.axes)]
        return value


Posynomial: TypeAlias = "tuple[Leaf, ...]"


#: The chosen term of each maximum, by origin; maxima that are not reached may be missing.
Choice: TypeAlias = dict[int, int]


class Tabulator:
    """Turns one expression into posynomials on one space."""

    def __init__(self, expression: Expression, space: Space) -> None:
        self.space = space
        self.expression = expression  # kept alive: origins are identities of its nodes
        self.tree = multiply_out(expression)
        self._factors: dict[object, tuple[float, dict[int, Array], tuple[Joint, ...]]] = {}
        self._known: dict[tuple[tuple[int, int], ...], Posynomial] = {}

    def at(self, indices: Integers) -> list[Posynomial]:
        """The distinct posynomials that are equal to the expression at some of the plans."""
        return self._distinct([choice for choice, _ in self._choices(indices)])

    def around(self, indices: Integers) -> list[Posynomial]:
        """Those of `at`, and around the first plan those in which one or two maxima have another term."""
        choices = self._choices(indices)
        if not choices:
            return []
        base, evaluator = choices[0]
        maxima: dict[int, int] = {}
        _sizes(self.tree, maxima)
        flips = [
            (origin, position)
            for origin, size in maxima.items()
            for position in range(size)
            if base.get(origin) != position
        ]
        found = [choice for choice, _ in choices]
        for forced in [{a[0]: a[1]} for a in flips] + [dict(pair) for pair in combinations(flips, 2)]:
            flipped: Choice = dict(forced)
            self._choose(self.tree, evaluator, 0, flipped, {}, forced)
            found.append({**base, **flipped})
        return self._distinct(found)

    def _distinct(self, choices: list[Choice]) -> list[Posynomial]:
        found: dict[tuple[tuple[int, int], ...], Posynomial] = {}
        for choice in choices:
            reached: Choice = {}
            monomials: list[Monomial] = []
            self._collect(self.tree, choice, monomials, reached)
            key = tuple(sorted(reached.items()))
            if key not in found:
                if key not in self._known:
                    leaves = [leaf for leaf in map(self._leaf, monomials) if leaf is not None]
                    self._known[key] = tuple(merge(leaves))
                found[key] = self._known[key]
        return list(found.values())

    def _choices(self, indices: Integers) -> list[tuple[Choice, Evaluator]]:
        """The largest terms at each plan, each with an evaluator of that plan alone."""
        found = []
        for plan in range(len(indices)):
            evaluator = Evaluator(self.space.columns(indices[plan : plan + 1]))
            choice: Choice = {}
            self._choose(self.tree, evaluator, 0, choice, {}, {})
            found.append((choice, evaluator))
        return found

    def _value(self, tree: Tree, evaluator: Evaluator, plan: int, memo: dict[int, float]) -> float:
        known = memo.get(id(tree))
        if known is None:
            if isinstance(tree, Monomial):
                known = tree.coefficient
                for factor in tree.factors:
                    known *= float(evaluator.factor(factor)[plan])
            else:
                parts = [self._value(item, evaluator, plan, memo) for item in tree.terms]
                known = sum(parts) if isinstance(tree, SumOf) else max(parts)
            memo[id(tree)] = known
        return known

    def _choose(
        self, tree: Tree, evaluator: Evaluator, plan: int, choice: Choice, memo: dict[int, float],
        forced: Choice,
    ) -> None:  # fmt: skip
        """Record the largest term of every maximum that is reached, or the ``forced`` one."""
        if isinstance(tree, SumOf):
            for item in tree.terms:
                self._choose(item, evaluator, plan, choice, memo, forced)
        elif isinstance(tree, MaxOf):
            position = forced.get(tree.origin)
            if position is None:
                values = [self._value(item, evaluator, plan, memo) for item in tree.terms]
                position = int(np.argmax(values))
                if tree.origin not in choice or values[position] > 0:
                    choice[tree.origin] = position
            self._choose(tree.terms[position], evaluator, plan, choice, memo, forced)

    def _collect(self, tree: Tree, choice: Choice, found: list[Monomial], reached: Choice) -> None:
        if isinstance(tree, Monomial):
            found.append(tree)
        elif isinstance(tree, SumOf):
            for item in tree.terms:
                self._collect(item, choice, found, reached)
        else:
            position = reached[tree.origin] = choice.get(tree.origin, 0)
            self._collect(tree.terms[position], choice, found, reached)

    def _leaf(self, monomial: Monomial) -> Leaf | None:
        """The monomial on the space's grid; None if it vanishes everywhere."""
        if monomial.coefficient == 0:
            return None
        constant = float(np.log(monomial.coefficient))
        tables: dict[int, Array] = {}
        joints: list[Joint] = []
        for factor in monomial.factors:
            shift, own, shared = self._tabulated(factor)
            constant += shift
            for place, table in own.items():
                tables[place] = tables[place] + table if place in tables else table
            joints += shared
        if constant == -np.inf or any(np.all(table == -np.inf) for table in tables.values()):
            return None
        return Leaf(constant, tables, tuple(joints))

    def _tabulated(self, factor: Factor) -> tuple[float, dict[int, Array], tuple[Joint, ...]]:
        known = self._factors.get(factor.key)
        if known is None:
            values = np.asarray(self.space.tabulate(factor.function, factor.columns), dtype=float)
            with np.errstate(divide="ignore"):
                logs = np.log(values)
            axes = tuple(self.space.position[axis.name] for axis in self.space.axes_of(factor.columns))
            known = split(logs, axes, factor.label)
            self._factors[factor.key] = known
        return known


def _sizes(tree: Tree, found: dict[int, int]) -> None:
    """The number of terms of every maximum in the tree, by origin."""
    if isinstance(tree, SumOf | MaxOf):
        if isinstance(tree, MaxOf):
            found[tree.origin] = len(tree.terms)
        for item in tree.terms:
            _sizes(item, found)


def split(logs: Array, axes: tuple[int, ...], label: str) -> tuple[float, dict[int, Array], tuple[Joint, ...]]:
    """A tabulated logarithm as a constant, a table of one axis, or a joint table; constant directions are dropped."""
    for dimension in range(logs.ndim - 1, -1, -1):
        first = logs.take([0], axis=dimension)
        with np.errstate(invalid="ignore"):
            same = np.all((logs == first) | (np.abs(logs - first) <= 1e-13))
        if same:
            logs = logs.take(0, axis=dimension)
            axes = axes[:dimension] + axes[dimension + 1 :]
    if not axes:
        return float(logs), {}, ()
    if len(axes) == 1:
        return 0.0, {axes[0]: logs}, ()
    return 0.0, {}, (Joint(axes, logs, label),)


def merge(leaves: list[Leaf]) -> list[Leaf]:
    """Fewer leaves with the same sum: those that differ in the table of one axis only become one.

    sum_k c_k f_k(a) g(rest) = (sum_k c_k f_k(a)) g(rest).
    """
    changed = True
    while changed:
        changed = False
        axes = sorted({place for leaf in leaves for place in leaf.tables})
        for axis in axes:
            groups: dict[object, list[Leaf]] = defaultdict(list)
            for leaf in leaves:
                groups[_signature(leaf, axis)].append(leaf)
            if len(groups) < len(leaves):
                leaves = [_merged(group, axis) for group in groups.values()]
                changed = True
    return leaves


def _signature(leaf: Leaf, without: int) -> object:
    tables = []
    for place in sorted(leaf.tables):
        if place == without:
            continue
        table = leaf.tables[place]
        finite = table[np.isfinite(table)]
        shape = table - finite[0]
        if not np.any(np.abs(shape[np.isfinite(shape)]) > 1e-12) and len(finite) == len(table):
            continue
        tables.append((place, np.round(shape, 10).tobytes()))
    joints = tuple(sorted((joint.label, joint.axes) for joint in leaf.joints))
    return tuple(tables), joints


def _merged(group: list[Leaf], axis: int) -> Leaf:
    if len(group) == 1:
        return group[0]
    total: Array | None = None
    for leaf in group:
        # bring every table but the axis' own to the scale of the first leaf's
        scale = leaf.constant
        for place, table in leaf.tables.items():
            if place != axis:
                finite = np.isfinite(table)
                scale += float(table[finite][0])
        own = leaf.tables.get(axis)
        share = np.exp(scale + own) if own is not None else np.array([np.exp(scale)])
        total = share if total is None else total + share
    assert total is not None
    first = group[0]
    tables = {}
    for place, table in first.tables.items():
        if place != axis:
            finite = np.isfinite(table)
            tables[place] = table - float(table[finite][0])
    if len(total) == 1:
        return Leaf(float(np.log(total[0])), tables, first.joints)
    with np.errstate(divide="ignore"):
        tables[axis] = np.log(total)
    return Leaf(0.0, tables, first.joints)
