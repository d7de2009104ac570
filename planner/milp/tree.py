"""Expressions as trees of sums and maxima over monomials that are tabulated on a space.

Products are multiplied out down to the monomials. In a sum, several multiples of one expression are first collected into
one, by a factor that is the sum of theirs: fewer exponentials, and a tighter relaxation.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, Max, Monomial, Product, Sum

if TYPE_CHECKING:
    from planner.algebra.space import Integers, Space


@dataclass(frozen=True)
class Joint:
    """A positive factor of several axes: ``logs`` over their grid. ``key`` identifies its content."""

    axes: tuple[int, ...]
    logs: Array
    key: bytes


@dataclass(frozen=True)
class Leaf:
    """A monomial on a space: ``log value = constant + sum of tables[axis][value] + joints``; -inf where it vanishes.

    Tables are shifted to a least finite value of 0. ``digests`` identify their content by axis.
    """

    constant: float
    tables: dict[int, Array]
    joints: tuple[Joint, ...]
    name: str
    digests: dict[int, bytes]

    def shape(self, without: int | None = None) -> tuple[object, ...]:
        """What identifies the leaf up to a constant factor, or up to a factor of the axis ``without``."""
        tables = tuple((place, digest) for place, digest in self.digests.items() if place != without)
        return tables, tuple(joint.key for joint in self.joints)

    def logs(self, indices: Integers) -> Array:
        """Logarithm of the leaf at plans of shape (plans, axes); shape (plans,)."""
        value = np.full(len(indices), self.constant)
        for place, table in self.tables.items():
            value += table[indices[:, place]]
        for joint in self.joints:
            value += joint.logs[tuple(indices[:, place] for place in joint.axes)]
        return value


@dataclass
class SumNode:
    """The sum of ``leaves`` and ``maxima``."""

    leaves: list[Leaf] = field(default_factory=list)
    maxima: list[MaxNode] = field(default_factory=list)


@dataclass
class MaxNode:
    """The largest of ``terms``."""

    terms: list[SumNode]


#: Multiplies nothing.
UNIT_FACTOR = Monomial(1.0)


class Tabulator:
    """Turns expressions into trees on one space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._factors: dict[object, tuple[float, dict[int, Array], tuple[Joint, ...]]] = {}
        self._sums: dict[tuple[object, ...], Factor] = {}

    def tree(self, expression: Expression) -> SumNode:
        """The expression's tree."""
        return self._tree(expression, UNIT_FACTOR)

    def _tree(self, expression: Expression, multiplier: Monomial) -> SumNode:
        multiples: dict[int, tuple[Expression, list[Monomial]]] = {}
        self._open(expression, multiplier, multiples)
        node = SumNode()
        for base, multipliers in multiples.values():
            for combined in self._combined(multipliers):
                if isinstance(base, Monomial):
                    leaf = self._leaf((base, combined))
                    if leaf is not None:
                        node.leaves.append(leaf)
                else:
                    assert isinstance(base, Max)
                    terms = [self._tree(item, combined) for item in base.terms]
                    node.maxima.append(MaxNode([term for term in terms if term.leaves or term.maxima] or terms[:1]))
        node.leaves = merge(node.leaves)
        return node

    def _open(
        self, expression: Expression, multiplier: Monomial, found: dict[int, tuple[Expression, list[Monomial]]]
    ) -> None:
        """Record the monomials and maxima of a sum of products, each with its multipliers."""
        if isinstance(expression, Sum):
            for item in expression.terms:
                self._open(item, multiplier, found)
        elif isinstance(expression, Product):
            left, right = expression.left, expression.right
            if isinstance(left, Monomial):
                left, right = right, left
            if isinstance(right, Monomial):
                self._open(left, _times(multiplier, right), found)
            elif isinstance(left, Sum) or isinstance(right, Sum):
                terms, other = (left, right) if isinstance(left, Sum) else (right, left)
                for item in terms.terms:  # type: ignore[attr-defined]
                    self._open(Product(other, item), multiplier, found)
            else:
                raise TypeError("a product of two maxima is not supported: write it as a maximum of products")
        else:
            found.setdefault(id(expression), (expression, []))[1].append(multiplier)

    def _combined(self, multipliers: list[Monomial]) -> list[Monomial]:
        """The multipliers as one, where their sum is a positive factor of no more than two axes; else as they are."""
        if len(multipliers) == 1:
            return multipliers
        single = self._sum_of(multipliers)
        columns = single.factors[0].columns
        if len(self.space.axes_of(columns)) > 2:
            return multipliers
        grid = np.asarray(self.space.tabulate(single.factors[0].function, columns))
        return [single] if np.all(grid > 0) else multipliers

    def _sum_of(self, monomials: list[Monomial]) -> Monomial:
        """One monomial with a factor that is the sum of ``monomials``."""
        columns = tuple(dict.fromkeys(c for part in monomials for factor in part.factors for c in factor.columns))
        key = tuple((part.coefficient, tuple(factor.key for factor in part.factors)) for part in monomials)
        if key not in self._sums:

            def value(*arguments: Array) -> Array:
                given = dict(zip(columns, arguments, strict=True))
                total = np.zeros(len(arguments[0]))
                for part in monomials:
                    share = np.full(len(total), part.coefficient)
                    for factor in part.factors:
                        share = share * factor.function(*(given[column] for column in factor.columns))
                    total += share
                return total

            self._sums[key] = Factor(repr(key), columns, value)
        return Monomial(1.0, (self._sums[key],), monomials[0].unit)

    def _leaf(self, monomials: tuple[Monomial, ...]) -> Leaf | None:
        """The product of the monomials on the space's grid; None if it vanishes everywhere."""
        coefficient = float(np.prod([item.coefficient for item in monomials]))
        if coefficient == 0:
            return None
        constant = float(np.log(coefficient))
        tables: dict[int, Array] = {}
        joints: list[Joint] = []
        for factor in (factor for item in monomials for factor in item.factors):
            shift, own, shared = self._tabulated(factor)
            constant += shift
            for place, table in own.items():
                tables[place] = tables[place] + table if place in tables else table
            joints += shared
        if constant == -np.inf or any(np.all(table == -np.inf) for table in tables.values()):
            return None
        return make_leaf(constant, tables, tuple(joints), monomials[0].name)

    def _tabulated(self, factor: Factor) -> tuple[float, dict[int, Array], tuple[Joint, ...]]:
        known = self._factors.get(factor.key)
        if known is None:
            values = np.asarray(self.space.tabulate(factor.function, factor.columns), dtype=float)
            with np.errstate(divide="ignore"):
                logs = np.log(values)
            axes = tuple(self.space.position[axis.name] for axis in self.space.axes_of(factor.columns))
            known = self._factors[factor.key] = split(logs, axes, factor.label)
        return known


