"""Shrinking the space before the program is built: leading decisions are enumerated, and bounded as they are.

Axes are joined one by one, as in plain enumeration; but a partial combination goes as soon as every plan that completes it
costs more than ``(1 - eps)`` times a known plan, or needs more memory than there is. The bounds are the normal forms of
`planner.milp.relaxation`: a monomial's least value times one growth factor for each decision taken. What is left of the
joined axes becomes *one* axis, the core, with a row for each surviving combination; the program then decides among these
rows and the remaining axes. What went is bounded, so it enters the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from planner.algebra.space import Axis, Space
from planner.milp.relaxation import NormalForm, Relaxation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array
    from planner.algebra.space import Integers, Row
    from planner.milp.tree import Leaf, SumNode
    from planner.search.enumeration import Enumerator

    Masks = list[NDArray[np.bool_]]

#: Growth factors (combinations times monomials) that are joined at once: what bounds the memory.
CHUNK = 400_000
#: Combinations of the core at which the program takes over, and the most that a phase may leave.
LARGEST_CORE, MOST_SURVIVORS = 24, 1_000_000
#: Sums of leaves that are few enough to take them all.
FEW_SELECTIONS = 64
#: Growth factors are cut off at e^LARGEST: smaller than the truth, so still bounds, and products stay finite.
LARGEST_GROWTH = 40.0


#: Combinations (rows, axes), their sums of the relations' rows (rows, relations), and the growths (rows, leaves).
State: TypeAlias = "tuple[NDArray[np.int16], Array, Array]"


@dataclass(frozen=True)
class Step:
    """What joining one axis needs: what the open axes can still add to each row, and weights of growths by bound.

    ``rows`` are those that the axis has a say in; ``least_rest`` and ``most_rest`` are of these.
    """

    place: int
    rows: Integers
    least_rest: Array
    most_rest: Array
    weights: Array
    tables: list[tuple[tuple[int, ...], NDArray[np.bool_]]]
    rests: list[tuple[int, tuple[int, ...], Array]]
    slacks: list[tuple[int, float, Array]]


@dataclass(frozen=True)
class Bound:
    """Plans that are looked for have ``sum of leaves <= limit``."""

    leaves: list[Leaf]
    limit: float


@dataclass(frozen=True)
class Contracted:
    """The space with a core axis, and how many combinations of the core survived; ``joined`` are the axes in it."""

    space: Space
    core: Integers  # (survivors, axes of the old space), -1 where an axis was not joined
    joined: list[int]
    values: Mapping[int, Integers]  # the values left on the other axes of the old space

    def lift(self, plans: Integers, old: Space) -> Integers:
        """Plans of the contracted space as plans of the old one."""
        lifted = np.zeros((len(plans), len(old.axes)), dtype=np.int64)
        for place, axis in enumerate(self.space.axes):
            if axis.name == "core":
                lifted[:, self.joined] = self.core[plans[:, place]][:, self.joined]
            else:
                old_place = old.position[axis.name]
                lifted[:, old_place] = self.values[old_place][plans[:, place]]
        return lifted

    def drop(self, plans: Integers, old: Space) -> Integers:
        """Those plans of the old space that are in the contracted one, as its plans."""
        kept = []
        for plan in plans:
            match = np.flatnonzero((self.core[:, self.joined] == plan[self.joined]).all(axis=1))
            own = {"core": int(match[0])} if len(match) and self.joined else {}
            for place, values in self.values.items():
                here = np.flatnonzero(values == plan[place])
                if len(here):
                    own[old.axes[place].name] = int(here[0])
            if len(own) == len(self.space.axes):
                kept.append([own[axis.name] for axis in self.space.axes])
        return np.array(kept, dtype=np.int64).reshape(len(kept), len(self.space.axes))


def selections(node: SumNode, plan: Integers) -> list[list[Leaf]]:
    """Sums of leaves that are nowhere above the tree: all of them where they are few, so that the largest is the tree.

    Else that of the largest terms at ``plan``, and of one other choice each.
    """
    if few_selections(node):
        return _all_selections(node)
    base: list[Leaf] = []
    others: list[list[Leaf]] = []
    _select(node, plan, base, others, [])
    return [base, *others]


def few_selections(node: SumNode) -> bool:
    """Whether `selections` takes all of them, whatever the plan is."""
    return _choices(node) <= FEW_SELECTIONS


def _choices(node: SumNode) -> int:
    """How many sums of leaves the tree is the largest of."""
    return prod(sum(_choices(term) for term in maximum.terms) for maximum in node.maxima)


def _all_selections(node: SumNode) -> list[list[Leaf]]:
    found = [list(node.leaves)]
    for maximum in node.maxima:
        inner = [leaves for term in maximum.terms for leaves in _all_selections(term)]
        found = [own + leaves for own in found for leaves in inner]
    return found


def _select(node: SumNode, plan: Integers, base: list[Leaf], others: list[list[Leaf]], beside: list[Leaf]) -> None:
    own = list(node.leaves)
    chosen: list[list[Leaf]] = []
    largest = [int(np.argmax([_value(term, plan) for term in maximum.terms])) for maximum in node.maxima]
    for maximum, best in zip(node.maxima, largest, strict=True):
        picked: list[Leaf] = []
        _select(maximum.terms[best], plan, picked, [], [])
        chosen.append(picked)
    for number, (maximum, best) in enumerate(zip(node.maxima, largest, strict=True)):
        rest = beside + own + [leaf for other, leaves in enumerate(chosen) if other != number for leaf in leaves]
        for position, term in enumerate(maximum.terms):
            other: list[Leaf] = []
            inner: list[list[Leaf]] = []
            _select(term, plan, other, inner, rest)
            if position == best:
                others += inner
            else:
                others.append(rest + other)
    base += own + [leaf for leaves in chosen for leaf in leaves]


def _value(node: SumNode, plan: Integers) -> float:
    total = sum(float(np.exp(leaf.logs(plan[None, :])[0])) for leaf in node.leaves)
    return total + sum(max(_value(term, plan) for term in maximum.terms) for maximum in node.maxima)


class Contraction:
    """Joins axes, one after another, under bounds: first those of ``costs``, then those of ``limits``.

    After `join`, ``dropped`` is below the cost, relative to its limit, of every plan that was dropped for its cost alone.
    """

    def __init__(
        self, enumerator: Enumerator, masks: Masks, costs: list[Bound], limits: list[Bound], relations: Sequence[Row]
    ) -> None:
        self.costs, self.dropped = len(costs), np.inf
        bounds = costs + limits
        self.enumerator, self.space, self.masks = enumerator, enumerator.space, masks
        self.values = [np.flatnonzero(mask) for mask in masks]
        forms, self.shares = self._forms(bounds, relations)
        self.start = np.exp(np.array([form.least for form in forms]))
        self.growth: list[Array] = []  # per axis (values, leaves)
        for place, mask in enumerate(masks):
            rows = np.ones((len(mask), len(forms)))
            for k, form in enumerate(forms):
                if place in form.costs:
                    rows[:, k] = np.exp(np.minimum(form.costs[place], LARGEST_GROWTH))
            self.growth.append(rows)
        self.least = np.array([self.growth[place][values].min(axis=0) for place, values in enumerate(self.values)])
        self.rests = [
            (k, axes, np.exp(np.minimum(table, LARGEST_GROWTH)))
            for k, form in enumerate(forms)
            for axes, table in form.remainders
            if table.max() > 1e-9
        ]
        self.slacks = self._slacks(forms, relations)
        self.low = np.array([enumerator.weights[p][:, v].min(axis=1) for p, v in enumerate(self.values)])
        self.high = np.array([enumerator.weights[p][:, v].max(axis=1) for p, v in enumerate(self.values)])

    def root(self) -> float:
        """The least cost over the box, relative to its limit."""
        least: Array = self.shares[: self.costs] @ (self.start * self.least.prod(axis=0))
        return float(least.max(initial=0.0))

    def tightened(self, factor: float) -> Contraction:
        """The same with the limits of the costs multiplied by ``factor``."""
        other = copy(self)
        other.shares = self.shares.copy()
        other.shares[: self.costs] /= factor
        return other

    def _slacks(self, forms: list[NormalForm], relations: Sequence[Row]) -> list[tuple[int, set[int], float, Array]]:
        """(row, axes in it, its limit, multiplier by leaf) of the relations that limit from above.

        As soon as all axes of such a row are joined, its slack is known, and multiplier times slack joins the logarithm.
        """
        found = []
        for number, row in enumerate(relations):
            multipliers = np.array([form.multipliers[number] for form in forms])
            if row.lower == -np.inf and multipliers.any():
                axes = {self.space.position[name] for name in row.weights}
                found.append((self.space.rows.index(row), axes, row.upper, multipliers))
        return found

    def _forms(self, bounds: list[Bound], relations: Sequence[Row]) -> tuple[list[NormalForm], Array]:
        """Normal forms of the leaves of all bounds, and each leaf's weight in each bound, (bounds, leaves)."""
        relaxation = Relaxation(self.space, self.masks, relations)
        number: dict[object, int] = {}
        forms: list[NormalForm] = []
        weights: list[dict[int, float]] = []
        for bound in bounds:
            own: dict[int, float] = {}
            for leaf in bound.leaves:
                key = (leaf.shape(), round(leaf.constant, 9))
                if key not in number:
                    form = relaxation.normal_form(leaf)
                    number[key] = -1 if form is None else len(forms)
                    if form is not None:
                        forms.append(form)
                if number[key] >= 0:
                    own[number[key]] = own.get(number[key], 0.0) + 1.0 / bound.limit
            weights.append(own)
        shares = np.zeros((len(bounds), len(forms)))
        for line, own in zip(shares, weights, strict=True):
            line[list(own)] = list(own.values())
        return forms, shares

    def join(self, order: list[int], core: Integers, joined: list[int], stop: Callable[[], bool]) -> Integers | None:
        """Join the axes of ``order`` to the combinations ``core`` of the axes ``joined``.

        Combinations have shape (rows, axes), -1 where an axis is open. They are taken in chunks, depth first, so that
        memory stays bounded. None if ``stop`` said so, or too many survive.
        """
        self.dropped = np.inf
        steps = [self._step(place, [*joined, *order[:depth]]) for depth, place in enumerate(order)]
        whole = self._state(core, joined)
        chunk = max(256, CHUNK // max(1, len(self.start)))
        stack = [(0, _rows(whole, begin, begin + chunk)) for begin in range(0, len(core), chunk)]
        done: list[NDArray[np.int16]] = []
        survivors = 0
        while stack:
            depth, state = stack.pop()
            if depth == len(order):
                done.append(state[0])
                survivors += len(state[0])
                if survivors > MOST_SURVIVORS:
                    return None
                continue
            if stop():
                return None
            grown = self._join(state, steps[depth])
            if grown is not None:
                rows = len(grown[0])
                parts = -(-rows // chunk)
                for number in range(parts):
                    stack.append((depth + 1, _rows(grown, rows * number // parts, rows * (number + 1) // parts)))
        if not done:
            return np.zeros((0, len(self.values)), dtype=np.int64)
        return np.concatenate(done).astype(np.int64)

    def _step(self, place: int, joined: list[int]) -> Step:
        """What joining an axis needs, the axes before it given."""
        rest = [p for p in range(len(self.values)) if p != place and p not in joined]
        known = {place, *joined}
        rows = np.flatnonzero(self.low[place] != self.high[place])
        return Step(
            place,
            rows=rows,
            least_rest=self.low[rest][:, rows].sum(axis=0),
            most_rest=self.high[rest][:, rows].sum(axis=0),
            weights=np.ascontiguousarray((self.shares * self.least[rest].prod(axis=0)).T),
            tables=[(places, grid) for places, grid in self.enumerator.tables
                    if place in places and known.issuperset(places)],
            rests=[(k, axes, table) for k, axes, table in self.rests if place in axes and known.issuperset(axes)],
            slacks=[(row, limit, multipliers) for row, axes, limit, multipliers in self.slacks
                    if place in axes and known.issuperset(axes)],
        )  # fmt: skip

    def _state(self, core: Integers, joined: list[int]) -> State:
        """Row sums and growths of given combinations."""
        sums = np.zeros((len(core), len(self.enumerator.lower)))
        values = np.repeat(self.start[None, :], len(core), axis=0)
        for place in joined:
            sums += self.enumerator.weights[place][:, core[:, place]].T
            values *= self.growth[place][core[:, place]]
        for k, axes, table in self.rests:
            if set(axes) <= set(joined):
                values[:, k] *= table[tuple(core[:, p] for p in axes)]
        for row, members, limit, multipliers in self.slacks:
            if members <= set(joined):
                slack = np.minimum(sums[:, row] - limit, 0.0)
                values *= np.exp(np.minimum(slack[:, None] * multipliers, LARGEST_GROWTH))
        return core.astype(np.int16), sums, values

    def _join(self, state: State, step: Step) -> State | None:
        indices, sums, values = state
        enumerator, place = self.enumerator, step.place
        found: list[State] = []
        concerned = sums[:, step.rows]
        lower = enumerator.lower[step.rows] - step.most_rest
        upper = enumerator.upper[step.rows] - step.least_rest
        for value in self.values[place]:
            weights = enumerator.weights[place][:, value]
            here = concerned + weights[step.rows]
            fits = np.all((here >= lower) & (here <= upper), axis=1)
            for places, grid in step.tables:
                fits &= grid[tuple(value if p == place else indices[:, p] for p in places)]
            if not fits.any():
                continue
            kept = indices[fits]
            kept[:, place] = value
            sums_here = sums[fits] + weights
            grown = values[fits] * self.growth[place][value]
            for k, axes, table in step.rests:
                grown[:, k] *= table[tuple(kept[:, p] for p in axes)]
            for row, limit, multipliers in step.slacks:
                slack = np.minimum(sums_here[:, row] - limit, 0.0)
                grown *= np.exp(np.minimum(slack[:, None] * multipliers, LARGEST_GROWTH))
            bounds = grown @ step.weights
            good = np.all(bounds[:, self.costs :] <= 1.0, axis=1)
            cost = bounds[:, : self.costs].max(axis=1, initial=0.0)
            cheap = cost <= 1.0
            self.dropped = min(self.dropped, float(cost.min(initial=np.inf, where=good & ~cheap)))
            good &= cheap
            if good.any():
                found.append((kept[good], sums_here[good], grown[good]))
        if not found:
            return None
        first, second, third = zip(*found, strict=True)
        return np.concatenate(first), np.concatenate(second), np.concatenate(third)


def _rows(state: State, begin: int, end: int) -> State:
    return tuple(array[begin:end].copy() for array in state)  # type: ignore[return-value]


def useful_relations(space: Space, order: list[int]) -> list[Row]:
    """The rows that multipliers are for: equalities, and limits of the axes that are joined first.

    A multiplier of any other inequality would leave a slack in every bound, also of whole plans.
    """
    first = {space.axes[place].name for place in order}
    return [row for row in space.rows if row.lower == row.upper or (not row.exact and first.issuperset(row.weights))]


def contracted(space: Space, masks: Masks, core: Integers, joined: list[int], keep: Integers) -> Contracted:
    """The space in which the combinations ``core`` are one axis; that of the plan ``keep`` is added if it is missing."""
    own = np.full(len(space.axes), -1)
    own[joined] = keep[joined]
    if joined and not (core == own).all(axis=1).any():
        core = np.concatenate([core, own[None, :]])
    table = {column: values[core[:, place]] for place in joined for column, values in space.axes[place].table.items()}
    axes = [Axis("core", table)] if joined else []
    axes += [axis.restrict(masks[place]) for place, axis in enumerate(space.axes) if place not in joined]
    values = {place: np.flatnonzero(masks[place]) for place in range(len(masks)) if place not in joined}
    return Contracted(Space(tuple(axes), space.relations, space.constants), core, joined, values)