def _times(left: Monomial, right: Monomial) -> Monomial:
    return Monomial(left.coefficient * right.coefficient, left.factors + right.factors, left.unit * right.unit)


def split(logs: Array, axes: tuple[int, ...], label: str) -> tuple[float, dict[int, Array], tuple[Joint, ...]]:
    """A tabulated logarithm as a constant, a table of one axis, or a joint table; directions that do not matter go.

    Raises ValueError where a factor of several axes vanishes: written as a product, it would be no joint factor.
    """
    for dimension in range(logs.ndim - 1, -1, -1):
        first = logs.take([0], axis=dimension)
        with np.errstate(invalid="ignore"):
            same = np.all((logs == first) | (np.abs(logs - first) <= 1e-13))
        if same:
            logs = np.asarray(logs.take(0, axis=dimension))
            axes = axes[:dimension] + axes[dimension + 1 :]
    if not axes:
        return float(logs), {}, ()
    if len(axes) == 1:
        return 0.0, {axes[0]: logs}, ()
    if not np.all(np.isfinite(logs)):
        raise ValueError(f"factor {label}: vanishes for some combinations of several axes; write it as a product")
    low = float(logs.min())
    logs = logs - low
    return low, {}, (Joint(axes, logs, _digest(np.round(logs, 11).tobytes(), repr(axes).encode())),)


def make_leaf(constant: float, tables: dict[int, Array], joints: tuple[Joint, ...], name: str) -> Leaf:
    """A leaf with tables shifted to a least finite value of 0; tables that do not matter go."""
    kept: dict[int, Array] = {}
    for place in sorted(tables):
        table = tables[place]
        low = float(np.min(table, where=table > -np.inf, initial=np.inf))
        constant += low
        table = table - low
        if np.any((table > 1e-13) | (table == -np.inf)):
            kept[place] = table
    joints = tuple(sorted(joints, key=lambda joint: joint.key))
    digests = {place: _digest(np.round(table, 11).tobytes()) for place, table in kept.items()}
    return Leaf(constant, kept, joints, name, digests)


def merge(leaves: list[Leaf]) -> list[Leaf]:
    """Fewer leaves with the same sum: those that differ in the table of one axis only become one.

    sum_k c_k f_k(a) g(rest) = (sum_k c_k f_k(a)) g(rest).
    """
    leaves = _merged_by(leaves, None)
    changed = True
    while changed:
        changed = False
        for axis in sorted({place for leaf in leaves for place in leaf.tables}):
            fewer = _merged_by(leaves, axis)
            changed |= len(fewer) < len(leaves)
            leaves = fewer
    return leaves


def _merged_by(leaves: list[Leaf], axis: int | None) -> list[Leaf]:
    groups: dict[tuple[object, ...], list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        groups[leaf.shape(axis)].append(leaf)
    merged = []
    for group in groups.values():
        first = group[0]
        if len(group) == 1:
            merged.append(first)
        elif axis is None:
            constant = float(np.logaddexp.reduce([leaf.constant for leaf in group]))
            merged.append(Leaf(constant, first.tables, first.joints, first.name, first.digests))
        else:
            size = max((len(leaf.tables[axis]) for leaf in group if axis in leaf.tables), default=1)
            logs = np.logaddexp.reduce(
                [leaf.constant + leaf.tables.get(axis, np.zeros(size)) for leaf in group], axis=0
            )
            merged.append(make_leaf(0.0, {**first.tables, axis: logs}, first.joints, first.name))
    return merged


def _digest(*parts: bytes) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
        digest.update(b"|")
    return digest.digest()
